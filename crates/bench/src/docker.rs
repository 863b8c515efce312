//! The plain API of the daemon that the service makes its containers on.

use std::time::{Duration, Instant};

use async_trait::async_trait;
use bollard::{
    Docker,
    container::LogOutput,
    exec::StartExecResults,
    models::{ContainerCreateBody, ExecConfig, HostConfig},
    query_parameters::{
        AttachContainerOptions, CreateContainerOptions, RemoveContainerOptions,
        StartContainerOptions, WaitContainerOptions,
    },
};
use futures::StreamExt as _;

use crate::{Result, work::Work};

#[derive(Clone)]
pub struct Engine {
    pub host: String,
    docker: Docker,
}

impl Engine {
    /// The tests' daemon, which is started where it is not running.
    pub async fn start() -> Result<Self> {
        let host = test_docker::host().ok_or("there is no Docker daemon")?;
        let docker = Docker::connect_with_host(host)?;
        Ok(Self {
            host: host.to_owned(),
            docker: docker.negotiate_version().await?,
        })
    }

    fn body(command: &[String]) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(test_docker::IMAGE.into()),
            cmd: Some(command.to_vec()),
            attach_stdout: Some(true),
            host_config: Some(HostConfig {
                network_mode: Some("none".into()),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// Settings of a service on this daemon.
    pub fn settings(&self) -> [(&str, &str); 4] {
        [
            ("SANDBOX_BACKEND", "docker"),
            ("SANDBOX_DOCKER_HOST", &self.host),
            ("SANDBOX_DOCKER_PULL", "never"),
            ("SANDBOX_WORKER_IMAGE", test_docker::IMAGE),
        ]
    }

    /// A container that lives, until `remove`.
    pub async fn container(&self) -> Result<String> {
        let body = Self::body(&["sleep".into(), "1000".into()]);
        let options = None::<CreateContainerOptions>;
        let id = self.docker.create_container(options, body).await?.id;
        let options = None::<StartContainerOptions>;
        self.docker.start_container(&id, options).await?;
        Ok(id)
    }

    pub async fn remove(&self, container: &str) -> Result<()> {
        let options = RemoveContainerOptions {
            force: true,
            ..Default::default()
        };
        self.docker
            .remove_container(container, Some(options))
            .await?;
        Ok(())
    }

    pub fn exec(&self, container: &str, command: &[&str]) -> Exec {
        Exec {
            engine: self.clone(),
            container: container.to_owned(),
            command: command.iter().map(|it| (*it).to_owned()).collect(),
            least: 0,
        }
    }

    pub fn run(&self, command: &[&str]) -> Run {
        Run {
            engine: self.clone(),
            command: command.iter().map(|it| (*it).to_owned()).collect(),
        }
    }
}

/// As `docker exec` does it.
pub struct Exec {
    engine: Engine,
    container: String,
    command: Vec<String>,
    least: usize,
}

impl Exec {
    pub fn prints_at_least(mut self, bytes: usize) -> Self {
        self.least = bytes;
        self
    }
}

#[async_trait(?Send)]
impl Work for Exec {
    async fn once(&mut self) -> Result<Duration> {
        let docker = &self.engine.docker;
        let began = Instant::now();
        let config = ExecConfig {
            cmd: Some(self.command.clone()),
            attach_stdout: Some(true),
            ..Default::default()
        };
        let exec = docker.create_exec(&self.container, config).await?.id;
        let mut bytes = 0;
        if let StartExecResults::Attached { mut output, .. } =
            docker.start_exec(&exec, None).await?
        {
            while let Some(part) = output.next().await.transpose()? {
                bytes += part.into_bytes().len();
            }
        }
        let code = docker.inspect_exec(&exec).await?.exit_code;
        let took = began.elapsed();
        match code {
            Some(0) if bytes >= self.least => Ok(took),
            code => Err(format!("an exec printed {bytes} bytes and ended with {code:?}").into()),
        }
    }
}

/// As `docker run --rm --network none` does it.
pub struct Run {
    engine: Engine,
    command: Vec<String>,
}

#[async_trait(?Send)]
impl Work for Run {
    async fn once(&mut self) -> Result<Duration> {
        let docker = &self.engine.docker;
        let began = Instant::now();
        let options = None::<CreateContainerOptions>;
        let body = Engine::body(&self.command);
        let id = docker.create_container(options, body).await?.id;
        let attach = AttachContainerOptions {
            stream: true,
            stdout: true,
            ..Default::default()
        };
        let mut attached = docker.attach_container(&id, Some(attach)).await?;
        let options = None::<StartContainerOptions>;
        docker.start_container(&id, options).await?;
        let mut said = Vec::new();
        while let Some(part) = attached.output.next().await {
            if let LogOutput::StdOut { message } = part? {
                said.extend_from_slice(&message);
            }
        }
        let mut ended = docker.wait_container(&id, None::<WaitContainerOptions>);
        while ended.next().await.transpose()?.is_some() {}
        drop(ended);
        let options = None::<RemoveContainerOptions>;
        docker.remove_container(&id, options).await?;
        match said.is_empty() {
            false => Ok(began.elapsed()),
            true => Err("a container said nothing".into()),
        }
    }
}
