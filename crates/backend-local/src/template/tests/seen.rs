//! A fork is what a program of its sandbox is, and nothing more.

use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt as _};

use super::{World, is_root, status};

#[tokio::test]
async fn a_fork_is_in_every_namespace_of_its_sandbox() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let (first, second) = (world.start(1).await, world.start(2).await);
    let (one, other) = (world.fork(&first).await, world.fork(&second).await);
    for kind in ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time"] {
        let of = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/{kind}")).unwrap();
        assert_eq!(of(one.pid), of(first.init()), "{kind}");
        assert_eq!(of(other.pid), of(second.init()), "{kind}");
        let all = BTreeSet::from([one.pid, other.pid, std::process::id()].map(of));
        assert_eq!(all.len(), if kind == "time" { 1 } else { 3 }, "{kind}");
    }
}

/// dify-sandbox #225: tenants shared a user.
#[tokio::test]
async fn a_fork_has_no_right_that_its_sandbox_lacks() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let (sandbox, second) = (world.start(1).await, world.start(2).await);
    let (zygote, other) = (world.fork(&sandbox).await, world.fork(&second).await);
    let (guest, fork) = (status(sandbox.init()).unwrap(), zygote.status());
    assert_eq!(
        fork["Uid"],
        [sandbox.user.to_string().as_str(); 4].join(" ")
    );
    assert_ne!(fork["Uid"], other.status()["Uid"]);
    let same = [
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
    ];
    for name in same {
        assert_eq!(fork[name], guest[name], "{name}");
    }
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(fork[name], "0000000000000000", "{name}");
    }
    let read = |pid: u32, name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap();
    for name in [
        "uid_map",
        "gid_map",
        "projid_map",
        "setgroups",
        "oom_score_adj",
        "cgroup",
        "limits",
        "personality",
        "loginuid",
    ] {
        let (fork, guest) = (read(zygote.pid, name), read(sandbox.init(), name));
        assert_eq!(fork, guest, "{name}");
    }
    assert_eq!(read(zygote.pid, "oom_score_adj").trim(), "500");
}

/// dify-sandbox #27: what was preloaded ran before the filters.
#[tokio::test]
async fn both_filters_hold_a_fork() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let mut zygote = world.fork(&sandbox).await;
    let answers = zygote.ask(
        "import ctypes\n\
         libc = ctypes.CDLL(None, use_errno=True)\n\
         def errno(call, *arguments):\n\
         \x20   ctypes.set_errno(0)\n\
         \x20   return call(*arguments), ctypes.get_errno()\n\
         out = [errno(libc.unshare, 0x10000000), errno(libc.setns, 0, 0),\n\
         \x20   errno(libc.ptrace, 0, 0, 0, 0), errno(libc.mount, 0, 0, 0, 0, 0),\n\
         \x20   errno(libc.syscall, ctypes.c_long(435), None, ctypes.c_long(0))]",
    );
    // The first four by the list of what is refused; clone3 as not on the other.
    assert_eq!(answers, "[(-1, 1), (-1, 1), (-1, 1), (-1, 1), (-1, 38)]");
}

/// runc CVE-2024-21626: a directory of the host stayed open in the container.
#[tokio::test]
async fn a_fork_has_no_descriptor_but_its_own() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let zygote = world.fork(&sandbox).await;
    let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", sandbox.init())).unwrap();
    let mut found = Vec::new();
    for entry in fs::read_dir(format!("/proc/{}/fd", zygote.pid)).unwrap() {
        let path = entry.unwrap().path();
        let number = path.file_name().unwrap().to_str().unwrap().to_owned();
        let target = fs::read_link(&path).unwrap();
        let target = target
            .to_str()
            .unwrap()
            .split('[')
            .next()
            .unwrap()
            .to_owned();
        if target == "/dev/null" {
            let info = format!("/proc/{}/fdinfo/{number}", zygote.pid);
            let info = fs::read_to_string(info).unwrap();
            let mount = info.lines().find_map(|line| line.strip_prefix("mnt_id:"));
            let mount = format!("{} ", mount.unwrap().trim());
            assert!(
                mounts.lines().any(|line| line.starts_with(&mount)),
                "not of the sandbox"
            );
        }
        found.push(format!("{number} {target}"));
    }
    found.sort();
    assert_eq!(
        found,
        ["0 /dev/null", "1 /dev/null", "2 /dev/null", "3 socket:"]
    );
    let of = |pid: u32, name: &str| {
        let found = fs::metadata(format!("/proc/{pid}/{name}")).unwrap();
        (found.dev(), found.ino())
    };
    for name in ["root", "cwd"] {
        assert_eq!(of(zygote.pid, name), of(sandbox.init(), name), "{name}");
    }
}

/// runc CVE-2019-5736: the program outside was written through /proc/self/exe. Here
/// not even the host's root can.
#[tokio::test]
async fn what_a_fork_has_mapped_cannot_be_written() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let mut zygote = world.fork(&sandbox).await;
    let inside = zygote.ask("out = 'no'\nopen('/proc/self/exe', 'r+b')");
    assert!(inside.starts_with("error: "), "{inside}");
    let process = format!("/proc/{}", zygote.pid);
    let mapped = fs::read_dir(format!("{process}/map_files"))
        .unwrap()
        .flatten();
    let mut paths: Vec<_> = mapped.map(|entry| entry.path()).collect();
    paths.push(format!("{process}/exe").into());
    assert!(paths.len() > 5, "{paths:?}");
    for path in paths {
        let target = fs::read_link(&path).unwrap();
        let error = fs::OpenOptions::new().write(true).open(&path).unwrap_err();
        let expected = [
            io::ErrorKind::ReadOnlyFilesystem,
            io::ErrorKind::ExecutableFileBusy,
        ];
        assert!(
            expected.contains(&error.kind()),
            "{}: {error}",
            target.display()
        );
    }
}

/// A run must not be able to tell a fork from an interpreter that was started.
#[tokio::test]
async fn a_fork_is_as_an_interpreter_that_was_started() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let sandbox = world.start(1).await;
    let mut zygote = world.fork(&sandbox).await;
    // The last two signals are the C library's, and come of how it was started.
    let look = "import os, sys, signal, tempfile, site\n\
                status = open('/proc/self/status').read().splitlines()\n\
                signals = [it.split() for it in status if it[:4] in ('SigB', 'SigI', 'SigC')]\n\
                out = [(name, int(them, 16) & 0x7fffffff) for name, them in signals]\n\
                os.environ.pop('PWD', None)\n\
                out += [sorted(os.environ.items()), sys.flags, sys.executable, sys.prefix]\n\
                out += [sys.path[1:], sys.getfilesystemencoding(), sys.stdout.encoding]\n\
                out += [os.stat('/proc/self/environ').st_uid, os.getuid(), os.getcwd()]\n\
                out += [tempfile.gettempdir(), site.ENABLE_USER_SITE, site.USER_SITE]\n\
                out += [oct(os.umask(0o22)), os.nice(0), os.sched_getaffinity(0)]\n\
                out += [os.getpgrp() > 0, os.getsid(0) > 0, len(os.listdir('/proc/self/task'))]\n";
    let fork = zygote.ask(look);
    let script = format!(
        "python3 -u -c '{}\nprint(str(out))'",
        look.replace('\'', "'\\''")
    );
    let started = sandbox.sh(&script).await;
    assert_eq!(started.stderr.to_text(), "");
    assert_eq!(fork, started.stdout.to_text().trim_end());
    let own = zygote.ask("import os; out = (os.getsid(0) == os.getpid(), os.getppid())");
    assert_eq!(own, "(True, 0)");
}
