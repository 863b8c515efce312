//! Calls in a session that lives.

use serde_json::json;

use super::contexts::NewContext;
use crate::{
    Result,
    bench::{Bench, PRINT},
    client::Expect,
    results::Row,
    turns::Turns,
    yardsticks::{Empty, Forks, Jupyter, PYTHON, Process},
};

const FAMILY: &str = "calls in a living session";

pub const EXECUTE: &str = "`/execute print(42)`";
pub const CONTEXT: &str = "`/execute print(42)` in a context";
pub const BASH: &str = "`/bash true`";
pub const EXECUTE_DOCKER: &str = "`/execute print(42)`, on Docker";
pub const BASH_DOCKER: &str = "`/bash true`, on Docker";

pub const PLAIN: &str = "`python3 -c 'print(42)'`";
pub const KERNEL: &str = "a Jupyter kernel's round trip";
pub const EMPTY: &str = "an empty axum route";
pub const EXEC_TRUE: &str = "`docker exec true` by the API";
pub const EXEC_PYTHON: &str = "`docker exec python3 -c` by the API";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let local = bench.service(&[])?;
    let empty = Empty::start()?;
    let prints = || Expect::prints("42\n");
    let context = json!({"session_id": "context", "code": PRINT, "context": "bench"});
    let rounds = bench.rounds(60);

    let mut turns = Turns::new(FAMILY);
    turns.ours(
        EXECUTE,
        rounds,
        local.python("living", PRINT, prints()).await,
    );
    turns.ours(BASH, rounds, local.bash("living", "true").await);
    let context = local.post("/execute", &context, prints()).await;
    turns.ours(CONTEXT, rounds, context);
    let new = NewContext::of(&local, PRINT).await;
    turns.ours("the same in a new context", rounds, new);

    turns.yardstick(PLAIN, rounds, Ok(bench.plain.runs(PRINT).prints(1)));
    let python = [PYTHON, "-c", PRINT];
    let with_pth = Process::new(&python).prints(1);
    turns.yardstick(
        "the same, with the machine's .pth files",
        rounds,
        Ok(with_pth),
    );
    let wrapped = Process::in_bubblewrap(&["/usr/bin/true"]).prints(0);
    turns.yardstick("`bwrap true`", rounds, Ok(wrapped));
    let wrapped = Process::in_bubblewrap(&python).prints(1);
    turns.yardstick("`bwrap python3 -c 'print(42)'`", rounds, Ok(wrapped));
    let program = bench.program("print.py");
    let forks = Forks::new(&[], &program);
    turns.yardstick("`os.fork` of a bare warm Python", rounds, forks);
    let forks = Forks::new(&["pandas", "matplotlib.pyplot"], &program);
    turns.yardstick("`os.fork` of one with pandas and matplotlib", rounds, forks);
    let kernel = Jupyter::start(&bench.tools, &program);
    turns.yardstick(KERNEL, rounds, kernel);
    turns.yardstick(EMPTY, rounds, empty.call().await);

    let engine = bench.engine().await;
    let Ok(engine) = engine else {
        return Ok(without_docker(turns).await);
    };
    let on_docker = bench.service(&engine.settings())?;
    let rounds = bench.rounds(40);
    let execute = on_docker.python("living", PRINT, prints()).await;
    turns.ours(EXECUTE_DOCKER, rounds, execute);
    turns.ours(BASH_DOCKER, rounds, on_docker.bash("living", "true").await);
    let container = engine.container().await?;
    let exec = engine.exec(&container, &["true"]);
    turns.yardstick(EXEC_TRUE, rounds, Ok(exec));
    let exec = engine.exec(&container, &["python3", "-c", PRINT]);
    turns.yardstick(EXEC_PYTHON, rounds, Ok(exec));
    let rows = turns.run().await;
    engine.remove(&container).await?;
    Ok(rows)
}

async fn without_docker(mut turns: Turns) -> Vec<Row> {
    for name in [EXECUTE_DOCKER, BASH_DOCKER] {
        turns.not_available(name, "there is no Docker daemon");
    }
    turns.run().await
}
