//! What two forks of one template have in common: nothing that can be changed.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt as _,
};

use super::{SCIENTIFIC, World, is_root, status};

/// Looks for bytes in all memory of a process that can be read.
fn has(pid: u32, needle: &[u8]) -> bool {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut looked_at = 0;
    for line in maps.lines() {
        let (range, rest) = line.split_once(' ').unwrap();
        if !rest.starts_with('r') || rest.ends_with("[vvar]") {
            continue;
        }
        let (start, end) = range.split_once('-').unwrap();
        let [start, end] = [start, end].map(|it| u64::from_str_radix(it, 16).unwrap());
        let mut content = vec![0; usize::try_from(end - start).unwrap()];
        if memory.read_exact_at(&mut content, start).is_err() {
            continue;
        }
        looked_at += content.len();
        if content.windows(needle.len()).any(|window| window == needle) {
            return true;
        }
    }
    assert!(looked_at > 4_000_000, "{looked_at}");
    false
}

fn sockets(pid: u32) -> BTreeSet<String> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let targets = fds.filter_map(|fd| fs::read_link(fd.path()).ok());
    let targets = targets.map(|target| target.to_str().unwrap().to_owned());
    targets
        .filter(|it| it.starts_with("socket:") || it.starts_with("pipe:"))
        .collect()
}

#[tokio::test]
async fn two_sandboxes_share_no_memory_and_no_socket() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let (first, second) = (world.start(1).await, world.start(2).await);
    for kind in [super::BARE, SCIENTIFIC] {
        let mut one = world.fork_kind(kind, &first).await;
        let mut other = world.fork_kind(kind, &second).await;
        for pid in [one.pid, other.pid] {
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
            assert_eq!(crate::template::inspect::shared(&maps), None);
        }
        let (ours, theirs) = (sockets(one.pid), sockets(other.pid));
        assert_eq!(
            ours.intersection(&theirs).count(),
            0,
            "{ours:?}, {theirs:?}"
        );
        one.ask("import json; json.planted = 'here'; json.__doc__ = 'changed'");
        let seen = other.ask("import json; out = hasattr(json, 'planted'), len(json.__doc__) > 99");
        assert_eq!(seen, "(False, True)");
    }
}

/// inflexa #88, cortex #574: the parent's environment was passed on.
#[tokio::test]
async fn neither_the_services_secrets_nor_another_sandboxs_are_in_a_fork() {
    if !is_root() {
        return;
    }
    // Made here, so that this program's file does not have it.
    let own = format!("{}-of-the-service-{}", "secret", std::process::id());
    // Cargo gives it to tests, and to them only.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    let world = World::new();
    let (first, second) = (world.start(1).await, world.start(2).await);
    let mut one = world.fork(&first).await;
    assert_eq!(
        one.ask("import os; secret = 'of' + '-the-first'; out = secret"),
        "of-the-first"
    );
    let other = world.fork(&second).await;
    let template = world.template().await;
    assert!(has(std::process::id(), own.as_bytes()));
    assert!(
        has(one.pid, b"of-the-first"),
        "the look finds what is there"
    );
    for pid in [template, one.pid, other.pid] {
        assert!(!has(pid, own.as_bytes()));
        assert!(!has(pid, b"CARGO_MANIFEST_DIR"));
    }
    for pid in [template, other.pid] {
        assert!(!has(pid, b"of-the-first"));
    }
}

#[tokio::test]
async fn the_template_has_what_it_needs_and_no_more() {
    if !is_root() {
        return;
    }
    let world = World::new();
    world.ready(super::BARE).await;
    let pid = world.template().await;
    let found = status(pid).unwrap();
    let only_users = "00000000000000c0";
    for name in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(found[name], only_users, "{name}");
    }
    assert_eq!(found["NoNewPrivs"], "1");
    for kind in ["mnt", "net", "ipc"] {
        let of = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
        assert_ne!(of(pid), of(std::process::id()), "{kind}");
    }
    let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (place, read_only) = (fields[4], fields[5].starts_with("ro"));
        let own = ["/tmp", "/var/tmp", "/dev/shm", "/proc", "/dev/"];
        assert!(
            read_only || own.iter().any(|own| place.starts_with(own)),
            "{line}"
        );
    }
    let root = fs::read_dir(format!("/proc/{pid}/root")).unwrap().flatten();
    let root: BTreeSet<_> = root
        .map(|it| it.file_name().into_string().unwrap())
        .collect();
    for host in ["home", "root", "sys", "boot", "mnt", "srv"] {
        assert!(!root.contains(host), "{host}");
    }
    let environment = fs::read_to_string(format!("/proc/{pid}/environ")).unwrap();
    let mut names: Vec<_> = environment.split_terminator('\0').collect();
    names.retain(|name| *name != "PWD=/");
    names.sort_unstable();
    let mut given = crate::arguments::ENVIRONMENT.map(|(name, value)| format!("{name}={value}"));
    given.sort_unstable();
    assert_eq!(names, given);
}
