//! The guest's own folder in the workspace, `.sandbox`.
//!
//! Programs may do with it as they like. What is written into it is looked at before, so
//! that it is not written through a link that was there; a program that plants one
//! meanwhile gets what it could have written itself.

use std::{path::PathBuf, time::Duration};

use connectrpc::ConnectError;
use guest_parts::{OWN_FOLDER, error::from_io};
use tokio::time::sleep;

use crate::{
    envd::{Envd, is_folder},
    state::State,
};

/// What was broken off may be written still, for a moment.
const LOOKS: u32 = 6;
const LOOK_AGAIN: Duration = Duration::from_millis(250);

impl State {
    /// The folder, which is made where it is missing, and in it `name`.
    pub async fn own_folder(&self, name: &str) -> Result<PathBuf, ConnectError> {
        let own = self.workspace.join(OWN_FOLDER);
        let not_ours = || from_io(&std::io::ErrorKind::NotADirectory.into(), OWN_FOLDER);
        match self.envd.exists(&own, OWN_FOLDER).await? {
            Some(entry) if !is_folder(&entry) => return Err(not_ours()),
            Some(_) => {
                let below = self.envd.exists(&own.join(name), OWN_FOLDER).await?;
                if below.is_some_and(|entry| !is_folder(&entry)) {
                    return Err(not_ours());
                }
            }
            // The workspace may be a repository: none of this is part of it.
            None => {
                let ignore = own.join(".gitignore");
                self.envd.put(&ignore, b"*\n", OWN_FOLDER).await?;
            }
        }
        Ok(own.join(name))
    }
}

/// Removes what was being written, and again what comes of it still.
pub(crate) async fn clear(envd: &Envd, path: &std::path::Path) {
    for _ in 0..LOOKS {
        let _ = envd.remove_all(path, OWN_FOLDER).await;
        sleep(LOOK_AGAIN).await;
        if let Ok(None) = envd.exists(path, OWN_FOLDER).await {
            return;
        }
    }
}
