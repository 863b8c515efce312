//! Files that runs make, and the copies that are kept of them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    time::Duration,
};

use sandbox_core::{Artifact, ArtifactLimits, RunOutcome, RunRequest, Termination};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use support::{TestGuest, WireGuest, bash};

const LIMITS: ArtifactLimits = ArtifactLimits {
    max_files: 50,
    max_file_bytes: 1 << 20,
    max_total_bytes: 8 << 20,
};

fn making(command: &str) -> RunRequest {
    RunRequest {
        artifacts: Some(LIMITS),
        ..bash(command)
    }
}

fn paths(outcome: &RunOutcome) -> Vec<&str> {
    let mut paths: Vec<_> = outcome.artifacts.iter().map(|a| a.path.as_str()).collect();
    paths.sort_unstable();
    paths
}

impl TestGuest {
    /// What is in the copy, after a check of what was said of it.
    fn stored(&self, artifact: &Artifact) -> Vec<u8> {
        let data = fs::read(self.workspace.path().join(&artifact.stored_path)).unwrap();
        let hash: String = Sha256::digest(&data)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            (data.len() as u64, hash.as_str()),
            (artifact.size_bytes, artifact.sha256.as_str())
        );
        data
    }
}

#[tokio::test]
async fn files_that_a_run_makes_or_changes_are_listed_and_kept() {
    let guest = TestGuest::start().await;
    let at = |name: &str| guest.workspace.path().join(name);
    fs::write(at("old.txt"), "old").unwrap();
    fs::write(at("grows.txt"), "old").unwrap();
    // Through the guest, as the service does it: it knows of the change then.
    guest.bash("true").await;
    let outcome = guest
        .run(making(
            "mkdir -p out .hidden __pycache__
             printf 'a,b\\n1,2\\n' > out/data.csv
             printf new >> grows.txt
             echo x > .hidden/x; echo x > .x; echo x > __pycache__/x.pyc
             ln -s old.txt link.txt; mkfifo fifo; ln -s .. out/loop",
        ))
        .await;
    assert_eq!(paths(&outcome), ["grows.txt", "out/data.csv"]);
    assert_eq!(outcome.artifacts_omitted, 0);
    let table = outcome
        .artifacts
        .iter()
        .find(|artifact| artifact.name == "data.csv")
        .unwrap();
    assert_eq!(
        (table.kind.as_str(), table.mime_type.as_str(), &table.table),
        ("table", "text/csv", &None)
    );
    assert_eq!(
        table.stored_path,
        format!(".sandbox/artifacts/{}", table.id)
    );
    assert_eq!(guest.stored(table), b"a,b\n1,2\n");
    // It stays what it was.
    guest.bash("echo other > out/data.csv").await;
    assert_eq!(guest.stored(table), b"a,b\n1,2\n");
}

#[tokio::test]
async fn a_file_is_told_of_once_for_each_change() {
    let guest = TestGuest::start().await;
    for n in 0..20 {
        let outcome = guest.run(making(&format!("echo {n} > f"))).await;
        assert_eq!(paths(&outcome), ["f"], "{n}");
        let outcome = guest.run(making("cat f > /dev/null; true")).await;
        assert_eq!(paths(&outcome), [""; 0], "{n}");
    }
    // Nor is what a run that was not asked leaves behind.
    guest.bash("echo x > silent").await;
    assert_eq!(paths(&guest.run(making("true")).await), [""; 0]);
    // Same size, same second.
    assert_eq!(
        paths(&guest.run(making("echo y > silent")).await),
        ["silent"]
    );
}

#[tokio::test]
async fn what_the_service_wrote_was_not_made_by_the_run() {
    let guest = WireGuest::start().await;
    for n in 0..20 {
        let call = json!({"path": "input.txt", "data": "eA==", "createDirs": true});
        let written = guest.wire.call("sandbox.v1.Workspace/Write", call).await;
        written.unwrap();
        let request = json!({
            "argv": ["bash", "-c", "cat input.txt > output.txt"],
            "timeoutMs": 10_000,
            "outputLimitBytes": "1000",
            "artifacts": {"maxFiles": 9, "maxFileBytes": "1000", "maxTotalBytes": "1000"},
        });
        let mut events = guest.wire.stream("sandbox.v1.Code/Run", &[], request).await;
        let mut made = Vec::new();
        while let (false, event) = events.next().await {
            if let Some(path) = event["artifact"]["path"].as_str() {
                made.push(path.to_owned());
            }
        }
        assert_eq!(made, ["output.txt"], "{n}");
    }
}

#[tokio::test]
async fn nothing_is_looked_for_unless_it_is_asked() {
    let guest = TestGuest::start().await;
    let outcome = guest.bash("echo x > f").await;
    assert_eq!((paths(&outcome), outcome.artifacts_omitted), (vec![], 0));
    assert!(!guest.workspace.path().join(".sandbox").exists());
}

#[tokio::test]
async fn what_is_beyond_the_limits_is_counted() {
    let guest = TestGuest::start().await;
    let limited = |command: &str, max_files, max_file_bytes, max_total_bytes| RunRequest {
        artifacts: Some(ArtifactLimits {
            max_files,
            max_file_bytes,
            max_total_bytes,
        }),
        ..bash(command)
    };
    let outcome = guest
        .run(limited(
            "for n in 1 2 3 4 5; do echo $n > n$n; done",
            3,
            100,
            1000,
        ))
        .await;
    assert_eq!(
        (outcome.artifacts.len(), outcome.artifacts_omitted),
        (3, 2),
        "number"
    );
    let outcome = guest
        .run(limited(
            "head -c 101 /dev/zero > large; echo > small",
            9,
            100,
            1000,
        ))
        .await;
    assert_eq!(paths(&outcome), ["small"], "size");
    assert_eq!(outcome.artifacts_omitted, 1);
    let outcome = guest
        .run(limited(
            "for n in 1 2 3; do head -c 60 /dev/zero > t$n; done",
            9,
            100,
            130,
        ))
        .await;
    assert_eq!(
        (outcome.artifacts.len(), outcome.artifacts_omitted),
        (2, 1),
        "all together"
    );
    let outcome = guest
        .run(limited(
            "truncate -s 1T huge; echo > small",
            9,
            1 << 30,
            1 << 30,
        ))
        .await;
    assert_eq!(paths(&outcome), ["small"], "sparse");
    let copies = fs::read_dir(guest.workspace.path().join(".sandbox/artifacts")).unwrap();
    assert_eq!(copies.count(), 3 + 1 + 2 + 1);
}

#[tokio::test]
async fn files_of_a_run_that_ran_out_of_time_are_kept() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(RunRequest {
            timeout: Duration::from_millis(500),
            ..making("echo half > result.txt; sleep 100")
        })
        .await;
    assert_eq!(outcome.termination, Termination::TimedOut);
    assert_eq!(paths(&outcome), ["result.txt"]);
}

#[tokio::test]
async fn a_planted_folder_of_copies_leads_nowhere() {
    let guest = TestGuest::start().await;
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(guest.workspace.path().join(".sandbox")).unwrap();
    symlink(
        outside.path(),
        guest.workspace.path().join(".sandbox/artifacts"),
    )
    .unwrap();
    let outcome = guest.run(making("echo x > f")).await;
    assert_eq!((outcome.artifacts.len(), outcome.artifacts_omitted), (0, 1));
    assert_eq!(outcome.exit_code, 0);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn files_that_change_and_move_all_the_time_make_no_lie() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(making(
            "(for i in $(seq 300); do
                seq $i 2000 > moving; mv moving moved; ln -sf /etc/passwd moving; rm -f moving
              done) > /dev/null 2>&1 &
             sleep 0.05; echo x > still",
        ))
        .await;
    assert!(paths(&outcome).contains(&"still"));
    for artifact in &outcome.artifacts {
        let data = guest.stored(artifact);
        assert!(!data.starts_with(b"root:"), "{}", artifact.path);
    }
}

#[tokio::test]
async fn the_copy_of_a_hard_link_is_a_file_of_its_own() {
    let guest = TestGuest::start().await;
    let outcome = guest
        .run(making("echo x > a; ln a b; chmod 000 a; echo > c"))
        .await;
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if root {
        assert_eq!(paths(&outcome), ["a", "b", "c"]);
    } else {
        assert_eq!((paths(&outcome), outcome.artifacts_omitted), (vec!["c"], 2));
    }
    for artifact in &outcome.artifacts {
        let copy = guest.workspace.path().join(&artifact.stored_path);
        assert_eq!(fs::metadata(copy).unwrap().nlink(), 1);
    }
}

#[tokio::test]
async fn copies_are_removed_by_their_paths_and_nothing_else_is() {
    let guest = WireGuest::start().await;
    let remove = async |paths: &[&str]| {
        guest
            .wire
            .call(
                "sandbox.v1.Workspace/RemoveArtifacts",
                json!({"storedPaths": paths}),
            )
            .await
    };
    let folder = guest.workspace.path().join(".sandbox/artifacts");
    // There is none yet.
    remove(&[".sandbox/artifacts/a"]).await.unwrap();
    fs::create_dir_all(folder.join("d")).unwrap();
    for name in ["a", "b"] {
        fs::write(folder.join(name), "x").unwrap();
    }
    fs::write(guest.workspace.path().join("mine"), "x").unwrap();
    let refused = remove(&[".sandbox/artifacts/a", ".sandbox/artifacts/../../mine"]).await;
    assert_eq!(refused.unwrap_err().0, 400);
    assert!(folder.join("a").exists());
    remove(&[
        ".sandbox/artifacts/a",
        ".sandbox/artifacts/gone",
        ".sandbox/artifacts/d",
    ])
    .await
    .unwrap();
    assert!(!folder.join("a").exists());
    assert!(folder.join("b").exists() && folder.join("d").is_dir());
    // A link in the folder's place is not followed.
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("b"), "x").unwrap();
    fs::remove_dir_all(&folder).unwrap();
    symlink(outside.path(), &folder).unwrap();
    remove(&[".sandbox/artifacts/b"]).await.unwrap();
    assert!(outside.path().join("b").exists());
}
