//! The program inside every sandbox.
//!
//! As `serve` it is the sandbox's init and the only door to it: all that the
//! service asks for arrives over one connection on standard input. As
//! `supervise` it stands between that init and one program, so that all the
//! program has started can be found and ended.

mod archive;
mod artifacts;
mod attached;
mod beside;
mod blocking;
mod cgroup;
mod code;
mod contexts;
mod disk;
mod display;
mod filesystem;
mod life;
mod listen;
mod mounts;
mod own_folder;
mod ports;
mod process;
mod reaper;
mod rest;
mod run;
mod search;
mod serve;
mod signals;
mod state;
mod supervise;
mod users;
mod warm;
mod workspace;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use guest_parts::{error, path};
use lexopt::{Arg, ValueExt as _};
use serde::{Deserialize, Serialize};
use serve::Door;
use state::Guest;
use warm::Preload;

const USAGE: &str = "usage: sandbox-guest serve --workspace DIR [--alone-seconds N] [--disk-bytes N] [--file-bytes N] [--nproc N] [--data-bytes N] [--python-preload MODULES] [--templates]
       sandbox-guest listen --port N --workspace DIR [the same options]
       sandbox-guest supervise";

/// Resource limits that are put on user programs, never on the guest itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct UserLimits {
    /// Largest file that a program may write.
    pub file_bytes: Option<u64>,
    /// Processes; only where no cgroup counts them.
    pub nproc: Option<u64>,
    /// Private memory of one process; only where no cgroup limits it.
    pub data_bytes: Option<u64>,
}

enum Mode {
    Serve {
        workspace: PathBuf,
        /// Of a container: how long it goes on without a service.
        alone: Option<Duration>,
        /// All files together, where the storage does not see to it.
        disk_bytes: Option<u64>,
        /// Modules that a warm Python imports; `None`: there is none.
        preload: Option<Preload>,
        /// Standard output is where to ask for warm interpreters.
        templates: bool,
        /// Where to listen, instead of the connection on standard input.
        port: Option<u16>,
    },
    Supervise,
}

fn parse(mut parser: lexopt::Parser) -> Result<(Mode, UserLimits), lexopt::Error> {
    let mut limits = UserLimits::default();
    let mut workspace = None;
    let mut alone = None;
    let mut disk_bytes = None;
    let mut preload = None;
    let mut templates = false;
    let mut port = None;
    let mode = match parser.next()? {
        Some(Arg::Value(mode)) => mode.string()?,
        Some(other) => return Err(other.unexpected()),
        None => return Err("no mode".into()),
    };
    while let Some(arg) = parser.next()? {
        match arg {
            Arg::Long("workspace") => workspace = Some(PathBuf::from(parser.value()?)),
            Arg::Long("alone-seconds") => {
                alone = Some(Duration::from_secs(parser.value()?.parse()?));
            }
            Arg::Long("disk-bytes") => disk_bytes = Some(parser.value()?.parse()?),
            Arg::Long("python-preload") => {
                let modules = parser.value()?.string()?;
                let modules = modules.split(',').filter(|it| !it.is_empty());
                preload = Some(Preload::new(modules.map(str::to_owned)));
            }
            Arg::Long("templates") => templates = true,
            Arg::Long("port") => port = Some(parser.value()?.parse()?),
            Arg::Long("file-bytes") => limits.file_bytes = Some(parser.value()?.parse()?),
            Arg::Long("nproc") => limits.nproc = Some(parser.value()?.parse()?),
            Arg::Long("data-bytes") => limits.data_bytes = Some(parser.value()?.parse()?),
            other => return Err(other.unexpected()),
        }
    }
    let mode = match mode.as_str() {
        "serve" | "listen" => {
            if (mode == "listen") != port.is_some() {
                return Err("--port goes with `listen`".into());
            }
            Mode::Serve {
                workspace: workspace.ok_or("--workspace is missing")?,
                alone,
                disk_bytes,
                preload,
                templates,
                port,
            }
        }
        "supervise" => Mode::Supervise,
        _ => return Err(format!("`{mode}` is not a mode").into()),
    };
    Ok((mode, limits))
}

fn main() -> ExitCode {
    let (mode, limits) = match parse(lexopt::Parser::from_env()) {
        Ok(parsed) => parsed,
        Err(error) => {
            eprintln!("sandbox-guest: {error}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    let result = signals::ignore_none().and_then(|()| match mode {
        Mode::Serve {
            workspace,
            alone,
            disk_bytes,
            preload,
            templates,
            port,
        } => {
            let guest = Guest::new(workspace, disk_bytes, templates);
            serve::serve(guest, limits, Door { port, alone }, preload)
        }
        Mode::Supervise => supervise::supervise(),
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sandbox-guest: {error}");
            ExitCode::FAILURE
        }
    }
}
