//! Grep and glob over a tree, and the programs that people run for it.

use serde_json::json;

use crate::{
    Result,
    bench::{Bench, TREE},
    client::Expect,
    results::Row,
    turns::Turns,
    work::Work as _,
    yardsticks::{PYTHON, Process},
};

const FAMILY: &str = "search";
const NEEDLE: &str = "needle_in_hay";

pub const GREP: &str = "`/grep` over 5,000 files";
pub const GLOB: &str = "`/glob` over 5,000 files";
pub const RG: &str = "`rg` over 5,000 files";
pub const FIND: &str = "`find` over 5,000 files";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let service = bench.service(&[])?;
    let mut rows = Vec::new();
    for (files, shown, rounds) in [(5_000, "5,000", 30), (50_000, "50,000", 8)] {
        let session = format!("tree-{files}");
        let rounds = bench.rounds(rounds);
        let body = json!({
            "session_id": session,
            "code": TREE,
            "args": ["tree", files.to_string()],
            "timeout_seconds": 300,
        });
        let made = Expect::prints("made\n");
        service.post("/execute", &body, made).await?.once().await?;
        let tree = bench.scratch().join(&session);
        let (script, tree_path) = (bench.program("tree.py"), tree.as_path());
        let words = [script.as_path(), tree_path].map(|it| it.to_str().unwrap_or_default());
        let number = files.to_string();
        Process::new(&[PYTHON, words[0], words[1], &number])
            .prints(1)
            .once()
            .await?;

        let mut turns = Turns::new(FAMILY);
        let body = json!({"session_id": session, "path": "tree", "pattern": NEEDLE});
        let grep = service.post("/grep", &body, Expect::Count("matches", files / 1000));
        turns.ours(&format!("`/grep` over {shown} files"), rounds, grep.await);
        let body = json!({
            "session_id": session,
            "path": "tree",
            "pattern": "**/*.py",
            "max_results": 10_000,
        });
        let glob = service.post("/glob", &body, Expect::Count("paths", files / 10));
        turns.ours(&format!("`/glob` over {shown} files"), rounds, glob.await);
        for (name, words, lines) in [
            ("rg", ["rg", "-n", NEEDLE, "."], files / 1000),
            ("grep -r", ["grep", "-rn", NEEDLE, "."], files / 1000),
            ("find", ["find", ".", "-name", "*.py"], files / 10),
        ] {
            let process = Process::new(&words).within(&tree).prints(lines);
            let name = format!("`{name}` over {shown} files");
            turns.yardstick(&name, rounds, Ok(process));
        }
        rows.extend(turns.run().await);
        std::fs::remove_dir_all(&tree)?;
    }
    Ok(rows)
}
