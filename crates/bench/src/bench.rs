//! What every scenario has at hand.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::{Result, docker::Engine, service::Service, turns::Rounds, yardsticks::Plain};

pub const PRINT: &str = "print(42)";
/// A table is grouped and drawn.
pub const PLOT: &str = include_str!("../programs/plot.py");
pub const TREE: &str = include_str!("../programs/tree.py");

pub struct Bench {
    pub quick: bool,
    sandboxd: PathBuf,
    /// What yardsticks install, kept from one run to the next.
    pub tools: PathBuf,
    pub plain: Plain,
    programs: TempDir,
    engine: OnceCell<std::result::Result<Engine, String>>,
}

impl Bench {
    pub fn new(quick: bool, sandboxd: Option<PathBuf>) -> Result<Self> {
        let own = env::current_exe()?;
        let beside = own.parent().ok_or("no folder of its own")?;
        let tools = beside.with_file_name("bench-tools");
        fs::create_dir_all(&tools)?;
        let programs = tempfile::Builder::new()
            .prefix("sandbox-bench-")
            .tempdir()?;
        for (name, text) in [("print.py", PRINT), ("plot.py", PLOT), ("tree.py", TREE)] {
            fs::write(programs.path().join(name), text)?;
        }
        Ok(Self {
            quick,
            sandboxd: sandboxd.unwrap_or_else(|| beside.join("sandboxd")),
            plain: Plain::new(&tools)?,
            tools,
            programs,
            engine: OnceCell::new(),
        })
    }

    pub fn service(&self, settings: &[(&str, &str)]) -> Result<Service> {
        Service::start(&self.sandboxd, settings)
    }

    pub async fn engine(&self) -> Result<&Engine> {
        let engine = self.engine.get_or_init(async || {
            let engine = Engine::start().await;
            engine.map_err(|error| error.to_string())
        });
        engine.await.as_ref().map_err(|error| error.as_str().into())
    }

    pub fn program(&self, name: &str) -> PathBuf {
        self.programs.path().join(name)
    }

    /// Nothing is kept of what is made in it.
    pub fn scratch(&self) -> &Path {
        self.programs.path()
    }

    pub fn rounds(&self, whole: usize) -> Rounds {
        Rounds(if self.quick { whole.div_ceil(5) } else { whole })
    }

    pub fn time(&self, whole: Duration) -> Duration {
        if self.quick { whole / 4 } else { whole }
    }
}
