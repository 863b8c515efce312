//! `POST /files/compose`: one file made of several, which are gone then.

use std::{
    collections::BTreeSet,
    fs::{self, File, OpenOptions},
    io::{self, Read as _},
    sync::Arc,
};

use connectrpc::ConnectError;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use sandbox_core::ErrorCode;
use serde::Deserialize;

use super::{Answer, json_answer, small_body, upload::Uploaded};
use crate::{
    blocking::{Caller, blocking},
    error::{error, from_io},
    state::Guest,
    users,
    workspace::{
        open::{make_parents, open},
        replace::Replacement,
    },
};

const MAX_SOURCES: usize = 10_000;
const PART_BYTES: usize = 256 * 1024;

#[derive(Deserialize)]
struct Compose {
    #[serde(default)]
    source_paths: Vec<String>,
    #[serde(default)]
    destination: String,
    username: Option<String>,
}

pub(super) async fn compose(
    guest: &Guest,
    request: Request<Incoming>,
) -> Result<Answer, ConnectError> {
    let body = small_body(request).await?;
    let wanted: Compose = serde_json::from_slice(&body)
        .map_err(|cause| ConnectError::invalid_argument(cause.to_string()))?;
    if let Some(name) = &wanted.username {
        users::check(name)?;
    }
    if wanted.source_paths.is_empty() || wanted.source_paths.len() > MAX_SOURCES {
        return Err(ConnectError::invalid_argument(format!(
            "`source_paths` names 1 to {MAX_SOURCES} files"
        )));
    }
    if wanted.destination.is_empty() {
        return Err(ConnectError::invalid_argument("`destination` is missing"));
    }
    guest.disk.check()?;
    let place = |shown: String| Ok((guest.place(&shown)?, shown));
    let (destination, shown) = place(wanted.destination)?;
    let sources: Vec<_> = wanted
        .source_paths
        .into_iter()
        .map(place)
        .collect::<Result<_, ConnectError>>()?;
    if let Some((_, source)) = sources.iter().find(|(path, _)| *path == destination) {
        return Err(error(
            ErrorCode::InvalidPath,
            format!("`{source}` is the destination too"),
        ));
    }
    let named: BTreeSet<_> = sources.iter().map(|(path, _)| path).collect();
    if named.len() < sources.len() {
        return Err(ConnectError::invalid_argument(
            "a file is named twice in `source_paths`",
        ));
    }
    let disk = Arc::clone(&guest.disk);
    let made = blocking(move |caller| {
        // All of them, before anything is made.
        let mut sizes = Vec::with_capacity(sources.len());
        for (path, shown) in &sources {
            let (_, found) = open(path, OpenOptions::new().read(true), shown)?;
            sizes.push(found.len());
        }
        disk.check_room(&destination, sizes.iter().sum())?;
        make_parents(&destination, &shown)?;
        let mut whole = Replacement::create(&destination, &shown)?;
        for ((path, shown), size) in sources.iter().zip(sizes) {
            let (file, _) = open(path, OpenOptions::new().read(true), shown)?;
            // A program that writes meanwhile gets no more room than there was.
            append(&mut whole, file.take(size), shown, caller)?;
            disk.check()?;
        }
        whole.put(0)?;
        for (path, _) in &sources {
            // Its content is kept, so what does not go is only in the way.
            let _ = fs::remove_file(path);
        }
        Ok(Uploaded::of(destination))
    });
    Ok(json_answer(StatusCode::OK, &made.await?))
}

fn append(
    whole: &mut Replacement,
    mut part: io::Take<File>,
    shown: &str,
    caller: &Caller,
) -> Result<(), ConnectError> {
    let mut buffer = vec![0; PART_BYTES];
    loop {
        caller.check()?;
        match part.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => whole.write(&buffer[..n])?,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(from_io(&cause, shown)),
        }
    }
}
