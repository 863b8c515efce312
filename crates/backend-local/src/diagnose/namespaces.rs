//! Each kind of namespace, tried by a throwaway bubblewrap.

use std::{
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

use super::Finding;

/// The name in /proc/self/ns, and the option that makes one. A user namespace comes
/// first: without it an ordinary user can make none of the others.
const KINDS: [(&str, Option<&str>); 7] = [
    ("user", None),
    ("mnt", None),
    ("pid", Some("--unshare-pid")),
    ("net", Some("--unshare-net")),
    ("ipc", Some("--unshare-ipc")),
    ("uts", Some("--unshare-uts")),
    ("cgroup", Some("--unshare-cgroup")),
];

/// Tries them as the host user that sandboxes run as.
pub(super) fn try_each(bwrap: &Path, user: Option<u32>) -> Vec<Finding> {
    KINDS
        .into_iter()
        .map(|(kind, option)| {
            let mut command = Command::new(bwrap);
            command
                .args(["--unshare-user", "--ro-bind", "/", "/"])
                .args(option)
                .args(["--", "/bin/sh", "-c", ":"])
                .current_dir("/")
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null());
            if let Some(user) = user {
                command.uid(user).gid(user);
            }
            let name = format!("{kind} namespace");
            match command.output() {
                Ok(output) if output.status.success() => Finding::ok(&name, "works"),
                Ok(output) => Finding::missing(
                    &name,
                    String::from_utf8_lossy(&output.stderr).trim(),
                    fix(kind),
                ),
                Err(error) => Finding::missing(&name, error.to_string(), fix(kind)),
            }
        })
        .collect()
}

/// Without bubblewrap nothing can be tried, only the kernel asked.
pub(super) fn look_only() -> Vec<Finding> {
    KINDS
        .into_iter()
        .map(|(kind, _)| {
            let name = format!("{kind} namespace");
            if Path::new("/proc/self/ns").join(kind).exists() {
                Finding::missing(
                    &name,
                    "the kernel has it, but it cannot be tried without bubblewrap",
                    "install bubblewrap and run this again",
                )
            } else {
                Finding::missing(&name, "the kernel does not have it", fix(kind))
            }
        })
        .collect()
}

fn fix(kind: &str) -> String {
    match kind {
        "user" | "mnt" => "allow user namespaces: see the kernel.* and user.* lines. In a \
             container, run it with user namespaces allowed (Docker: `--security-opt \
             seccomp=unconfined --security-opt apparmor=unconfined`, or --privileged)"
            .into(),
        other => format!(
            "use a kernel with {other} namespaces, and see the line of user namespaces first"
        ),
    }
}
