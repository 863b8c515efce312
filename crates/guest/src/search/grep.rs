//! Lines that match a pattern.

use std::{
    fs::{self, OpenOptions},
    io::Read as _,
    path::Path,
};

use connectrpc::ConnectError;
use guest_parts::search::{
    Limit,
    grep::{Grep, filter},
};
use sandbox_wire::sandbox::v1::{GrepRequest, GrepResponse};

use super::walk::{Choice, Walk};
use crate::{
    error::from_io,
    path,
    workspace::open::{check_dir, open},
};

pub(super) fn grep(
    workspace: &Path,
    request: &GrepRequest,
    limit: &Limit<'_>,
) -> Result<GrepResponse, ConnectError> {
    let root = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &root);
    let filter = filter(&root, &request.glob)?;
    let mut grep = Grep::new(request, limit)?;
    let found = fs::metadata(&root).map_err(|cause| from_io(&cause, &shown))?;
    if !found.is_dir() {
        // A file that is named is searched, whatever the filters say.
        let (file, found) = open(&root, OpenOptions::new().read(true), &shown)?;
        // Not what is added meanwhile: a file may grow as fast as it is read.
        grep.search(file.take(found.len()), shown);
        return Ok(grep.finish(false));
    }
    check_dir(&root, &shown)?;
    let choice = Choice {
        hidden: request.hidden,
        no_ignore: request.no_ignore,
        filter,
    };
    let mut walk = Walk::new(workspace, root, choice, limit);
    for found in walk.by_ref().filter(|found| found.kind.is_file()) {
        let shown = path::shown(workspace, &found.path);
        // What cannot be read, or is no file any more, holds no match.
        if let Ok((file, found)) = open(&found.path, OpenOptions::new().read(true), &shown) {
            grep.search(file.take(found.len()), shown);
        }
        if grep.is_over() {
            break;
        }
    }
    Ok(grep.finish(walk.is_partial()))
}
