//! How much it saves. By hand:
//! `cargo test -p backend-local --release --lib template::tests::figures -- --ignored --nocapture`

use std::{
    fs,
    time::{Duration, Instant},
};

use super::{BARE, SCIENTIFIC, World, is_root, processes};

const SESSIONS: u32 = 50;

/// Proportional and unshared memory, in MiB.
fn memory(pids: &[u32]) -> (u64, u64) {
    let (mut shared, mut own) = (0, 0);
    for pid in pids {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        for line in text.lines() {
            let number = || {
                line.split_whitespace()
                    .nth(1)
                    .unwrap()
                    .parse::<u64>()
                    .unwrap()
            };
            if line.starts_with("Pss:") {
                shared += number();
            } else if line.starts_with("Private_") {
                own += number();
            }
        }
    }
    (shared / 1024, own / 1024)
}

#[tokio::test]
#[ignore = "a measurement"]
async fn how_long_a_fork_takes() {
    if !is_root() {
        return;
    }
    let world = World::new();
    for kind in [BARE, SCIENTIFIC] {
        world.ready(kind).await;
        // A first join of a cgroup waits for all processors (an RCU grace period),
        // those that follow soon do not.
        for (what, pause, groups) in [
            ("joins no cgroups", 30, false),
            ("of a new sandbox", 0, true),
            ("later", 30, true),
        ] {
            let mut times = Vec::new();
            for n in 0..30 {
                let sandbox = world.start(n).await;
                let mut target = sandbox.target();
                if !groups {
                    target.groups.clear();
                }
                tokio::time::sleep(Duration::from_millis(pause)).await;
                let started = Instant::now();
                let zygote = world.try_fork(kind, &target).await.unwrap();
                times.push(started.elapsed());
                drop(zygote);
                sandbox.stop().await;
            }
            times.sort_unstable();
            let (best, median, worst) = (times[0], times[15], times[29]);
            eprintln!(
                "{} {what}: median {median:?}, best {best:?}, worst {worst:?}",
                char::from(kind)
            );
        }
    }
}

#[tokio::test]
#[ignore = "a measurement"]
async fn how_much_memory_idle_sessions_take() {
    if !is_root() {
        return;
    }
    let world = World::with(|config| {
        let start = *config.uid_range.start();
        config.uid_range = start..=start + 999;
    });
    let mut sandboxes = Vec::new();
    for n in 0..SESSIONS {
        sandboxes.push(world.start(n).await);
    }
    world.ready(SCIENTIFIC).await;
    let mut zygotes = Vec::new();
    for sandbox in &sandboxes {
        zygotes.push(world.fork_kind(SCIENTIFIC, sandbox).await);
    }
    let mut pids: Vec<u32> = zygotes.iter().map(|zygote| zygote.pid).collect();
    pids.push(world.template().await);
    let (shared, own) = memory(&pids);
    eprintln!("one template, {SESSIONS} forks: {shared} MiB ({own} MiB private)");
    drop(zygotes);

    let cold = "import sys, gc, numpy, pandas, matplotlib.pyplot\n\
                gc.collect(); gc.freeze(); print(\"ready\", flush=True); sys.stdin.read()";
    for sandbox in &sandboxes {
        let script = format!(
            "mkfifo /tmp/hold /tmp/told; (setsid python3 -u -c '{cold}' < /tmp/hold > /tmp/told &); \
             exec 9> /tmp/hold; (setsid sleep 1000 >&9 &); head -n 1 < /tmp/told"
        );
        assert_eq!(sandbox.sh(&script).await.stdout.to_text(), "ready\n");
    }
    let users: Vec<String> = sandboxes.iter().map(|it| it.user.to_string()).collect();
    let cold = processes(|it| {
        it["Name"].starts_with("python") && users.iter().any(|user| it["Uid"].starts_with(user))
    });
    assert_eq!(cold.len(), SESSIONS as usize);
    let (shared, own) = memory(&cold);
    eprintln!("an interpreter for each of {SESSIONS}: {shared} MiB ({own} MiB private)");
}
