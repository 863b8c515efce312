//! A backend with an owner of its own, on the tests' daemon.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use backend_docker::{DockerBackend, DockerConfig, PullPolicy};
use sandbox_backend::{Backend as _, Place};
use sandbox_conformance::shell;
use sandbox_core::{RunOutcome, SandboxId, SandboxSpec};

static NEXT: AtomicU32 = AtomicU32::new(1);

pub struct Docker {
    pub host: String,
    pub backend: Arc<DockerBackend>,
    pub config: DockerConfig,
}

pub fn config(host: &str, owner: &str) -> DockerConfig {
    DockerConfig {
        host: Some(host.to_owned()),
        pull: PullPolicy::Never,
        pull_limit: Duration::from_secs(20),
        alone_limit: Duration::from_secs(60),
        ..DockerConfig::new(owner, test_docker::IMAGE, guest_binary::GUEST.into())
    }
}

impl Docker {
    /// `None` where there is no daemon, which has been said.
    pub fn new() -> Option<Self> {
        Self::with(|_| ())
    }

    pub fn with(change: impl FnOnce(&mut DockerConfig)) -> Option<Self> {
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        Self::of(&format!("test-{}-{n}", std::process::id()), change)
    }

    pub fn of(owner: &str, change: impl FnOnce(&mut DockerConfig)) -> Option<Self> {
        let host = test_docker::host()?;
        let mut config = config(host, owner);
        change(&mut config);
        Some(Self {
            host: host.to_owned(),
            backend: DockerBackend::new(config.clone()),
            config,
        })
    }

    pub async fn start(&self, n: u32) -> Arc<dyn Place> {
        self.start_with(n, &SandboxSpec::default()).await
    }

    pub async fn start_with(&self, n: u32, spec: &SandboxSpec) -> Arc<dyn Place> {
        self.backend.create(&id(n), spec).await.unwrap()
    }

    pub fn docker(&self, arguments: &[&str]) -> String {
        test_docker::docker(&self.host, arguments)
    }

    fn own(&self) -> String {
        format!("label=dev.sandboxd.owner={}", self.config.owner)
    }

    /// Its containers, running or not.
    pub fn containers(&self) -> Vec<String> {
        lines(&self.docker(&["ps", "-aq", "--no-trunc", "--filter", &self.own()]))
    }

    pub fn volumes(&self) -> Vec<String> {
        self.volumes_of("sandbox")
    }

    pub fn guests(&self) -> Vec<String> {
        self.volumes_of("guest")
    }

    fn volumes_of(&self, kind: &str) -> Vec<String> {
        let kind = &format!("label=dev.sandboxd.kind={kind}");
        lines(&self.docker(&[
            "volume",
            "ls",
            "-q",
            "--filter",
            &self.own(),
            "--filter",
            kind,
        ]))
    }

    /// An image of the tests' own in which a script has run.
    pub fn make_image(&self, tag: &str, script: &str, change: &str) {
        let name = tag.replace(':', "-");
        let image = test_docker::IMAGE;
        self.docker(&[
            "run",
            "--name",
            &name,
            "--network=none",
            image,
            "sh",
            "-c",
            script,
        ]);
        self.docker(&["commit", "--change", change, &name, tag]);
        self.docker(&["rm", &name]);
    }

    pub fn inspect(&self, container: &str, format: &str) -> String {
        self.docker(&["inspect", "--format", format, container])
    }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

impl Drop for Docker {
    fn drop(&mut self) {
        for volume in self.guests() {
            let _ = Command::new("docker")
                .args(["--host", &self.host, "volume", "rm", &volume])
                .output();
        }
    }
}

/// Another process makes a sandbox for this owner, and is killed.
pub fn leave_behind(owner: &str, n: u32, script: &str) {
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "restarts::a_service_that_is_killed", "--ignored"])
        .env("TEST_OWNER", owner)
        .env("TEST_SANDBOX", n.to_string())
        .env("TEST_SCRIPT", script)
        .output()
        .unwrap()
        .status;
    assert!(!status.success(), "it was to be killed");
}

pub fn id(n: u32) -> SandboxId {
    format!("{n:032x}").parse().unwrap()
}

pub async fn sh(place: &Arc<dyn Place>, script: &str) -> RunOutcome {
    let run = place.guest().run(shell(script)).await.unwrap();
    run.collect().await.unwrap()
}

pub async fn says(place: &Arc<dyn Place>, script: &str) -> String {
    sh(place, script).await.stdout.to_text()
}

pub async fn soon<T>(waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), waiting)
        .await
        .unwrap()
}
