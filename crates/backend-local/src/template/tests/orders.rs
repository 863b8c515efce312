//! What does not enter does not serve.

use std::{fs::File, os::fd::OwnedFd, time::Duration};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::{BARE, World, is_root, status};
use crate::{error::Failure, template::order};

fn pidfd(pid: u32) -> OwnedFd {
    let pid = Pid::from_raw(pid.cast_signed()).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

fn why(result: Result<impl Sized, Failure>) -> String {
    match result {
        Ok(_) => panic!("it entered"),
        Err(failure) => failure.to_string(),
    }
}

#[tokio::test]
async fn a_step_that_fails_is_told_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.ready(BARE).await;
    let (first, second) = (world.start(1).await, world.start(2).await);

    let mut others = first.target();
    others.user = second.user;
    let told = why(world.try_fork(BARE, &others).await);
    assert!(told.contains("namespaces"), "{told}");

    let mut host = first.target();
    host.init = pidfd(std::process::id());
    let told = why(world.try_fork(BARE, &host).await);
    assert!(told.contains("namespaces"), "{told}");

    let mut no_group = first.target();
    no_group.groups.push(File::open("/dev/null").unwrap());
    let told = why(world.try_fork(BARE, &no_group).await);
    assert!(told.contains("Bad file descriptor"), "{told}");

    let mut root = first.target();
    root.user = 0;
    let told = why(world.try_fork(BARE, &root).await);
    assert!(told.contains("failed: "), "{told}");

    let mut no_process = first.target();
    no_process.init = File::open("/proc/self/ns/pid").unwrap().into();
    let told = why(world.try_fork(BARE, &no_process).await);
    assert!(told.contains("namespaces"), "{told}");

    for sandbox in [&first, &second] {
        let mut left = sandbox.processes();
        left.retain(|pid| status(*pid).is_some_and(|it| it["Name"].starts_with("python")));
        assert_eq!(left, [0_u32; 0]);
    }
    let mut zygote = world.fork(&first).await;
    assert_eq!(zygote.ask("out = 42"), "42");
}

#[tokio::test]
async fn an_order_that_is_none_does_not_end_the_template() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.ready(BARE).await;
    let sandbox = world.start(1).await;
    let template = world.templates().ready(BARE).await.unwrap();
    for message in [&b"x"[..], &[0; 200]] {
        let sent = order::send_with(template.control(), message, &[]).await;
        sent.unwrap();
    }
    let mut zygote = world.fork(&sandbox).await;
    assert_eq!(zygote.ask("out = 42"), "42");
}

/// A kind that nobody has, and one that cannot be imported.
#[tokio::test]
async fn a_template_that_does_not_start_is_no_harm() {
    if !is_root() {
        return;
    }
    let world = World::with(|config| {
        let python = config.python_template.as_mut().unwrap();
        python.kinds.insert(b'x', "no_such_module".to_owned());
    });
    let sandbox = world.start(1).await;
    let started = std::time::Instant::now();
    why(world.try_fork(b'x', &sandbox.target()).await);
    let again = why(world.try_fork(b'x', &sandbox.target()).await);
    assert_eq!(again, "the template is not ready");
    why(world.try_fork(b'?', &sandbox.target()).await);
    assert!(started.elapsed() < Duration::from_secs(10));
    let mut zygote = world.fork(&sandbox).await;
    assert_eq!(zygote.ask("out = 42"), "42");
}
