//! What all services know of their sandbox.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use connectrpc::ConnectError;

use crate::{
    archive::Archives,
    artifacts::{LastChange, Reported},
    disk::Disk,
    display::{Modules, Watcher},
    path,
    ports::Ports,
    warm::Templates,
};

pub(crate) struct Guest {
    pub workspace: PathBuf,
    /// When something other than a run last changed files, or a run ended.
    pub last_change: LastChange,
    /// Files that runs made and that were told of.
    pub reported: Reported,
    /// What makes Python programs display.
    pub python_modules: Modules,
    /// What tells that a program displays.
    pub displays: Watcher,
    /// What keeps interpreters alive.
    pub context_programs: Modules,
    /// Archives on their way in or out.
    pub archives: Archives,
    /// How much of its disk the workspace takes.
    pub disk: Arc<Disk>,
    /// Where interpreters that are warm already can be had, if anywhere.
    pub templates: Templates,
    /// Connections to programs that listen.
    pub ports: Ports,
    env: RwLock<BTreeMap<String, String>>,
    /// What an empty path means; none: the workspace.
    default_dir: RwLock<Option<PathBuf>>,
}

impl Guest {
    /// The environment that the guest itself was given is that of every program.
    pub fn new(workspace: PathBuf, disk_bytes: Option<u64>, templates: bool) -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            // Set by bubblewrap for the guest's own working directory.
            .filter(|(name, _)| name != "PWD")
            .collect();
        Self {
            disk: Arc::new(Disk::new(workspace.clone(), disk_bytes)),
            workspace,
            last_change: LastChange::default(),
            reported: Reported::default(),
            displays: Watcher::default(),
            python_modules: Modules::of_runs(),
            context_programs: Modules::of_contexts(),
            archives: Archives::default(),
            templates: Templates::new(templates),
            ports: Ports::default(),
            env: RwLock::new(env),
            default_dir: RwLock::default(),
        }
    }

    /// The file that a path of the public contract names.
    pub fn place(&self, path: &str) -> Result<PathBuf, ConnectError> {
        if !path.is_empty() {
            return path::in_sandbox(&self.workspace, path);
        }
        let default = self.default_dir.read();
        let default = default.unwrap_or_else(PoisonError::into_inner).clone();
        Ok(default.unwrap_or_else(|| self.workspace.clone()))
    }

    pub fn set_default_dir(&self, dir: PathBuf) {
        *self
            .default_dir
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Some(dir);
    }

    pub fn env(&self) -> BTreeMap<String, String> {
        self.env
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Adds to the environment of every program.
    pub fn add_env(&self, added: BTreeMap<String, String>) {
        let mut env = self.env.write().unwrap_or_else(PoisonError::into_inner);
        env.extend(added);
    }
}
