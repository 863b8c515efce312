//! What the service is measured against: the plain API of the same daemon.

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
use tokio::runtime::Runtime;

use crate::Result;

pub struct Engine {
    docker: Docker,
    runtime: Runtime,
}

impl Engine {
    pub fn new(host: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let docker = {
            let _within = runtime.enter();
            Docker::connect_with_host(host)?
        };
        let docker = runtime.block_on(docker.negotiate_version())?;
        Ok(Self { docker, runtime })
    }

    fn body(command: &[&str]) -> ContainerCreateBody {
        ContainerCreateBody {
            image: Some(test_docker::IMAGE.into()),
            cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
            attach_stdout: Some(true),
            host_config: Some(HostConfig {
                network_mode: Some("none".into()),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    /// A container that lives.
    pub fn start(&self) -> Result<String> {
        self.runtime.block_on(async {
            let body = Self::body(&["sleep", "1000"]);
            let options = None::<CreateContainerOptions>;
            let id = self.docker.create_container(options, body).await?.id;
            let options = None::<StartContainerOptions>;
            self.docker.start_container(&id, options).await?;
            Ok(id)
        })
    }

    pub fn remove(&self, container: &str) -> Result<()> {
        let options = RemoveContainerOptions {
            force: true,
            ..Default::default()
        };
        let removed = self.docker.remove_container(container, Some(options));
        Ok(self.runtime.block_on(removed)?)
    }

    pub fn exec(&self, container: &str, command: &[&str]) -> Result<()> {
        self.runtime.block_on(async {
            let config = ExecConfig {
                cmd: Some(command.iter().map(|word| (*word).to_owned()).collect()),
                attach_stdout: Some(true),
                ..Default::default()
            };
            let exec = self.docker.create_exec(container, config).await?.id;
            if let StartExecResults::Attached { mut output, .. } =
                self.docker.start_exec(&exec, None).await?
            {
                while output.next().await.transpose()?.is_some() {}
            }
            let code = self.docker.inspect_exec(&exec).await?.exit_code;
            match code {
                Some(0) => Ok(()),
                code => Err(format!("an exec ended with {code:?}").into()),
            }
        })
    }

    /// As `docker run --rm` does it.
    pub fn run(&self, command: &[&str]) -> Result<()> {
        self.runtime.block_on(async {
            let options = None::<CreateContainerOptions>;
            let body = Self::body(command);
            let id = self.docker.create_container(options, body).await?.id;
            let attach = AttachContainerOptions {
                stream: true,
                stdout: true,
                ..Default::default()
            };
            let mut attached = self.docker.attach_container(&id, Some(attach)).await?;
            let options = None::<StartContainerOptions>;
            self.docker.start_container(&id, options).await?;
            let mut said = Vec::new();
            while let Some(part) = attached.output.next().await {
                if let LogOutput::StdOut { message } = part? {
                    said.extend_from_slice(&message);
                }
            }
            let mut ended = self
                .docker
                .wait_container(&id, None::<WaitContainerOptions>);
            while ended.next().await.transpose()?.is_some() {}
            drop(ended);
            let options = None::<RemoveContainerOptions>;
            self.docker.remove_container(&id, options).await?;
            match said.is_empty() {
                false => Ok(()),
                true => Err("a container said nothing".into()),
            }
        })
    }
}
