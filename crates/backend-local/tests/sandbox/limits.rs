//! What a sandbox may take of the machine.

use std::time::Duration;

use sandbox_backend::Backend as _;
use sandbox_core::{ByteSize, Limits};

use crate::support::{Sandboxes, until};

fn by_cgroup(sandboxes: &Sandboxes, limit: &str) -> bool {
    let by_cgroup = sandboxes.backend.enforcement()[limit].starts_with("cgroup");
    if !by_cgroup {
        eprintln!("not tried: no cgroup limits {limit} here");
    }
    by_cgroup
}

#[tokio::test]
async fn a_memory_bomb_ends_in_its_sandbox() {
    let sandboxes = Sandboxes::new();
    let limits = Limits {
        memory: ByteSize::mib(96),
        ..Limits::default()
    };
    let sandbox = sandboxes.start_with(1, limits).await;
    if !by_cgroup(&sandboxes, "memory") {
        // What is promised then: no single process has more.
        let outcome = sandbox
            .run(&["python3", "-c", "bytearray(100 << 20)"])
            .await;
        assert!(outcome.stderr.to_text().contains("MemoryError"));
        return;
    }
    assert_eq!(sandbox.place.oom_kills(), Some(0));
    let bomb = sandbox
        .run(&[
            "python3",
            "-c",
            "keep = []\nwhile True: keep.append(bytearray(1 << 20))",
        ])
        .await;
    assert_eq!(bomb.signal, Some(9));
    assert_eq!(sandbox.place.oom_kills(), Some(1));
    // The limit is the sandbox's, so many processes are no way around it.
    let many = sandbox
        .sh(
            "for n in 1 2 3 4 5 6; do (head -c 25M /dev/zero | tail -c 25M | (sleep 1; cat)) \
             > /dev/null & done; wait",
        )
        .await;
    assert!(sandbox.place.oom_kills() > Some(1), "{many:?}");
    assert_eq!(sandbox.sh("echo on").await.stdout.to_text(), "on\n");
    let used = sandbox.place.usage().memory_bytes.unwrap();
    assert!(used < 96 << 20, "{used}");
}

#[tokio::test]
async fn a_fork_bomb_stops_at_the_limit_and_ends_with_its_run() {
    let sandboxes = Sandboxes::new();
    if !by_cgroup(&sandboxes, "pids") {
        return;
    }
    let limits = Limits {
        pids: 64,
        ..Limits::default()
    };
    let sandbox = sandboxes.start_with(1, limits).await;
    let program = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass";
    let bomb = ["python3", "-c", program];
    let run = sandbox.run_for(Duration::from_secs(3), &bomb);
    let mut most = 0;
    let watch = async {
        loop {
            most = most.max(sandbox.place.usage().pids.unwrap());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::select! {
        outcome = run => assert_ne!(outcome.exit_code, 0),
        () = watch => {}
    }
    assert!((40..=64).contains(&most), "{most}");
    until("the bomb is gone", || {
        sandbox.place.usage().pids.unwrap() < 16
    })
    .await;
    let after = sandbox.sh("echo on").await;
    assert_eq!(after.stdout.to_text(), "on\n", "{after:?}");
}

#[tokio::test]
async fn a_busy_loop_gets_its_share_of_the_processor() {
    let sandboxes = Sandboxes::new();
    if !by_cgroup(&sandboxes, "cpus") {
        return;
    }
    let limits = Limits {
        cpus: 0.2,
        ..Limits::default()
    };
    let sandbox = sandboxes.start_with(1, limits).await;
    let before = sandbox.place.usage().cpu_seconds.unwrap();
    let outcome = sandbox
        .run_for(
            Duration::from_secs(2),
            &["/bin/sh", "-c", "while :; do :; done"],
        )
        .await;
    assert_eq!(outcome.exit_code, 124);
    let used = sandbox.place.usage().cpu_seconds.unwrap() - before;
    assert!((0.1..0.8).contains(&used), "{used}");
}

#[tokio::test]
async fn the_file_size_is_limited() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    // The limit is a little over a tebibyte; a hole takes no disk.
    let outcome = sandbox.sh("truncate -s 2T big").await;
    assert_ne!(outcome.exit_code, 0);
}
