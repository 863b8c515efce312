//! What a service and its sandboxes use: processor time and memory.

use std::collections::{HashMap, HashSet};

use procfs::{
    ProcError,
    process::{Process, Stat, all_processes},
};

use crate::Result;

#[derive(Clone, Copy, Default)]
pub struct Usage {
    /// In seconds, since they began; of sandboxes, those that are gone too.
    pub service_cpu: f64,
    pub sandboxes_cpu: f64,
    /// With the interpreters that all sandboxes share.
    service_bytes: u64,
    pub sandboxes_bytes: u64,
    /// Those that live: processes that the service itself started.
    pub sandboxes: usize,
}

/// In the command line of what starts such an interpreter.
const TEMPLATE: &str = "/.sandbox/zygote.py";

impl Usage {
    /// Of local sandboxes: those of a daemon are no children of the service.
    pub fn of(service: u32) -> Result<Self> {
        let service = i32::try_from(service)?;
        let stats = stats()?;
        let ticks = procfs::ticks_per_second() as f64;
        let own = |it: &Stat| (it.utime + it.stime) as f64 / ticks;
        let ended = |it: &Stat| (it.cutime + it.cstime) as f64 / ticks;
        let stat = stats.get(&service).ok_or("the service has ended")?;
        let children = stats.values().filter(|it| it.ppid == service);
        let (templates, sandboxes): (Vec<i32>, Vec<i32>) =
            children.map(|it| it.pid).partition(|pid| is_template(*pid));
        let mut usage = Self {
            service_cpu: own(stat),
            sandboxes_cpu: ended(stat),
            service_bytes: pss(service)?,
            sandboxes: sandboxes.len(),
            ..Self::default()
        };
        let shared: HashSet<i32> = templates
            .iter()
            .flat_map(|it| below(*it, &stats))
            .chain(templates.iter().copied())
            .collect();
        for pid in below(service, &stats) {
            if let Some(stat) = stats.get(&pid) {
                usage.sandboxes_cpu += own(stat) + ended(stat);
            }
            match shared.contains(&pid) {
                true => usage.service_bytes += pss(pid)?,
                false => usage.sandboxes_bytes += pss(pid)?,
            }
        }
        Ok(usage)
    }

    pub fn service_mib(&self) -> f64 {
        self.service_bytes as f64 / f64::from(1 << 20)
    }

    pub fn sandboxes_mib(&self) -> f64 {
        self.sandboxes_bytes as f64 / f64::from(1 << 20)
    }
}

fn stats() -> Result<HashMap<i32, Stat>> {
    let processes = all_processes()?.filter_map(|it| it.ok()?.stat().ok());
    Ok(processes.map(|it| (it.pid, it)).collect())
}

fn is_template(pid: i32) -> bool {
    let words = Process::new(pid).and_then(|it| it.cmdline());
    words.is_ok_and(|words| words.iter().any(|word| word == TEMPLATE))
}

fn below(root: i32, stats: &HashMap<i32, Stat>) -> HashSet<i32> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for stat in stats.values() {
        children.entry(stat.ppid).or_default().push(stat.pid);
    }
    let mut found = HashSet::new();
    let mut next = vec![root];
    while let Some(pid) = next.pop() {
        let of_it = children.get(&pid).into_iter().flatten();
        next.extend(of_it.filter(|it| found.insert(**it)));
    }
    found
}

/// The proportional set size: a page that several processes share is counted once. One
/// that has ended in the meantime has none.
fn pss(pid: i32) -> Result<u64> {
    let rollup = Process::new(pid).and_then(|it| it.smaps_rollup());
    if let Err(ProcError::PermissionDenied(_)) = rollup {
        return Err("the memory of sandboxes is shown to root alone".into());
    }
    let maps = rollup.map(|it| it.memory_map_rollup.0).unwrap_or_default();
    let map = maps.first();
    Ok(map
        .and_then(|it| it.extension.map.get("Pss").copied())
        .unwrap_or(0))
}
