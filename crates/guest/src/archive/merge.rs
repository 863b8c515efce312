//! Moving what was unpacked into place: all of it, or nothing is changed.

use std::{
    fs::{self, Metadata, Permissions},
    io,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use connectrpc::ConnectError;
use guest_parts::archive::plan::{Plan, Planned};

use crate::{
    error::{from_io, is_a_directory},
    path,
};

/// One change, to be undone.
enum Done {
    Made(PathBuf),
    MadeFolder(PathBuf),
    /// What was there before is kept at the second path.
    Moved(PathBuf, PathBuf),
}

/// Puts what is in `staged` into `into`; what it replaces goes to `replaced`
/// until all is done.
pub(super) fn merge(
    workspace: &Path,
    plan: &Plan,
    staged: &Path,
    replaced: &Path,
    into: &Path,
) -> Result<(), ConnectError> {
    // All that can be known beforehand is looked at before anything is moved.
    for (path, planned) in plan.entries() {
        let place = into.join(path);
        check(planned, &place, &path::shown(workspace, &place))?;
    }
    let mut done = Vec::new();
    let result = put_all(workspace, plan, staged, replaced, into, &mut done);
    if result.is_err() {
        undo(done);
    }
    result
}

/// What is there now; a link is one, and not what it leads to.
fn found(place: &Path) -> io::Result<Option<Metadata>> {
    match fs::symlink_metadata(place) {
        Ok(found) => Ok(Some(found)),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(cause) => Err(cause),
    }
}

fn check(planned: &Planned, place: &Path, shown: &str) -> Result<(), ConnectError> {
    let Some(found) = found(place).map_err(|cause| from_io(&cause, shown))? else {
        return Ok(());
    };
    match planned {
        // A folder is never reached through a link that is there.
        Planned::Folder(_) if !found.is_dir() => {
            Err(from_io(&io::ErrorKind::NotADirectory.into(), shown))
        }
        Planned::File | Planned::Link(_) if found.is_dir() => Err(is_a_directory(shown)),
        _ => Ok(()),
    }
}

fn put_all(
    workspace: &Path,
    plan: &Plan,
    staged: &Path,
    replaced: &Path,
    into: &Path,
    done: &mut Vec<Done>,
) -> Result<(), ConnectError> {
    make_folders(into, done).map_err(|cause| from_io(&cause, &path::shown(workspace, into)))?;
    for (n, (path, planned)) in plan.entries().iter().enumerate() {
        let place = into.join(path);
        let kept = replaced.join(n.to_string());
        put(planned, &staged.join(path), &place, &kept, done)
            .map_err(|cause| from_io(&cause, &path::shown(workspace, &place)))?;
    }
    Ok(())
}

/// Makes the folder and those that it is in, where they are missing.
fn make_folders(folder: &Path, done: &mut Vec<Done>) -> io::Result<()> {
    let missing: Vec<&Path> = folder
        .ancestors()
        .take_while(|folder| fs::metadata(folder).is_err())
        .collect();
    for folder in missing.into_iter().rev() {
        fs::create_dir(folder)?;
        done.push(Done::MadeFolder(folder.to_owned()));
    }
    match fs::metadata(folder)?.is_dir() {
        true => Ok(()),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

fn put(
    planned: &Planned,
    staged: &Path,
    place: &Path,
    kept: &Path,
    done: &mut Vec<Done>,
) -> io::Result<()> {
    let before = found(place)?;
    if let Planned::Folder(mode) = planned {
        match before {
            Some(before) if before.is_dir() => return Ok(()),
            Some(_) => return Err(io::ErrorKind::NotADirectory.into()),
            None => {}
        }
        fs::create_dir(place)?;
        done.push(Done::MadeFolder(place.to_owned()));
        if let Some(mode) = mode {
            // Its owner can always look into it, and take it away.
            fs::set_permissions(place, Permissions::from_mode((mode & 0o777) | 0o700))?;
        }
        return Ok(());
    }
    match before {
        Some(before) if before.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        Some(_) => {
            fs::rename(place, kept)?;
            done.push(Done::Moved(place.to_owned(), kept.to_owned()));
        }
        None => {}
    }
    match planned {
        Planned::Link(target) => symlink(target, place)?,
        _ => fs::rename(staged, place)?,
    }
    done.push(Done::Made(place.to_owned()));
    Ok(())
}

fn undo(done: Vec<Done>) {
    for change in done.into_iter().rev() {
        // Nothing more can be done for what cannot be undone.
        let _ = match change {
            Done::Made(place) => fs::remove_file(place),
            Done::MadeFolder(place) => fs::remove_dir(place),
            Done::Moved(place, kept) => fs::rename(kept, place),
        };
    }
}
