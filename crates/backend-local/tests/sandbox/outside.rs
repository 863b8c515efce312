//! The real processes, as the host's /proc shows them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt as _,
};

use crate::support::{Sandboxes, is_root};

fn status(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let words: Vec<&str> = value.split_whitespace().collect();
        Some((name.to_owned(), words.join(" ")))
    };
    text.lines().filter_map(field).collect()
}

/// Its process group and its session.
fn group_and_session(pid: u32) -> (u32, u32) {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .unwrap()
        .1
        .split_whitespace()
        .collect();
    (fields[2].parse().unwrap(), fields[3].parse().unwrap())
}

#[tokio::test]
async fn the_processes_have_no_right_at_all() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let guest = status(sandbox.guest());
    let none = "0000000000000000";
    let owner = fs::metadata(sandboxes.workspace(1))
        .unwrap()
        .uid()
        .to_string();
    let ids = [owner.as_str(); 4].join(" ");
    let wanted = [
        ("Uid", ids.as_str()),
        ("Gid", &ids),
        ("CapInh", none),
        ("CapPrm", none),
        ("CapEff", none),
        ("CapBnd", none),
        ("CapAmb", none),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
        ("Seccomp_filters", "2"),
    ];
    for (name, value) in wanted {
        if name == "Gid" && !is_root() {
            continue;
        }
        assert_eq!(guest[name], value, "{name}");
    }
    assert!(guest["NSpid"].ends_with(" 1"), "{}", guest["NSpid"]);
    if is_root() {
        assert_eq!(guest["Groups"], "");
        // From before it started: what real root starts can write to /proc/sys.
        let bwrap = status(sandbox.bwrap());
        assert_eq!((&bwrap["Uid"], &bwrap["Groups"]), (&ids, &String::new()));
    }
    let program = sandbox
        .sh("grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status | sort | uniq | cut -f2")
        .await;
    assert_eq!(
        program.stdout.to_text(),
        format!("{none}\n{none}\n{none}\n{none}\n{none}\n1\n2\n")
    );
}

#[tokio::test]
async fn every_namespace_is_its_own() {
    let sandboxes = Sandboxes::new();
    let (first, second) = (sandboxes.start(1).await, sandboxes.start(2).await);
    let namespace = |pid: &str, kind: &str| {
        let link = format!("/proc/{pid}/ns/{kind}");
        fs::read_link(&link).map_err(|error| format!("{link}: {error}"))
    };
    if !is_root() {
        // The guest is not dumpable, so only root may look.
        return;
    }
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"] {
        let pids = [
            first.guest().to_string(),
            second.guest().to_string(),
            "self".into(),
        ];
        let found: BTreeSet<_> = pids
            .iter()
            .map(|pid| namespace(pid, kind).unwrap())
            .collect();
        assert_eq!(found.len(), 3, "{kind}: {found:?}");
    }
}

/// `kill(0, SIGKILL)` reaches every member of the caller's process group, in
/// whatever PID namespace it is.
#[tokio::test]
async fn no_process_group_or_session_is_shared_with_the_service() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let ours = group_and_session(std::process::id());
    let bwrap = group_and_session(sandbox.bwrap());
    let guest = group_and_session(sandbox.guest());
    let groups = BTreeSet::from([ours.0, bwrap.0, guest.0]);
    let sessions = BTreeSet::from([ours.1, bwrap.1, guest.1]);
    assert_eq!((groups.len(), sessions.len()), (3, 3));
    // 0 would be a group or a session of the outside.
    let inside = sandbox
        .python("import os; print(os.getpgrp() > 0, os.getsid(0) > 0)")
        .await;
    assert_eq!(inside, "True True");
    let outcome = sandbox
        .run(&["python3", "-c", "import os; os.kill(0, 9)"])
        .await;
    assert_eq!(outcome.signal, Some(9));
    assert_eq!(sandbox.sh("echo on").await.stdout.to_text(), "on\n");
}

/// runc CVE-2024-21626: a directory of the host stayed open in the container.
#[tokio::test]
async fn nothing_is_inherited_but_standard_streams_and_the_connection() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    // The listing's own descriptor is the fourth.
    let open = sandbox
        .python("import os; print(sorted(os.listdir('/proc/self/fd'), key=int))")
        .await;
    assert_eq!(open, "['0', '1', '2', '3']");
    if !is_root() {
        return;
    }
    let guest = sandbox.guest();
    for entry in fs::read_dir(format!("/proc/{guest}/fd")).unwrap() {
        let target = fs::read_link(entry.unwrap().path()).unwrap();
        let target = target.to_str().unwrap();
        let kind = target.split(':').next().unwrap();
        assert!(
            ["socket", "pipe", "anon_inode", "/dev/null"].contains(&kind),
            "{target}"
        );
    }
    let root = fs::read_link(format!("/proc/{guest}/cwd")).unwrap();
    assert_eq!(root.to_str(), Some("/workspace"));
    let environment = fs::read(format!("/proc/{}/environ", sandbox.bwrap())).unwrap();
    assert_eq!(String::from_utf8_lossy(&environment), "");
}

#[tokio::test]
async fn sandboxes_go_first_when_the_machine_has_no_memory_left() {
    let sandboxes = Sandboxes::new();
    let sandbox = sandboxes.start(1).await;
    let score = fs::read_to_string(format!("/proc/{}/oom_score_adj", sandbox.guest())).unwrap();
    assert_eq!(score.trim(), "500");
    let limits = sandbox
        .sh("ulimit -c -H; ulimit -n; ulimit -H -n")
        .await
        .stdout
        .to_text();
    let limits: Vec<u64> = limits.lines().map(|line| line.parse().unwrap()).collect();
    // In blocks of 512 bytes; a crash starts no handler of the host.
    assert_eq!(limits[0], 0);
    assert!(limits[1] <= 1024 && limits[2] <= 65_536, "{limits:?}");
}
