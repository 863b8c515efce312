//! What every sandbox of this service sees of the machine, made once.
//!
//! `/etc` is a directory of our own with a few files in it, copies of the host's small
//! files that programs need, and mount points for the rest of what they need; nothing
//! else of the host's `/etc` is there.

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use crate::{
    arguments::Arguments,
    error::{Context as _, Failure, Result},
    state::{StateDir, make_dir},
};

/// User and group in a sandbox, whatever they are outside.
pub(crate) const SANDBOX_UID: u32 = 1000;
pub(crate) const HOSTNAME: &str = "sandbox";
pub(crate) const WORKSPACE: &str = "/workspace";

const ETC_FILES: [(&str, &str); 5] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/usr/sbin/nologin\n\
         sandbox:x:1000:1000:sandbox:/workspace:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
    ("hostname", "sandbox\n"),
    (
        "nsswitch.conf",
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nnetworks: files\n\
         protocols: files\nservices: files\n",
    ),
];

const ETC_LINKS: [(&str, &str); 2] = [
    ("os-release", "../usr/lib/os-release"),
    ("mtab", "../proc/self/mounts"),
];

/// Of the host, where they exist. Nothing with a secret: no /etc/ssl/private, no
/// configuration of pip or npm, which may hold a registry's password.
#[rustfmt::skip]
const HOST_ETC: &[&str] = &[
    "R", "alternatives", "fonts", "inputrc", "ld.so.cache", "localtime", "magic", "matplotlibrc",
    "mime.types", "perl", "pki/ca-trust/extracted", "pki/tls/certs", "protocols", "services", "ssl/certs",
    "ssl/openssl.cnf", "timezone",
];

/// Changes with the host's libraries, so sandboxes must see the file itself.
const NEVER_COPIED: &str = "ld.so.cache";
/// Smaller files are copied once: each mount costs every start a tenth of a millisecond.
const LARGEST_COPY: u64 = 256 * 1024;

/// `java-17-openjdk`, `python3.11` and the like, by their beginning.
const HOST_ETC_PREFIXES: [&str; 2] = ["java", "python3"];

const TOP_DIRS: [&str; 6] = ["bin", "lib", "lib32", "lib64", "libx32", "sbin"];

/// What /proc tells about the whole machine rather than about the sandbox. Masked
/// where it exists and is not root's alone.
#[rustfmt::skip]
const MASKED_PROC: &[&str] = &[
    "acpi", "asound", "bus", "cmdline", "diskstats", "driver", "fs", "interrupts", "irq", "kcore",
    "key-users", "keys", "latency_stats", "partitions", "sched_debug", "scsi", "swaps",
    "sysrq-trigger", "timer_list", "timer_stats",
];

/// The part of bubblewrap's arguments that is the same for every sandbox.
pub(crate) struct Rootfs {
    /// Mounts the root, /etc, /proc and /dev.
    pub arguments: Arguments,
}

impl Rootfs {
    /// Writes what is missing in the state directory, and looks at the host.
    pub fn make(state: &StateDir, read_only_paths: &[PathBuf]) -> Result<Self> {
        check_state_dir(&state.root)?;
        let own = Own::make(&state.rootfs)?;
        let mut arguments = Arguments::default();
        arguments.add(["--ro-bind", "/usr", "/usr"]);
        for name in TOP_DIRS {
            bind_top_dir(&mut arguments, name);
        }
        bind(&mut arguments, "--ro-bind", &own.etc, Path::new("/etc"));
        for host in &own.host_etc {
            bind(&mut arguments, "--ro-bind-try", host, host);
        }
        for path in read_only_paths {
            check_read_only_path(path, &state.root)?;
            bind(&mut arguments, "--ro-bind", path, path);
        }
        arguments.add(["--dir", "/run", "--dir", "/var"]);
        arguments.add(["--proc", "/proc", "--dev", "/dev"]);
        // A sandbox's IPC and PID namespaces are its own, and so are their settings;
        // which of them are, depends on the kernel. It needs none.
        arguments.add(["--ro-bind", "/proc/sys", "/proc/sys"]);
        for name in MASKED_PROC {
            let path = Path::new("/proc").join(name);
            if let Ok(found) = fs::metadata(&path)
                && found.permissions().mode() & 0o006 != 0
            {
                let mask = if found.is_dir() {
                    &own.nothing
                } else {
                    &own.empty
                };
                bind(&mut arguments, "--ro-bind", mask, &path);
            }
        }
        Ok(Self { arguments })
    }
}

fn bind(arguments: &mut Arguments, option: &str, from: &Path, to: &Path) {
    arguments.add([OsString::from(option), from.into(), to.into()]);
}

/// A link where the host has one, for then it points into /usr.
fn bind_top_dir(arguments: &mut Arguments, name: &str) {
    let path = Path::new("/").join(name);
    if let Ok(target) = fs::read_link(&path) {
        bind(arguments, "--symlink", &target, &path);
    } else if path.is_dir() {
        bind(arguments, "--ro-bind", &path, &path);
    }
}

/// Refuses a state directory in a place that sandboxes see.
fn check_state_dir(state: &Path) -> Result<()> {
    let seen = TOP_DIRS.map(|name| Path::new("/").join(name));
    let mut seen = seen.iter().filter_map(|path| path.canonicalize().ok());
    if state.starts_with("/usr") || seen.any(|dir| state.starts_with(dir)) {
        return Err(Failure::new(
            "state_dir is inside a folder that every sandbox sees",
        ));
    }
    Ok(())
}

/// Refuses what would undo the sandbox.
fn check_read_only_path(path: &Path, state: &Path) -> Result<()> {
    const OURS: [&str; 8] = [
        "/.sandbox",
        "/dev",
        "/etc",
        "/proc",
        "/run",
        "/sys",
        "/tmp",
        WORKSPACE,
    ];
    let bad = if !path.is_absolute() || path.components().count() < 2 {
        "is no absolute path below /"
    } else if path.components().any(|part| part.as_os_str() == "..") {
        "has `..` in it"
    } else if OURS.iter().any(|own| path.starts_with(own)) {
        "is a place that each sandbox has of its own"
    } else {
        match path.canonicalize() {
            Err(_) => "does not exist",
            Ok(real) if real.starts_with(state) || state.starts_with(&real) => {
                "shows the state directory, so other sandboxes' files"
            }
            Ok(_) => return Ok(()),
        }
    };
    Err(Failure::new(format!(
        "read_only_paths: `{}` {bad}",
        path.display()
    )))
}

/// The service's own files that sandboxes see.
struct Own {
    etc: PathBuf,
    /// Paths of the host that `etc` has a mount point for.
    host_etc: Vec<PathBuf>,
    empty: PathBuf,
    nothing: PathBuf,
}

impl Own {
    /// Adds and never removes: sandboxes may be looking at it.
    fn make(dir: &Path) -> Result<Self> {
        let etc = dir.join("etc");
        make_dir(&etc, 0o755)?;
        for (name, content) in ETC_FILES {
            write_file(&etc.join(name), content.as_bytes())?;
        }
        for (name, target) in ETC_LINKS {
            match symlink(target, etc.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(error).context(|| format!("failed to make `{name}`"));
                }
                _ => {}
            }
        }
        let mut host_etc = Vec::new();
        for name in host_etc_names() {
            let host = Path::new("/etc").join(&name);
            let Ok(found) = fs::metadata(&host) else {
                continue;
            };
            for parent in Path::new(&name).ancestors().skip(1) {
                make_dir(&etc.join(parent), 0o755)?;
            }
            if found.is_dir() {
                make_dir(&etc.join(&name), 0o755)?;
                host_etc.push(host);
            } else if found.len() <= LARGEST_COPY && name != NEVER_COPIED {
                let content =
                    fs::read(&host).context(|| format!("failed to read `{}`", host.display()))?;
                write_file(&etc.join(&name), &content)?;
            } else {
                write_file(&etc.join(&name), b"")?;
                host_etc.push(host);
            }
        }
        let own = Self {
            etc,
            host_etc,
            empty: dir.join("empty"),
            nothing: dir.join("nothing"),
        };
        write_file(&own.empty, b"")?;
        make_dir(&own.nothing, 0o555)?;
        Ok(own)
    }
}

fn host_etc_names() -> Vec<String> {
    let mut names: Vec<String> = HOST_ETC.iter().map(|name| name.to_string()).collect();
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        if let Ok(name) = entry.file_name().into_string()
            && HOST_ETC_PREFIXES
                .iter()
                .any(|prefix| name.starts_with(prefix))
        {
            names.push(name);
        }
    }
    names.sort_unstable();
    names
}

/// Writes a file that everybody may read, unless it is what it should be.
fn write_file(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|found| found == content) {
        return Ok(());
    }
    let fresh = path.with_extension("new");
    fs::write(&fresh, content)
        .and_then(|()| fs::set_permissions(&fresh, fs::Permissions::from_mode(0o644)))
        .and_then(|()| fs::rename(&fresh, path))
        .context(|| format!("failed to write `{}`", path.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    #[test]
    fn the_root_is_made_again_without_a_change() {
        let top = tempfile::tempdir().unwrap();
        let state = StateDir::open(&top.path().join("state")).unwrap();
        let first = Rootfs::make(&state, &[]).unwrap();
        let etc = state.rootfs.join("etc");
        let inode = |name: &str| fs::metadata(etc.join(name)).unwrap().ino();
        let before = (inode("passwd"), inode("alternatives"));
        let again = Rootfs::make(&state, &[]).unwrap();
        assert_eq!((inode("passwd"), inode("alternatives")), before);
        assert_eq!(first.arguments, again.arguments);
    }

    #[test]
    fn a_read_only_path_may_not_undo_the_sandbox() {
        let top = tempfile::tempdir().unwrap();
        let state = top.path().canonicalize().unwrap().join("state");
        let check = |path: &str| check_read_only_path(Path::new(path), &state);
        for bad in [
            "/",
            "opt",
            "/opt/../etc",
            "/etc",
            "/etc/shadow",
            "/proc",
            "/dev/shm",
            "/tmp/x",
            "/workspace",
            "/no/such/folder",
        ] {
            assert!(check(bad).is_err(), "{bad}");
        }
        let opt = Path::new("/opt");
        assert!(check_read_only_path(opt, Path::new("/opt/state")).is_err());
        assert!(check_read_only_path(Path::new("/usr/share"), Path::new("/usr")).is_err());
        assert!(check("/usr/share").is_ok());
        assert!(check("/opt").is_ok());
    }

    #[test]
    fn a_state_directory_that_sandboxes_would_see_is_refused() {
        assert!(check_state_dir(Path::new("/usr/local/state")).is_err());
        assert!(check_state_dir(Path::new("/var/lib/sandboxd")).is_ok());
    }
}
