//! What a sandbox may take.

use std::time::{Duration, Instant};

use sandbox_core::{ByteSize, Capability, ErrorCode, Limits, SandboxSpec, Termination};

use super::cases;
use crate::bed::{Bed, code, python, until};

cases! {
    memory: "a program that takes too much memory is killed, and that is told" [Limits];
    memory_of_all: "the memory limit is of all processes together" [Limits];
    processes: "processes beyond the limit cannot be made, and the sandbox answers on" [Limits];
    processors: "a sandbox gets no more of the processors than its share" [Limits];
    file_size: "a file cannot be larger than the disk limit" [Limits];
    workspace_size: "a workspace that is full takes no more, and can be emptied" [Limits];
    tmp_size: "/tmp and /dev/shm are no larger than their limit" [Limits];
    usage: "what a sandbox uses is told";
    adapted: "a sandbox that was made ahead is given other limits and an environment";
    refused: "limits of its own are refused to a sandbox that cannot have them";
}

fn limits(change: impl FnOnce(&mut Limits)) -> Limits {
    let mut limits = Limits::default();
    change(&mut limits);
    limits
}

const BOMB: &str = "keep = []\nwhile True: keep.append(bytearray(1 << 20))";

async fn memory(bed: Bed) {
    let sandbox = bed
        .start_limited(limits(|it| it.memory = ByteSize::mib(96)))
        .await;
    let began = Instant::now();
    let outcome = sandbox.try_run(python(BOMB)).await.unwrap();
    assert_eq!(
        (outcome.exit_code, outcome.termination),
        (137, Termination::OutOfMemory)
    );
    assert!(began.elapsed() < Duration::from_secs(20));
    assert_eq!(sandbox.says("echo on").await, "on\n");
}

async fn memory_of_all(bed: Bed) {
    let sandbox = bed
        .start_limited(limits(|it| it.memory = ByteSize::mib(96)))
        .await;
    // Six of 25 MiB each: one at least must go.
    let outcome = sandbox
        .sh("for n in 1 2 3 4 5 6; do \
             python3 -c 'import time; x = bytearray(25 << 20); time.sleep(2); print(1)' & done; wait")
        .await;
    let lived = outcome.stdout.to_text().lines().count();
    assert!(lived < 6, "{outcome:?}");
    assert_eq!(sandbox.says("echo on").await, "on\n");
}

async fn processes(bed: Bed) {
    let sandbox = bed.start_limited(limits(|it| it.pids = 32)).await;
    let outcome = sandbox
        .sh("n=0; while [ $n -lt 100 ]; do sleep 30 & n=$((n + 1)); done; echo all")
        .await;
    assert_ne!(outcome.stdout.to_text(), "all\n", "{outcome:?}");
    // Files need no process.
    sandbox.write("f", b"on").await.unwrap();
    assert_eq!(sandbox.read("f").await.unwrap(), b"on");
}

async fn processors(bed: Bed) {
    let sandbox = bed.start_limited(limits(|it| it.cpus = 0.25)).await;
    let outcome = sandbox
        .try_run(python(
            "import time\nend = time.monotonic() + 2\nwhile time.monotonic() < end: pass",
        ))
        .await
        .unwrap();
    let share = outcome.cpu.as_secs_f64() / outcome.duration.as_secs_f64();
    assert!(share < 0.5, "{outcome:?}");
}

async fn file_size(bed: Bed) {
    let sandbox = bed
        .start_limited(limits(|it| it.disk = ByteSize::mib(8)))
        .await;
    let outcome = sandbox.sh("head -c 20000000 /dev/zero > big").await;
    assert_ne!(outcome.exit_code, 0);
    let size = sandbox.says("wc -c < big").await;
    assert!(size.trim().parse::<u64>().unwrap() <= 8 << 20, "{size}");
}

async fn workspace_size(bed: Bed) {
    let sandbox = bed
        .start_limited(limits(|it| it.disk = ByteSize::mib(8)))
        .await;
    // Each file is small enough, and a program that goes on is stopped too.
    let fill = "n=0; while [ $n -lt 300 ]; do head -c 1000000 /dev/zero > f$n || exit 1; \
                n=$((n + 1)); sleep 0.02; done; echo all";
    let outcome = sandbox.sh(fill).await;
    assert_ne!(outcome.stdout.to_text(), "all\n", "{outcome:?}");
    let full = || async { code(sandbox.write("more", b"x").await) == ErrorCode::NoSpace.as_str() };
    until("calls are refused", full).await;
    let outcome = sandbox.sh("echo x > more").await;
    assert_ne!(outcome.exit_code, 0);
    let size = sandbox.says("du -sm . | cut -f1").await;
    assert!(size.trim().parse::<u64>().unwrap() < 64, "{size}");
    // What is in it can be read, and deleted.
    assert_eq!(sandbox.read("f0").await.unwrap().len(), 1_000_000);
    sandbox.says("rm f*").await;
    until("there is room again", || async { !full().await }).await;
    sandbox.says("echo y > more; cat more").await;
    // Names alone take room as well.
    let names = "mkdir d; i=0; while [ $i -lt 9000 ]; do : > d/$i || exit 1; i=$((i + 1)); done";
    sandbox.sh(names).await;
    until("names have filled it", full).await;
}

async fn tmp_size(bed: Bed) {
    let sandbox = bed
        .start_limited(limits(|it| it.tmp = ByteSize::mib(4)))
        .await;
    for folder in ["/tmp", "/var/tmp", "/dev/shm"] {
        let outcome = sandbox
            .sh(&format!("head -c 20000000 /dev/zero > {folder}/big"))
            .await;
        assert_ne!(outcome.exit_code, 0, "{folder}");
        let size = sandbox
            .says(&format!("wc -c < {folder}/big; rm {folder}/big"))
            .await;
        assert!(
            size.trim().parse::<u64>().unwrap() <= 4 << 20,
            "{folder}: {size}"
        );
    }
}

async fn usage(bed: Bed) {
    let sandbox = bed.start().await;
    sandbox.write("f", &[1; 500_000]).await.unwrap();
    let told = sandbox.guest().usage(Default::default()).await.unwrap();
    assert!(told.complete && told.disk_bytes >= 500_000, "{told:?}");
    let place = sandbox.place.usage();
    let memory = place.memory_bytes.or(told.memory_bytes).unwrap();
    assert!((100_000..64 << 20).contains(&memory), "{memory}");
    assert!(place.pids.or(told.pids).unwrap() >= 1);
    assert!(place.cpu_seconds.is_some() || told.cpu_us.is_some());
}

async fn adapted(bed: Bed) {
    let sandbox = bed.start().await;
    let spec = SandboxSpec {
        env: [("GIVEN".to_owned(), "later".to_owned())].into(),
        limits: limits(|it| {
            it.memory = ByteSize::mib(96);
            it.pids = 32;
        }),
        ..SandboxSpec::default()
    };
    if !sandbox.place.suits(&spec) {
        // Then its own is all that it may be asked for.
        assert!(sandbox.place.suits(&SandboxSpec::default()));
        return;
    }
    sandbox.place.adapt(&spec).await.unwrap();
    assert_eq!(sandbox.says("echo $GIVEN").await, "later\n");
    let outcome = sandbox.try_run(python(BOMB)).await.unwrap();
    assert_eq!(outcome.termination, Termination::OutOfMemory);
    let other_tmp = SandboxSpec {
        limits: limits(|it| it.tmp = ByteSize::mib(1)),
        ..SandboxSpec::default()
    };
    assert!(!sandbox.place.suits(&other_tmp));
}

async fn refused(bed: Bed) {
    if bed.backend.capabilities().contains(&Capability::Limits) {
        return;
    }
    for limits in [
        limits(|it| it.memory = ByteSize::mib(96)),
        limits(|it| it.cpus = 8.0),
        limits(|it| it.disk = ByteSize::mib(8)),
    ] {
        let spec = SandboxSpec {
            limits,
            ..SandboxSpec::default()
        };
        let id = bed.id();
        let made = bed.start_as(&id, &spec).await;
        assert_eq!(code(made), ErrorCode::Unsupported.as_str());
        assert!(!bed.has_workspace(&id).await);
    }
}
