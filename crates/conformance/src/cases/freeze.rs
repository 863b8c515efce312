//! Sandboxes whose processes are stopped for a while.

use std::time::Duration;

use guest_client::{ProcessEvent, ProcessRequest, ProcessStream};
use sandbox_core::Termination;

use super::cases;
use crate::bed::{Bed, Sandbox, in_context, python, shell, soon, until};

cases! {
    stands_still: "a frozen sandbox stands still, and goes on when it is thawed" [Freeze];
    work_waits: "what needs a process waits until a sandbox is thawed" [Freeze];
    time: "time that a sandbox is frozen is not a run's" [Freeze];
    terminal: "a shell's job goes on in the foreground after a freeze" [Freeze];
    stopped: "what a program has stopped itself stays stopped" [Freeze];
    bomb: "programs that start others without end are frozen too" [Freeze];
}

/// Long enough for a program that runs to show it.
const WHILE: Duration = Duration::from_millis(300);

async fn ticks(sandbox: &Sandbox) -> usize {
    sandbox.read("ticks").await.map_or(0, |ticks| ticks.len())
}

async fn stands_still(bed: Bed) {
    let sandbox = bed.start().await;
    let tick = "(while :; do echo >> ticks; sleep 0.02; done) > /dev/null 2>&1 &";
    sandbox.says(tick).await;
    until("it ticks", async || ticks(&sandbox).await > 2).await;
    for _ in 0..3 {
        sandbox.guest().freeze().await.unwrap();
        sandbox.guest().freeze().await.unwrap();
        let before = ticks(&sandbox).await;
        tokio::time::sleep(WHILE).await;
        assert_eq!(ticks(&sandbox).await, before);
        sandbox.guest().thaw().await.unwrap();
        sandbox.guest().thaw().await.unwrap();
        until("it ticks on", async || ticks(&sandbox).await > before + 2).await;
    }
}

async fn work_waits(bed: Bed) {
    let sandbox = bed.start().await;
    let said = async |code: &str| {
        let outcome = sandbox.try_run(in_context("main", code)).await.unwrap();
        assert_eq!(outcome.exit_code, 0, "{}", outcome.stderr.to_text());
        outcome.stdout.to_text()
    };
    said("x = 41").await;
    sandbox.guest().freeze().await.unwrap();
    let run = sandbox.python("print(6 * 7)");
    let in_context = said("print(x + 1)");
    let both = async { tokio::join!(run, in_context) };
    tokio::pin!(both);
    assert!(tokio::time::timeout(WHILE, &mut both).await.is_err());
    sandbox.guest().thaw().await.unwrap();
    let both = soon("both ends", both).await;
    assert_eq!(both, ("42\n".to_owned(), "42\n".to_owned()));
}

async fn time(bed: Bed) {
    let sandbox = bed.start().await;
    let mut run = python("import time\nfor _ in range(40): time.sleep(0.01)\nprint('through')");
    run.timeout = Duration::from_secs(3);
    let through = sandbox.try_run(run);
    let mut late = shell("sleep 100");
    late.timeout = Duration::from_secs(3);
    let late = sandbox.try_run(late);
    let freezing = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        sandbox.guest().freeze().await.unwrap();
        tokio::time::sleep(Duration::from_secs(4)).await;
        sandbox.guest().thaw().await.unwrap();
    };
    let (through, late, ()) =
        soon("both ends", async { tokio::join!(through, late, freezing) }).await;
    let through = through.unwrap();
    assert_eq!(
        (through.termination, through.stdout.to_text().as_str()),
        (Termination::Exited, "through\n")
    );
    assert_eq!(late.unwrap().termination, Termination::TimedOut);
}

/// What a terminal shows up to the word.
async fn shows(process: &mut ProcessStream, word: &str) -> String {
    let mut shown = String::new();
    while !shown.contains(word) {
        let event = soon(word, process.next()).await.unwrap();
        let ProcessEvent::Stdout(data) = event else {
            panic!("{event:?} after {shown}");
        };
        shown += &String::from_utf8_lossy(&data);
    }
    shown
}

async fn terminal(bed: Bed) {
    let sandbox = bed.start().await;
    for shell in ["sh", "bash"] {
        if sandbox.sh(&format!("command -v {shell}")).await.exit_code != 0 {
            continue;
        }
        let request = ProcessRequest {
            tag: shell.into(),
            argv: vec![shell.into(), "-i".into()],
            env: Default::default(),
            cwd: None,
            terminal: Some((80, 24)),
        };
        let mut process = sandbox.guest().start_process(request).await.unwrap();
        let types = async |line: &str| {
            let line = format!("{line}\n").into();
            sandbox.guest().send_input(shell, line, true).await.unwrap();
        };
        // The quotes keep the echo of what is typed from being taken for an answer.
        types("sh -c 'echo rea\"\"dy; read x; echo go\"\"t $x'; echo do\"\"ne").await;
        shows(&mut process, "ready").await;
        for _ in 0..5 {
            sandbox.guest().freeze().await.unwrap();
            sandbox.guest().thaw().await.unwrap();
        }
        types("this").await;
        let shown = shows(&mut process, "done").await;
        assert!(shown.contains("got this"), "{shell}: {shown}");
        assert!(!shown.contains("topped"), "{shell}: {shown}");
        types("exit").await;
    }
}

async fn stopped(bed: Bed) {
    let sandbox = bed.start().await;
    let state = "for n in 1 2; do read pid < pid$n; cut -d ' ' -f 3 /proc/$pid/stat; done";
    // With a parent that stays: the kernel continues a stopped group that has none.
    let script = "sleep 1000 & echo $! > pid1; kill -STOP $!; sleep 1001 & echo $! > pid2; wait";
    let start = format!("setsid sh -c '{script}' > /dev/null 2>&1 & until [ -s pid2 ]; do :; done");
    sandbox.says(&start).await;
    until("one is stopped", async || {
        sandbox.says(state).await == "T\nS\n"
    })
    .await;
    sandbox.guest().freeze().await.unwrap();
    sandbox.guest().thaw().await.unwrap();
    assert_eq!(sandbox.says(state).await, "T\nS\n");
}

async fn bomb(bed: Bed) {
    let sandbox = bed.start().await;
    let burst = "(while :; do (echo >> ticks; :) & done) > /dev/null 2>&1 &";
    sandbox.says(burst).await;
    until("it bursts", async || ticks(&sandbox).await > 20).await;
    soon("a freeze", sandbox.guest().freeze()).await.unwrap();
    let before = ticks(&sandbox).await;
    tokio::time::sleep(WHILE).await;
    assert_eq!(ticks(&sandbox).await, before);
    sandbox.guest().thaw().await.unwrap();
    until("it goes on", async || ticks(&sandbox).await > before).await;
}
