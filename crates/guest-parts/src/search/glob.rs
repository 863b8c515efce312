//! Paths that match a pattern, the newest first.

use std::{cmp::Reverse, collections::BinaryHeap};

use connectrpc::ConnectError;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse};

use super::{check_glob, invalid_pattern};

/// Most paths of one answer, whatever was asked for.
const MAX_RESULTS: usize = 100_000;

/// The newest paths, as many as are wanted.
pub struct Newest<T: Ord> {
    max: usize,
    /// The oldest of those kept is on top, the first to be left out.
    kept: BinaryHeap<(Reverse<T>, String)>,
    truncated: bool,
}

impl<T: Ord> Newest<T> {
    pub fn new(request: &GlobRequest) -> Self {
        Self {
            max: usize::try_from(request.max_results)
                .unwrap_or(usize::MAX)
                .min(MAX_RESULTS),
            kept: BinaryHeap::new(),
            truncated: false,
        }
    }

    pub fn add(&mut self, modified: T, shown: String) {
        self.kept.push((Reverse(modified), shown));
        if self.kept.len() > self.max {
            self.kept.pop();
            self.truncated = true;
        }
    }

    /// The answer; `is_partial` says that there is more than was looked at.
    pub fn finish(self, is_partial: bool) -> GlobResponse {
        let paths = self.kept.into_sorted_vec();
        GlobResponse {
            paths: paths.into_iter().map(|(_, path)| path).collect(),
            truncated: self.truncated || is_partial,
            ..Default::default()
        }
    }
}

pub fn matcher(pattern: &str) -> Result<GlobSet, ConnectError> {
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
