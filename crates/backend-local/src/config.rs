//! What the operator decides.

use std::{collections::BTreeMap, ops::RangeInclusive, path::PathBuf, time::Duration};

use serde_json::json;

#[derive(Clone, Debug)]
pub struct LocalConfig {
    /// Holds the workspaces; belongs to one service.
    pub state_dir: PathBuf,
    /// The guest's program, readable by everybody.
    pub guest: PathBuf,
    /// The bubblewrap program; a bare name is looked up on PATH.
    pub bwrap: PathBuf,
    /// Host users for sandboxes, one each, where the service is root.
    pub uid_range: RangeInclusive<u32>,
    /// Further folders that every sandbox sees, read-only, at the same path.
    pub read_only_paths: Vec<PathBuf>,
    /// How long a sandbox may take to answer after it was started.
    pub start_timeout: Duration,
    /// Modules that a warm Python imports; `None`: each run starts its own.
    pub python_preload: Option<Vec<String>>,
    /// Warm Python for all sandboxes; without it each has to start its own.
    pub python_template: Option<PythonTemplate>,
}

/// The program that is started once and forked into sandboxes.
///
/// It is started as `python3 -u PROGRAM ARGUMENT`, with its other files beside it and
/// the environment of a sandbox. When it has prepared what sandboxes shall share, it
/// calls `_sandbox_template.join()`, which returns in each sandbox with the number of
/// the socket to serve on.
#[derive(Clone, Debug, Default)]
pub struct PythonTemplate {
    pub program: String,
    /// Other files, by name.
    pub files: BTreeMap<String, String>,
    /// The argument, by the byte with which guests ask for it.
    pub kinds: BTreeMap<u8, String>,
}

impl PythonTemplate {
    /// Of the guest's own zygote and the files beside it, as the guest asks for it: with
    /// few imports, and with all.
    pub fn of_zygote(program: &str, files: &[(&str, &str)], modules: &[String]) -> Self {
        let argument =
            |modules: &[String]| json!({"modules": modules, "template": true}).to_string();
        let files = files.iter();
        Self {
            program: program.into(),
            files: files
                .map(|(name, text)| ((*name).into(), (*text).into()))
                .collect(),
            kinds: [(b'b', argument(&[])), (b's', argument(modules))].into(),
        }
    }
}

impl LocalConfig {
    pub fn new(state_dir: PathBuf, guest: PathBuf) -> Self {
        Self {
            state_dir,
            guest,
            bwrap: PathBuf::from("bwrap"),
            uid_range: 1_900_000_000..=1_900_065_535,
            read_only_paths: Vec::new(),
            start_timeout: Duration::from_secs(10),
            python_preload: None,
            python_template: None,
        }
    }
}
