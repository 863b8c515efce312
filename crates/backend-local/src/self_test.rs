//! Throwaway sandboxes that try to get out.

use std::time::Duration;

use bytes::Bytes;
use sandbox_backend::{Backend as _, Place, Problem};
use sandbox_core::{
    ByteSize, Limits, Program, Result, RunOutcome, RunRequest, SandboxSpec, SessionKey,
};

use crate::{LocalBackend, cgroup::Controller};

const RUN_LIMIT: Duration = Duration::from_secs(20);
const MEMORY: ByteSize = ByteSize::mib(48);

/// What one test does in a sandbox; it prints `held` when it could not get out.
struct Escape {
    what: &'static str,
    fix: &'static str,
    command: String,
}

pub(crate) async fn run(backend: &LocalBackend) -> Vec<Problem> {
    match try_all(backend).await {
        Ok(problems) => problems,
        Err(error) => vec![Problem::new(
            format!(
                "a sandbox could not be tried: {error}{}",
                std::error::Error::source(&error)
                    .map(|source| format!(" ({source})"))
                    .unwrap_or_default()
            ),
            "run `sandboxd doctor`",
        )],
    }
}

async fn try_all(backend: &LocalBackend) -> Result<Vec<Problem>> {
    let key = |name: &str| -> Result<_> {
        // A tenant cannot have this name: theirs do not start with a dot.
        Ok(SessionKey::new("self-test".parse()?, name.parse()?).sandbox_id())
    };
    let (first, second) = (key("first")?, key("second")?);
    let spec = SandboxSpec {
        limits: Limits {
            memory: MEMORY,
            ..Limits::default()
        },
        ..SandboxSpec::default()
    };
    let other = backend.create(&second, &spec).await?;
    let tried = match backend.create(&first, &spec).await {
        Ok(place) => {
            let tried = try_in(backend, place.as_ref(), second.as_str()).await;
            place.stop().await?;
            tried
        }
        Err(error) => Err(error),
    };
    other.stop().await?;
    backend.remove(&first).await?;
    backend.remove(&second).await?;
    tried
}

async fn try_in(backend: &LocalBackend, place: &dyn Place, other: &str) -> Result<Vec<Problem>> {
    let mut problems = Vec::new();
    for escape in escapes(other) {
        let outcome = bash(place, &escape.command).await?;
        if outcome.stdout.to_text() != "held\n" {
            problems.push(Problem::new(escape.what, escape.fix));
        }
    }
    // Without a control group the limit is on each process; it must hold all the same.
    let outcome = bash(
        place,
        "head -c 100000000 /dev/zero | tail | wc -c; exit ${PIPESTATUS[1]}",
    )
    .await?;
    if outcome.exit_code == 0 {
        let by = if backend.by_cgroup(Controller::Memory) {
            "the memory group of the sandbox"
        } else {
            "the rlimit on memory"
        };
        problems.push(Problem::new(
            format!("a program got more memory than its limit: {by} does not hold"),
            "give the service a delegated cgroup (systemd: Delegate=yes), then start it again",
        ));
    }
    Ok(problems)
}

fn escapes(other: &str) -> Vec<Escape> {
    vec![
        Escape {
            what: "a sandbox reaches a network",
            fix: "look whether bubblewrap was replaced; `sandboxd doctor` tries network namespaces",
            command: "n=$(tail -n +3 /proc/net/dev | grep -cv '^ *lo:'); r=$(tail -n +2 /proc/net/route | wc -l); [ $n = 0 ] && [ $r = 0 ] && echo held".into(),
        },
        Escape {
            what: "a sandbox sees a file of the host",
            fix: "take the folder out of read_only_paths",
            command: "[ ! -e /etc/shadow ] && [ ! -e /root ] && [ ! -e /home ] && [ ! -e /sys ] && [ ! -e /run ] && echo held".into(),
        },
        Escape {
            what: "a sandbox sees the workspace of another",
            fix: "take the state directory out of read_only_paths",
            command: format!("[ -z \"$(find / -xdev -name '{other}*' 2>/dev/null)\" ] && ! grep -q '{other}' /proc/self/mountinfo && echo held"),
        },
        Escape {
            what: "a sandbox can write to /proc/sys",
            fix: "start the service as an ordinary user, or let it use uid_range",
            command: "for f in kernel/core_pattern kernel/hostname vm/overcommit_memory; do : 2>/dev/null >>/proc/sys/$f && exit; done; echo held".into(),
        },
        Escape {
            what: "a sandbox has capabilities or may get them",
            fix: "update bubblewrap to 0.8 or later",
            command: "grep -q '^CapEff:.0*$' /proc/self/status && grep -q '^CapBnd:.0*$' /proc/self/status && grep -q '^NoNewPrivs:.1$' /proc/self/status && grep -q '^Seccomp:.2$' /proc/self/status && echo held".into(),
        },
    ]
}

async fn bash(place: &dyn Place, command: &str) -> Result<RunOutcome> {
    let request = RunRequest {
        program: Program {
            argv: vec!["bash".into(), "-c".into(), command.into()],
            script: None,
        },
        env: Default::default(),
        cwd: None,
        stdin: Bytes::new(),
        timeout: RUN_LIMIT,
        output_limit: 4096,
    };
    place.guest().run(request).await?.collect().await
}

