//! One mebibyte, in and out.

use serde_json::json;

use crate::{
    Result,
    bench::Bench,
    client::Expect,
    docker::{Engine, Exec},
    results::Row,
    service::Service,
    turns::Turns,
    work::Work as _,
    yardsticks::Process,
};

const FAMILY: &str = "files of 1 MiB";
const SIZE: usize = 1 << 20;

pub const READ: &str = "`/read` of 1 MiB";
pub const READ_DOCKER: &str = "`/read` of 1 MiB, on Docker";
pub const EXEC_CAT: &str = "`docker exec cat` of 1 MiB by the API";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let local = bench.service(&[])?;
    let rounds = bench.rounds(30);
    let mut turns = Turns::new(FAMILY);
    add(&mut turns, &local, bench, ["`/write` of 1 MiB", READ]).await?;
    let file = bench.scratch().join("mebibyte.txt");
    std::fs::write(&file, text())?;
    let file = file.to_str().ok_or("a path that is no text")?;
    let process = Process::new(&["cat", file]).prints(1024);
    turns.yardstick("`cat` of 1 MiB", rounds, Ok(process));

    let Ok(engine) = bench.engine().await else {
        turns.not_available(READ_DOCKER, "there is no Docker daemon");
        return Ok(turns.run().await);
    };
    let on_docker = bench.service(&engine.settings())?;
    let names = ["`/write` of 1 MiB, on Docker", READ_DOCKER];
    add(&mut turns, &on_docker, bench, names).await?;
    let container = engine.container().await?;
    let cat = cat(engine, &container).await;
    turns.yardstick(EXEC_CAT, rounds, cat);
    let rows = turns.run().await;
    engine.remove(&container).await?;
    Ok(rows)
}

/// Lines of 1024 bytes.
fn text() -> String {
    format!("{}\n", "0123456789abcdef".repeat(64).split_at(1).1).repeat(SIZE / 1024)
}

async fn add(
    turns: &mut Turns,
    service: &Service,
    bench: &Bench,
    [write, read]: [&str; 2],
) -> Result<()> {
    let rounds = bench.rounds(30);
    let body = json!({"session_id": "living", "path": "a.txt", "content": text()});
    let call = service.post("/write", &body, Expect::Success).await;
    turns.ours(write, rounds, call);
    let body = json!({"session_id": "living", "path": "a.txt"});
    let call = service.post("/read", &body, Expect::Bytes(SIZE)).await;
    turns.ours(read, rounds, call);
    Ok(())
}

async fn cat(engine: &Engine, container: &str) -> Result<Exec> {
    let make = "head -c 1048576 /dev/zero | tr '\\0' a > /tmp/a.txt";
    engine.exec(container, &["sh", "-c", make]).once().await?;
    let cat = engine.exec(container, &["cat", "/tmp/a.txt"]);
    Ok(cat.prints_at_least(SIZE))
}
