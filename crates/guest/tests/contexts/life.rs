//! How contexts are interrupted, lost, restarted and ended, and what they can do.

use std::time::{Duration, Instant};

use sandbox_core::{ContextLoss, ErrorCode, RunRequest, Termination};

use crate::{
    FORKED,
    guest::{TestGuest, alive, until},
    support::{Ran, ended, kind, py, python, refused, run, wish, within},
};

#[tokio::test]
async fn an_interrupt_that_a_destructor_swallows_comes_again() {
    let guest = TestGuest::start().await;
    let code = "import time\nx = 5\n\
        class Slow:\n def __del__(self):\n  \
        end = time.monotonic() + 0.8\n  while time.monotonic() < end: pass\n\
        Slow()\nwhile True: pass";
    let ran = run(&guest, within(400, wish(&python(), "main", code))).await;
    assert_eq!(ran.outcome.termination, Termination::TimedOut);
    assert_eq!(ran.loss(), None, "{ran:?}");
    assert_eq!(py(&guest, "1").await.value(), Some("1"));
}

#[tokio::test]
async fn a_timeout_interrupts_and_keeps_the_state() {
    let guest = TestGuest::start().await;
    py(&guest, "x = 5").await;
    for code in [
        "print('begun', flush=True)\nwhile True: pass",
        "print('begun')\nimport time\ntime.sleep(60)",
        "print('begun')\nimport os\nos.system('sleep 60')",
        "print('begun')\nimport subprocess\nsubprocess.run(['sleep', '60'])",
        "print('begun')\nimport asyncio\nawait asyncio.sleep(60)",
    ] {
        let began = Instant::now();
        let ran = run(&guest, within(1500, wish(&python(), "main", code))).await;
        assert!(began.elapsed() < Duration::from_secs(10), "{code}");
        assert_eq!(ran.outcome.termination, Termination::TimedOut, "{code}");
        assert_eq!((ran.outcome.exit_code, ran.loss()), (124, None), "{code}");
        assert_eq!(ran.stdout(), "begun\n", "{code}");
        if !code.contains("os.system") {
            let name = ran.error().0;
            assert!(
                ["KeyboardInterrupt", "CancelledError"].contains(&name),
                "{code}: {name}"
            );
        }
    }
    assert_eq!(py(&guest, "x").await.value(), Some("5"));
    // What was waited for does not go on.
    let code = "import asyncio\nasync def later():\n    global x\n    await asyncio.sleep(2)\n    x = 6\nawait later()";
    run(&guest, within(1500, wish(&python(), "main", code))).await;
    let ran = py(&guest, "await asyncio.sleep(1)\nx").await;
    assert_eq!(ran.value(), Some("5"));
}

#[tokio::test]
async fn code_that_cannot_be_interrupted_is_killed_and_that_is_said() {
    let guest = TestGuest::start().await;
    let code = "x = 5\nimport os, subprocess\nchild = subprocess.Popen(['sleep', '300'], start_new_session=True)\nprint(child.pid, flush=True)\nimport signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass";
    let ran = run(&guest, within(1500, wish(&python(), "main", code))).await;
    assert_eq!(ran.outcome.termination, Termination::TimedOut);
    assert_eq!(ran.loss(), Some(ContextLoss::Killed));
    let child = ran.stdout();
    until("what it started is killed", || !alive(&child)).await;
    let next = py(&guest, "'x' in globals()").await;
    assert_eq!(
        (next.value(), next.context().created),
        (Some("False"), true)
    );
}

#[tokio::test]
async fn an_interpreter_that_ends_is_lost_with_what_ended_it() {
    let guest = TestGuest::start().await;
    for (code, exit_code, termination) in [
        (
            "import os\nprint('last', flush=True)\nos._exit(7)",
            7,
            Termination::Exited,
        ),
        (
            "import os, signal\nprint('last', flush=True)\nos.kill(os.getpid(), signal.SIGSEGV)",
            139,
            Termination::Signaled,
        ),
        (
            "import os\nprint('last', flush=True)\nos.kill(os.getppid(), 9)\nimport time\ntime.sleep(60)",
            137,
            Termination::Signaled,
        ),
    ] {
        // It survives what it was forked from.
        if FORKED && code.contains("getppid") {
            continue;
        }
        let ran = py(&guest, code).await;
        assert_eq!(ran.loss(), Some(ContextLoss::Died), "{code}");
        assert_eq!(ran.outcome.exit_code, exit_code, "{code}");
        assert_eq!(ran.outcome.termination, termination, "{code}");
        assert_eq!(ran.stdout(), "last\n", "{code}");
        assert!(py(&guest, "1").await.context().created, "{code}");
    }
    // Between two runs, too.
    py(
        &guest,
        "import threading, os, time\nthreading.Timer(0.2, lambda: os._exit(1)).start()",
    )
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(guest.client.contexts().await.unwrap().is_empty());
    assert!(py(&guest, "1").await.context().created);
}

#[tokio::test]
async fn a_forged_reply_ends_its_own_run_and_nothing_else() {
    let guest = TestGuest::start().await;
    let channel = "import os, sys\nfd = max(int(n) for n in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + n) and 'pipe' in os.readlink('/proc/self/fd/' + n))\n";
    // The run ends at once; its interpreter then speaks out of turn.
    let forged = format!(
        "{channel}os.write(fd, b'1 result 18\\n{{\"text/plain\":\"9\"}}1 done 1\\n0')\nimport time; time.sleep(0.3)"
    );
    let ran = py(&guest, &forged).await;
    assert_eq!(
        (ran.outcome.exit_code, ran.value()),
        (0, Some("9")),
        "{ran:?}"
    );
    let next = py(&guest, "2").await;
    assert_eq!(next.loss(), Some(ContextLoss::Broken));
    assert_eq!(py(&guest, "3").await.value(), Some("3"));
    for nonsense in [
        "b'what?\\n'",
        "b'1 done 1\\nx'",
        "b'9 done 1\\n0'",
        "b'x' * 1000",
        "b'2 result 999999999\\n'",
    ] {
        let code = format!("{channel}os.write(fd, {nonsense})\nimport time; time.sleep(60)");
        let name = "other";
        let ran = run(&guest, wish(&python(), name, &code)).await;
        assert_eq!(ran.loss(), Some(ContextLoss::Broken), "{nonsense}");
        assert_eq!(ran.outcome.exit_code, 137, "{nonsense}");
    }
    // Who closes all that is not his own.
    let ran = py(
        &guest,
        "import os\nos.closerange(3, 200)\nimport time; time.sleep(60)",
    )
    .await;
    assert_eq!(ran.loss(), Some(ContextLoss::Broken));
}

#[tokio::test]
async fn a_forked_child_does_not_speak_for_its_parent() {
    let guest = TestGuest::start().await;
    let ran = py(&guest, "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nelse: print('child'); display('no')\npid > 0").await;
    assert_eq!(
        (ran.stdout().as_str(), ran.value()),
        ("child\n", Some("True"))
    );
    assert_eq!(ran.results.len(), 1);
    assert_eq!(py(&guest, "1").await.value(), Some("1"));
}

#[tokio::test]
async fn contexts_are_apart_and_run_at_the_same_time() {
    let guest = TestGuest::start().await;
    let slow = |name: &'static str| {
        wish(
            &python(),
            name,
            "import time\nx = __builtins__\ntime.sleep(0.5)\nid(x)",
        )
    };
    let began = Instant::now();
    let (a, b) = tokio::join!(run(&guest, slow("a")), run(&guest, slow("b")));
    assert!(began.elapsed() < Duration::from_millis(2500));
    assert!(a.context().created && b.context().created);
    run(&guest, wish(&python(), "a", "y = 1")).await;
    let ran = run(&guest, wish(&python(), "b", "y")).await;
    assert_eq!(ran.error().0, "NameError");
    let names: Vec<_> = guest
        .client
        .contexts()
        .await
        .unwrap()
        .into_iter()
        .map(|c| (c.name, c.runs, c.busy))
        .collect();
    assert_eq!(names, [("a".into(), 2, false), ("b".into(), 2, false)]);
}

#[tokio::test]
async fn runs_of_one_context_wait_for_each_other() {
    let guest = TestGuest::start().await;
    py(&guest, "n = 0").await;
    let add = || py(&guest, "import time\nm = n\ntime.sleep(0.05)\nn = m + 1");
    futures::future::join_all((0..8).map(|_| add())).await;
    assert_eq!(py(&guest, "n").await.value(), Some("8"));
}

#[tokio::test]
async fn a_context_that_stays_busy_refuses() {
    let guest = TestGuest::start().await;
    let running = guest
        .client
        .run(wish(&python(), "main", "import time\ntime.sleep(60)"))
        .await
        .unwrap();
    // The service sends one after the other; who does not is told so in the end.
    assert_eq!(
        refused(&guest, wish(&python(), "main", "1")).await,
        ErrorCode::ContextBusy
    );
    drop(running);
    assert_eq!(py(&guest, "1").await.value(), Some("1"));
}

#[tokio::test]
async fn a_client_that_goes_away_interrupts_its_run() {
    let guest = TestGuest::start().await;
    py(&guest, "x = 5").await;
    let code = "import time\ntry:\n    open('begun', 'w').close()\n    time.sleep(60)\nfinally:\n    left = True";
    let begun = guest.workspace.path().join("begun");
    // Right away, when the code may not have begun yet, and when it has.
    for waits in [false, false, false, true] {
        let _ = std::fs::remove_file(&begun);
        let run = guest
            .client
            .run(wish(&python(), "main", code))
            .await
            .unwrap();
        if waits {
            until("it has begun", || begun.exists()).await;
        }
        drop(run);
        let ran = py(&guest, "x").await;
        assert_eq!((ran.value(), ran.context().created), (Some("5"), false));
    }
    assert_eq!(py(&guest, "left").await.value(), Some("True"));
}

#[tokio::test]
async fn a_flood_is_cut_and_ended_and_leaves_the_state() {
    let guest = TestGuest::start().await;
    py(&guest, "x = 5").await;
    let request = RunRequest {
        output_limit: 1000,
        ..wish(&python(), "main", "for n in range(100_000): print(n)")
    };
    let ran = run(&guest, request).await;
    let out = ran.stdout();
    assert!(
        out.starts_with("0\n1\n") && out.ends_with("99999\n"),
        "{out}"
    );
    assert!(ran.outcome.stdout.truncated());
    let request = RunRequest {
        output_limit: 1000,
        spill_limit: 100_000,
        ..wish(&python(), "main", "while True: print('flood')")
    };
    let ran = run(&guest, request).await;
    assert_eq!(ran.outcome.termination, Termination::OutputLimit);
    assert_eq!(ran.loss(), None);
    assert_eq!(
        ran.outcome.stdout_file.as_ref().unwrap().size_bytes,
        100_000
    );
    let many = py(&guest, "for n in range(3000): display('x' * 100_000)").await;
    assert!(
        many.results.len() < 200 && many.results.len() > 100,
        "{}",
        many.results.len()
    );
    assert_eq!(py(&guest, "x").await.value(), Some("5"));
}

#[tokio::test]
async fn a_flood_between_runs_holds_up_nobody() {
    let guest = TestGuest::start().await;
    py(
        &guest,
        "import subprocess\nflood = subprocess.Popen(['yes'])",
    )
    .await;
    for _ in 0..5 {
        assert_eq!(guest.bash("echo other").await.stdout.to_text(), "other\n");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ran = py(&guest, "flood.kill(); flood.wait()").await;
    assert_eq!(ran.value(), Some("-9"));
    assert!(ran.stdout().ends_with("y\n"));
    assert_eq!(py(&guest, "1").await.stdout(), "");
}

#[tokio::test]
async fn restart_and_delete_end_what_runs_and_forget_the_state() {
    let guest = TestGuest::start().await;
    let name = "main".parse().unwrap();
    let ran = py(
        &guest,
        "x = 5\nimport subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True).pid",
    )
    .await;
    let child = ran.value().unwrap().to_owned();
    let info = guest.client.restart_context(&name).await.unwrap();
    assert_eq!((info.language.as_str(), info.runs), ("python", 0));
    until("what it started is gone", || !alive(&child)).await;
    let ran = py(&guest, "'x' in globals()").await;
    assert_eq!((ran.value(), ran.context().created), (Some("False"), true));
    // Under a run.
    let running = guest
        .client
        .run(wish(&python(), "main", "import time\ntime.sleep(60)"))
        .await
        .unwrap();
    let (deleted, ran): (_, Ran) = tokio::join!(guest.client.delete_context(&name), ended(running));
    deleted.unwrap();
    assert_eq!(ran.loss(), Some(ContextLoss::Stopped));
    assert_eq!(ran.outcome.termination, Termination::Cancelled);
    assert!(guest.client.contexts().await.unwrap().is_empty());
    for error in [
        guest.client.delete_context(&name).await.unwrap_err(),
        guest.client.restart_context(&name).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::NotFound);
    }
}

#[tokio::test]
async fn there_are_only_so_many_and_each_has_one_language() {
    let guest = TestGuest::start().await;
    let mut few = python();
    few.limits.max_contexts = 2;
    for name in ["a", "b"] {
        run(&guest, wish(&few, name, "1")).await;
    }
    assert_eq!(
        refused(&guest, wish(&few, "c", "1")).await,
        ErrorCode::ContextLimitReached
    );
    let mut other = few.clone();
    other.language = "bash";
    assert_eq!(
        refused(&guest, wish(&other, "a", "1")).await,
        ErrorCode::ContextMismatch
    );
    guest
        .client
        .delete_context(&"a".parse().unwrap())
        .await
        .unwrap();
    run(&guest, wish(&few, "c", "1")).await;
}

#[tokio::test]
async fn one_that_is_not_used_ends() {
    let guest = TestGuest::start().await;
    let mut short = python();
    short.limits.idle = Some(Duration::from_millis(300));
    run(&guest, wish(&short, "main", "x = 1")).await;
    for _ in 0..100 {
        if guest.client.contexts().await.unwrap().is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(
        run(&guest, wish(&short, "main", "1"))
            .await
            .context()
            .created
    );
}

#[tokio::test]
async fn memory_beyond_its_limit_is_an_error_that_it_survives() {
    let guest = TestGuest::start().await;
    let mut small = python();
    small.limits.memory = Some("256m".parse().unwrap());
    let ran = run(
        &guest,
        wish(&small, "main", "x = 5\ny = bytearray(1 << 29)"),
    )
    .await;
    assert_eq!((ran.error().0, ran.loss()), ("MemoryError", None));
    assert_eq!(
        run(&guest, wish(&small, "main", "x")).await.value(),
        Some("5")
    );
}

#[tokio::test]
async fn an_interpreter_that_cannot_start_says_why() {
    let guest = TestGuest::start().await;
    let missing = kind(
        "python",
        sandbox_core::ContextDriver::Python,
        &["/usr/bin/no-such-python", "{file}"],
    );
    assert_eq!(
        refused(&guest, wish(&missing, "main", "1")).await,
        ErrorCode::NotInstalled
    );
    let broken = kind(
        "python",
        sandbox_core::ContextDriver::Python,
        &["/bin/sh", "-c", "echo no good >&2; exit 3"],
    );
    let error = guest
        .client
        .run(wish(&broken, "main", "1"))
        .await
        .err()
        .unwrap();
    assert!(error.detail().ends_with("no good"), "{error}");
    assert!(guest.client.contexts().await.unwrap().is_empty());
    assert_eq!(py(&guest, "1").await.value(), Some("1"));
}
