//! The suite on every backend that this machine can have, and on one that is bad on
//! purpose, which it must catch.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc, time::Duration};

use async_trait::async_trait;
use backend_docker::{DockerBackend, DockerConfig, PullPolicy};
use backend_local::{LocalBackend, LocalConfig, PythonTemplate};
use futures::future::BoxFuture;
use guest_client::GuestClient;
use sandbox_backend::{Backend, Found, Place, Readiness, Usage};
use sandbox_conformance::{Report, cases, run, table};
use sandbox_core::{
    ByteSize, Capabilities, Enforcement, NetworkPolicy, Result, SandboxId, SandboxSpec,
};
use tempfile::TempDir;

struct Local {
    backend: Arc<LocalBackend>,
    _state: TempDir,
}

async fn local(first_uid: u32) -> Local {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let guest = guest_binary::materialise(&state.path().join("guest")).unwrap();
    let mut config = LocalConfig::new(state.path().join("state"), guest);
    config.uid_range = first_uid..=first_uid + 255;
    config.python_preload = Some(Vec::new());
    config.python_template = Some(PythonTemplate::of_zygote(
        guest_binary::PYTHON_ZYGOTE,
        &guest_binary::PYTHON_FILES,
        &[],
    ));
    let backend = LocalBackend::new(config).unwrap();
    assert_eq!(backend.self_test().await, []);
    Local {
        backend,
        _state: state,
    }
}

async fn docker(host: &str) -> Arc<DockerBackend> {
    let owner = format!("conformance-{}", std::process::id());
    let backend = DockerBackend::new(DockerConfig {
        host: Some(host.to_owned()),
        pull: PullPolicy::Never,
        alone_limit: Duration::from_secs(60),
        python_preload: Some(Vec::new()),
        ..DockerConfig::new(owner, test_docker::IMAGE, guest_binary::GUEST.into())
    });
    backend.warm_up().await.unwrap();
    backend
}

#[tokio::test(flavor = "multi_thread")]
async fn every_backend_passes() {
    let mut reports: Vec<Report> = Vec::new();
    let local = local(1_900_010_000).await;
    reports.push(run(Arc::clone(&local.backend) as _).await);
    if let Some(host) = test_docker::host() {
        let docker = docker(host).await;
        reports.push(run(Arc::clone(&docker) as _).await);
        assert_eq!(docker.list().await.unwrap(), []);
        docker.close().await;
    }
    assert_eq!(local.backend.list().await.unwrap(), []);
    println!("{}", table(&reports));
    let failures: Vec<_> = reports.iter().flat_map(Report::failures).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    for report in &reports {
        // Lest a suite that runs nothing passes.
        assert!(report.held() > 45, "{report:?}");
        assert_eq!(report.outcomes.len(), cases().len());
    }
}

/// Promises more than it does: it forgets limits, environment and workspaces.
struct Forgetful(Arc<LocalBackend>);

#[async_trait]
impl Backend for Forgetful {
    fn name(&self) -> &'static str {
        "forgetful"
    }

    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn enforcement(&self) -> Enforcement {
        self.0.enforcement()
    }

    async fn check(&self) -> Readiness {
        self.0.check().await
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Place>> {
        let mut usual = SandboxSpec::default();
        usual.limits.memory = ByteSize::mib(256);
        usual.limits.disk = ByteSize::mib(64);
        assert_ne!(spec.network, NetworkPolicy::AllowAll);
        self.0.remove(id).await?;
        let place = self.0.create(id, &usual).await?;
        Ok(Arc::new(Careless(place)))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        self.0.list().await
    }

    async fn remove(&self, _: &SandboxId) -> Result<()> {
        Ok(())
    }

    async fn end(&self, id: &SandboxId) -> Result<()> {
        self.0.end(id).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

struct Careless(Arc<dyn Place>);

#[async_trait]
impl Place for Careless {
    fn guest(&self) -> &GuestClient {
        self.0.guest()
    }

    fn oom_kills(&self) -> Option<u64> {
        None
    }

    fn usage(&self) -> Usage {
        Usage::default()
    }

    fn suits(&self, _: &SandboxSpec) -> bool {
        true
    }

    async fn adapt(&self, _: &SandboxSpec) -> Result<()> {
        Ok(())
    }

    async fn stop(&self) -> Result<()> {
        self.0.stop().await
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        self.0.gone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_backend_is_caught() {
    let local = local(1_900_011_000).await;
    let report = run(Arc::new(Forgetful(Arc::clone(&local.backend)))).await;
    let failures = report.failures().join("\n");
    for caught in [
        "a run's environment adds",
        "a program that takes too much memory",
        "a file cannot be larger",
        "what a sandbox uses is told",
        "a sandbox that was made ahead",
        "a spec that needs what the backend lacks",
        "a sandbox that is made again",
        "what is removed is gone",
    ] {
        assert!(failures.contains(caught), "{caught}: {failures}");
    }
}
