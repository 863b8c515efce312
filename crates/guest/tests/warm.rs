//! Python that is forked must not be told from Python that is started.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    path::Path,
    time::{Duration, Instant},
};

use guest_client::{RunEvent, messages::UsageRequest};
use sandbox_core::{ArtifactLimits, Program, RunRequest, Script, Termination};
use support::{TestGuest, alive, bash};

const CORPUS: &str = include_str!("warm/corpus.py");
const PRELOAD: &[&str] = &[
    "--python-preload",
    "numpy,pandas,matplotlib.pyplot,nothing.there",
];

struct Entry {
    name: &'static str,
    stdin: bool,
    args: bool,
    env: BTreeMap<String, String>,
    source: String,
}

fn corpus() -> Vec<Entry> {
    let entries = CORPUS.split("\n#: ").skip(1).map(|text| {
        let (head, source) = text.split_once('\n').unwrap();
        let (name, env) = match head.split_once(" env ") {
            Some((name, pair)) => (name, pair.split_once('=')),
            None => (head, None),
        };
        Entry {
            name: head,
            stdin: name.ends_with(" stdin"),
            args: name.ends_with(" args"),
            env: env.map(|(n, v)| (n.into(), v.into())).into_iter().collect(),
            source: format!("{source}\n"),
        }
    });
    entries.collect()
}

fn python(source: impl Into<String>) -> RunRequest {
    RunRequest {
        program: Program {
            argv: ["/usr/bin/python3", "-u", "{file}"]
                .map(str::to_owned)
                .into(),
            script: Some(Script {
                file_name: "main.py".into(),
                source: source.into().into(),
                compile: Vec::new(),
            }),
        },
        python_display: true,
        ..bash("")
    }
}

/// A guest in which programs of either kind are forked already.
async fn warm_guest() -> TestGuest {
    let guest = TestGuest::with(PRELOAD).await;
    warm_up(&guest).await;
    guest
}

async fn warm_up(guest: &TestGuest) {
    let until = Instant::now() + Duration::from_secs(60);
    // The second fails in a fork of what has few imports.
    for source in ["pass", "import sys; sys.exit('numpy' not in sys.modules)"] {
        loop {
            let ran = guest.run(python(source)).await;
            if (ran.warm, ran.exit_code) == (true, 0) {
                break;
            }
            assert!(Instant::now() < until, "nothing gets warm");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// All that can be seen of a run, in words.
async fn observed(guest: &TestGuest, entry: &Entry) -> (String, bool) {
    let mut request = python(entry.source.clone());
    request.env.clone_from(&entry.env);
    if entry.stdin {
        request.stdin = "first line\nsecond\nthird ä".into();
    }
    if entry.args {
        let args = ["one", "two three", "-v", "ä"].map(str::to_owned);
        request.program.argv.extend(args);
    }
    request.artifacts = Some(ArtifactLimits {
        max_files: 50,
        max_file_bytes: 8 << 20,
        max_total_bytes: 32 << 20,
    });
    let mut run = guest.client.run(request).await.unwrap();
    let mut collected = guest_client::Collected::within(1 << 20);
    let mut displayed = Vec::new();
    let outcome = loop {
        match run.next().await.unwrap().unwrap() {
            RunEvent::Ended(end) => break collected.ended(end),
            RunEvent::Display(bundle) => displayed.push(bundle),
            event => collected.add(&event),
        }
    };
    let mut seen = format!(
        "exit {} signal {:?} {:?}\n--- stdout\n{}\n--- stderr\n{}\n--- displayed {displayed:?}\n",
        outcome.exit_code,
        outcome.signal,
        outcome.termination,
        outcome.stdout.to_text(),
        outcome.stderr.to_text(),
    );
    let mut artifacts: Vec<String> = outcome
        .artifacts
        .iter()
        .map(|artifact| {
            format!(
                "artifact {} {:?} {}",
                artifact.name, artifact.kind, artifact.size_bytes
            )
        })
        .collect();
    artifacts.sort();
    writeln!(seen, "{}", artifacts.join("\n")).unwrap();
    take_files(guest.workspace.path(), guest.workspace.path(), &mut seen);
    (plain(&seen, guest.workspace.path()), outcome.warm)
}

/// Describes what is there, and removes it for the next run.
fn take_files(root: &Path, folder: &Path, seen: &mut String) {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path
            .strip_prefix(root)
            .unwrap()
            .to_string_lossy()
            .into_owned();
        if name == ".sandbox" {
            continue;
        }
        if path.is_dir() {
            // Caches of compiled modules hold the time at which their source was written.
            if !name.ends_with("__pycache__") {
                take_files(root, &path, seen);
            }
            fs::remove_dir_all(&path).unwrap();
        } else {
            let content = fs::read(&path).unwrap();
            let content = match content.len() < 4096 && !name.ends_with(".zip") {
                true => String::from_utf8_lossy(&content).into_owned(),
                false => format!("{} bytes", content.len()),
            };
            writeln!(seen, "file {name}: {content}").unwrap();
            fs::remove_file(&path).unwrap();
        }
    }
}

/// Without what differs between any two runs.
fn plain(text: &str, workspace: &Path) -> String {
    let text = text.replace(workspace.to_str().unwrap(), "W");
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some(at) = ["0x", ".main-"].iter().filter_map(|it| rest.find(it)).min() {
        let (before, after) = rest.split_at(at);
        plain.push_str(before);
        let is_hex = |c: char| c.is_ascii_hexdigit();
        let (mark, digits) = after.split_at(if after.starts_with("0x") { 2 } else { 6 });
        plain.push_str(mark);
        rest = digits.trim_start_matches(is_hex);
    }
    plain.push_str(rest);
    // Folders for temporary files are each guest's own.
    let words = plain.split_inclusive(['\'', '"', ' ', '\n']);
    let hide = |word: &str| match word.split_once("/tmp/.tmp") {
        Some((before, after)) => {
            format!(
                "{before}/tmp{}",
                after.trim_start_matches(|c: char| c.is_ascii_alphanumeric())
            )
        }
        None => word.to_owned(),
    };
    words.map(hide).collect()
}

#[tokio::test]
async fn a_forked_program_cannot_be_told_from_a_started_one() {
    let cold = TestGuest::start().await;
    let warm = warm_guest().await;
    let mut differ = Vec::new();
    let corpus = corpus();
    assert!(corpus.len() >= 60, "{}", corpus.len());
    for entry in &corpus {
        let (expected, _) = observed(&cold, entry).await;
        let (found, was_warm) = observed(&warm, entry).await;
        if expected != found || !was_warm {
            let name = entry.name;
            differ.push(format!(
                "===== {name} (forked: {was_warm})\n{expected}\n===== forked\n{found}"
            ));
        }
    }
    assert!(
        differ.is_empty(),
        "{} of {}:\n{}",
        differ.len(),
        corpus.len(),
        differ.join("\n")
    );
}

fn printed(outcome: &sandbox_core::RunOutcome) -> (String, i32, bool) {
    let text = outcome.stdout.to_text() + &outcome.stderr.to_text();
    (text, outcome.exit_code, outcome.warm)
}

#[tokio::test]
async fn what_stands_before_a_preloaded_module_is_imported() {
    let guest = warm_guest().await;
    fs::write(guest.workspace.path().join("json.py"), "VALUE = 42").unwrap();
    let shadowed = guest.run(python("import json; print(json.VALUE)")).await;
    assert_eq!(printed(&shadowed), ("42\n".into(), 0, false));
    fs::remove_file(guest.workspace.path().join("json.py")).unwrap();
    let outcome = guest.run(python("import json; print(json.dumps(1))")).await;
    assert_eq!(printed(&outcome), ("1\n".into(), 0, true));
}

#[tokio::test]
async fn a_variable_that_interpreters_read_at_their_start_counts() {
    let guest = warm_guest().await;
    let mut request = python("print(hash('a'))");
    request.env.insert("PYTHONHASHSEED".into(), "0".into());
    let once = guest.run(request.clone()).await;
    assert_eq!(printed(&once), printed(&guest.run(request).await));
    assert!(!once.warm);
}

#[tokio::test]
async fn packages_that_are_installed_later_are_found() {
    let guest = warm_guest().await;
    let install =
        "d=$(/usr/bin/python3 -m site --user-site); mkdir -p $d; echo 'X = 7' > $d/later.py";
    assert_eq!(guest.bash(install).await.exit_code, 0);
    let source = "import later; print(later.X)";
    assert_eq!(guest.run(python(source)).await.stdout.to_text(), "7\n");
    warm_up(&guest).await;
    assert_eq!(
        printed(&guest.run(python(source)).await),
        ("7\n".into(), 0, true)
    );
}

#[tokio::test]
async fn a_killed_interpreter_fails_no_run_and_comes_back() {
    let guest = warm_guest().await;
    let goes_on = guest
        .client
        .run(python("import time; time.sleep(1); print('still')"));
    let goes_on = goes_on.await.unwrap();
    assert_eq!(
        guest
            .bash("pkill -9 -f \"$TMPDIR/.*[z]ygote.py\"; true")
            .await
            .exit_code,
        0
    );
    // What is forked has the same name: so it dies with it.
    assert_eq!(goes_on.collect().await.unwrap().signal, Some(9));
    for _ in 0..3 {
        assert_eq!(guest.run(python("print(1)")).await.stdout.to_text(), "1\n");
    }
    warm_up(&guest).await;
}

#[tokio::test]
async fn a_run_survives_the_interpreter_that_it_was_forked_from() {
    let guest = warm_guest().await;
    let source = "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(0.2); print('on')";
    let outcome = guest.run(python(source)).await;
    assert_eq!(printed(&outcome), ("on\n".into(), 0, true));
    let outcome = guest.run(python("print(1)")).await;
    assert_eq!(printed(&outcome), ("1\n".into(), 0, false));
}

#[tokio::test]
async fn interpreters_that_were_stopped_hold_up_nobody_for_long() {
    let guest = warm_guest().await;
    guest
        .bash("pkill -STOP -f \"$TMPDIR/.*[z]ygote.py\"; true")
        .await;
    let began = Instant::now();
    let outcome = guest.run(python("print(1)")).await;
    assert_eq!(printed(&outcome), ("1\n".into(), 0, false));
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn a_timeout_ends_all_that_the_run_started_and_nothing_else() {
    let guest = warm_guest().await;
    let neighbour = guest
        .client
        .run(python("import time; time.sleep(3); print('well')"));
    let neighbour = neighbour.await.unwrap();
    let source = "import os, subprocess, time\n\
        subprocess.Popen(['setsid', 'sh', '-c', 'sleep 77.1 & exec sleep 77.2'])\n\
        if os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.execvp('sleep', ['sleep', '77.3'])\n os._exit(0)\n\
        os.wait()\nprint(os.getpid(), flush=True)\ntime.sleep(100)";
    let mut request = python(source);
    request.timeout = Duration::from_millis(800);
    let outcome = guest.run(request).await;
    assert_eq!(
        (outcome.termination, outcome.warm),
        (Termination::TimedOut, true)
    );
    let left = guest.bash("pgrep -f '[s]leep 77' | wc -l").await;
    assert_eq!(left.stdout.to_text().trim(), "0");
    assert!(!alive(&outcome.stdout.to_text()));
    let neighbour = neighbour.collect().await.unwrap();
    assert_eq!(printed(&neighbour), ("well\n".into(), 0, true));
}

/// A mark can be lowered, the soft limit alone too, and a process whose first thread
/// has ended looks like a zombie.
#[tokio::test]
async fn a_timeout_ends_what_has_hidden_from_it() {
    let guest = warm_guest().await;
    let source = "import ctypes, os, resource, threading, time\n\
        kind = resource.RLIMIT_RTTIME\nhard = resource.getrlimit(kind)[1]\n\
        def first_thread_ends():\n \
        threading.Thread(target=time.sleep, args=(100,)).start()\n \
        ctypes.CDLL(None).pthread_exit(None)\n\
        for hide in (\n \
        lambda: resource.setrlimit(kind, (7, 7)),\n \
        lambda: resource.setrlimit(kind, (7, hard)),\n \
        lambda: resource.setrlimit(kind, (hard - 1, hard - 1)),\n \
        first_thread_ends,\n\
        ):\n \
        if os.fork() == 0:\n  os.setsid()\n  pid = os.fork()\n  \
        if pid: print(pid, flush=True); os._exit(0)\n  \
        hide(); time.sleep(100)\n \
        os.wait()\n\
        time.sleep(100)";
    let mut request = python(source);
    request.timeout = Duration::from_millis(1500);
    let outcome = guest.run(request).await;
    assert_eq!(
        (outcome.termination, outcome.warm),
        (Termination::TimedOut, true)
    );
    let output = outcome.stdout.to_text();
    let pids: Vec<&str> = output.lines().collect();
    assert_eq!(pids.len(), 4, "{output}");
    tokio::time::sleep(Duration::from_millis(200)).await;
    for pid in pids {
        // Not by its state: that of the last one is a zombie's.
        let is_there = Path::new("/proc").join(pid).exists();
        assert!(!is_there, "{pid} of {output}");
    }
}

#[tokio::test]
async fn what_a_run_leaves_in_the_background_goes_on() {
    let guest = warm_guest().await;
    let source = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid)";
    let outcome = guest.run(python(source)).await;
    assert!(outcome.warm);
    let pid = outcome.stdout.to_text();
    assert!(alive(&pid));
    // Also when the interpreter is not current any more.
    guest
        .bash("mkdir -p $(/usr/bin/python3 -m site --user-site)")
        .await;
    assert!(!guest.run(python("pass")).await.warm);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(alive(&pid));
    guest.bash(&format!("kill {pid}")).await;
}

/// Says what a program's last act says, to the only socket of that kind.
const SAY_DONE: &str = "import os, socket, time\n\
    name = [line.split()[-1] for line in open('/proc/net/unix') if '@sandbox-' in line]\n\
    def say():\n s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n \
    for n in name:\n  try: s.sendto(b'0', '\\0' + n[1:])\n  except OSError: pass\n";

#[tokio::test]
async fn who_says_that_it_is_done_is_ended() {
    let guest = warm_guest().await;
    let source = format!("{SAY_DONE}print('before')\nsay()\ntime.sleep(1)\nopen('after', 'w')\n");
    let outcome = guest.run(python(source)).await;
    assert_eq!(printed(&outcome), ("before\n".into(), 0, true));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!guest.workspace.path().join("after").exists());
}

#[tokio::test]
async fn nobody_says_of_others_that_they_are_done() {
    let guest = warm_guest().await;
    let source = format!(
        "{SAY_DONE}if os.fork() == 0:\n say()\n os._exit(0)\nos.wait()\ntime.sleep(0.2)\nprint('end')\nexit(3)"
    );
    assert_eq!(
        printed(&guest.run(python(source)).await),
        ("end\n".into(), 3, true)
    );
    // Nor a program that was not forked.
    let mut other = python(format!("{SAY_DONE}say()\nprint('on')"));
    other.env.insert("PYTHONOPTIMIZE".into(), "1".into());
    assert_eq!(printed(&guest.run(other).await), ("on\n".into(), 0, false));
}

#[tokio::test]
async fn many_at_once_are_each_their_own() {
    let guest = warm_guest().await;
    let runs = (0..24).map(|number| {
        let source = format!("import os, time; time.sleep(0.05); print({number}, os.getpid())");
        let guest = &guest;
        async move { printed(&guest.run(python(source)).await) }
    });
    let mut pids = std::collections::BTreeSet::new();
    for (number, (text, code, warm)) in futures::future::join_all(runs)
        .await
        .into_iter()
        .enumerate()
    {
        let (printed, pid) = text.trim().split_once(' ').unwrap();
        assert_eq!(
            (printed, code, warm),
            (number.to_string().as_str(), 0, true)
        );
        assert!(pids.insert(pid.to_owned()));
    }
}

#[tokio::test]
async fn programs_draw_other_numbers_each_time() {
    let guest = warm_guest().await;
    let source = "import numpy, random, tempfile, uuid, secrets\n\
        print(random.random(), numpy.random.rand(), secrets.token_hex(4), uuid.uuid4(), uuid.uuid1())\n\
        print(tempfile.mktemp())";
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let (text, _, warm) = printed(&guest.run(python(source)).await);
        assert!(warm);
        for word in text.split_whitespace() {
            assert!(seen.insert(word.to_owned()), "{word} comes twice");
        }
    }
}

#[tokio::test]
async fn its_memory_is_told() {
    let guest = warm_guest().await;
    let used = guest.client.usage(UsageRequest::default()).await.unwrap();
    let bytes = used.warm_python_bytes.unwrap();
    assert!((5 << 20..500 << 20).contains(&bytes), "{bytes}");
    let plain = TestGuest::start().await;
    let used = plain.client.usage(UsageRequest::default()).await.unwrap();
    assert_eq!(used.warm_python_bytes, None);
}

#[tokio::test]
async fn an_interpreter_that_was_stopped_is_replaced() {
    let guest = warm_guest().await;
    let stop = "pkill -STOP -f \"$TMPDIR/.*[z]ygote.py\"; true";
    guest.bash(stop).await;
    warm_up(&guest).await;
    assert_eq!(
        printed(&guest.run(python("print(1)")).await),
        ("1\n".into(), 0, true)
    );
}

#[tokio::test]
async fn a_run_that_stops_what_tells_of_its_end_ends_in_time() {
    let guest = warm_guest().await;
    let source = "import os, signal; os.kill(os.getppid(), signal.SIGSTOP); os.abort()";
    let mut request = python(source);
    request.timeout = Duration::from_secs(1);
    let began = Instant::now();
    assert!(guest.run(request).await.warm);
    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
}
