//! Programs: what goes in, what comes out, how they end.

use std::time::{Duration, Instant};

use sandbox_core::{ContextLoss, ErrorCode, RunRequest, SandboxSpec, Termination};

use super::cases;
use crate::bed::{Bed, code, in_context, python, request, shell, until};

cases! {
    exit_codes: "a program's exit code is told";
    signals: "a program that a signal ended has 128+N, and the signal";
    streams: "stdout and stderr are apart, and exact";
    stdin: "a program reads its input to the end";
    arguments: "arguments reach the program as they are";
    environment: "a run's environment adds to the sandbox's, which adds to the place's";
    working_directory: "a run begins in the workspace, or in a folder of it";
    not_installed: "a program that is not there is an error with a code";
    timeout: "a run whose time is up ends, with all that it started";
    background: "what a program leaves in the background does not hold its answer";
    cancelled: "a run whose caller goes away is killed";
    output_limit: "output beyond the limit is cut, counted and does not block";
    output_speed: "a hundred megabytes of output pass";
    at_once: "runs in one sandbox go on at the same time";
    kill_all: "a program that kills all it can kills only itself" [Init];
    python_runs: "Python runs, with threads and processes";
    contexts: "an interpreter stays alive between runs, is interrupted, and ends with what it started";
}

async fn exit_codes(bed: Bed) {
    let sandbox = bed.start().await;
    for wanted in [0, 1, 42, 255] {
        let outcome = sandbox.sh(&format!("exit {wanted}")).await;
        assert_eq!(outcome.exit_code, wanted);
        assert_eq!(outcome.termination, Termination::Exited);
    }
}

async fn signals(bed: Bed) {
    let sandbox = bed.start().await;
    for signal in [6, 9, 11, 15] {
        let outcome = sandbox.sh(&format!("kill -{signal} $$")).await;
        assert_eq!(
            (outcome.exit_code, outcome.signal, outcome.termination),
            (128 + signal, Some(signal as u32), Termination::Signaled)
        );
    }
}

async fn streams(bed: Bed) {
    let sandbox = bed.start().await;
    let outcome = sandbox
        .sh(r"printf 'a\000\377b'; printf 'c\n' >&2; printf d")
        .await;
    assert_eq!(outcome.stdout.to_text(), "a\0\u{fffd}bd");
    assert_eq!(outcome.stderr.to_text(), "c\n");
}

async fn stdin(bed: Bed) {
    let sandbox = bed.start().await;
    let input = vec![b'x'; 3 << 20];
    let outcome = sandbox
        .try_run(RunRequest {
            stdin: input.into(),
            ..request(&["wc", "-c"])
        })
        .await
        .unwrap();
    assert_eq!(outcome.stdout.to_text().trim(), (3 << 20).to_string());
    // Without input there is none to wait for.
    assert_eq!(sandbox.says("cat").await, "");
}

async fn arguments(bed: Bed) {
    let sandbox = bed.start().await;
    let outcome = sandbox
        .try_run(request(&[
            "printf", "[%s]", "", "a b", "$HOME", "-n", "ä\n'\"",
        ]))
        .await
        .unwrap();
    assert_eq!(outcome.stdout.to_text(), "[][a b][$HOME][-n][ä\n'\"]");
}

async fn environment(bed: Bed) {
    let spec = SandboxSpec {
        env: [("OF_SANDBOX", "1"), ("BOTH", "sandbox")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..SandboxSpec::default()
    };
    let sandbox = bed.start_with(&spec).await;
    let outcome = sandbox
        .try_run(RunRequest {
            env: [("OF_RUN", "2"), ("BOTH", "run")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..shell("echo $OF_SANDBOX $OF_RUN $BOTH; test -n \"$PATH\" && echo $HOME")
        })
        .await
        .unwrap();
    assert_eq!(outcome.stdout.to_text(), "1 2 run\n/workspace\n");
}

async fn working_directory(bed: Bed) {
    let sandbox = bed.start().await;
    assert_eq!(sandbox.says("pwd; mkdir sub").await, "/workspace\n");
    let within = |cwd: &str| RunRequest {
        cwd: Some(cwd.into()),
        ..shell("pwd")
    };
    let outcome = sandbox.try_run(within("sub")).await.unwrap();
    assert_eq!(outcome.stdout.to_text(), "/workspace/sub\n");
    let none = sandbox.try_run(within("none")).await;
    assert_eq!(code(none), ErrorCode::InvalidPath.as_str());
}

async fn not_installed(bed: Bed) {
    let sandbox = bed.start().await;
    let outcome = sandbox.try_run(request(&["no-such-program"])).await;
    assert_eq!(code(outcome), ErrorCode::NotInstalled.as_str());
}

async fn timeout(bed: Bed) {
    let sandbox = bed.start().await;
    let began = Instant::now();
    let outcome = sandbox
        .try_run(RunRequest {
            timeout: Duration::from_millis(500),
            ..shell(
                "echo began; (setsid sh -c 'trap \"\" TERM; while :; do echo on >> late; sleep 0.1; \
                 done' &) ; trap '' TERM; while :; do sleep 1; done",
            )
        })
        .await
        .unwrap();
    assert_eq!(
        (outcome.termination, outcome.exit_code),
        (Termination::TimedOut, 124)
    );
    assert_eq!(outcome.stdout.to_text(), "began\n");
    assert!(began.elapsed() < Duration::from_secs(10));
    let one = sandbox
        .says("cat late | wc -l; sleep 0.5; cat late | wc -l")
        .await;
    let (before, after) = one.trim().split_once('\n').unwrap();
    assert_eq!(before, after, "something of the run is still there");
}

async fn background(bed: Bed) {
    let sandbox = bed.start().await;
    let began = Instant::now();
    let said = sandbox.says("sleep 60 & echo done").await;
    assert_eq!(said, "done\n");
    assert!(began.elapsed() < Duration::from_secs(10));
}

async fn cancelled(bed: Bed) {
    let sandbox = bed.start().await;
    let run = sandbox
        .guest()
        .run(shell("while :; do echo on >> ticks; sleep 0.05; done"))
        .await
        .unwrap();
    let ticks = || async { sandbox.read("ticks").await.map_or(0, |data| data.len()) };
    until("the run has begun", || async { ticks().await > 0 }).await;
    drop(run);
    until("nothing of it goes on", || async {
        let before = ticks().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        before == ticks().await
    })
    .await;
}

async fn output_limit(bed: Bed) {
    let sandbox = bed.start().await;
    let outcome = sandbox
        .try_run(RunRequest {
            output_limit: 1000,
            ..shell("yes | head -c 1000000; echo end; head -c 2000 /dev/zero >&2")
        })
        .await
        .unwrap();
    assert_eq!(outcome.stdout.total_bytes(), 1_000_004);
    assert_eq!(outcome.stderr.total_bytes(), 2000);
    assert_eq!(outcome.stdout.kept_bytes(), 1000);
    assert!(outcome.stdout.to_text().ends_with("y\nend\n"));
    assert_eq!(outcome.exit_code, 0);
}

async fn output_speed(bed: Bed) {
    let sandbox = bed.start().await;
    let outcome = sandbox.sh("head -c 100000000 /dev/zero").await;
    assert_eq!(outcome.stdout.total_bytes(), 100_000_000);
    assert_eq!(outcome.exit_code, 0);
}

async fn at_once(bed: Bed) {
    let sandbox = bed.start().await;
    let (waits, makes) = tokio::join!(
        sandbox.sh("until [ -e flag ]; do sleep 0.02; done; echo seen"),
        sandbox.sh("touch flag"),
    );
    assert_eq!(waits.stdout.to_text(), "seen\n");
    assert_eq!(makes.exit_code, 0);
}

async fn kill_all(bed: Bed) {
    let sandbox = bed.start().await;
    sandbox.sh("kill -9 -1").await;
    sandbox
        .sh("kill -9 1; kill -TERM 1; kill -HUP 1; kill -STOP 1")
        .await;
    assert_eq!(sandbox.says("echo on").await, "on\n");
}

async fn python_runs(bed: Bed) {
    let sandbox = bed.start().await;
    let outcome = sandbox
        .try_run(python(
            "import multiprocessing as m, threading as t\n\
             def f(x): return x * x\n\
             if __name__ == '__main__':\n\
             \x20   done = []\n\
             \x20   threads = [t.Thread(target=done.append, args=(n,)) for n in range(4)]\n\
             \x20   [x.start() for x in threads]; [x.join() for x in threads]\n\
             \x20   with m.get_context('fork').Pool(2) as p: print(sum(p.map(f, range(10))), len(done))",
        ))
        .await
        .unwrap();
    assert_eq!(outcome.stdout.to_text(), "285 4\n", "{outcome:?}");
}

async fn contexts(bed: Bed) {
    let sandbox = bed.start().await;
    let run = async |code: &str| sandbox.try_run(in_context("main", code)).await.unwrap();
    let first = run("x = 41\nprint('hello')").await;
    assert_eq!(first.stdout.to_text(), "hello\n");
    assert!(first.context.unwrap().created);
    let second = run("print(x + 1)").await;
    assert_eq!(second.stdout.to_text(), "42\n");
    assert!(!second.context.unwrap().created);
    let failed = run("1 / 0").await;
    assert_eq!(failed.raised.unwrap().name, "ZeroDivisionError");
    let slow = RunRequest {
        timeout: Duration::from_secs(2),
        ..in_context("main", "import time\ntime.sleep(60)")
    };
    let slow = sandbox.try_run(slow).await.unwrap();
    assert_eq!(slow.termination, Termination::TimedOut);
    assert_eq!(slow.context.unwrap().loss, None);
    let child = "import subprocess\nprint(x, subprocess.Popen(['sleep', '77'], start_new_session=True).poll())";
    assert_eq!(run(child).await.stdout.to_text(), "41 None\n");
    let name = "main".parse().unwrap();
    sandbox.guest().delete_context(&name).await.unwrap();
    assert_eq!(
        code(sandbox.guest().delete_context(&name).await),
        "not_found"
    );
    let left = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 7[7]' || true";
    assert_eq!(sandbox.sh(left).await.stdout.to_text(), "0\n");
    let lost = run("import os\nos._exit(7)").await;
    assert_eq!(
        (lost.exit_code, lost.context.unwrap().loss),
        (7, Some(ContextLoss::Died))
    );
}
