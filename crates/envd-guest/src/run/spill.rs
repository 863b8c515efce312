//! Files of what a run prints, in somebody else's sandbox.

use std::{path::PathBuf, sync::Arc};

use guest_parts::{
    OWN_FOLDER,
    spill::{self, SpillFile},
};

use crate::{state::State, upload::Upload};

pub(super) type Spilling = spill::Spilling<Arc<State>>;
pub(super) type Spill = spill::Spill<Writing>;

pub(super) struct Writing {
    state: Arc<State>,
    path: PathBuf,
    name: &'static str,
    upload: Upload,
}

impl SpillFile for Writing {
    type Place = Arc<State>;

    async fn create(state: &Arc<State>, run: &str, name: &'static str) -> Option<Self> {
        state.own_folder("output").await.ok()?;
        let path = state
            .workspace
            .join(format!("{OWN_FOLDER}/output/{run}/{name}"));
        let mut upload = state.envd.upload(Some(&path)).ok()?;
        upload.file(name, name).await.ok()?;
        Some(Self {
            state: Arc::clone(state),
            path,
            name,
            upload,
        })
    }

    async fn write(mut self, data: &[u8]) -> Option<Self> {
        self.upload.write(data, "output").await.ok()?;
        Some(self)
    }

    async fn finish(self) -> bool {
        if self.upload.finish(self.name).await.is_ok() {
            return true;
        }
        let _ = self.state.envd.remove_all(&self.path, self.name).await;
        false
    }
}
