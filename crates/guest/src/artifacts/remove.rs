//! Deleting copies that nobody needs any more.

use std::path::Path;

use connectrpc::ConnectError;
use rustix::{
    fs::{AtFlags, unlinkat},
    io::Errno,
};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{RemoveArtifactsRequest, RemoveArtifactsResponse};

use super::keep::FOLDER;
use crate::{
    blocking::Caller,
    error::{error, from_io},
    own_folder,
};

/// Deletes copies by the paths that were given out for them, all or, when one
/// is no such path, none.
pub(crate) fn remove(
    workspace: &Path,
    request: &RemoveArtifactsRequest,
    caller: &Caller,
) -> Result<RemoveArtifactsResponse, ConnectError> {
    let names: Option<Vec<_>> = request.stored_paths.iter().map(|path| name(path)).collect();
    let names = names.ok_or_else(|| {
        error(
            ErrorCode::InvalidPath,
            "a path is not that of an artifact's copy",
        )
    })?;
    // Without the folder there is nothing to delete.
    if let Ok(dir) = own_folder::open(workspace, &[FOLDER]) {
        for name in names {
            caller.check()?;
            match unlinkat(&dir, name, AtFlags::empty()) {
                // What a program put there is not the copy.
                Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
                Err(errno) => return Err(from_io(&errno.into(), name)),
            }
        }
    }
    Ok(RemoveArtifactsResponse::default())
}

fn name(path: &str) -> Option<&str> {
    let name = path
        .strip_prefix(own_folder::NAME)?
        .strip_prefix('/')?
        .strip_prefix(FOLDER)?
        .strip_prefix('/')?;
    let is_plain = !name.is_empty()
        && name.len() <= 255
        && !name.starts_with('.')
        && !name.contains(['/', '\0']);
    is_plain.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_name_in_the_folder_is_a_copy() {
        assert_eq!(name(".sandbox/artifacts/0198-ab"), Some("0198-ab"));
        for path in [
            "",
            "x",
            ".sandbox/artifacts",
            ".sandbox/artifacts/",
            ".sandbox/artifacts/.",
            ".sandbox/artifacts/..",
            ".sandbox/artifacts/../x",
            ".sandbox/artifacts//x",
            ".sandbox/artifacts/x/y",
            ".sandbox/artifacts/x\0",
            ".sandbox/artifactsx/y",
            "/workspace/.sandbox/artifacts/x",
            ".sandbox/output/x",
        ] {
            assert_eq!(name(path), None, "{path:?}");
        }
    }
}
