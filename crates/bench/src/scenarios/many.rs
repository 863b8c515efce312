//! A thousand sessions on one machine, and what an idle sandbox takes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use hyper::Method;

use super::clients::UNLIMITED;
use crate::{Result, bench::Bench, client::Client, results::Row, service::Service, usage::Usage};

const FAMILY: &str = "many sessions";
const POOL: usize = 20;
/// Who make and end sessions at once.
const CLIENTS: usize = 8;
/// What a sandbox has left to do when it has answered.
const SETTLE: Duration = Duration::from_secs(2);

pub const MEMORY: &str = "1,000 idle sessions and the service";
pub const POOLED: &str = "an idle pooled sandbox";

pub async fn run(bench: &Bench) -> Result<Vec<Row>> {
    let mut rows = vec![pooled(bench).await?];
    let count = if bench.quick { 100 } else { 1000 };
    let shown = if bench.quick { "100" } else { "1,000" };
    let service = bench.service(&UNLIMITED)?;
    let amount = |name: &str, value, unit| Row::amount(FAMILY, name, value, unit);

    let free = free()?;
    let began = Instant::now();
    each(&service, count, Method::POST, "{}").await?;
    let took = began.elapsed().as_secs_f64();
    tokio::time::sleep(SETTLE).await;
    let usage = Usage::of(service.pid())?;
    let gone = free - self::free()?;
    rows.push(amount(
        &format!("time to create {shown} sessions"),
        took,
        "s",
    ));
    let memory = usage.sandboxes_mib() + usage.service_mib();
    let name = format!("{shown} idle sessions and the service");
    rows.push(amount(&name, memory, "MiB"));
    let each_mb = usage.sandboxes_bytes as f64 / 1e6 / count as f64;
    rows.push(amount("an idle session", each_mb, "MB"));
    rows.push(amount("the service with them", usage.service_mib(), "MiB"));
    let name = "what less is free of the machine's memory then";
    rows.push(amount(name, gone, "MiB"));

    let idle = Duration::from_secs(5);
    tokio::time::sleep(idle).await;
    let later = Usage::of(service.pid())?;
    let cpu = (later.service_cpu - usage.service_cpu) / idle.as_secs_f64() * 100.0;
    rows.push(amount("the service's processor time while idle", cpu, "%"));
    let cpu = (later.sandboxes_cpu - usage.sandboxes_cpu) / idle.as_secs_f64() * 100.0;
    rows.push(amount("theirs while idle", cpu, "%"));

    let began = Instant::now();
    each(&service, count, Method::DELETE, "").await?;
    while Usage::of(service.pid())?.sandboxes > 0 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let took = began.elapsed().as_secs_f64();
    rows.push(amount(&format!("time to reap {shown} sessions"), took, "s"));
    Ok(rows)
}

async fn each(service: &Service, count: usize, method: Method, body: &'static str) -> Result<()> {
    let all = (0..CLIENTS).map(async |first| -> Result<()> {
        let mut client: Client = service.client().await?;
        for n in (first..count).step_by(CLIENTS) {
            let path = format!("/sessions/default/many-{n}");
            let body = Bytes::from_static(body.as_bytes());
            client.ask(method.clone(), &path, body).await?;
        }
        Ok(())
    });
    join_all(all).await.into_iter().collect()
}

async fn pooled(bench: &Bench) -> Result<Row> {
    let size = POOL.to_string();
    let service = bench.service(&[("SANDBOX_POOL_SIZE", &size)])?;
    service.until_pool(POOL).await?;
    tokio::time::sleep(SETTLE).await;
    let usage = Usage::of(service.pid())?;
    let bytes = usage.sandboxes_bytes as f64 / POOL as f64;
    Ok(Row::amount(FAMILY, POOLED, bytes / 1e6, "MB"))
}

/// In MiB; of the whole machine, so that it has what no process is charged for.
fn free() -> Result<f64> {
    use procfs::Current as _;
    let available = procfs::Meminfo::current()?.mem_available;
    Ok(available.unwrap_or(0) as f64 / f64::from(1 << 20))
}
