//! `GET /metrics`: what the sandbox uses, from the processes that it can see.

use std::{
    collections::HashMap,
    fs,
    path::Path,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use connectrpc::ConnectError;
use http::StatusCode;
use serde_json::json;

use super::{Answer, json_answer};
use crate::blocking::blocking;

/// How long the processors are looked at.
const SAMPLE: Duration = Duration::from_millis(100);

/// What the processes have used.
#[derive(Default)]
struct Usage {
    ticks: HashMap<u32, u64>,
    resident_bytes: u64,
}

pub(super) async fn metrics(workspace: &Path) -> Result<Answer, ConnectError> {
    let before = blocking(|_| Ok(usage())).await?;
    let began = Instant::now();
    tokio::time::sleep(SAMPLE).await;
    let workspace = workspace.to_owned();
    let body = blocking(move |_| {
        let now = usage();
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let seconds = began.elapsed().as_secs_f64();
        let (disk_total, disk_free) = rustix::fs::statvfs(&workspace).map_or((0, 0), |disk| {
            (disk.f_blocks * disk.f_frsize, disk.f_bfree * disk.f_frsize)
        });
        Ok(json!({
            "ts": SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
            "cpu_count": cpus,
            "cpu_used_pct": 100.0 * processor_seconds(&before, &now) / seconds / cpus as f64,
            "mem_total": kibibytes(&memory, "MemTotal:") * 1024,
            "mem_used": now.resident_bytes,
            "mem_cache": kibibytes(&memory, "Cached:") * 1024,
            "disk_total": disk_total,
            "disk_used": disk_total.saturating_sub(disk_free),
        }))
    })
    .await?;
    Ok(json_answer(StatusCode::OK, &body))
}

fn usage() -> Usage {
    let mut usage = Usage::default();
    let page_bytes = rustix::param::page_size() as u64;
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        if let Some((ticks, pages)) = parse_stat(&stat) {
            usage.ticks.insert(pid, ticks);
            usage.resident_bytes += pages * page_bytes;
        }
    }
    usage
}

/// Clock ticks used and pages resident, of a line as in proc_pid_stat(5).
fn parse_stat(stat: &str) -> Option<(u64, u64)> {
    // The name, in parentheses, is the program's choice and may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let resident: u64 = fields.nth(8)?.parse().ok()?;
    Some((user + system, resident))
}

/// What a process that has ended used is lost.
fn processor_seconds(before: &Usage, now: &Usage) -> f64 {
    let ticks: u64 = now
        .ticks
        .iter()
        .map(|(pid, ticks)| ticks.saturating_sub(before.ticks.get(pid).copied().unwrap_or(0)))
        .sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}

fn kibibytes(memory: &str, name: &str) -> u64 {
    let value = |line: &str| {
        let value = line.strip_prefix(name)?;
        value.split_whitespace().next()?.parse().ok()
    };
    memory.lines().find_map(value).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_programs_name() {
        let line = "42 (a) b (c) S 1 42 42 0 -1 4194304 100 0 0 0 7 5 0 0 20 0 1 0 100 1000000 321 18446744073709551615";
        assert_eq!(parse_stat(line), Some((12, 321)));
        assert_eq!(parse_stat(""), None);
        assert_eq!(parse_stat("42 (cat) S 1"), None);
    }
}
