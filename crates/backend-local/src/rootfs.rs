//! What a sandbox sees of the host, as bubblewrap's arguments.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::Path,
};

use sandbox_core::Limits;

use crate::LocalConfig;

/// Where the guest is in a sandbox.
const GUEST: &str = "/.sandbox/guest";
const WORKSPACE: &str = "/workspace";
const HOME_OF_CACHES: &str = "/tmp/.cache";

/// The small /etc of every sandbox.
const ETC: [(&str, &str); 4] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/usr/sbin/nologin\n\
         sandbox:x:1000:1000:sandbox:/workspace:/bin/bash\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    (
        "nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\n",
    ),
];

/// Of the host's /etc: what programs need to start, and no more.
const HOST_ETC: [&str; 12] = [
    "alternatives",
    "ca-certificates",
    "fonts",
    "java-17-openjdk",
    "java-21-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "mime.types",
    "perl",
    "R",
    "ssl/certs",
];

/// Of /proc: what tells about the host, or of it, and is not made for each namespace.
const HIDDEN_FILES: [&str; 8] = [
    "/proc/cmdline",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/version_signature",
];
const HIDDEN_FOLDERS: [&str; 4] = ["/proc/acpi", "/proc/asound", "/proc/driver", "/proc/scsi"];

/// The parts that are the same in every sandbox.
pub(crate) struct Rootfs {
    common: Vec<OsString>,
}

impl Rootfs {
    /// Writes our files under the state directory, and looks at what the host has.
    pub fn new(config: &LocalConfig) -> io::Result<Self> {
        let etc = config.state_dir.join("rootfs");
        fs::create_dir_all(&etc)?;
        fs::set_permissions(&etc, fs::Permissions::from_mode(0o755))?;
        for (name, text) in ETC {
            let path = etc.join(name);
            fs::write(&path, text)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444))?;
        }
        let mut args = Args::default();
        args.flags(&[
            "--unshare-user",
            "--unshare-ipc",
            "--unshare-pid",
            "--unshare-net",
            "--unshare-uts",
            "--unshare-cgroup-try",
            "--new-session",
            "--die-with-parent",
            "--as-pid-1",
            "--clearenv",
        ]);
        args.add("--uid", ["1000"]);
        args.add("--gid", ["1000"]);
        args.add("--cap-drop", ["ALL"]);
        args.add("--hostname", ["sandbox"]);
        args.add("--ro-bind", ["/usr", "/usr"]);
        for name in ["bin", "sbin", "lib", "lib32", "lib64", "libx32"] {
            let path = Path::new("/").join(name);
            match fs::read_link(&path) {
                Ok(target) => args.add("--symlink", [target.as_path(), &path]),
                Err(_) if path.is_dir() => args.add("--ro-bind", [&path, &path]),
                Err(_) => {}
            }
        }
        for (name, _) in ETC {
            let inside = Path::new("/etc").join(name);
            args.add("--ro-bind", [etc.join(name), inside]);
        }
        for name in HOST_ETC {
            let path = Path::new("/etc").join(name);
            args.add("--ro-bind-try", [&path, &path]);
        }
        for path in &config.read_only_paths {
            args.add("--ro-bind", [path, path]);
        }
        args.add("--proc", ["/proc"]);
        for path in HIDDEN_FILES {
            if Path::new(path).exists() {
                args.add("--ro-bind", ["/dev/null", path]);
            }
        }
        for path in HIDDEN_FOLDERS {
            if Path::new(path).is_dir() {
                args.add("--tmpfs", [path]);
                args.add("--remount-ro", [path]);
            }
        }
        args.add("--dev", ["/dev"]);
        args.add("--ro-bind", [config.guest.as_path(), Path::new(GUEST)]);
        for (name, value) in [
            ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"),
            ("HOME", WORKSPACE),
            ("USER", "sandbox"),
            ("LOGNAME", "sandbox"),
            ("LANG", "C.UTF-8"),
            ("TMPDIR", "/tmp"),
            ("XDG_CACHE_HOME", HOME_OF_CACHES),
            ("MPLCONFIGDIR", "/tmp/.cache/matplotlib"),
            ("MPLBACKEND", "Agg"),
        ] {
            args.add("--setenv", [name, value]);
        }
        Ok(Self { common: args.0 })
    }

    /// Every argument of one sandbox.
    pub fn arguments(
        &self,
        workspace: &Path,
        boot_id: i32,
        limits: &Limits,
        seccomp: &[i32],
        guest_flags: &[String],
    ) -> Vec<OsString> {
        let mut args = Args(self.common.clone());
        let size = limits.tmp.bytes().max(4096).to_string();
        for path in ["/tmp", "/var/tmp", "/dev/shm"] {
            args.add("--perms", ["1777"]);
            args.add("--size", [size.as_str()]);
            args.add("--tmpfs", [path]);
        }
        let boot_id = boot_id.to_string();
        args.add(
            "--ro-bind-data",
            [boot_id.as_str(), "/proc/sys/kernel/random/boot_id"],
        );
        args.add("--bind", [workspace, Path::new(WORKSPACE)]);
        // The root itself, and /dev, are tmpfs that nothing sizes.
        args.add("--remount-ro", ["/dev"]);
        args.add("--remount-ro", ["/"]);
        args.add("--chdir", [WORKSPACE]);
        for fd in seccomp {
            args.add("--add-seccomp-fd", [fd.to_string()]);
        }
        args.flags(&["--", GUEST, "serve", "--workspace", WORKSPACE]);
        args.0.extend(guest_flags.iter().map(OsString::from));
        args.0
    }
}

#[derive(Default)]
struct Args(Vec<OsString>);

impl Args {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }

    fn add<const N: usize>(&mut self, option: &str, values: [impl Into<OsString>; N]) {
        self.0.push(option.into());
        self.0.extend(values.map(Into::into));
    }
}
