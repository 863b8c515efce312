//! bubblewrap's arguments.

use std::{ffi::OsString, os::unix::ffi::OsStrExt as _, path::Path};

use sandbox_core::Limits;

use crate::rootfs::{HOSTNAME, Rootfs, SANDBOX_UID, WORKSPACE};

/// Where the guest is inside, apart from everything a program might use.
pub(crate) const GUEST: &str = "/.sandbox/guest";

/// The descriptors that bubblewrap itself reads and closes.
pub(crate) const ARGUMENTS_FD: i32 = 3;
pub(crate) const ALLOW_FD: i32 = 4;
pub(crate) const REFUSE_FD: i32 = 5;
pub(crate) const BOOT_ID_FD: i32 = 6;

/// A tmpfs of size 0 would have no limit at all.
const SMALLEST_TMPFS: u64 = 64 * 1024;

pub(crate) const ENVIRONMENT: [(&str, &str); 9] = [
    ("HOME", WORKSPACE),
    ("LANG", "C.UTF-8"),
    ("LOGNAME", "sandbox"),
    // Plots are drawn to files: there is no display.
    ("MPLBACKEND", "Agg"),
    ("MPLCONFIGDIR", "/tmp/.cache/matplotlib"),
    (
        "PATH",
        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    ),
    ("TMPDIR", "/tmp"),
    ("USER", "sandbox"),
    // Caches are no part of the workspace.
    ("XDG_CACHE_HOME", "/tmp/.cache"),
];

/// Arguments as bubblewrap reads them from a descriptor: each ends with a NUL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments(Vec<u8>);

impl Arguments {
    pub fn add<T: Into<OsString>>(&mut self, arguments: impl IntoIterator<Item = T>) {
        for argument in arguments {
            // A path of the file system has no NUL, so none can end here early.
            self.0.extend(argument.into().as_bytes());
            self.0.push(0);
        }
    }

    /// What every sandbox sees of the machine, and its temporary folders.
    pub fn add_root(&mut self, rootfs: &Rootfs, tmp: u64) {
        self.0.extend(rootfs.arguments.as_bytes());
        let tmp = tmp.max(SMALLEST_TMPFS).to_string();
        for path in ["/tmp", "/var/tmp", "/dev/shm"] {
            self.add(["--perms", "1777", "--size", &tmp, "--tmpfs", path]);
        }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The arguments of one sandbox.
pub(crate) fn arguments(
    rootfs: &Rootfs,
    workspace: &Path,
    guest: &Path,
    limits: &Limits,
) -> Arguments {
    let id = SANDBOX_UID.to_string();
    let mut all = Arguments::default();
    // Each namespace by name: the `--unshare-all` of bubblewrap does without the
    // cgroup and the user namespace where it cannot have them.
    all.add([
        "--unshare-user",
        "--unshare-pid",
        "--unshare-net",
        "--unshare-ipc",
    ]);
    all.add(["--unshare-uts", "--unshare-cgroup"]);
    all.add(["--uid", &id, "--gid", &id, "--hostname", HOSTNAME]);
    all.add(["--new-session", "--die-with-parent", "--as-pid-1"]);
    all.add(["--clearenv", "--cap-drop", "ALL"]);
    for (name, value) in ENVIRONMENT {
        all.add(["--setenv", name, value]);
    }
    all.add_root(rootfs, limits.tmp.bytes());
    // The host's boot id would tell which sandboxes share a machine.
    let boot_id = BOOT_ID_FD.to_string();
    all.add([
        "--ro-bind-data",
        &boot_id,
        "/proc/sys/kernel/random/boot_id",
    ]);
    all.add([OsString::from("--ro-bind"), guest.into(), GUEST.into()]);
    all.add([OsString::from("--bind"), workspace.into(), WORKSPACE.into()]);
    // Both are tmpfs without a size.
    all.add(["--remount-ro", "/dev", "--remount-ro", "/"]);
    all.add(["--chdir", WORKSPACE]);
    for fd in [ALLOW_FD, REFUSE_FD] {
        all.add(["--add-seccomp-fd", &fd.to_string()]);
    }
    all
}

/// The guest's command line, with the limits that no cgroup enforces.
pub(crate) fn guest_command(
    limits: &Limits,
    cgroup_memory: bool,
    cgroup_pids: bool,
    preload: Option<&[String]>,
    templates: bool,
) -> Vec<String> {
    let mut command: Vec<String> = [GUEST, "serve", "--workspace", WORKSPACE]
        .map(str::to_owned)
        .into();
    let mut limit = |option: &str, value: u64| command.extend([option.into(), value.to_string()]);
    limit("--disk-bytes", limits.disk.bytes());
    limit("--file-bytes", limits.disk.bytes());
    if !cgroup_pids {
        limit("--nproc", limits.pids.into());
    }
    if !cgroup_memory {
        limit("--data-bytes", limits.memory.bytes());
    }
    if let Some(modules) = preload {
        command.extend(["--python-preload".into(), modules.join(",")]);
    }
    if templates {
        command.push("--templates".into());
    }
    command
}

#[cfg(test)]
mod tests {
    use sandbox_core::ByteSize;

    use super::*;

    #[test]
    fn limits_without_a_cgroup_are_handed_to_the_guest() {
        let limits = Limits {
            memory: ByteSize(100),
            pids: 7,
            disk: ByteSize(200),
            ..Limits::default()
        };
        let serve =
            "/.sandbox/guest serve --workspace /workspace --disk-bytes 200 --file-bytes 200";
        assert_eq!(
            guest_command(&limits, true, true, None, false).join(" "),
            serve
        );
        assert_eq!(
            guest_command(&limits, false, false, Some(&["a".into(), "b".into()]), true).join(" "),
            format!("{serve} --nproc 7 --data-bytes 100 --python-preload a,b --templates")
        );
    }

    #[test]
    fn a_tmpfs_always_has_a_size() {
        let rootfs = Rootfs {
            arguments: Arguments::default(),
        };
        let limits = Limits {
            tmp: ByteSize(0),
            ..Limits::default()
        };
        let all = arguments(&rootfs, Path::new("/w"), Path::new("/g"), &limits);
        let text = String::from_utf8(all.as_bytes().to_vec()).unwrap();
        for path in ["/tmp", "/var/tmp", "/dev/shm"] {
            let sized = format!("--size\x0065536\0--tmpfs\0{path}\0");
            assert!(text.contains(&sized), "{path}");
        }
        assert!(!text.contains("--size\x000\0"));
    }
}
