//! Real sandboxes, looked at from inside and from outside.

use std::{path::PathBuf, sync::Arc, time::{Duration, Instant}};

use backend_local::{LocalBackend, LocalConfig};
use sandbox_backend::{Backend as _, Place};
use sandbox_core::{Program, RunOutcome, RunRequest, SandboxId, SandboxSpec, SessionKey};

fn backend() -> (tempfile::TempDir, Arc<LocalBackend>) {
    let state = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o711))
        .tempdir()
        .unwrap();
    let guest = std::env::var_os("SANDBOX_GUEST").map(PathBuf::from).unwrap();
    let backend = LocalBackend::new(LocalConfig {
        state_dir: state.path().into(),
        guest,
        bwrap: "bwrap".into(),
        uid_range: 1_900_000_000..=1_900_000_100,
        read_only_paths: Vec::new(),
        start_timeout: Duration::from_secs(10),
    })
    .unwrap();
    (state, backend)
}

fn id(name: &str) -> SandboxId {
    SessionKey::new("t".parse().unwrap(), name.parse().unwrap()).sandbox_id()
}

async fn bash(place: &Arc<dyn Place>, command: &str) -> RunOutcome {
    let request = RunRequest {
        program: Program { argv: vec!["bash".into(), "-c".into(), command.into()], script: None },
        env: Default::default(),
        cwd: None,
        stdin: Default::default(),
        timeout: Duration::from_secs(20),
        output_limit: 1 << 20,
    };
    place.guest().run(request).await.unwrap().collect().await.unwrap()
}

#[tokio::test]
async fn smoke() {
    let (_state, backend) = backend();
    for _ in 0..5 {
        let t = Instant::now();
        let place = backend.create(&id("a"), &SandboxSpec::default()).await.unwrap_or_else(|e| panic!("{e:?}"));
        println!("create {:?}", t.elapsed());
        let t = Instant::now();
        let outcome = bash(&place, "id; ls -la / /etc /proc/1/; cat /proc/self/status | grep -E 'Cap|Sec|NoNew|Uid'; cat /proc/self/mountinfo; env; ls -la /proc/self/fd; cat /proc/self/cgroup").await;
        println!("run {:?}", t.elapsed());
        println!("{}\n{}", outcome.stdout.to_text(), outcome.stderr.to_text());
        for _ in 0..5 { let t = Instant::now();  bash(&place, "true").await; println!("true {:?}", t.elapsed()); }
        println!("{:?} {:?}", place.usage(), place.oom_kills());
        let t = Instant::now();
        place.stop().await.unwrap();
        println!("stop {:?}", t.elapsed());
    }
    let t = Instant::now();
    println!("{:?} {:?}", backend.self_test().await, t.elapsed());
}
