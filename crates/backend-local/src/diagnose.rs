//! What this machine can isolate: each thing tried for real.

use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use sandbox_backend::Problem;

use crate::{
    LocalConfig,
    cgroup::{Cgroups, Controller, Version},
};

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct Finding {
    pub name: &'static str,
    pub ok: bool,
    pub detail: String,
    pub fix: Option<String>,
}

impl Finding {
    fn ok(name: &'static str, detail: impl Into<String>) -> Self {
        Self {
            name,
            ok: true,
            detail: detail.into(),
            fix: None,
        }
    }

    fn missing(name: &'static str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name,
            ok: false,
            detail: detail.into(),
            fix: Some(fix.into()),
        }
    }
}

pub fn diagnose(config: &LocalConfig) -> Vec<Finding> {
    let mut findings = vec![bwrap(&config.bwrap)];
    findings.extend(namespaces(&config.bwrap));
    findings.extend(sysctls());
    findings.push(seccomp());
    findings.extend(cgroups());
    findings.push(python());
    findings.push(docker());
    findings
}

const INSTALL: &str = "apt-get install bubblewrap";

fn bwrap(program: &Path) -> Finding {
    match version(program) {
        None => Finding::missing("bubblewrap", "not installed", INSTALL),
        Some(version) => match bwrap_problem(program) {
            None => Finding::ok("bubblewrap", format!("{version}, works")),
            Some(problem) => Finding::missing("bubblewrap", format!("{version}: {}", problem.what), problem.fix),
        },
    }
}

fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs bubblewrap with the flags that sandboxes need.
pub(crate) fn bwrap_problem(program: &Path) -> Option<Problem> {
    let tried = try_bwrap(
        program,
        &["--unshare-user", "--unshare-pid", "--unshare-net", "--as-pid-1", "--size", "4096", "--tmpfs", "/tmp"],
    );
    match tried {
        Ok(()) => None,
        Err(complaint) if complaint.contains("Unknown option") => Some(Problem::new(
            format!("bubblewrap is too old: {complaint}"),
            "install bubblewrap 0.8 or later",
        )),
        Err(complaint) if apparmor_restricts() => Some(Problem::new(
            format!("AppArmor keeps bubblewrap from making user namespaces: {complaint}"),
            APPARMOR_FIX,
        )),
        Err(complaint) if complaint.contains("No such file") => {
            Some(Problem::new(format!("bubblewrap cannot be run: {complaint}"), INSTALL))
        }
        Err(complaint) => Some(Problem::new(
            format!("bubblewrap does not work: {complaint}"),
            "run `sandboxd doctor`; in a container, allow user namespaces and an unmasked /proc",
        )),
    }
}

fn try_bwrap(program: &Path, flags: &[&str]) -> Result<(), String> {
    let output = Command::new(program)
        .args(flags)
        .args(["--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "--", "/bin/true"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().chars().take(300).collect())
    }
}

fn namespaces(program: &Path) -> Vec<Finding> {
    [
        ("user namespace", "--unshare-user"),
        ("pid namespace", "--unshare-pid"),
        ("network namespace", "--unshare-net"),
        ("ipc namespace", "--unshare-ipc"),
        ("uts namespace", "--unshare-uts"),
        ("cgroup namespace", "--unshare-cgroup"),
    ]
    .map(|(name, flag)| match try_bwrap(program, &[flag]) {
        Ok(()) => Finding::ok(name, "works"),
        Err(complaint) => Finding::missing(
            name,
            complaint,
            "the kernel, or the container that this runs in, must allow it",
        ),
    })
    .into()
}

const APPARMOR: &str = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns";
const APPARMOR_FIX: &str = "give bubblewrap an AppArmor profile that allows `userns` \
    (Ubuntu: apt-get install apparmor-profiles, then ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict \
    /etc/apparmor.d/ and apparmor_parser -r it), or: sysctl kernel.apparmor_restrict_unprivileged_userns=0";

fn read_sysctl(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn apparmor_restricts() -> bool {
    read_sysctl(APPARMOR).as_deref() == Some("1")
}

fn sysctls() -> Vec<Finding> {
    let mut findings = Vec::new();
    if apparmor_restricts() {
        findings.push(Finding {
            name: "AppArmor",
            ok: rustix::process::geteuid().is_root(),
            detail: "user namespaces are limited to programs with a profile".into(),
            fix: Some(APPARMOR_FIX.into()),
        });
    }
    if read_sysctl("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
        findings.push(Finding::missing(
            "unprivileged user namespaces",
            "switched off",
            "sysctl kernel.unprivileged_userns_clone=1",
        ));
    }
    if read_sysctl("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
        findings.push(Finding::missing(
            "user namespaces",
            "none is allowed",
            "sysctl user.max_user_namespaces=10000",
        ));
    }
    findings
}

fn seccomp() -> Finding {
    let actions = read_sysctl("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    if actions.split(' ').any(|action| action == "errno") {
        Finding::ok("seccomp", "filters work")
    } else {
        Finding::missing("seccomp", "the kernel has no filters", "use a kernel with CONFIG_SECCOMP_FILTER")
    }
}

fn cgroups() -> Vec<Finding> {
    let cgroups = Cgroups::find();
    let findings = [
        ("memory limit", Controller::Memory, "rlimits, on each process for itself"),
        ("process limit", Controller::Pids, "an rlimit"),
        ("processor limit", Controller::Cpu, "nothing"),
    ]
    .map(|(name, controller, otherwise)| match cgroups.version(controller) {
        Some(Version::V2) => Finding::ok(name, "cgroup v2"),
        Some(Version::V1) => Finding::ok(name, "cgroup v1"),
        None => Finding::missing(
            name,
            format!("no control group can be used; enforced by {otherwise}"),
            "start the service in a delegated cgroup: systemd-run --user --scope -p Delegate=yes sandboxd serve, or Delegate=yes in its unit",
        ),
    });
    cgroups.remove();
    findings.into()
}

fn python() -> Finding {
    if Path::new("/usr/bin/python3").exists() || Path::new("/usr/local/bin/python3").exists() {
        Finding::ok("python3", "under /usr, where sandboxes see it")
    } else {
        Finding::missing("python3", "not under /usr", "apt-get install python3")
    }
}

/// For information: local sandboxes do not need it.
fn docker() -> Finding {
    let host = std::env::var("DOCKER_HOST").unwrap_or_default();
    let socket = PathBuf::from(host.strip_prefix("unix://").unwrap_or("/var/run/docker.sock"));
    let detail = match ping(&socket) {
        true => "reachable (local sandboxes do not need it)",
        false => "not reachable (local sandboxes do not need it)",
    };
    Finding::ok("docker", detail)
}

fn ping(socket: &Path) -> bool {
    let asked = || -> std::io::Result<bool> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.write_all(b"GET /_ping HTTP/1.0\r\n\r\n")?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b"200"))
    };
    asked().unwrap_or(false)
}
