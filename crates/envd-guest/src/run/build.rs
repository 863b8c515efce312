//! The step that makes a program of a script, before the program runs.

use std::{path::Path, sync::Arc};

use connectrpc::ConnectError;

use super::Leftover;
use crate::{
    envd::text,
    state::{State, random},
};

/// Stands for the path of what the step makes.
const OUT: &str = "{out}";
/// What a shell says of a command that it did not find.
pub(super) const NOT_FOUND: i32 = 127;
/// What is there is no part of the workspace.
const TMP: &str = "/tmp";

/// How a script is compiled, and where to.
pub(super) struct Build {
    pub argv: Vec<String>,
    dir: Leftover,
}

impl Build {
    /// Makes the directory, and names it in `argv` and in the program's own.
    pub async fn prepare(
        state: &Arc<State>,
        mut argv: Vec<String>,
        program: &mut [String],
    ) -> Result<Self, ConnectError> {
        let path = Path::new(TMP).join(format!(".build-{}", random()));
        state.envd.make_folder(&path, TMP).await?;
        let out = text(&path.join("main"))?;
        for word in argv.iter_mut().chain(program) {
            if word == OUT {
                word.clone_from(&out);
            }
        }
        Ok(Self {
            argv,
            dir: Leftover::new(state, path),
        })
    }

    /// Removes what it made, and whatever else the program has put beside it.
    pub async fn remove(self) {
        self.dir.remove().await;
    }

    pub fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}
