//! A fork is what a program of its sandbox is, and nothing more.

use std::{collections::BTreeSet, fs, os::unix::fs::MetadataExt as _};

use super::{World, is_root, status};

#[tokio::test]
async fn a_fork_is_in_every_namespace_of_its_sandbox() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let (first, second) = (world.start(1).await, world.start(2).await);
    let (one, other) = (world.fork(&first).await, world.fork(&second).await);
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let of = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
        assert_eq!(of(one.pid), of(first.init()), "{kind}");
        assert_eq!(of(other.pid), of(second.init()), "{kind}");
        let all = [one.pid, other.pid, std::process::id()].map(of);
        assert_eq!(BTreeSet::from(all).len(), 3, "{kind}");
    }
}

#[tokio::test]
async fn a_fork_has_no_right_that_its_sandbox_lacks() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let zygote = world.fork(&sandbox).await;
    let (guest, fork) = (status(sandbox.init()).unwrap(), zygote.status());
    for name in [
        "Uid",
        "Gid",
        "Groups",
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "NoNewPrivs",
        "Seccomp",
        "Seccomp_filters",
        "Umask",
        "Cpus_allowed",
    ] {
        assert_eq!(fork[name], guest[name], "{name}");
    }
    let read = |pid: u32, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    for name in [
        "uid_map",
        "gid_map",
        "oom_score_adj",
        "cgroup",
        "limits",
        "personality",
    ] {
        assert_eq!(read(zygote.pid, name), read(sandbox.init(), name), "{name}");
    }
}
