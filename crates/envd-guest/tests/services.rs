//! What is not in the suite of all backends: archives, compilers, large output, processes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{io::Read as _, time::Duration};

use bytes::Bytes;
use futures::stream;
use guest_client::{
    GuestClient, ProcessEvent, ProcessRequest,
    messages::{Compression, ExportRequest, ImportResponse, ImportStart, ReadBytesRequest},
};
use sandbox_backend::Place;
use sandbox_conformance::{request, shell};
use sandbox_core::{ErrorCode, Phase, Result, RunOutcome, RunRequest, SandboxSpec, Script};
use support::{Alone, Local, local};
use tar::{Builder, EntryType, Header};

struct Bed {
    _local: Local,
    place: std::sync::Arc<dyn Place>,
}

impl Bed {
    async fn make(first_uid: u32) -> Self {
        let local = local(first_uid).await;
        let id = "00000000000000000000000000000001".parse().unwrap();
        let backend = Alone::over(&local);
        let place = backend.create(&id, &SandboxSpec::default()).await.unwrap();
        Self {
            _local: local,
            place,
        }
    }

    fn guest(&self) -> &GuestClient {
        self.place.guest()
    }

    async fn run(&self, request: RunRequest) -> RunOutcome {
        let run = self.guest().run(request).await.unwrap();
        run.collect().await.unwrap()
    }

    async fn says(&self, script: &str) -> String {
        self.run(shell(script)).await.stdout.to_text()
    }

    async fn import(&self, into: &str, archive: Vec<u8>) -> Result<ImportResponse> {
        let start = ImportStart {
            path: into.into(),
            max_bytes: 10 << 20,
            max_entries: 1000,
            ..Default::default()
        };
        let chunks: Vec<_> = archive
            .chunks(1000)
            .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
            .collect();
        self.guest().import(start, stream::iter(chunks)).await
    }
}

/// With files of many kinds of names, an empty folder, links, and one file twice.
fn archive(entries: &[(&str, EntryType, &str, u32)]) -> Vec<u8> {
    let mut tar = Builder::new(Vec::new());
    for (path, kind, content, mode) in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_mode(*mode);
        match kind {
            EntryType::Symlink | EntryType::Link => {
                header.set_size(0);
                tar.append_link(&mut header, path, content).unwrap();
            }
            _ => {
                header.set_size(content.len() as u64);
                tar.append_data(&mut header, path, content.as_bytes())
                    .unwrap();
            }
        }
    }
    tar.into_inner().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_goes_in_whole_or_not_at_all_and_comes_out() {
    let bed = Bed::make(1_900_021_000).await;
    bed.says("mkdir -p d/there; echo old > d/kept; echo old > d/f; chmod 600 d/f")
        .await;
    let good = archive(&[
        ("f", EntryType::Regular, "new", 0o644),
        ("run", EntryType::Regular, "#!/bin/sh\necho ran\n", 0o755),
        ("there/a \"b\" ä%;\n", EntryType::Regular, "odd", 0o640),
        ("fresh/deep/x", EntryType::Regular, "x", 0o644),
        ("fresh/deep/x", EntryType::Regular, "y", 0o644),
        ("fresh/y", EntryType::Link, "fresh/deep/x", 0o644),
        ("fresh/l", EntryType::Symlink, "deep/x", 0o777),
        ("empty", EntryType::Directory, "", 0o750),
        ("links/up", EntryType::Symlink, "../f", 0o777),
    ]);
    let done = bed.import("d", good).await.unwrap();
    assert_eq!(done.written, 5);
    let said = bed
        .says(
            "cd d; cat f kept; ./run; cat there/a*; echo; cat fresh/deep/x fresh/y fresh/l; echo; \
             stat -c %a f run there/a* empty; readlink fresh/l links/up; ls -A empty; \
             ls -A ../.sandbox",
        )
        .await;
    assert_eq!(
        said,
        "newold\nran\nodd\nyyy\n644\n755\n640\n750\ndeep/x\n../f\n.gitignore\n"
    );
    // A folder where a file is, at its end: nothing of it is there.
    let bad = archive(&[
        ("a/new", EntryType::Regular, "new", 0o644),
        ("kept/x", EntryType::Regular, "x", 0o644),
    ]);
    let refused = bed.import("d", bad).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::NotADirectory);
    let out = archive(&[
        ("b", EntryType::Regular, "new", 0o644),
        ("l", EntryType::Symlink, "/etc/passwd", 0o777),
    ]);
    let refused = bed.import("d", out).await.unwrap_err();
    assert_eq!(refused.code(), ErrorCode::InvalidArchive);
    assert_eq!(
        bed.says("ls -A d; ls -A .sandbox")
            .await
            .matches('\n')
            .count(),
        8
    );

    let export = ExportRequest {
        path: "d".into(),
        compression: Compression::COMPRESSION_NONE.into(),
        ..Default::default()
    };
    let mut parts = bed.guest().export(export).await.unwrap();
    let mut all = Vec::new();
    while let Some(part) = parts.next().await.unwrap() {
        all.extend_from_slice(&part);
    }
    let mut found = Vec::new();
    for entry in tar::Archive::new(all.as_slice()).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let link = entry
            .link_name()
            .unwrap()
            .map(|it| it.display().to_string());
        let path = entry.path().unwrap().display().to_string();
        found.push((path, link.unwrap_or(text)));
    }
    let has = |path: &str, text: &str| found.contains(&(path.to_owned(), text.to_owned()));
    assert!(has("f", "new") && has("fresh/deep/x", "y"), "{found:?}");
    assert!(
        has("fresh/l", "deep/x") && has("links/up", "../f"),
        "{found:?}"
    );
    assert_eq!(found.len(), 13, "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_compiled_run_and_gone() {
    let bed = Bed::make(1_900_021_500).await;
    let script = |source: &str, compile: &[&str]| {
        let mut request = request(&["/bin/sh", "{out}", "an argument"]);
        request.program.script = Some(Script {
            file_name: "main.sh".into(),
            source: source.to_owned().into(),
            compile: compile.iter().map(|it| (*it).to_owned()).collect(),
        });
        request.stdin = Bytes::from_static(b"input");
        request
    };
    let outcome = bed
        .run(script("echo $1; cat; pwd", &["cp", "{file}", "{out}"]))
        .await;
    assert_eq!(outcome.stdout.to_text(), "an argument\ninput/workspace\n");
    let failed = bed
        .run(script("", &["sh", "-c", "echo on; echo no >&2; exit 3"]))
        .await;
    assert_eq!((failed.phase, failed.exit_code), (Phase::Compile, 3));
    assert_eq!(failed.stdout.to_text(), "");
    assert_eq!(failed.stderr.to_text(), "on\nno\n");
    assert_eq!(bed.says("ls -A . /tmp | grep -e main -e build").await, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_beyond_the_limit_is_whole_in_a_file() {
    let bed = Bed::make(1_900_022_000).await;
    let spilling = RunRequest {
        output_limit: 1000,
        spill_limit: 1 << 20,
        ..shell("i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i + 1)); done")
    };
    let outcome = bed.run(spilling).await;
    let file = outcome.stdout_file.unwrap();
    assert_eq!(file.size_bytes, outcome.stdout.total_bytes());
    let sum = bed.says(&format!("sha256sum {}", file.path)).await;
    assert!(sum.starts_with(&file.sha256), "{sum} {}", file.sha256);
    let read = ReadBytesRequest {
        path: file.path,
        length: Some(10),
        from_end: true,
        ..Default::default()
    };
    let mut read = bed.guest().read_bytes(read).await.unwrap();
    assert_eq!(read.next().await.unwrap().unwrap(), "\nline 4999\n"[1..]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_goes_on_and_is_killed_with_all_it_started() {
    let bed = Bed::make(1_900_022_500).await;
    let guest = bed.guest();
    let start = ProcessRequest {
        tag: "server".into(),
        argv: ["/bin/sh", "-c", "setsid sleep 71 & read line; echo got $line; trap 'echo hup' HUP; sleep 72 & wait; wait"]
            .map(str::to_owned)
            .to_vec(),
        env: Default::default(),
        cwd: None,
        terminal: None,
    };
    let mut process = guest.start_process(start).await.unwrap();
    guest
        .send_input("server", Bytes::from_static(b"it\n"), false)
        .await
        .unwrap();
    let got = process.next().await.unwrap();
    assert_eq!(got, ProcessEvent::Stdout(Bytes::from_static(b"got it\n")));
    let left = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep 7[12]'";
    while bed.says(left).await != "1\n" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    guest.send_signal("server", 1).await.unwrap();
    let got = process.next().await.unwrap();
    assert_eq!(got, ProcessEvent::Stdout(Bytes::from_static(b"hup\n")));
    guest.send_signal("server", 9).await.unwrap();
    let ended = process.next().await.unwrap();
    let killed = ProcessEvent::Ended {
        exit_code: 137,
        signal: Some(9),
    };
    assert_eq!(ended, killed);
    while bed.says(left).await != "0\n" {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let gone = guest.send_signal("server", 9).await.unwrap_err();
    assert_eq!(gone.code(), ErrorCode::ProcessEnded);
}
