//! The self-test: passed by what is right, and not by what is broken on purpose.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use backend_local::{LocalConfig, diagnose};
use sandbox_backend::Backend as _;
use sandbox_core::{ErrorCode, SandboxSpec};

use crate::support::{Sandboxes, id, is_root};

/// A bubblewrap that changes its arguments, a Python list, before it starts.
fn broken_bwrap(dir: &Path, change: &str) -> std::path::PathBuf {
    let path = dir.join("bwrap");
    let script = format!(
        "#!/usr/bin/python3\n\
         import os, sys\n\
         if sys.argv[1] == '--args':\n\
         \x20   args = open(3, closefd=False).read().split('\\0')[:-1]\n\
         \x20   {change}\n\
         \x20   fd = os.memfd_create('args', 0)\n\
         \x20   os.write(fd, ''.join(arg + '\\0' for arg in args).encode())\n\
         \x20   os.lseek(fd, 0, 0)\n\
         \x20   os.dup2(fd, 3)\n\
         os.execv('/usr/bin/bwrap', ['bwrap'] + sys.argv[1:])\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_backend_is_ready_once_it_has_passed() {
    let sandboxes = Sandboxes::new();
    assert!(!sandboxes.backend.check().await.ready(), "not before");
    assert_eq!(sandboxes.backend.self_test().await, []);
    assert_eq!(sandboxes.backend.check().await.problems, []);
    assert_eq!(sandboxes.backend.list().await.unwrap(), []);
    assert_eq!(
        fs::read_dir(sandboxes.config.state_dir.join("workspaces"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn an_unbroken_bubblewrap_passes_the_wrapper_too() {
    let sandboxes = Sandboxes::with(|config, dir| config.bwrap = broken_bwrap(dir, "pass"));
    assert_eq!(sandboxes.backend.self_test().await, []);
}

async fn assert_caught(change: &str, what: &str) {
    let sandboxes = Sandboxes::with(|config, dir| config.bwrap = broken_bwrap(dir, change));
    let problems = sandboxes.backend.self_test().await;
    assert!(
        problems
            .iter()
            .any(|problem| problem.what == what && !problem.fix.is_empty()),
        "{problems:?}"
    );
    assert_eq!(sandboxes.backend.check().await.problems, problems);
    let created = sandboxes
        .backend
        .create(&id(1), &SandboxSpec::default())
        .await;
    assert_eq!(created.err().unwrap().code(), ErrorCode::BackendUnavailable);
}

#[tokio::test]
async fn the_hosts_network_is_caught() {
    assert_caught(
        "args.remove('--unshare-net')",
        "a sandbox reaches the network",
    )
    .await;
}

#[tokio::test]
async fn the_hosts_files_are_caught() {
    let change = "args[args.index('--remount-ro'):0] = []; at = args.index('--bind'); \
                  state = args[at + 1].rsplit('/', 2)[0]; \
                  args[at:at] = ['--ro-bind', state, state]";
    assert_caught(change, "a sandbox reads the host's files").await;
}

#[tokio::test]
async fn another_sandboxs_files_are_caught() {
    // Shows the second sandbox's workspace in the place of each sandbox's own.
    if is_root() {
        // The first sandbox's user could not open it.
        return;
    }
    let change = "at = args.index('--bind'); \
                  state = args[at + 1].rsplit('/', 1)[0]; \
                  args[at:at] = ['--ro-bind', state, state]";
    assert_caught(change, "a sandbox reads another sandbox's files").await;
}

#[tokio::test]
async fn a_missing_bubblewrap_says_what_to_install() {
    let sandboxes = Sandboxes::with(|config, _| config.bwrap = "no-such-bwrap".into());
    let problems = sandboxes.backend.self_test().await;
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].what, "bubblewrap is not installed");
    assert_eq!(sandboxes.backend.check().await.problems, problems);
}

#[tokio::test]
async fn a_state_directory_out_of_reach_is_a_problem_with_a_fix() {
    if !is_root() {
        return;
    }
    let sandboxes = Sandboxes::with(|config: &mut LocalConfig, dir| {
        let closed = dir.join("closed");
        fs::create_dir(&closed).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        config.state_dir = closed.join("state");
    });
    let problems = sandboxes.backend.self_test().await;
    assert_eq!(problems.len(), 1);
    assert!(problems[0].fix.contains("SANDBOX_STATE_DIR"));
}

#[tokio::test]
async fn doctor_finds_what_this_machine_has() {
    let sandboxes = Sandboxes::new();
    let findings = diagnose(&sandboxes.config);
    let named = |name: &str| findings.iter().find(|finding| finding.name == name);
    for name in [
        "bubblewrap",
        "user namespace",
        "mnt namespace",
        "pid namespace",
        "net namespace",
        "ipc namespace",
        "uts namespace",
        "cgroup namespace",
        "seccomp",
        "state directory",
        "sandbox",
        "docker (optional)",
    ] {
        let finding = named(name).unwrap_or_else(|| panic!("{name}"));
        assert!(finding.ok, "{finding:?}");
    }
    assert!(!sandboxes.config.state_dir.join("doctor").exists());
    let memory = named("limit of memory").unwrap();
    let by_cgroup = sandboxes.backend.enforcement()["memory"].starts_with("cgroup");
    assert_eq!(memory.ok, by_cgroup);
    assert_eq!(memory.fix.is_none(), by_cgroup);
}
