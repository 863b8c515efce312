//! Scripts that are compiled before they run, by compilers that are shell scripts.

mod support;

use std::time::Duration;

use sandbox_core::{ErrorCode, Phase, Program, RunRequest, Script, Termination};
use support::{TestGuest, bash};

/// Makes a program that says where it is.
const COPY: &str = r#"cat; echo compiling; cp "$1" "$2"; chmod +x "$2""#;

fn compiled(compiler: &str, source: &'static str) -> RunRequest {
    let words = ["sh", "-c", compiler, "compiler", "{file}", "{out}"];
    RunRequest {
        program: Program {
            argv: vec!["{out}".into(), "an argument".into()],
            script: Some(Script {
                file_name: "main.x".into(),
                source: source.into(),
                compile: words.map(str::to_owned).to_vec(),
            }),
        },
        stdin: "input".into(),
        ..bash("")
    }
}

#[tokio::test]
async fn both_steps_are_one_run_and_the_input_is_the_programs() {
    let guest = TestGuest::start().await;
    let source = "#!/bin/sh\ncat; echo \" $1\"; echo $0; exit 3\n";
    let outcome = guest.run(compiled(COPY, source)).await;
    let stdout = outcome.stdout.to_text();
    let (printed, out) = stdout.trim_end().split_once('\n').unwrap();
    assert_eq!(printed, "input an argument");
    assert_eq!(outcome.stderr.to_text(), "compiling\n");
    assert_eq!(
        (outcome.exit_code, outcome.termination, outcome.phase),
        (3, Termination::Exited, Phase::Run)
    );
    assert!(out.starts_with("/tmp/.build-"), "{out}");
    let dir = std::path::Path::new(out).parent().unwrap();
    assert!(!dir.exists());
}

#[tokio::test]
async fn a_program_ends_by_its_own_signal() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(compiled(COPY, "#!/bin/sh\nkill -ABRT $$\n"))
        .await;
    assert_eq!(
        (outcome.exit_code, outcome.signal, outcome.phase),
        (134, Some(6), Phase::Run)
    );
}

#[tokio::test]
async fn what_a_compiler_says_and_how_it_ends_is_the_answer_when_it_fails() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(compiled("echo line 1: no; exit 5", "#!/bin/sh\necho ran\n"))
        .await;
    assert_eq!(outcome.stdout.to_text(), "");
    assert_eq!(outcome.stderr.to_text(), "line 1: no\n");
    assert_eq!(
        (outcome.exit_code, outcome.termination, outcome.phase),
        (5, Termination::Exited, Phase::Compile)
    );
}

#[tokio::test]
async fn the_time_of_both_steps_is_one() {
    let guest = TestGuest::start().await;
    let slow = format!("{COPY}; sleep 1.5");
    let outcome = guest
        .run(RunRequest {
            timeout: Duration::from_secs(2),
            ..compiled(&slow, "#!/bin/sh\nsleep 1.5\n")
        })
        .await;
    assert_eq!(
        (outcome.termination, outcome.phase),
        (Termination::TimedOut, Phase::Run)
    );
    assert!(outcome.duration < Duration::from_millis(2900));
    let outcome = guest
        .run(RunRequest {
            timeout: Duration::from_millis(300),
            ..compiled("sleep 60", "")
        })
        .await;
    assert_eq!(
        (outcome.termination, outcome.phase),
        (Termination::TimedOut, Phase::Compile)
    );
}

#[tokio::test]
async fn a_compiler_or_program_that_is_not_there_is_not_installed() {
    let guest = TestGuest::start().await;
    for compiler in ["exit 127", "no-such-compiler", "true"] {
        let run = guest.client.run(compiled(compiler, "")).await.unwrap();
        let error = run.collect().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotInstalled, "{compiler}");
    }
    let mut request = compiled("", "");
    if let Some(script) = &mut request.program.script {
        script.compile = vec!["no-such-compiler".into()];
    }
    let error = guest.client.run(request).await.err().unwrap();
    assert_eq!(error.code(), ErrorCode::NotInstalled);
    assert_eq!(guest.bash("ls -A").await.stdout.to_text(), "");
}
