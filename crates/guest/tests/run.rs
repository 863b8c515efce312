//! Runs, seen by the service: the real guest over a real connection.

mod support;

use std::{fs, time::Duration};

use sandbox_core::{ErrorCode, RunRequest, Termination};
use support::{TestGuest, alive, bash, python, until};

#[tokio::test]
async fn a_run_gives_its_streams_apart_and_its_exit_code() {
    let guest = TestGuest::start().await;
    let outcome = guest.bash("echo out; echo err >&2; exit 3").await;
    assert_eq!(outcome.stdout.to_text(), "out\n");
    assert_eq!(outcome.stderr.to_text(), "err\n");
    assert_eq!(
        (outcome.exit_code, outcome.signal, outcome.termination),
        (3, None, Termination::Exited)
    );
}

#[tokio::test]
async fn a_program_begins_with_no_signal_ignored() {
    let guest = TestGuest::ignoring("HUP INT QUIT TERM USR1").await;
    for of in [bash("grep SigIgn /proc/self/status"), python(SIGNALS)] {
        let outcome = guest.run(of).await;
        let said = outcome.stdout.to_text();
        let bits = said.trim().trim_start_matches("SigIgn:\t");
        let ignored = u64::from_str_radix(bits, 16).unwrap();
        // 32 and 33 are the C library's own (signal(7)); its posix_spawn ignores them.
        assert_eq!(ignored & !(0b11 << 31), 0, "{said}");
    }
}

/// Python ignores two itself.
const SIGNALS: &str = "\
import signal
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
for ours in signal.SIGPIPE, signal.SIGXFSZ: signal.signal(ours, signal.SIG_DFL)
print(*[line for line in open('/proc/self/status') if 'SigIgn' in line])
";

#[tokio::test]
async fn a_signal_is_128_and_its_number() {
    let guest = TestGuest::start().await;
    let outcome = guest.bash("kill -SEGV $$").await;
    assert_eq!(
        (outcome.exit_code, outcome.signal, outcome.termination),
        (139, Some(11), Termination::Signaled)
    );
}

#[tokio::test]
async fn a_script_runs_beside_the_files_of_the_workspace() {
    let guest = TestGuest::start().await;
    fs::write(guest.workspace.path().join("neighbour.py"), "x = 42").unwrap();
    let outcome = guest
        .run(python(
            "import neighbour, sys; print(neighbour.x); sys.exit('bye')",
        ))
        .await;
    assert_eq!(outcome.stdout.to_text(), "42\n");
    assert_eq!(
        (outcome.stderr.to_text().as_str(), outcome.exit_code),
        ("bye\n", 1)
    );
    let left: Vec<_> = fs::read_dir(guest.workspace.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with(".main"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

#[tokio::test]
async fn input_is_given_and_ends() {
    let guest = TestGuest::start().await;
    let input = "x".repeat(300_000);
    let outcome = guest
        .run(RunRequest {
            stdin: input.clone().into(),
            ..bash("wc -c")
        })
        .await;
    assert_eq!(outcome.stdout.to_text().trim(), "300000");
    assert_eq!(guest.bash("cat").await.stdout.to_text(), "");
    let unread = guest
        .run(RunRequest {
            stdin: input.into(),
            ..bash("true")
        })
        .await;
    assert_eq!(unread.exit_code, 0);
}

#[tokio::test]
async fn a_timeout_ends_everything_the_run_started() {
    let guest = TestGuest::start().await;
    let request = RunRequest {
        timeout: Duration::from_millis(700),
        ..bash(
            "trap '' TERM
             setsid sleep 1000 & echo $! > a
             (setsid bash -c 'trap \"\" TERM; sleep 1000 & echo $! > b; wait' &) &
             python3 -c 'import os,time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(\"c\",\"w\").write(str(os.getpid())); time.sleep(1000)
    os._exit(0)' &
             echo before; sleep 1000",
        )
    };
    let outcome = guest.run(request).await;
    assert_eq!(outcome.termination, Termination::TimedOut);
    assert_eq!(
        (outcome.exit_code, outcome.stdout.to_text().as_str()),
        (124, "before\n")
    );
    for file in ["a", "b", "c"] {
        let pid = fs::read_to_string(guest.workspace.path().join(file)).unwrap();
        assert!(!alive(&pid), "{file} survived");
    }
}

#[tokio::test]
async fn a_child_that_holds_the_pipe_does_not_hold_the_run() {
    let guest = TestGuest::start().await;
    let outcome = guest.bash("sleep 30 & echo $! > pid; echo done").await;
    assert_eq!(outcome.stdout.to_text(), "done\n");
    assert!(
        outcome.duration < Duration::from_secs(10),
        "{:?}",
        outcome.duration
    );
    // It goes on in the background, and its output kills it not.
    let pid = fs::read_to_string(guest.workspace.path().join("pid")).unwrap();
    assert!(alive(&pid));
    let writer = guest
        .bash("(for i in 1 2 3 4 5; do sleep 0.05; echo tick; done; touch survived) & exit 0")
        .await;
    assert_eq!(writer.exit_code, 0);
    let survived = guest.workspace.path().join("survived");
    until("the background writer is through", || survived.exists()).await;
}

#[tokio::test]
async fn a_caller_that_goes_away_kills_the_run() {
    let guest = TestGuest::start().await;
    let run = guest
        .client
        .run(bash(
            "setsid sleep 1000 & echo $! > pid.tmp; mv pid.tmp pid; sleep 1000",
        ))
        .await
        .unwrap();
    let file = guest.workspace.path().join("pid");
    until("the program has started", || file.exists()).await;
    let pid = fs::read_to_string(&file).unwrap();
    assert!(alive(&pid));
    drop(run);
    until("the run is dead", || !alive(&pid)).await;
}

#[tokio::test]
async fn a_gibibyte_of_output_is_cut_to_head_and_tail() {
    let guest = TestGuest::start().await;
    let request = RunRequest {
        output_limit: 1000,
        ..bash("echo first; head -c 1073741824 /dev/zero | tr '\\0' x; echo; echo last")
    };
    let outcome = guest.run(request).await;
    let text = outcome.stdout.to_text();
    assert!(text.starts_with("first\nxxx"), "{text:.40}");
    assert!(text.ends_with("x\nlast\n"));
    assert!(outcome.stdout.truncated());
    assert_eq!(outcome.stdout.kept_bytes(), 1000);
    assert_eq!(outcome.stdout.total_bytes(), 1_073_741_824 + 12);
}

#[tokio::test]
async fn output_that_is_not_text_is_replaced() {
    let guest = TestGuest::start().await;
    let outcome = guest.bash(r"printf 'a\xff\xfeb'").await;
    assert_eq!(outcome.stdout.to_text(), "a\u{fffd}\u{fffd}b");
    assert_eq!(outcome.stdout.total_bytes(), 4);
}

#[tokio::test]
async fn a_killed_supervisor_takes_its_run_with_it() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .bash("sleep 1000 & echo $! > pid; echo before; sleep 0.5; kill -9 $PPID; sleep 1000")
        .await;
    assert_eq!((outcome.exit_code, outcome.signal), (137, Some(9)));
    let pid = fs::read_to_string(guest.workspace.path().join("pid")).unwrap();
    until("the child is dead", || !alive(&pid)).await;
    assert_eq!(guest.bash("echo alive").await.stdout.to_text(), "alive\n");
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let guest = TestGuest::start().await;
    let argv = |argv: &[&str]| {
        let mut request = bash("");
        request.program.argv = argv.iter().map(|a| (*a).to_owned()).collect();
        request
    };
    for (request, code) in [
        (argv(&["no-such-program"]), ErrorCode::NotInstalled),
        (argv(&["/etc/passwd"]), ErrorCode::PermissionDenied),
        (
            argv(&["true", &"x".repeat(200_000)]),
            ErrorCode::InvalidRequest,
        ),
        (argv(&["true", "a\0b"]), ErrorCode::InvalidRequest),
        (
            RunRequest {
                cwd: Some("no/such/dir".into()),
                ..bash("true")
            },
            ErrorCode::InvalidPath,
        ),
        (
            RunRequest {
                cwd: Some("../..".into()),
                ..bash("true")
            },
            ErrorCode::InvalidPath,
        ),
    ] {
        let error = guest.client.run(request).await.err().unwrap();
        assert_eq!(error.code(), code, "{error}");
    }
}

#[tokio::test]
async fn programs_inherit_nothing_of_the_guest() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(python(
            "import os, signal, resource
print(sorted(os.listdir('/proc/self/fd'))[:4])
print(os.getpgrp() == os.getpid())
print(signal.getsignal(signal.SIGPIPE), signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(resource.getrlimit(resource.RLIMIT_CORE))
print(open('/proc/self/oom_score_adj').read())",
        ))
        .await;
    // Python ignores SIGPIPE by itself; the fourth descriptor is listdir's own.
    assert_eq!(
        outcome.stdout.to_text(),
        "['0', '1', '2', '3']\nTrue\n1 set()\n(0, 0)\n1000\n\n"
    );
}

#[tokio::test]
async fn many_runs_at_once_keep_apart() {
    let guest = TestGuest::start().await;
    let runs = (0..40).map(|n| {
        let client = guest.client.clone();
        tokio::spawn(async move {
            let run = client
                .run(bash(&format!("sleep 0.1; echo {n}")))
                .await
                .unwrap();
            run.collect().await.unwrap().stdout.to_text()
        })
    });
    for (n, run) in runs.collect::<Vec<_>>().into_iter().enumerate() {
        assert_eq!(run.await.unwrap(), format!("{n}\n"));
    }
}
