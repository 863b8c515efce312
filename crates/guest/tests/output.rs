//! The output of runs as it comes, and what of it goes to a file.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use guest_client::{Collected, RunEvent};
use sandbox_core::{OutputFile, RunOutcome, RunRequest, Stream, Termination};
use sha2::{Digest as _, Sha256};
use support::{TestGuest, alive, bash, python, until};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

fn spilling(command: &str, output_limit: u64, spill_limit: u64) -> RunRequest {
    RunRequest {
        output_limit,
        spill_limit,
        ..bash(command)
    }
}

fn live(command: &str) -> RunRequest {
    RunRequest {
        live: true,
        output_limit: 10,
        ..bash(command)
    }
}

/// Reads the file that the answer names, and checks what it says of it.
fn read(workspace: &Path, file: Option<&OutputFile>) -> Vec<u8> {
    let file = file.expect("a file was kept");
    let data = fs::read(workspace.join(&file.path)).unwrap();
    let hash: String = Sha256::digest(&data)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert_eq!(
        (data.len() as u64, hash.as_str()),
        (file.size_bytes, file.sha256.as_str())
    );
    data
}

#[tokio::test]
async fn live_output_comes_whole_and_in_order() {
    let guest = TestGuest::start().await;
    let mut run = guest
        .client
        .run(live("seq 1 200000; echo end >&2"))
        .await
        .unwrap();
    let mut stdout = Vec::new();
    let mut stderr = Vec::new();
    let end = loop {
        match run.next().await.unwrap().unwrap() {
            RunEvent::Output {
                stream,
                data,
                omitted_before,
            } => {
                assert_eq!(omitted_before, 0);
                match stream {
                    Stream::Stdout => stdout.extend(data),
                    Stream::Stderr => stderr.extend(data),
                }
            }
            RunEvent::Ended(end) => break end,
            event => panic!("{event:?}"),
        }
    };
    let wanted: String = (1..=200_000).map(|n| format!("{n}\n")).collect();
    assert!(stdout == wanted.as_bytes(), "{} bytes", stdout.len());
    assert_eq!(stderr, b"end\n");
    assert_eq!(end.stdout_bytes, wanted.len() as u64);
    assert_eq!(end.stdout_file, None);
}

#[tokio::test]
async fn live_output_leaves_when_it_is_printed() {
    let guest = TestGuest::start().await;
    // Written at once: print may part a line from its end.
    let source = "import os, time
for _ in range(20):
    os.write(1, b'%d\\n' % time.time_ns())
    time.sleep(0.02)";
    let mut run = guest
        .client
        .run(RunRequest {
            live: true,
            ..python(source)
        })
        .await
        .unwrap();
    let mut delays = Vec::new();
    while let Some(event) = run.next().await.unwrap() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        if let RunEvent::Output { data, .. } = event {
            let text = String::from_utf8(data).unwrap();
            let printed: u64 = text.lines().next().unwrap().parse().unwrap();
            delays.push(now - Duration::from_nanos(printed));
        }
    }
    delays.sort();
    assert!(delays.len() >= 10, "{delays:?}");
    // The median: the machine may be busy with something else now and then.
    let median = delays[delays.len() / 2];
    assert!(median < Duration::from_millis(10), "{delays:?}");
}

#[tokio::test]
async fn a_reader_that_stalls_stops_the_program_and_nothing_is_lost() {
    let guest = TestGuest::start().await;
    let source = "import os
block = b'x' * 65536
for n in range(400):
    os.write(1, block)
    with open('written.tmp', 'w') as f: f.write(str(n + 1))
    os.rename('written.tmp', 'written')";
    let mut run = guest
        .client
        .run(RunRequest {
            live: true,
            ..python(source)
        })
        .await
        .unwrap();
    let file = guest.workspace.path().join("written");
    let written = || -> u64 {
        fs::read_to_string(&file)
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(0)
    };
    // It has stopped when nothing was written for a while.
    let mut last = (0, Instant::now());
    until("the program stops", || {
        let now = written();
        if now != last.0 {
            last = (now, Instant::now());
        }
        now > 0 && last.1.elapsed() > Duration::from_millis(700)
    })
    .await;
    assert!(last.0 < 100, "{} of 400 blocks without a reader", last.0);
    let mut got = 0;
    while let Some(event) = run.next().await.unwrap() {
        if let RunEvent::Output { data, .. } = event {
            got += data.len();
        }
    }
    assert_eq!((got, written()), (400 * 65536, 400));
}

#[tokio::test]
async fn a_stream_larger_than_what_is_kept_is_whole_in_a_file() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(spilling(
            "seq 1 100000; echo small >&2",
            10 * KIB,
            100 * MIB,
        ))
        .await;
    let wanted: String = (1..=100_000).map(|n| format!("{n}\n")).collect();
    let data = read(guest.workspace.path(), outcome.stdout_file.as_ref());
    assert!(data == wanted.as_bytes());
    assert_eq!(outcome.stderr_file, None);
    assert_eq!(outcome.termination, Termination::Exited);
    assert_eq!(outcome.stdout.kept_bytes() as u64, 10 * KIB);
    let path = &outcome.stdout_file.unwrap().path;
    assert!(
        path.starts_with(".sandbox/output/") && path.ends_with("/stdout"),
        "{path}"
    );
}

#[tokio::test]
async fn live_output_is_kept_in_a_file_too() {
    let guest = TestGuest::start().await;
    let request = RunRequest {
        live: true,
        ..spilling(
            "head -c 3000000 /dev/urandom >&2; echo small",
            KIB,
            100 * MIB,
        )
    };
    let mut run = guest.client.run(request).await.unwrap();
    let mut collected = Collected::within(u64::MAX);
    let outcome: RunOutcome = loop {
        match run.next().await.unwrap().unwrap() {
            RunEvent::Ended(end) => break collected.ended(end),
            event => collected.add(&event),
        }
    };
    let data = read(guest.workspace.path(), outcome.stderr_file.as_ref());
    assert_eq!(data.len(), 3_000_000);
    assert_eq!(outcome.stderr.kept_bytes(), 3_000_000);
    assert_eq!(outcome.stdout_file, None);
}

#[tokio::test]
async fn a_stream_at_the_limits_is_within_them() {
    let guest = TestGuest::start().await;
    let kept = guest.run(spilling("head -c 1000 /dev/zero", 1000, 1)).await;
    assert_eq!(kept.termination, Termination::OutputLimit);
    let kept = guest
        .run(spilling("head -c 1000 /dev/zero", 1000, 5000))
        .await;
    assert_eq!(
        (kept.stdout_file, kept.termination),
        (None, Termination::Exited)
    );
    let spilled = guest
        .run(spilling("head -c 5000 /dev/zero", 1000, 5000))
        .await;
    assert_eq!(spilled.termination, Termination::Exited);
    assert_eq!(spilled.stdout_file.unwrap().size_bytes, 5000);
    let over = guest
        .run(spilling("head -c 5001 /dev/zero", 1000, 5000))
        .await;
    assert_eq!(over.termination, Termination::OutputLimit);
    assert_eq!(over.stdout_file.unwrap().size_bytes, 5000);
}

#[tokio::test]
async fn a_stream_without_end_ends_the_run_and_all_that_it_started() {
    let guest = TestGuest::start().await;
    let request = spilling(
        "trap '' TERM; setsid sleep 1000 & echo $! > pid; exec yes",
        KIB,
        4 * MIB,
    );
    let outcome = guest.run(request).await;
    assert_eq!(outcome.termination, Termination::OutputLimit);
    let data = read(guest.workspace.path(), outcome.stdout_file.as_ref());
    assert_eq!(data.len() as u64, 4 * MIB);
    assert!(outcome.stdout.total_bytes() > 4 * MIB);
    let pid = fs::read_to_string(guest.workspace.path().join("pid")).unwrap();
    until("the child is dead", || !alive(&pid)).await;
}

#[tokio::test]
async fn a_planted_link_or_fifo_costs_only_the_file() {
    let guest = TestGuest::start().await;
    let outside = tempfile::tempdir().unwrap();
    let own = guest.workspace.path().join(".sandbox");
    symlink(outside.path(), &own).unwrap();
    let outcome = guest.run(spilling("seq 1 10000", KIB, MIB)).await;
    assert_eq!(
        (outcome.stdout_file, outcome.exit_code),
        (None, 0),
        "a link"
    );
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    fs::remove_file(&own).unwrap();
    // Found by the program while it runs: a FIFO where the file is to be.
    let outcome = guest
        .run(spilling(
            "mkdir .sandbox; mkfifo .sandbox/output; seq 1 10000; echo end",
            KIB,
            MIB,
        ))
        .await;
    assert_eq!(
        (outcome.stdout_file, outcome.exit_code),
        (None, 0),
        "a fifo"
    );
    assert!(outcome.stdout.to_text().ends_with("10000\nend\n"));
    // What cannot be kept is limited all the same.
    let outcome = guest.run(spilling("yes", KIB, MIB)).await;
    assert_eq!(outcome.termination, Termination::OutputLimit);
    assert_eq!(outcome.stdout_file, None);
}

#[tokio::test]
async fn a_run_says_what_it_used() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(python(
            "x = bytearray(64 << 20)\nn = 0\nfor i in range(3_000_000): n += i",
        ))
        .await;
    assert!(outcome.cpu > Duration::from_millis(20), "{:?}", outcome.cpu);
    assert!(
        (64 * MIB..512 * MIB).contains(&outcome.peak_memory_bytes),
        "{}",
        outcome.peak_memory_bytes
    );
}
