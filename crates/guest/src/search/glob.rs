//! Files whose path matches a pattern, the newest first.

use std::{cmp::Reverse, collections::BinaryHeap, fs, path::Path};

use connectrpc::ConnectError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use ignore::overrides::Override;
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse};

use super::{
    Limit, check_glob, invalid_pattern,
    walk::{Choice, Walk},
};
use crate::{path, workspace::open::check_dir};

/// Most paths of one answer, whatever was asked for.
const MAX_RESULTS: usize = 100_000;

pub(super) fn glob(
    workspace: &Path,
    request: &GlobRequest,
    limit: &Limit<'_>,
) -> Result<GlobResponse, ConnectError> {
    let root = path::in_workspace(workspace, &request.path)?;
    let matcher = matcher(&request.pattern)?;
    check_dir(&root, &path::shown(workspace, &root))?;
    let max = usize::try_from(request.max_results)
        .unwrap_or(usize::MAX)
        .min(MAX_RESULTS);
    let choice = Choice {
        hidden: request.hidden,
        no_ignore: true,
        filter: Override::empty(),
    };
    let mut walk = Walk::new(workspace, root.clone(), choice, limit);
    // The oldest of those kept is on top, the first to be left out.
    let mut newest = BinaryHeap::new();
    let mut truncated = false;
    for found in walk.by_ref() {
        let below = found.path.strip_prefix(&root).unwrap_or(&found.path);
        if !matcher.is_match(below) {
            continue;
        }
        // It may have gone since.
        let Ok(modified) = fs::symlink_metadata(&found.path).and_then(|found| found.modified())
        else {
            continue;
        };
        newest.push((Reverse(modified), path::shown(workspace, &found.path)));
        if newest.len() > max {
            newest.pop();
            truncated = true;
        }
    }
    let paths = newest.into_sorted_vec();
    Ok(GlobResponse {
        paths: paths.into_iter().map(|(_, path)| path).collect(),
        truncated: truncated || walk.is_partial(),
        ..Default::default()
    })
}

fn matcher(pattern: &str) -> Result<GlobSet, ConnectError> {
    check_glob(pattern)?;
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.is_empty() {
        return Err(invalid_pattern("the pattern is empty"));
    }
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        .build()
        .map_err(invalid_pattern)?;
    // A set, because a single matcher panics on a pattern that is too large.
    GlobSetBuilder::new()
        .add(glob)
        .build()
        .map_err(invalid_pattern)
}
