//! Files whose path matches a pattern, the newest first.

use std::{cmp::Reverse, fs, path::Path};

use connectrpc::ConnectError;
use globset::GlobBuilder;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse};

use super::{Limit, walk};
use crate::{
    error::{error, from_io},
    path,
};

/// Paths that are looked at before the newest are chosen.
const MAX_FOUND: usize = 1_000_000;

pub(super) fn glob(
    workspace: &Path,
    request: &GlobRequest,
    limit: &Limit,
) -> Result<GlobResponse, ConnectError> {
    let root = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &root);
    fs::metadata(&root).map_err(|cause| from_io(&cause, &shown))?;
    let pattern = request
        .pattern
        .strip_prefix("./")
        .unwrap_or(&request.pattern);
    let matcher = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(|cause| error(ErrorCode::InvalidPattern, cause.to_string()))?
        .compile_matcher();
    let mut found = Vec::new();
    let mut truncated = false;
    for entry in walk(&root, request.hidden, true).build().flatten() {
        if limit.reached() || found.len() >= MAX_FOUND {
            truncated = true;
            break;
        }
        let below = entry.path().strip_prefix(&root).unwrap_or(entry.path());
        if below.as_os_str().is_empty()
            || entry.file_type().is_some_and(|kind| kind.is_dir())
            || !matcher.is_match(below)
        {
            continue;
        }
        // It may have gone since.
        if let Ok(modified) = entry
            .metadata()
            .map_err(drop)
            .and_then(|found| found.modified().map_err(drop))
        {
            found.push((Reverse(modified), path::shown(workspace, entry.path())));
        }
    }
    found.sort();
    let max = usize::try_from(request.max_results).unwrap_or(usize::MAX);
    truncated |= found.len() > max;
    Ok(GlobResponse {
        paths: found.into_iter().take(max).map(|(_, path)| path).collect(),
        truncated,
        ..Default::default()
    })
}
