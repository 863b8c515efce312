//! `POST /files`: each file goes to the disk as it comes, and into its place
//! when it is complete.

use std::{
    collections::HashSet,
    io,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use connectrpc::ConnectError;
use futures::{TryStreamExt as _, future};
use http::{Request, StatusCode, header};
use hyper::body::Incoming;
use serde::Serialize;

use super::{
    Answer,
    encoding::{Content, text, unpacked},
    json_answer, query,
};
use crate::{
    blocking::blocking,
    disk::Disk,
    filesystem::metadata::{self, Metadata},
    state::Guest,
    workspace::{open::make_parents, replace::Replacement},
};

/// Of a form, beside the contents of its files.
const MAX_BETWEEN_BYTES: usize = 1024 * 1024;

/// A file that was uploaded.
#[derive(Serialize)]
pub(super) struct Uploaded {
    name: String,
    r#type: &'static str,
    path: String,
    #[serde(skip_serializing_if = "Metadata::is_empty")]
    metadata: Metadata,
}

impl Uploaded {
    /// As it is: a file system without attributes has kept no metadata.
    pub fn of(path: PathBuf) -> Self {
        Self {
            name: path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned(),
            r#type: "file",
            metadata: metadata::read(&path),
            path: path.to_string_lossy().into_owned(),
        }
    }
}

struct Upload {
    replacement: Replacement,
    path: PathBuf,
    shown: String,
    disk: Arc<Disk>,
    written: u64,
}

impl Upload {
    async fn start(guest: &Guest, path: PathBuf) -> Result<Self, ConnectError> {
        guest.disk.check()?;
        let disk = Arc::clone(&guest.disk);
        blocking(move |_| {
            let shown = path.to_string_lossy().into_owned();
            make_parents(&path, &shown)?;
            let replacement = Replacement::create(&path, &shown)?;
            Ok(Self {
                replacement,
                path,
                shown,
                disk,
                written: 0,
            })
        })
        .await
    }

    async fn write(mut self, data: Bytes) -> Result<Self, ConnectError> {
        self.written = self.written.saturating_add(data.len() as u64);
        // A file that comes fast would be there before anybody looked.
        self.disk.check_room(&self.path, self.written)?;
        blocking(move |_| {
            self.replacement.write(&data)?;
            Ok(self)
        })
        .await
    }

    async fn finish(self, metadata: &Metadata) -> Result<Uploaded, ConnectError> {
        let metadata = metadata.clone();
        blocking(move |_| {
            metadata::write(self.replacement.file(), &metadata, &self.shown)?;
            self.replacement.put(0)?;
            Ok(Uploaded::of(self.path))
        })
        .await
    }
}

pub(super) async fn upload(
    guest: &Guest,
    request: Request<Incoming>,
) -> Result<Answer, ConnectError> {
    let path = query(&request)?.path;
    let (head, body) = request.into_parts();
    let metadata = metadata::of_headers(&head.headers)?;
    let content = unpacked(&head.headers, body)?;
    let kind = text(&head.headers, header::CONTENT_TYPE);
    let uploaded = if kind.starts_with("application/octet-stream") {
        let path = path.ok_or_else(|| ConnectError::invalid_argument("`path` is missing"))?;
        vec![whole_body(guest, guest.place(&path)?, content, &metadata).await?]
    } else {
        let boundary = multer::parse_boundary(kind).map_err(broken)?;
        parts(guest, path, boundary, content, &metadata).await?
    };
    Ok(json_answer(StatusCode::OK, &uploaded))
}

async fn whole_body(
    guest: &Guest,
    path: PathBuf,
    mut content: Content,
    metadata: &Metadata,
) -> Result<Uploaded, ConnectError> {
    let mut upload = Upload::start(guest, path).await?;
    while let Some(data) = content.try_next().await.map_err(broken)? {
        upload = upload.write(data).await?;
    }
    upload.finish(metadata).await
}

async fn parts(
    guest: &Guest,
    path: Option<String>,
    boundary: String,
    content: Content,
    metadata: &Metadata,
) -> Result<Vec<Uploaded>, ConnectError> {
    // What is between the contents of files is kept until it ends.
    let between = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&between);
    let content = content.and_then(move |data| {
        let kept = seen.fetch_add(data.len(), Ordering::Relaxed) + data.len();
        future::ready(match kept > MAX_BETWEEN_BYTES {
            true => Err(io::Error::other("the head of a part is too large")),
            false => Ok(data),
        })
    });
    let mut parts = multer::Multipart::new(content, boundary);
    let mut uploaded = Vec::new();
    let mut places = HashSet::new();
    while let Some(mut part) = parts.next_field().await.map_err(broken)? {
        between.store(0, Ordering::Relaxed);
        if part.name() != Some("file") {
            continue;
        }
        let path = path
            .clone()
            .or_else(|| part.file_name().map(str::to_owned))
            .ok_or_else(|| ConnectError::invalid_argument("a file has no name"))?;
        let place = guest.place(&path)?;
        if !places.insert(place.clone()) {
            return Err(ConnectError::invalid_argument(format!(
                "several files are for `{path}`; the first is there, and the rest were not taken"
            )));
        }
        let mut upload = Upload::start(guest, place).await?;
        while let Some(data) = part.chunk().await.map_err(broken)? {
            between.store(0, Ordering::Relaxed);
            upload = upload.write(data).await?;
        }
        between.store(0, Ordering::Relaxed);
        uploaded.push(upload.finish(metadata).await?);
    }
    Ok(uploaded)
}

fn broken(cause: impl std::error::Error) -> ConnectError {
    ConnectError::invalid_argument(format!("the body is broken: {cause}"))
}
