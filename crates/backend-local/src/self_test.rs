//! Trying to break out of throwaway sandboxes, before others are let in.
//!
//! The sandboxes are made by the same code as any other. Each check tries the thing
//! itself from the inside; none looks at the settings that should prevent it.

use std::{
    collections::BTreeMap, fs, net::TcpListener, os::unix::fs::PermissionsExt as _, path::PathBuf,
    time::Duration,
};

use guest_client::messages::WriteRequest;
use sandbox_backend::{Backend as _, Place as _, Problem};
use sandbox_core::{
    ByteSize, Error, Limits, Program, Result, RunOutcome, RunRequest, SandboxId, SandboxSpec, chain,
};

use crate::{LocalBackend, bwrap, place::LocalPlace, state::reach_problems};

/// Ids that no session can have by chance.
const FIRST: &str = "5e1f7e5700000000000000000000000a";
const SECOND: &str = "5e1f7e5700000000000000000000000b";
const SECRET: &str = "another sandbox's secret";
const SECRET_FILE: &str = "secret-of-the-second";
const RUN_LIMIT: Duration = Duration::from_secs(20);
const MEMORY: ByteSize = ByteSize::mib(64);
/// Four times what it may have.
const TOO_MUCH: &str = "bs=256M";

pub(crate) fn is_own(id: &SandboxId) -> bool {
    [FIRST, SECOND].contains(&id.as_str())
}

/// Runs all checks; what cannot even be started is one problem.
pub(crate) async fn run(backend: &LocalBackend) -> Vec<Problem> {
    let mut problems = Vec::new();
    match bwrap::find(&backend.config.bwrap) {
        Err(problem) => problems.push(problem),
        Ok(found) => problems.extend(bwrap::check_options(&found).err()),
    }
    if backend.changes_user() {
        problems.extend(reach_problems(&backend.state, &backend.config.guest));
    }
    if !problems.is_empty() {
        return problems;
    }
    match with_sandboxes(backend).await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!("the self-test did not end: {}", chain(&error));
            vec![Problem::new(
                "a sandbox for the self-test cannot be made or used",
                "run `sandboxd doctor` on this machine; the log has the cause",
            )]
        }
    }
}

async fn with_sandboxes(backend: &LocalBackend) -> Result<Vec<Problem>> {
    let ids: [SandboxId; 2] = [FIRST.parse()?, SECOND.parse()?];
    // A service that was killed may have left them.
    for id in &ids {
        backend.remove(id).await?;
    }
    let checked = async {
        let first = backend.start(&ids[0], &spec()).await?;
        let second = backend.start(&ids[1], &spec()).await;
        let checked = match &second {
            Ok(second) => check_all(backend, &first, second).await,
            Err(_) => Ok(Vec::new()),
        };
        first.stop().await?;
        second?.stop().await?;
        checked
    }
    .await;
    for id in &ids {
        backend.remove(id).await?;
    }
    checked
}

fn spec() -> SandboxSpec {
    SandboxSpec {
        limits: Limits {
            memory: MEMORY,
            cpus: 1.0,
            pids: 64,
            disk: ByteSize::mib(16),
            tmp: ByteSize::mib(1),
        },
        ..SandboxSpec::default()
    }
}

async fn check_all(
    backend: &LocalBackend,
    first: &LocalPlace,
    second: &LocalPlace,
) -> Result<Vec<Problem>> {
    works(first).await?;
    let mut problems = Vec::new();
    problems.extend(network(first).await?);
    problems.extend(host_file(backend, first).await?);
    problems.extend(other_sandbox(backend, first, second).await?);
    problems.extend(proc_sys(first).await?);
    // Last, for it may cost the sandbox.
    problems.extend(memory(backend, first).await?);
    Ok(problems)
}

/// Otherwise a denial would only mean that nothing works.
async fn works(place: &LocalPlace) -> Result<()> {
    let outcome = sh(place, "echo works && cat /etc/hostname", &[]).await?;
    match (outcome.exit_code, outcome.stdout.to_text().as_str()) {
        (0, "works\nsandbox\n") => Ok(()),
        _ => Err(Error::internal(format!(
            "a shell in the sandbox ended with {}: `{}`",
            outcome.exit_code,
            outcome.stderr.to_text()
        ))),
    }
}

async fn network(place: &LocalPlace) -> Result<Option<Problem>> {
    // A port of the host's loopback, as this service has one.
    let listener = TcpListener::bind("127.0.0.1:0").map_err(Error::internal)?;
    listener.set_nonblocking(true).map_err(Error::internal)?;
    let port = listener.local_addr().map_err(Error::internal)?.port();
    // Connecting needs bash; the list of interfaces needs nothing.
    let script = format!(
        "bash -c ': < /dev/tcp/127.0.0.1/{port}' 2>/dev/null && echo connected; \
         while read -r name rest; do case $name in lo:*|Inter-*|face) ;; *) echo $name;; esac; \
         done < /proc/net/dev"
    );
    let outcome = sh(place, &script, &[]).await?;
    let reached = listener.accept().is_ok();
    if !reached && outcome.exit_code == 0 && outcome.stdout.is_empty() {
        return Ok(None);
    }
    Ok(Some(Problem::new(
        "a sandbox reaches the network",
        "the kernel must support network namespaces (CONFIG_NET_NS), and bwrap must be an \
         unchanged bubblewrap; `sandboxd doctor` tries both",
    )))
}

async fn host_file(backend: &LocalBackend, place: &LocalPlace) -> Result<Option<Problem>> {
    let probe = backend.state.root.join("self-test-probe");
    fs::write(&probe, SECRET)
        .and_then(|()| fs::set_permissions(&probe, fs::Permissions::from_mode(0o644)))
        .map_err(Error::internal)?;
    let denied = cannot_read(
        place,
        &[probe.clone(), "/etc/shadow".into(), "/root".into()],
    )
    .await;
    let _ = fs::remove_file(&probe);
    Ok((!denied?).then(|| {
        Problem::new(
            "a sandbox reads the host's files",
            "see that bwrap is an unchanged bubblewrap and read_only_paths names only folders \
             that everybody may read",
        )
    }))
}

async fn other_sandbox(
    backend: &LocalBackend,
    first: &LocalPlace,
    second: &LocalPlace,
) -> Result<Option<Problem>> {
    let write = WriteRequest {
        path: SECRET_FILE.into(),
        data: SECRET.into(),
        ..WriteRequest::default()
    };
    second.guest().write(write).await?;
    let outside = backend.state.workspaces.join(SECOND).join(SECRET_FILE);
    if !outside.exists() {
        return Err(Error::internal(
            "the second sandbox's file is not where it should be",
        ));
    }
    let inside = PathBuf::from("/workspace").join(SECRET_FILE);
    let denied = cannot_read(first, &[outside, inside]).await?;
    Ok((!denied).then(|| {
        Problem::new(
            "a sandbox reads another sandbox's files",
            "state_dir must not be inside a folder that sandboxes see, such as those of \
             read_only_paths",
        )
    }))
}

async fn cannot_read(place: &LocalPlace, paths: &[PathBuf]) -> Result<bool> {
    let paths: Vec<&str> = paths.iter().filter_map(|path| path.to_str()).collect();
    let script = "for path; do if [ -e \"$path\" ] || cat \"$path\"; then echo found; fi; done";
    let outcome = sh(place, script, &paths).await?;
    Ok(outcome.exit_code == 0 && outcome.stdout.is_empty())
}

async fn proc_sys(place: &LocalPlace) -> Result<Option<Problem>> {
    // Opened for writing, but nothing is written: core_pattern is the host's root.
    let script = "for name in kernel/core_pattern kernel/modprobe vm/overcommit_memory; do \
                  if (: >> /proc/sys/$name) 2>/dev/null; then echo $name; fi; done";
    let outcome = sh(place, script, &[]).await?;
    let denied = outcome.exit_code == 0 && outcome.stdout.is_empty();
    Ok((!denied).then(|| {
        Problem::new(
            "a sandbox may write to /proc/sys",
            "the sandbox's processes must not be the host's root: start the service as root or \
             as an ordinary user in the host's user namespace, and see that uid_range is unused",
        )
    }))
}

/// One process takes more than the sandbox may have. Where only an rlimit holds,
/// that is all that is promised, and all that is tried; `enforcement` says so.
async fn memory(backend: &LocalBackend, place: &LocalPlace) -> Result<Option<Problem>> {
    let kills_before = place.oom_kills();
    let argv = ["dd", "if=/dev/zero", "of=/dev/null", TOO_MUCH, "count=1"];
    let outcome = run_argv(place, argv.map(str::to_owned).into()).await;
    let ended_by_limit = match outcome {
        // The kernel may have taken the whole sandbox.
        Err(_) => place.oom_kills() > kills_before,
        Ok(outcome) if backend.cgroups().limits_memory() => {
            outcome.exit_code != 0
                && (place.oom_kills().is_none() || place.oom_kills() > kills_before)
        }
        Ok(outcome) => outcome.exit_code != 0,
    };
    Ok((!ended_by_limit).then(|| {
        let by = backend.enforcement()["memory"];
        Problem::new(
            format!("a sandbox takes more memory than its limit ({by})"),
            "give the service a cgroup of its own: with systemd, Delegate=yes in its unit or \
             `systemd-run --user --scope -p Delegate=yes`; or start it as root",
        )
    }))
}

async fn sh(place: &LocalPlace, script: &str, arguments: &[&str]) -> Result<RunOutcome> {
    let command = ["/bin/sh", "-c", script, "sh"];
    let argv = command.iter().chain(arguments).map(|word| word.to_string());
    run_argv(place, argv.collect()).await
}

async fn run_argv(place: &LocalPlace, argv: Vec<String>) -> Result<RunOutcome> {
    let request = RunRequest {
        program: Program { argv, script: None },
        env: BTreeMap::new(),
        cwd: None,
        stdin: Default::default(),
        timeout: RUN_LIMIT,
        output_limit: 64 * 1024,
        live: false,
        spill_limit: 0,
        artifacts: None,
        python_display: false,
        context: None,
    };
    place.guest().run(request).await?.collect().await
}
