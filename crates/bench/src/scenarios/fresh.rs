//! The first call of a session.

use std::{rc::Rc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::Method;
use serde_json::json;

use crate::{
    Result,
    bench::{Bench, PLOT, PRINT},
    client::Client,
    results::Row,
    service::Service,
    turns::Turns,
    work::Work,
    yardsticks::{PYTHON, Process},
};

const FAMILY: &str = "the first call of a session";
const POOL: usize = 2;

pub const NEW: &str = "first `/execute print(42)`, new sandbox";
pub const POOLED: &str = "first `/execute print(42)`, pooled sandbox";
pub const PLAIN: &str = "`python3 -c 'print(42)'` beside it";
pub const NEW_DOCKER: &str = "first `/execute print(42)`, new container";
pub const POOLED_DOCKER: &str = "first `/execute print(42)`, pooled container";
pub const DOCKER_RUN: &str = "`docker run --rm --network none python3 -c` by the API";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let pool = [("SANDBOX_POOL_SIZE", "2")];
    let new = Rc::new(bench.service(&[])?);
    let pooled = Rc::new(bench.service(&pool)?);
    let rounds = bench.rounds(30);

    let mut turns = Turns::new(FAMILY);
    turns.ours(NEW, rounds, First::of(&new, None, PRINT).await);
    turns.ours(POOLED, rounds, First::of(&pooled, Some(POOL), PRINT).await);
    turns.yardstick(PLAIN, rounds, Ok(bench.plain.runs(PRINT).prints(1)));
    let wrapped = Process::in_bubblewrap(&[PYTHON, "-c", PRINT]).prints(1);
    turns.yardstick("`bwrap python3 -c` beside it", rounds, Ok(wrapped));
    let few = bench.rounds(5);
    let plot = First::of(&pooled, Some(POOL), PLOT).await;
    turns.ours("first `/execute` of the plot, pooled sandbox", few, plot);

    let Ok(engine) = bench.engine().await else {
        for name in [NEW_DOCKER, POOLED_DOCKER] {
            turns.not_available(name, "there is no Docker daemon");
        }
        return Ok(turns.run().await);
    };
    let rounds = bench.rounds(15);
    let new = Rc::new(bench.service(&engine.settings())?);
    let settings = [engine.settings().as_slice(), &pool].concat();
    let pooled = Rc::new(bench.service(&settings)?);
    turns.ours(NEW_DOCKER, rounds, First::of(&new, None, PRINT).await);
    let first = First::of(&pooled, Some(POOL), PRINT).await;
    turns.ours(POOLED_DOCKER, rounds, first);
    let run = engine.run(&["python3", "-c", PRINT]);
    turns.yardstick(DOCKER_RUN, rounds, Ok(run));
    Ok(turns.run().await)
}

/// A session is made by its first call and ended after it.
struct First {
    service: Rc<Service>,
    client: Client,
    pool: Option<usize>,
    code: &'static str,
    number: usize,
}

impl First {
    async fn of(service: &Rc<Service>, pool: Option<usize>, code: &'static str) -> Result<Self> {
        Ok(Self {
            service: Rc::clone(service),
            client: service.client().await?,
            pool,
            code,
            number: 0,
        })
    }
}

#[async_trait(?Send)]
impl Work for First {
    async fn once(&mut self) -> Result<Duration> {
        if let Some(size) = self.pool {
            self.service.until_pool(size).await?;
        }
        self.number += 1;
        let session = format!("new-{}-{}", self.code.len(), self.number);
        let body = json!({"session_id": session, "code": self.code});
        let answer = self.client.post("/execute", &body).await?;
        let path = format!("/sessions/default/{session}");
        self.client.ask(Method::DELETE, &path, Bytes::new()).await?;
        let ended: serde_json::Value = serde_json::from_slice(&answer.body)?;
        match ended["exit_code"].as_i64() {
            Some(0) => Ok(answer.took),
            _ => Err(format!("the run did not end well: {ended:.300}").into()),
        }
    }
}
