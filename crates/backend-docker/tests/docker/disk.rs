//! Ways around the limit of the workspace.

use std::sync::Arc;

use sandbox_backend::{Backend as _, Place};
use sandbox_core::{ByteSize, SandboxSpec};

use crate::support::{Docker, id, says, sh};

const LIMIT_MIB: u64 = 16;

fn small() -> SandboxSpec {
    let mut spec = SandboxSpec::default();
    spec.limits.disk = ByteSize::mib(LIMIT_MIB);
    spec
}

async fn used_mib(place: &Arc<dyn Place>) -> u64 {
    let used = says(place, "du -sm . 2>/dev/null | cut -f1").await;
    used.trim().parse().unwrap()
}

async fn end(docker: &Docker, place: &Arc<dyn Place>) {
    place.stop().await.unwrap();
    docker.backend.remove(&id(1)).await.unwrap();
}

#[tokio::test]
async fn files_that_are_mapped_do_not_outgrow_the_workspace() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start_with(1, &small()).await;
    let script = r#"python3 -c '
import mmap, signal, time
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
size = 15 << 20
files = [open(f"f{n}", "w+b") for n in range(12)]
for file in files: file.truncate(size)
maps = [mmap.mmap(file.fileno(), size) for file in files]
for map in maps:
    for at in range(0, size, 4096): map[at] = 1
    map.flush()
    time.sleep(1)
print("all")'"#;
    let outcome = sh(&place, script).await;
    assert_eq!(outcome.stdout.to_text(), "", "{outcome:?}");
    let used = used_mib(&place).await;
    assert!(used < 5 * LIMIT_MIB, "{used}");
    end(&docker, &place).await;
}

#[tokio::test]
async fn names_do_not_outgrow_the_workspace() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start_with(1, &small()).await;
    let script = r#"python3 -c '
import os, time
for n in range(100000):
    os.mkdir(str(n))
    if n % 100 == 0: time.sleep(0.01)
print("all")'"#;
    let outcome = sh(&place, script).await;
    assert_eq!(outcome.stdout.to_text(), "", "{outcome:?}");
    let names = says(&place, "ls | wc -l").await;
    assert!(names.trim().parse::<u64>().unwrap() < 30_000, "{names}");
    end(&docker, &place).await;
}

#[tokio::test]
async fn what_is_hidden_in_closed_folders_counts_after_a_restart_too() {
    let Some(docker) = Docker::new() else { return };
    for n in 0..4 {
        let place = docker.start_with(1, &small()).await;
        let script = format!(
            "mkdir h{n} && head -c 14000000 /dev/zero > h{n}/f; chmod 0 h{n}; sync; sleep 2"
        );
        sh(&place, &script).await;
        place.stop().await.unwrap();
    }
    let place = docker.start_with(1, &small()).await;
    let used = says(&place, "chmod 700 h*; du -sm . | cut -f1").await;
    assert!(used.trim().parse::<u64>().unwrap() < 35, "{used}");
    end(&docker, &place).await;
}

#[tokio::test]
async fn what_lies_deeper_than_a_path_can_say_hides_nothing() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start_with(1, &small()).await;
    let script = r#"python3 -c '
import os, time
name = "d" * 200
for _ in range(30):
    os.mkdir(name); os.chdir(name)
time.sleep(1)
for n in range(6):
    open(f"f{n}", "wb").write(bytes(10 << 20)); time.sleep(0.5)
print("all")'"#;
    let outcome = sh(&place, script).await;
    assert_eq!(outcome.stdout.to_text(), "", "{outcome:?}");
    end(&docker, &place).await;
}

#[tokio::test]
async fn programs_that_keep_the_processor_busy_are_watched_too() {
    let Some(docker) = Docker::new() else { return };
    let place = docker.start_with(1, &small()).await;
    let script = r#"mkdir a b; python3 -c 'for n in range(3000): open(f"a/{n}", "w")'
for i in $(seq 120); do (while :; do :; done) & done
for i in $(seq 10); do timeout 20 head -c 4000000 /dev/zero > b/f$i; sleep 0.5; done
kill $(jobs -p)"#;
    // However far it comes in its time.
    sh(&place, script).await;
    let used = used_mib(&place).await;
    assert!(used < 2 * LIMIT_MIB, "{used}");
    end(&docker, &place).await;
}

#[tokio::test]
async fn volumes_that_the_image_wants_count_too() {
    let tag = format!("sandboxd-test-volume:{}", std::process::id());
    let Some(docker) = Docker::with(|config| config.image = tag.clone()) else {
        return;
    };
    // What comes with the image is nobody's fault.
    let fill = "mkdir -m 777 /data && head -c 20000000 /dev/zero > /data/given";
    docker.make_image(&tag, fill, "VOLUME /data");
    let place = docker.start_with(1, &small()).await;
    let fill = "head -c 5000000 /dev/zero > f && echo f; sleep 0.5
for n in $(seq 8); do head -c 5000000 /dev/zero > /data/$n && echo $n; sleep 0.5; done";
    let written = says(&place, fill).await;
    assert!(
        written.starts_with("f\n1\n") && !written.contains('5'),
        "{written}"
    );
    end(&docker, &place).await;
    docker.docker(&["rmi", &tag]);
}
