//! The Docker backend itself, through the gate: whatever it comes to need, the gate
//! must permit.

use std::{sync::Arc, time::Duration};

use backend_docker::{DockerBackend, DockerConfig, PullPolicy};
use docker_gate::Policy;
use sandbox_backend::Backend as _;
use sandbox_conformance::run;

use crate::support::{gate, image};

#[tokio::test(flavor = "multi_thread")]
async fn the_backend_does_all_that_it_promises() {
    let policy = Policy::default().with_image(&image()).unwrap();
    let Some(gate) = gate(policy).await else {
        return;
    };
    let backend = DockerBackend::new(DockerConfig {
        host: Some(gate.host()),
        pull: PullPolicy::Never,
        alone_limit: Duration::from_secs(60),
        ..DockerConfig::new(&gate.name, image(), guest_binary::GUEST.into())
    });
    backend.warm_up().await.unwrap();
    let report = run(Arc::clone(&backend) as _).await;
    let failures = report.failures();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(report.held() > 45, "{report:?}");
    assert_eq!(backend.list().await.unwrap(), []);
}
