//! Many clients at once, each in a session of its own that lives, and runs that each get
//! a sandbox of their own.

use std::time::Duration;

use serde_json::json;

use crate::{
    Result,
    bench::{Bench, PRINT},
    client::{Call, Expect},
    load::{Load, Loop, load},
    results::{Row, Side},
    service::Service,
    work::Work as _,
    yardsticks::Threaded,
};

const FAMILY: &str = "load";
const CLIENTS: [usize; 4] = [1, 8, 32, 128];
const TIME: Duration = Duration::from_secs(4);
/// The limits on callers are not what is measured.
pub const UNLIMITED: [(&str, &str); 8] = [
    ("SANDBOX_MAX_SESSIONS", "1200"),
    ("SANDBOX_TENANT_MAX_SESSIONS", "1200"),
    ("SANDBOX_TENANT_RUNS", "256"),
    ("SANDBOX_TENANT_QUEUE", "1024"),
    ("SANDBOX_TOTAL_RUNS", "256"),
    ("SANDBOX_TOTAL_QUEUE", "1024"),
    ("SANDBOX_MAX_CONNECTIONS", "1024"),
    ("SANDBOX_SHUTDOWN_GRACE", "5"),
];

pub const LIVING_8: &str = "`/execute print(42)`, closed loop, 8 clients";
pub const FRESH_8: &str = "`/execute print(42)`, a sandbox for each, closed loop, 8 clients";
const POOLED_8: &str = "`/execute print(42)`, a pooled sandbox for each, closed loop, 8 clients";
pub const WORKERS_8: &str = "`python3 -c 'print(42)'`, closed loop, 8 workers";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let service = bench.service(&UNLIMITED)?;
    let time = bench.time(TIME);
    let ours = |name, load| Row::load(FAMILY, name, Side::Service, load);
    let mut rows = Vec::new();

    let mut execute = Vec::new();
    let mut bash = Vec::new();
    for n in 0..CLIENTS.into_iter().max().unwrap_or(1) {
        let session = format!("client-{n}");
        let prints = Expect::prints("42\n");
        let mut call = service.python(&session, PRINT, prints).await?;
        call.once().await?;
        execute.push(call);
        bash.push(service.bash(&session, "true").await?);
    }
    for (path, calls) in [
        ("`/execute print(42)`", &mut execute),
        ("`/bash true`", &mut bash),
    ] {
        let mut most: f64 = 0.0;
        for clients in CLIENTS {
            let clients = calls.get_mut(..clients).unwrap_or_default();
            let plural = if clients.len() == 1 { "" } else { "s" };
            let name = format!("{path}, closed loop, {} client{plural}", clients.len());
            let load = load(clients, Loop::Closed, time, Some(service.pid())).await;
            most = most.max(load.as_ref().map_or(0.0, |it| it.per_second));
            rows.push(ours(name, load));
        }
        for share in [0.5, 0.8] {
            let per_second = (most * share).max(1.0).round();
            let name = format!(
                "{path}, open loop, {:.0} % of the most that was done",
                share * 100.0
            );
            let kind = Loop::Open { per_second };
            rows.push(ours(
                name,
                load(calls, kind, time, Some(service.pid())).await,
            ));
        }
    }

    let mut contexts = Vec::new();
    for n in 0..8 {
        let session = format!("client-{n}");
        let body = json!({"session_id": session, "code": PRINT, "context": "bench"});
        let prints = Expect::prints("42\n");
        contexts.push(service.post("/execute", &body, prints).await?);
    }
    let name = "`/execute print(42)` in a context, closed loop, 8 clients".into();
    let load_of = load(&mut contexts, Loop::Closed, time, Some(service.pid())).await;
    rows.push(ours(name, load_of));

    let workers = [(); 8].map(|()| Threaded(bench.plain.runs(PRINT).prints(1)));
    let load = load(&mut { workers }, Loop::Closed, time, None).await;
    rows.push(Row::load(FAMILY, WORKERS_8.into(), Side::Yardstick, load));
    drop((execute, bash, contexts, service));

    let service = bench.service(&UNLIMITED)?;
    rows.push(ours(FRESH_8.into(), fresh(&service, time).await));
    drop(service);
    let pool = [UNLIMITED.as_slice(), &[("SANDBOX_POOL_SIZE", "16")]].concat();
    let service = bench.service(&pool)?;
    service.until_pool(16).await?;
    rows.push(ours(POOLED_8.into(), fresh(&service, time).await));
    Ok(rows)
}

/// Without a session.
async fn fresh(service: &Service, time: Duration) -> Result<Load> {
    let body = json!({"code": PRINT});
    let mut calls: Vec<Call> = Vec::new();
    for _ in 0..8 {
        let prints = Expect::prints("42\n");
        calls.push(service.post("/execute", &body, prints).await?);
    }
    load(&mut calls, Loop::Closed, time, Some(service.pid())).await
}
