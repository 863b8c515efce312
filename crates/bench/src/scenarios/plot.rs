//! A program that groups a table and draws it, with pandas and matplotlib.

use serde_json::json;

use super::contexts::NewContext;
use crate::{
    Result,
    bench::{Bench, PLOT},
    client::Expect,
    results::Row,
    turns::Turns,
    yardsticks::{Forks, PYTHON, Process},
};

const FAMILY: &str = "pandas group-by with a matplotlib plot";
const MODULES: [&str; 2] = ["pandas", "matplotlib.pyplot"];

pub const EXECUTE: &str = "`/execute` of the plot";
pub const PLAIN: &str = "`python3 plot.py`";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let local = bench.service(&[])?;
    let ends = || Expect::prints("(12, 4)\n");
    let context = json!({"session_id": "context", "code": PLOT, "context": "bench"});
    let program = bench.program("plot.py");
    let file = program.to_str().ok_or("a path that is no text")?;
    let rounds = bench.rounds(15);

    let mut turns = Turns::new(FAMILY);
    turns.ours(EXECUTE, rounds, local.python("living", PLOT, ends()).await);
    let context = local.post("/execute", &context, ends()).await;
    turns.ours("`/execute` of the plot in a context", rounds, context);
    let new = NewContext::of(&local, PLOT).await;
    turns.ours("`/execute` of the plot in a new context", rounds, new);
    let plain = Process::new(&[PYTHON, file]);
    turns.yardstick(PLAIN, rounds, Ok(plain.within(bench.scratch()).prints(1)));
    let forks = Forks::new(&MODULES, &program);
    turns.yardstick("the same in a fork of a warm Python", rounds, forks);
    Ok(turns.run().await)
}
