//! Writing and editing files.

use std::path::{Path, PathBuf};

use connectrpc::ConnectError;
use guest_parts::{
    edit::{self, MAX_EDIT_BYTES},
    error::is_a_directory,
};
use sandbox_wire::sandbox::v1::{EditRequest, EditResponse, WriteRequest, WriteResponse};

use crate::{
    envd::{Envd, Found, check_file, check_place, size},
    state::{State, random},
    words::lies,
};

/// Of a file that there was not, and what envd gives to what is uploaded.
const DEFAULT_MODE: u32 = 0o644;

pub(super) async fn write(
    state: &State,
    request: &WriteRequest,
) -> Result<WriteResponse, ConnectError> {
    let (file, shown) = state.path(&request.path)?;
    if file == state.workspace {
        return Err(is_a_directory(&shown));
    }
    let found = state.envd.find(&file, &shown).await?;
    check_place(&found.path, &shown)?;
    match &found.entry {
        Some(entry) => check_file(&found.path, entry, &shown)?,
        // envd makes the folders that a file is in; here they are made when asked for.
        None if !request.create_dirs => {
            state.envd.folder(parent(&found.path), &shown).await?;
        }
        None => {}
    }
    let created = found.entry.is_none();
    let size_bytes = match request.append {
        true => append(&state.envd, found, request, &shown).await?,
        false => {
            replace(&state.envd, found, &request.data, request.mode, &shown).await?;
            request.data.len() as u64
        }
    };
    Ok(WriteResponse {
        path: shown,
        size_bytes,
        created,
        ..Default::default()
    })
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// A file beside where it is for; removed again unless it gets there.
async fn beside(
    envd: &Envd,
    target: &Path,
    data: &[u8],
    shown: &str,
) -> Result<PathBuf, ConnectError> {
    let fresh = parent(target).join(format!(".write-{}", random()));
    match envd.put(&fresh, data, shown).await {
        Ok(()) => Ok(fresh),
        Err(cause) => {
            let _ = envd.remove_all(&fresh, shown).await;
            Err(cause)
        }
    }
}

/// The mode 0 is that of the file that was there.
async fn replace(
    envd: &Envd,
    target: Found,
    data: &[u8],
    mode: u32,
    shown: &str,
) -> Result<(), ConnectError> {
    let before = target.entry.map(|entry| entry.mode & 0o777);
    let mode = match mode & 0o777 {
        0 => before.unwrap_or(DEFAULT_MODE),
        mode => mode,
    };
    let fresh = beside(envd, &target.path, data, shown).await?;
    let putting = async {
        if mode != DEFAULT_MODE {
            envd.set_mode(&[&fresh], mode, shown).await?;
        }
        envd.rename(&fresh, &target.path, shown).await
    };
    let entry = match putting.await {
        Ok(entry) => entry,
        Err(cause) => {
            let _ = envd.remove_all(&fresh, shown).await;
            return Err(cause);
        }
    };
    if entry.mode & 0o777 != mode {
        envd.set_mode(&[&target.path], mode, shown).await?;
    }
    match size(&entry) == data.len() as u64 {
        true => Ok(()),
        // Or a program has been at it meanwhile, which is its own affair.
        false => match envd.exists(&target.path, shown).await? {
            Some(_) => Ok(()),
            None => Err(lies("a file that is not there")),
        },
    }
}

/// The size afterwards.
async fn append(
    envd: &Envd,
    target: Found,
    request: &WriteRequest,
    shown: &str,
) -> Result<u64, ConnectError> {
    if target.entry.is_none() {
        replace(envd, target, &request.data, request.mode, shown).await?;
        return Ok(request.data.len() as u64);
    }
    let more = beside(envd, &target.path, &request.data, shown).await?;
    let appended = envd.append(&more, &target.path, shown).await;
    let _ = envd.remove_all(&more, shown).await;
    appended?;
    Ok(size(&envd.stat(&target.path, shown).await?))
}

pub(super) async fn edit(
    state: &State,
    request: &EditRequest,
) -> Result<EditResponse, ConnectError> {
    let (file, shown) = state.path(&request.path)?;
    edit::check(request)?;
    let (path, entry) = state.envd.file(&file, &shown).await?;
    let size = size(&entry);
    if size > MAX_EDIT_BYTES {
        return Err(edit::too_large(&shown));
    }
    let download = state.envd.download(&path, 0..size, size, &shown).await?;
    let text = String::from_utf8(download.collect().await?);
    let text = text.map_err(|_| edit::not_text(&shown))?;
    let (text, replacements) = edit::edited(&text, request, &shown)?;
    let found = Found {
        path,
        entry: Some(entry),
    };
    replace(&state.envd, found, text.as_bytes(), 0, &shown).await?;
    Ok(EditResponse {
        path: shown,
        replacements,
        ..Default::default()
    })
}
