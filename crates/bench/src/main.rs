//! `make bench`: the service against what it is built on, in one run.
//!
//! Every round does each thing once, one after the other, so that a machine that is
//! slow for a while is slow for all of them. What counts is the ratio of medians.

mod docker;
mod service;
mod table;

use std::{error::Error, path::PathBuf};

use service::{Client, Service};
use table::{Comparison, Samples, print};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const ROUNDS: usize = 40;
/// Of what makes a sandbox.
const SLOW_ROUNDS: usize = 15;
const PRINT: &str = "print(42)";

fn main() -> Result<()> {
    let program = std::env::args_os()
        .nth(1)
        .map(PathBuf::from)
        .ok_or("usage: sandbox-bench PATH-OF-SANDBOXD")?;
    let host = test_docker::host().ok_or("this bench needs a Docker daemon")?;
    let engine = docker::Engine::new(host)?;
    let on_docker = [
        ("SANDBOX_BACKEND", "docker"),
        ("SANDBOX_DOCKER_HOST", host),
        ("SANDBOX_DOCKER_PULL", "never"),
        ("SANDBOX_WORKER_IMAGE", test_docker::IMAGE),
        ("SANDBOX_POOL_SIZE", "2"),
    ];
    let warm = Service::start(&program, &on_docker)?;
    let cold = Service::start(&program, &on_docker[..4])?;
    let local = Service::start(&program, &[])?;
    let comparisons = [
        living(&engine, &warm.client(), &local.client())?,
        new(&engine, &warm.client(), &cold.client(), &local.client())?,
    ]
    .concat();
    print(&comparisons)
}

/// In a session that lives, against a container that lives.
fn living(engine: &docker::Engine, docker: &Client, local: &Client) -> Result<Vec<Comparison>> {
    let container = engine.start()?;
    let [mut exec_true, mut exec_python] = [(); 2].map(|()| Samples::default());
    let [mut bash, mut execute, mut bash_local, mut execute_local] =
        [(); 4].map(|()| Samples::default());
    for client in [docker, local] {
        client.bash("living", "true")?;
        client.execute("living", PRINT)?;
    }
    for _ in 0..ROUNDS {
        exec_true.time(|| engine.exec(&container, &["true"]))?;
        bash.time(|| docker.bash("living", "true"))?;
        bash_local.time(|| local.bash("living", "true"))?;
        exec_python.time(|| engine.exec(&container, &["python3", "-c", PRINT]))?;
        execute.time(|| docker.execute("living", PRINT))?;
        execute_local.time(|| local.execute("living", PRINT))?;
    }
    engine.remove(&container)?;
    Ok(vec![
        Comparison::new(
            "`/bash true`, docker session",
            bash.clone(),
            "`docker exec true` by the API",
            exec_true,
        ),
        Comparison::new(
            "`/execute print(42)`, docker session",
            execute,
            "`docker exec python3 -c` by the API",
            exec_python,
        ),
        Comparison::new(
            "`/bash true`, docker session",
            bash,
            "the same, local session",
            bash_local,
        ),
    ])
}

/// The first call of a session, against a container of its own.
fn new(
    engine: &docker::Engine,
    warm: &Client,
    cold: &Client,
    local: &Client,
) -> Result<Vec<Comparison>> {
    let mut run = Samples::default();
    let [mut pooled, mut made, mut made_local] = [(); 3].map(|()| Samples::default());
    for n in 0..SLOW_ROUNDS {
        let session = format!("new-{n}");
        run.time(|| engine.run(&["python3", "-c", PRINT]))?;
        warm.until_pool(2)?;
        pooled.time(|| warm.execute(&session, PRINT))?;
        made.time(|| cold.execute(&session, PRINT))?;
        made_local.time(|| local.execute(&session, PRINT))?;
        for client in [warm, cold, local] {
            client.delete(&session)?;
        }
    }
    let of = "`docker run --rm --network none python3 -c` by the API";
    Ok(vec![
        Comparison::new(
            "first `/execute print(42)`, warm container",
            pooled,
            of,
            run.clone(),
        ),
        Comparison::new(
            "first `/execute print(42)`, new container",
            made,
            of,
            run.clone(),
        ),
        Comparison::new(
            "first `/execute print(42)`, new local sandbox",
            made_local,
            of,
            run,
        ),
    ])
}
