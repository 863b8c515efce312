//! What this machine can isolate, each thing tried or read, for `sandboxd doctor`.

mod docker;
mod namespaces;
mod whole;

use std::{fs, path::Path};

use sandbox_backend::Problem;
use serde::Serialize;

use sandbox_core::chain;

use crate::{
    LocalConfig, bwrap,
    cgroup::Cgroups,
    state::{StateDir, reach_problems},
};

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub name: String,
    pub ok: bool,
    pub detail: String,
    pub fix: Option<String>,
}

impl Finding {
    fn ok(name: &str, detail: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            ok: true,
            detail: detail.into(),
            fix: None,
        }
    }

    fn missing(name: &str, detail: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            ok: false,
            detail: detail.into(),
            fix: Some(fix.into()),
        }
    }

    fn problem(name: &str, problem: Problem) -> Self {
        Self::missing(name, problem.what, problem.fix)
    }
}

/// Looks at the machine. Starts throwaway processes, and blocks until they ended.
pub fn diagnose(config: &LocalConfig) -> Vec<Finding> {
    let mut findings = Vec::new();
    let is_root = rustix::process::geteuid().is_root();
    let bwrap = bwrap::find(&config.bwrap);
    match &bwrap {
        Err(problem) => findings.push(Finding::problem("bubblewrap", problem.clone())),
        Ok(found) => {
            let version = bwrap::version(found).unwrap_or_else(|| "unknown version".into());
            findings.push(match bwrap::check_options(found) {
                Ok(()) => Finding::ok("bubblewrap", format!("{version} at {}", found.display())),
                Err(problem) => Finding::problem("bubblewrap", problem),
            });
        }
    }
    findings.extend(kernel_switches(Path::new("/proc/sys")));
    let user = is_root.then_some(*config.uid_range.start());
    match &bwrap {
        Ok(bwrap) => findings.extend(namespaces::try_each(bwrap, user)),
        Err(_) => findings.extend(namespaces::look_only()),
    }
    findings.push(seccomp());
    findings.extend(cgroups());
    findings.extend(state_dir(config, is_root));
    if bwrap.is_ok() {
        findings.push(whole::try_sandbox(config));
    }
    findings.push(docker::reach());
    findings
}

/// Switches by which distributions turn off what bubblewrap needs.
fn kernel_switches(sysctl: &Path) -> Vec<Finding> {
    let read = |name: &str| {
        let text = fs::read_to_string(sysctl.join(name.replace('.', "/"))).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let mut findings = Vec::new();
    let name = "kernel.apparmor_restrict_unprivileged_userns";
    match read(name) {
        Some(1)
            if !Path::new("/etc/apparmor.d/bwrap").exists()
                && !Path::new("/etc/apparmor.d/bwrap-userns-restrict").exists() =>
        {
            findings.push(Finding::missing(
                name,
                "1: Ubuntu's AppArmor takes the capabilities of user namespaces from programs \
                 without a profile, and bwrap has none",
                "give bwrap a profile: write `abi <abi/4.0>, include <tunables/global> profile \
                 bwrap /usr/bin/bwrap flags=(unconfined) { userns, }` to /etc/apparmor.d/bwrap \
                 and run `apparmor_parser -r /etc/apparmor.d/bwrap`; or switch the limit off for \
                 all programs with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`",
            ));
        }
        Some(1) => findings.push(Finding::ok(name, "1, and bwrap has an AppArmor profile")),
        Some(_) => findings.push(Finding::ok(name, "0: not restricted")),
        None => {}
    }
    let name = "kernel.unprivileged_userns_clone";
    match read(name) {
        Some(0) => findings.push(Finding::missing(
            name,
            "0: only root may make user namespaces",
            "sysctl -w kernel.unprivileged_userns_clone=1, and the same line in /etc/sysctl.d/",
        )),
        Some(_) => findings.push(Finding::ok(name, "1: allowed")),
        None => {}
    }
    let name = "user.max_user_namespaces";
    match read(name) {
        Some(0) => findings.push(Finding::missing(
            name,
            "0: there are no user namespaces",
            "sysctl -w user.max_user_namespaces=15000, and the same line in /etc/sysctl.d/",
        )),
        Some(most) => findings.push(Finding::ok(name, most.to_string())),
        None => {}
    }
    findings
}

fn seccomp() -> Finding {
    match fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail") {
        Ok(actions) if actions.split_whitespace().any(|action| action == "errno") => {
            Finding::ok("seccomp", "filters are available")
        }
        _ => Finding::missing(
            "seccomp",
            "the kernel has no system call filters",
            "use a kernel with CONFIG_SECCOMP_FILTER, as all distributions have it",
        ),
    }
}

fn cgroups() -> Vec<Finding> {
    let cgroups = Cgroups::set_up();
    let enforcement = cgroups.enforcement();
    ["memory", "cpus", "pids"]
        .map(|limit| {
            let name = format!("limit of {limit}");
            let by = enforcement.get(limit).copied().unwrap_or("none");
            if by.starts_with("cgroup") {
                return Finding::ok(&name, by);
            }
            Finding::missing(
                &name,
                format!("{by}: there is no cgroup that this user may use for it"),
                "delegate a cgroup v2 to the service: Delegate=yes in its systemd unit, or start \
                 it with `systemd-run --user --scope -p Delegate=yes`; or start it as root",
            )
        })
        .into()
}

fn state_dir(config: &LocalConfig, is_root: bool) -> Vec<Finding> {
    let name = "state directory";
    let state = match StateDir::open(&config.state_dir) {
        Ok(state) => state,
        Err(error) => {
            return vec![Finding::missing(
                name,
                chain(&error),
                "set state_dir (SANDBOX_STATE_DIR) to a directory that the service may write to",
            )];
        }
    };
    let problems = match is_root {
        true => reach_problems(&state, &config.guest),
        false => Vec::new(),
    };
    if problems.is_empty() {
        return vec![Finding::ok(name, state.root.display().to_string())];
    }
    let finding = |problem| Finding::problem(name, problem);
    problems.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switches(values: &[(&str, &str)]) -> Vec<(String, bool)> {
        let dir = tempfile::tempdir().unwrap();
        for (name, value) in values {
            let path = dir.path().join(name.replace('.', "/"));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
        kernel_switches(dir.path())
            .into_iter()
            .map(|finding| {
                assert_eq!(finding.ok, finding.fix.is_none());
                (finding.name, finding.ok)
            })
            .collect()
    }

    #[test]
    fn each_switch_of_a_distribution_is_recognised() {
        let apparmor = "kernel.apparmor_restrict_unprivileged_userns";
        let clone = "kernel.unprivileged_userns_clone";
        let most = "user.max_user_namespaces";
        assert_eq!(switches(&[]), []);
        assert_eq!(
            switches(&[(apparmor, "0"), (clone, "1"), (most, "100")]),
            [apparmor, clone, most].map(|name| (name.to_owned(), true))
        );
        let has_profile = Path::new("/etc/apparmor.d/bwrap").exists()
            || Path::new("/etc/apparmor.d/bwrap-userns-restrict").exists();
        assert_eq!(
            switches(&[(apparmor, "1"), (clone, "0"), (most, "0")]),
            [(apparmor, has_profile), (clone, false), (most, false)]
                .map(|(name, ok)| (name.to_owned(), ok))
        );
    }
}
