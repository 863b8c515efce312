//! Beginnings and ends.

use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use sandbox_backend::{Backend as _, Found};
use sandbox_core::{ByteSize, ErrorCode, Limits, SandboxSpec};

use crate::support::{Sandboxes, id, is_root, until};

const STARTED: &str = "the sandbox of another test has started";

fn cgroups_named(id: &str) -> usize {
    fn count(dir: &Path, id: &str) -> usize {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries
            .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
            .map(|entry| {
                let own = entry.file_name().to_string_lossy().starts_with(id);
                usize::from(own) + count(&entry.path(), id)
            })
            .sum()
    }
    count(Path::new("/sys/fs/cgroup"), id)
}

#[tokio::test]
async fn stop_leaves_no_process_and_no_cgroup() {
    let sandboxes = Sandboxes::new();
    // An id of its own, for other tests make cgroups at the same time.
    let sandbox = sandboxes.start(0xdead_0001).await;
    sandbox
        .sh("(setsid sleep 1000 &) ; (setsid sh -c 'trap \"\" TERM; sleep 1000' &); sleep 0.1")
        .await;
    let guest = sandbox.guest();
    if sandboxes.backend.enforcement()["pids"].starts_with("cgroup") {
        assert!(cgroups_named(id(0xdead_0001).as_str()) > 0);
    }
    sandbox.place.stop().await.unwrap();
    sandbox.place.stop().await.unwrap();
    sandbox.place.gone().await;
    assert!(!Path::new(&format!("/proc/{guest}")).exists());
    assert_eq!(sandbox.processes("serve"), [0_u32; 0]);
    assert_eq!(cgroups_named(id(0xdead_0001).as_str()), 0);
    if is_root() {
        let user = sandboxes.config.uid_range.start().to_string();
        let left = fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
            let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
            status.contains(&format!("\nUid:\t{user}\t"))
        });
        assert_eq!(left.count(), 0);
    }
}

#[tokio::test]
async fn a_handle_that_is_dropped_ends_its_sandbox() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let gone = sandbox.place.gone();
    let guest = sandbox.guest();
    drop(sandbox);
    gone.await;
    assert!(!Path::new(&format!("/proc/{guest}")).exists());
}

#[tokio::test]
async fn a_sandbox_that_died_is_made_again_with_its_workspace() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    sandbox.sh("echo kept > file").await;
    let guest = rustix::process::Pid::from_raw(sandbox.guest() as i32).unwrap();
    rustix::process::kill_process(guest, rustix::process::Signal::KILL).unwrap();
    sandbox.place.gone().await;
    let again = sandboxes.start(1).await;
    assert_eq!(again.sh("cat file").await.stdout.to_text(), "kept\n");
    assert_eq!(
        sandboxes.backend.list().await.unwrap(),
        [Found {
            id: id(1),
            running: false
        }]
    );
}

#[tokio::test]
async fn a_killed_bubblewrap_takes_its_sandbox_with_it() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let guest = sandbox.guest();
    let bwrap = rustix::process::Pid::from_raw(sandbox.bwrap() as i32).unwrap();
    rustix::process::kill_process(bwrap, rustix::process::Signal::KILL).unwrap();
    sandbox.place.gone().await;
    until("the guest is gone", || {
        !Path::new(&format!("/proc/{guest}")).exists()
    })
    .await;
}

/// `kill -9 -1` from inside: init is immune to its own namespace.
#[tokio::test]
async fn a_program_that_kills_all_it_can_ends_only_its_own() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let (killed, _) = tokio::join!(sandbox.sh("sleep 1000"), async {
        until("the other runs", || sandbox.place.usage().pids != Some(0)).await;
        sandbox.sh("sleep 0.2; kill -9 -1").await
    });
    assert_eq!(killed.signal, Some(9));
    assert_eq!(sandbox.sh("echo on").await.stdout.to_text(), "on\n");
}

#[tokio::test]
async fn a_sandbox_that_cannot_start_leaves_nothing_and_says_no_path() {
    let sandboxes = Sandboxes::with(|config, dir| {
        let broken = dir.join("broken-guest");
        fs::copy("/bin/false", &broken).unwrap();
        config.guest = broken;
    });
    let before = cgroups_named(id(0xdead_0002).as_str());
    let error = sandboxes
        .backend
        .create(&id(0xdead_0002), &SandboxSpec::default())
        .await
        .err()
        .unwrap();
    assert_eq!(error.code(), ErrorCode::BackendUnavailable);
    assert_eq!(error.detail(), "the sandbox did not start");
    assert_eq!(cgroups_named(id(0xdead_0002).as_str()), before);
}

#[tokio::test]
async fn the_same_id_waits_for_its_predecessors_end() {
    let sandboxes = Sandboxes::new();
    let first = sandboxes.start(1).await;
    let guest = first.guest();
    drop(first);
    let second = sandboxes.start(1).await;
    assert!(!Path::new(&format!("/proc/{guest}")).exists());
    assert_eq!(second.sh("echo on").await.stdout.to_text(), "on\n");
}

#[tokio::test]
async fn a_start_is_quick() {
    let sandboxes = Sandboxes::new();
    drop(sandboxes.start(1).await);
    let mut quickest = Duration::MAX;
    for n in 2..7 {
        let started = Instant::now();
        let sandbox = sandboxes.start(n).await;
        quickest = quickest.min(started.elapsed());
        sandbox.place.stop().await.unwrap();
    }
    eprintln!("the quickest start took {quickest:?}");
    // Far above what it should be, for tests share the machine.
    assert!(quickest < Duration::from_millis(250), "{quickest:?}");
}

#[tokio::test]
async fn a_service_that_is_killed_leaves_no_process() {
    let state = tempfile::tempdir().unwrap();
    let mut service = Command::new(env::current_exe().unwrap())
        .args([
            "--exact",
            "life::service_of_another_test",
            "--ignored",
            "--nocapture",
        ])
        .env("SANDBOX_TEST_DIR", state.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(service.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| {
        let line = line.unwrap();
        Some(line.split_once(STARTED)?.1.trim().to_owned())
    });
    let guest: u32 = line.unwrap().parse().unwrap();
    let process = format!("/proc/{guest}");
    assert!(Path::new(&process).exists());
    service.kill().unwrap();
    service.wait().unwrap();
    until("the guest is gone", || !Path::new(&process).exists()).await;
}

/// Started by the test above, which kills it.
#[tokio::test]
#[ignore = "is started by another test"]
async fn service_of_another_test() {
    if env::var_os("SANDBOX_TEST_DIR").is_none() {
        return;
    }
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    println!("{STARTED} {}", sandbox.guest());
    // A program must not keep it alive either.
    sandbox.sh("sleep 1000").await;
}

#[tokio::test]
async fn usage_and_limits_are_told() {
    let sandboxes = Sandboxes::new();
    let limits = Limits {
        memory: ByteSize::mib(128),
        ..Limits::default()
    };
    let sandbox = sandboxes.start_with(1, limits).await;
    let enforcement = sandboxes.backend.enforcement();
    let keys: Vec<_> = enforcement.keys().copied().collect();
    assert_eq!(keys, ["cpus", "disk", "memory", "pids", "tmp"]);
    let usage = sandbox.place.usage();
    let counted = |limit: &str| enforcement[limit].starts_with("cgroup");
    assert_eq!(usage.memory_bytes.is_some(), counted("memory"));
    assert_eq!(usage.pids.is_some(), counted("pids"));
    assert_eq!(sandbox.place.oom_kills().is_some(), counted("memory"));
}
