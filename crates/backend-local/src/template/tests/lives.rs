//! Ends, of each of them without the others.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use sandbox_core::{ByteSize, Limits};

use super::{BARE, World, is_root, processes, status, until};

fn send(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

fn is_gone(pid: u32) -> bool {
    status(pid).is_none()
}

#[tokio::test]
async fn a_fork_that_is_killed_is_reaped_and_harms_nobody() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let (first, second) = (world.start(1).await, world.start(2).await);
    let mut one = world.fork(&first).await;
    let mut other = world.fork(&second).await;
    let template = world.template().await;
    assert_eq!(one.try_ask("import os; os.kill(os.getpid(), 9)"), None);
    let pid = one.pid;
    until("the fork is reaped", || is_gone(pid)).await;
    // From inside, as a program of the sandbox would.
    first.sh("kill -9 -1").await;
    first.sh("kill -9 0").await;
    assert_eq!(other.ask("out = 42"), "42");
    assert_eq!(world.template().await, template);
    assert_eq!(world.fork(&first).await.ask("out = 43"), "43");
}

#[tokio::test]
async fn a_sandbox_takes_its_forks_with_it() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let mut zygote = world.fork(&sandbox).await;
    zygote.ask("import os, time\nif os.fork() == 0:\n os.setsid(); time.sleep(1000)");
    assert!(sandbox.processes().len() >= 4);
    sandbox.stop().await;
    assert_eq!(sandbox.processes(), [0_u32; 0]);
    assert!(is_gone(zygote.pid));
    assert_eq!(zygote.try_ask("out = 1"), None);
}

/// The end of a PID namespace waits until all in it are reaped, also by a parent
/// that is outside of it (pid_namespaces(7)).
#[tokio::test]
async fn a_template_that_stands_still_holds_up_no_end() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let _zygote = world.fork(&sandbox).await;
    send(world.template().await, Signal::STOP);
    let started = Instant::now();
    sandbox.stop().await;
    assert!(
        started.elapsed() < Duration::from_secs(3),
        "{:?}",
        started.elapsed()
    );
    assert_eq!(sandbox.processes(), [0_u32; 0]);
}

#[tokio::test]
async fn a_sandbox_that_ends_in_the_middle_leaves_nothing() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.ready(BARE).await;
    let (mut entered, mut failed) = (0, 0);
    for n in 0..20 {
        let sandbox = world.start(n).await;
        let target = sandbox.target();
        let (forked, ()) = tokio::join!(world.try_fork(BARE, &target), async {
            tokio::time::sleep(Duration::from_micros(u64::from(n) * 150)).await;
            sandbox.stop().await;
        });
        match forked {
            Ok(_) => entered += 1,
            Err(_) => failed += 1,
        }
        until("no process is left", || sandbox.processes().is_empty()).await;
    }
    eprintln!("{entered} entered before the end, {failed} did not");
    assert!(failed > 0, "the end came too late to try anything");
    let sandbox = world.start(100).await;
    assert_eq!(world.fork(&sandbox).await.ask("out = 42"), "42");
    let target = sandbox.target();
    sandbox.stop().await;
    let started = Instant::now();
    assert!(world.try_fork(BARE, &target).await.is_err());
    assert!(started.elapsed() < Duration::from_secs(2));
}

#[tokio::test]
async fn a_template_that_was_killed_is_started_again() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let mut before = world.fork(&sandbox).await;
    let template = world.template().await;
    send(template, Signal::KILL);
    until("the template is gone", || is_gone(template)).await;
    assert_eq!(before.ask("out = 42"), "42", "its forks go on");
    while world.template().await == template {
        tokio::task::yield_now().await;
    }
    let mut after = world.fork(&sandbox).await;
    assert_eq!(after.ask("out = 43"), "43");
    sandbox.stop().await;
    assert_eq!(sandbox.processes(), [0_u32; 0]);
}

#[tokio::test]
async fn a_template_that_takes_no_orders_is_replaced() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let template = world.template().await;
    send(template, Signal::STOP);
    for joiner in processes(|it| it["PPid"] == template.to_string()) {
        send(joiner, Signal::STOP);
    }
    let refused = world.try_fork(BARE, &sandbox.target()).await;
    assert_eq!(
        refused.err().unwrap().to_string(),
        "the template takes no orders"
    );
    while world.template().await == template {
        tokio::task::yield_now().await;
    }
    assert!(is_gone(template));
    assert_eq!(world.fork(&sandbox).await.ask("out = 42"), "42");
}

#[tokio::test]
async fn many_sandboxes_are_served_at_once() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.ready(BARE).await;
    let mut sandboxes = Vec::new();
    for n in 0..12 {
        sandboxes.push(world.start(n).await);
    }
    let started = Instant::now();
    let forks = sandboxes.iter().map(|sandbox| async {
        let target = sandbox.target();
        world.try_fork(BARE, &target).await
    });
    let forked = futures::future::join_all(forks).await;
    eprintln!("{} forks took {:?}", sandboxes.len(), started.elapsed());
    for (sandbox, forked) in sandboxes.iter().zip(forked) {
        let mut zygote = super::Zygote::new(forked.unwrap(), sandbox.user);
        assert_eq!(zygote.ask("out = 42"), "42");
        let own = status(zygote.pid).unwrap();
        assert!(own["Uid"].starts_with(&sandbox.user.to_string()));
    }
}

#[tokio::test]
async fn a_template_ends_with_its_service() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.ready(BARE).await;
    let template = world.template().await;
    drop(world);
    until("the template is gone", || is_gone(template)).await;
}

#[tokio::test]
async fn a_sandbox_without_processes_left_gets_none_and_the_next_does() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let limits = Limits {
        pids: 20,
        ..Limits::default()
    };
    let (full, free) = (world.start_with(1, limits).await, world.start(2).await);
    if full.place.group.dirs().is_empty() {
        return;
    }
    world.ready(BARE).await;
    let bomb = "import os, time\n\
                while True:\n\
                \x20   try:\n\
                \x20       if os.fork() == 0: time.sleep(1000)\n\
                \x20   except OSError: time.sleep(0.001)";
    full.sh(&format!("setsid python3 -c '{bomb}' > /dev/null 2>&1 &"))
        .await;
    let count = || full.place.group.usage().pids;
    until("no process is left to be had", || count() == Some(20)).await;
    let refused = world.try_fork(BARE, &full.target()).await;
    let told = refused.err().unwrap().to_string();
    assert!(told.contains("Resource temporarily unavailable"), "{told}");
    assert_eq!(world.fork(&free).await.ask("out = 42"), "42");
}

#[tokio::test]
async fn a_fork_counts_against_its_sandbox() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let limits = Limits {
        memory: ByteSize::mib(96),
        ..Limits::default()
    };
    let sandbox = world.start_with(1, limits).await;
    let mut zygote = world.fork(&sandbox).await;
    let used = |sandbox: &super::Sandbox| sandbox.place.group.usage().memory_bytes;
    let Some(before) = used(&sandbox) else {
        return;
    };
    assert!(before < 32 << 20, "{before}");
    zygote.ask("import builtins; builtins.kept = bytearray(b'x') * (40 << 20)");
    assert!(used(&sandbox).unwrap() >= before + (39 << 20));
    assert_eq!(
        zygote.try_ask("kept2 = bytearray(b'x') * (200 << 20)"),
        None
    );
    assert_eq!(sandbox.place.group.oom_kills(), Some(1));
    assert_eq!(
        world.fork(&world.start(2).await).await.ask("out = 42"),
        "42"
    );
}
