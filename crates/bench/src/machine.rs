//! What the figures are of.

use std::{fs, process::Command, thread::available_parallelism};

use procfs::Current as _;
use serde::Serialize;

use crate::yardsticks::PYTHON;

#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub processor: String,
    pub cpus: usize,
    pub memory_gib: f64,
    pub kernel: String,
    pub python: String,
    /// At the start: others' work that shares the processors.
    pub load_average: f32,
}

impl Machine {
    pub fn this() -> Self {
        let info = procfs::CpuInfo::current().ok();
        let processor = info.and_then(|it| it.model_name(0).map(str::to_owned));
        let memory = procfs::Meminfo::current().map_or(0, |it| it.mem_total);
        let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let python = Command::new(PYTHON).arg("--version").output();
        let python = python.map(|it| String::from_utf8_lossy(&it.stdout).trim().to_owned());
        Self {
            processor: processor.unwrap_or_else(|| "unknown".into()),
            cpus: available_parallelism().map_or(1, usize::from),
            memory_gib: (memory as f64 / f64::from(1 << 30) * 10.0).round() / 10.0,
            kernel: kernel.trim().to_owned(),
            python: python.unwrap_or_default(),
            load_average: procfs::LoadAverage::current().map_or(0.0, |it| it.one),
        }
    }
}
