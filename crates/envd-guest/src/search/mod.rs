//! The service `sandbox.v1.Search`: the guest's own search, over files that come from envd.

mod fetch;
mod walk;

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use connectrpc::{ConnectError, RequestContext, Response, ServiceRequest, ServiceResult};
use fetch::Fetched;
use guest_parts::{
    error::error,
    path,
    search::{
        Limit,
        glob::{Newest, matcher},
        grep::{Grep, filter},
    },
};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse, GrepRequest, GrepResponse, Search};
use tokio::sync::mpsc;
use walk::{Choice, walk};

use crate::{
    envd::{check_file, is_folder, not_found},
    state::State,
};

/// Files that wait to be searched.
const AHEAD: usize = 2;

pub(crate) struct SearchService(pub Arc<State>);

impl Search for SearchService {
    async fn grep(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GrepRequest>,
    ) -> ServiceResult<GrepResponse> {
        Response::ok(grep(&self.0, request.to_owned_message()).await?)
    }

    async fn glob(
        &self,
        _: RequestContext,
        request: ServiceRequest<'_, GlobRequest>,
    ) -> ServiceResult<GlobResponse> {
        Response::ok(glob(&self.0, request.to_owned_message()).await?)
    }
}

/// The caller; a search that has its own thread asks whether it is still there.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a search begins with: a folder behind its links, or a file.
struct Root {
    /// As it is called.
    path: std::path::PathBuf,
    found: std::path::PathBuf,
    /// Of a file, its size.
    file: Option<u64>,
}

async fn root(state: &State, given: &str) -> Result<(Root, String), ConnectError> {
    let (path, shown) = state.path(given)?;
    let found = state.envd.find(&path, &shown).await?;
    let entry = found.entry.ok_or_else(|| not_found(&shown))?;
    let file = match is_folder(&entry) {
        true => None,
        false => {
            check_file(&found.path, &entry, &shown)?;
            Some(crate::envd::size(&entry))
        }
    };
    let root = Root {
        path,
        found: found.path,
        file,
    };
    Ok((root, shown))
}

async fn grep(state: &Arc<State>, request: GrepRequest) -> Result<GrepResponse, ConnectError> {
    let until = Instant::now() + Duration::from_millis(request.timeout_ms.into());
    let gone = Gone(Arc::default());
    let is_gone = Arc::clone(&gone.0);
    let (root, shown) = root(state, &request.path).await?;
    let filter = filter(&root.path, &request.glob)?;
    // Before anything is fetched: a pattern may be wrong.
    Grep::new(&request, &Limit::new(until, &|| false))?;
    let (files, mut is_partial) = match root.file {
        // A file that is named is searched, whatever the filters say.
        Some(size) => (vec![(root.found, shown, size)], false),
        None => {
            let choice = Choice {
                hidden: request.hidden,
                no_ignore: request.no_ignore,
                filter,
            };
            let walked = walk(state, &root.path, &shown, choice, until).await?;
            let files = walked.files.into_iter().filter_map(|(path, entry)| {
                let size = crate::envd::is_file(&entry).then(|| crate::envd::size(&entry))?;
                let shown = path::shown(&state.workspace, &path);
                Some((path, shown, size))
            });
            (files.collect(), walked.is_partial)
        }
    };
    let (sender, mut fetched) = mpsc::channel::<Fetched>(AHEAD);
    let searching = tokio::task::spawn_blocking(move || {
        let is_pointless = || is_gone.load(Ordering::Relaxed);
        let limit = Limit::new(until, &is_pointless);
        let mut grep = Grep::new(&request, &limit)?;
        let mut is_partial = false;
        while let Some(file) = fetched.blocking_recv() {
            is_partial |= file.is_partial;
            grep.search(file.content, file.shown);
            if grep.is_over() {
                break;
            }
            if limit.reached() {
                is_partial = true;
                break;
            }
        }
        Ok((grep.finish(false), is_partial, limit.reached()))
    });
    is_partial |= fetch::all(&state.envd, files, sender, until).await;
    let (mut answer, missed, reached) = searching
        .await
        .unwrap_or_else(|_| Err(error(ErrorCode::Internal, "the search was broken off")))?;
    drop(gone);
    answer.truncated |= is_partial || missed;
    answer.timed_out |= reached && answer.truncated;
    Ok(answer)
}

async fn glob(state: &State, request: GlobRequest) -> Result<GlobResponse, ConnectError> {
    let until = Instant::now() + Duration::from_millis(request.timeout_ms.into());
    let matcher = matcher(&request.pattern)?;
    let (path, shown) = state.path(&request.path)?;
    state.envd.folder(&path, &shown).await?;
    let choice = Choice {
        hidden: request.hidden,
        no_ignore: true,
        filter: ignore::overrides::Override::empty(),
    };
    let walked = walk(state, &path, &shown, choice, until).await?;
    let mut newest = Newest::new(&request);
    for (file, entry) in walked.files {
        let below: &Path = file.strip_prefix(&path).unwrap_or(&file);
        if matcher.is_match(below) {
            let modified = entry.modified_time.as_option();
            let modified = modified.map_or((0, 0), |time| (time.seconds, time.nanos));
            newest.add(modified, path::shown(&state.workspace, &file));
        }
    }
    Ok(newest.finish(walked.is_partial))
}
