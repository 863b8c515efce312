//! An archive into the workspace: all of it, or nothing.

use std::{io, path::PathBuf, sync::Arc};

use connectrpc::{ConnectError, InboundStream};
use futures::StreamExt as _;
use guest_parts::{
    OWN_FOLDER,
    archive::{
        pipe,
        unpack::{broken, unpack},
    },
    error::error,
};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{
    __buffa::oneof::import_request::Part, ImportRequest, ImportResponse,
};
use tokio::sync::oneshot;

use super::{
    merge::merge,
    stage::{Receiving, stage},
    start,
};
use crate::{
    envd::not_found,
    own_folder::clear,
    state::{State, random},
};

pub(crate) async fn import(
    state: &Arc<State>,
    mut messages: InboundStream<ImportRequest>,
) -> Result<ImportResponse, ConnectError> {
    let first = next(&mut messages).await?;
    let Some(Part::Start(begin)) = first else {
        return Err(error(
            ErrorCode::InvalidRequest,
            "the first message is no start",
        ));
    };
    let (into, shown) = state.path(&begin.path)?;
    if into.starts_with(state.workspace.join(OWN_FOLDER)) {
        return Err(error(
            ErrorCode::InvalidPath,
            "the path is in the service's own folder",
        ));
    }
    let at_top = into == state.workspace;
    let staging = Staging::new(state).await?;
    let (sender, mut input) = pipe::input();
    let (mut sending, steps) = stage();
    let (tell, told) = oneshot::channel();
    start(state, move || {
        let done = unpack(&begin, at_top, &mut input, &mut sending);
        // The stage ends before it is told that all is well.
        drop(sending);
        let _ = tell.send(done);
    })?;
    let receive = async {
        loop {
            let chunk = match next(&mut messages).await? {
                Some(Part::Data(data)) => Some(data),
                Some(Part::End(_)) => None,
                Some(Part::Start(_)) => {
                    return Err(error(ErrorCode::InvalidRequest, "a second start"));
                }
                // Without the end the thread learns that nobody waits any more.
                None => return Err(broken(&io::ErrorKind::ConnectionAborted.into())),
            };
            let is_last = chunk.is_none();
            // When it reads no more, `told` has what it has to say.
            if sender.send(chunk).await.is_err() || is_last {
                return Ok(());
            }
        }
    };
    let upload = Receiving::new(Arc::clone(state), staging.unpacked()).all(steps);
    // Both at once: what comes is sent on; an error of either ends the other.
    let result = tokio::try_join!(receive, upload);
    drop(sender);
    let told = match result {
        Ok(_) => told.await,
        // What is under way is removed when nothing comes of it any more.
        Err(cause) => return Err(cause),
    };
    let told =
        told.unwrap_or_else(|_| Err(error(ErrorCode::Internal, "the archive's thread is gone")));
    let merged = async {
        let (plan, done) = told?;
        merge(state, &plan, &staging, &into, &shown).await?;
        Ok(done)
    };
    let merged = merged.await;
    staging.remove().await;
    merged
}

async fn next(messages: &mut InboundStream<ImportRequest>) -> Result<Option<Part>, ConnectError> {
    match messages.next().await {
        None => Ok(None),
        Some(Err(error)) => Err(error),
        Some(Ok(message)) => match message.to_owned_message().part {
            Some(part) => Ok(Some(part)),
            None => Err(error(ErrorCode::InvalidRequest, "a message without a part")),
        },
    }
}

/// Where an archive is unpacked; gone with all that is left in it.
pub(super) struct Staging {
    state: Arc<State>,
    path: Option<PathBuf>,
}

impl Staging {
    async fn new(state: &Arc<State>) -> Result<Self, ConnectError> {
        let name = format!("import-{}", random());
        Ok(Self {
            path: Some(state.own_folder(&name).await?),
            state: Arc::clone(state),
        })
    }

    fn path(&self) -> PathBuf {
        self.path.clone().unwrap_or_default()
    }

    pub fn unpacked(&self) -> PathBuf {
        self.path().join("new")
    }

    pub fn replaced(&self) -> PathBuf {
        self.path().join("replaced")
    }

    async fn remove(mut self) {
        if let Some(path) = self.path.take() {
            let _ = self.state.envd.remove_all(&path, "the archive").await;
        }
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Its caller has gone in the middle.
        if let (Some(path), Ok(runtime)) = (self.path.take(), tokio::runtime::Handle::try_current())
        {
            let envd = self.state.envd.clone();
            runtime.spawn(async move {
                clear(&envd, &path).await;
            });
        }
    }
}

/// That a place is not there, for a look that may find nothing.
pub(super) fn or_nothing<T>(found: Result<T, ConnectError>) -> Result<Option<T>, ConnectError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(cause) if cause.code == not_found("").code => Ok(None),
        Err(cause) => Err(cause),
    }
}
