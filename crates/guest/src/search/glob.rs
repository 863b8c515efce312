//! Files whose path matches a pattern, the newest first.

use std::{fs, path::Path};

use connectrpc::ConnectError;
use guest_parts::search::{
    Limit,
    glob::{Newest, matcher},
};
use ignore::overrides::Override;
use sandbox_wire::sandbox::v1::{GlobRequest, GlobResponse};

use super::walk::{Choice, Walk};
use crate::{path, workspace::open::check_dir};

pub(super) fn glob(
    workspace: &Path,
    request: &GlobRequest,
    limit: &Limit<'_>,
) -> Result<GlobResponse, ConnectError> {
    let root = path::in_workspace(workspace, &request.path)?;
    let matcher = matcher(&request.pattern)?;
    check_dir(&root, &path::shown(workspace, &root))?;
    let choice = Choice {
        hidden: request.hidden,
        no_ignore: true,
        filter: Override::empty(),
    };
    let mut walk = Walk::new(workspace, root.clone(), choice, limit);
    let mut newest = Newest::new(request);
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
        newest.add(modified, path::shown(workspace, &found.path));
    }
    Ok(newest.finish(walk.is_partial()))
}
