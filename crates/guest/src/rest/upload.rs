//! `POST /files`: each file goes to the disk as it comes, and into its place
//! when it is complete.

use std::path::PathBuf;

use bytes::Bytes;
use connectrpc::ConnectError;
use http::{Request, StatusCode, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde::Serialize;

use super::{Answer, json_answer, query};
use crate::{
    blocking::blocking,
    path,
    state::Guest,
    workspace::{open::make_parents, replace::Replacement},
};

/// A file that was uploaded.
#[derive(Serialize)]
struct Uploaded {
    name: String,
    r#type: &'static str,
    path: String,
}

struct Upload {
    replacement: Replacement,
    path: PathBuf,
}

impl Upload {
    async fn start(guest: &Guest, shown: String) -> Result<Self, ConnectError> {
        guest.disk.check()?;
        let path = path::in_sandbox(&guest.workspace, &shown)?;
        blocking(move |_| {
            make_parents(&path, &shown)?;
            let replacement = Replacement::create(&path, &shown)?;
            Ok(Self { replacement, path })
        })
        .await
    }

    async fn write(mut self, data: Bytes) -> Result<Self, ConnectError> {
        blocking(move |_| {
            self.replacement.write(&data)?;
            Ok(self)
        })
        .await
    }

    async fn finish(self) -> Result<Uploaded, ConnectError> {
        blocking(move |_| {
            self.replacement.put(0)?;
            let name = self.path.file_name().unwrap_or_default();
            Ok(Uploaded {
                name: name.to_string_lossy().into_owned(),
                r#type: "file",
                path: self.path.to_string_lossy().into_owned(),
            })
        })
        .await
    }
}

pub(super) async fn upload(
    guest: &Guest,
    request: Request<Incoming>,
) -> Result<Answer, ConnectError> {
    let path = query(&request).remove("path");
    let text = |name| {
        let value = request.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("")
    };
    // Stored as it is it would not be the file that was meant.
    if !matches!(text(header::CONTENT_ENCODING), "" | "identity") {
        return Err(ConnectError::invalid_argument(
            "a body with a content encoding is not taken",
        ));
    }
    let kind = text(header::CONTENT_TYPE).to_owned();
    let uploaded = if kind.starts_with("application/octet-stream") {
        let path = path.ok_or_else(|| ConnectError::invalid_argument("`path` is missing"))?;
        vec![whole_body(guest, path, request.into_body()).await?]
    } else {
        let boundary = multer::parse_boundary(&kind).map_err(broken)?;
        parts(guest, path, boundary, request.into_body()).await?
    };
    Ok(json_answer(StatusCode::OK, &uploaded))
}

async fn whole_body(
    guest: &Guest,
    path: String,
    mut body: Incoming,
) -> Result<Uploaded, ConnectError> {
    let mut upload = Upload::start(guest, path).await?;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(broken)?.into_data() {
            upload = upload.write(data).await?;
        }
    }
    upload.finish().await
}

async fn parts(
    guest: &Guest,
    path: Option<String>,
    boundary: String,
    body: Incoming,
) -> Result<Vec<Uploaded>, ConnectError> {
    let mut parts = multer::Multipart::new(body.into_data_stream(), boundary);
    let mut uploaded = Vec::new();
    while let Some(mut part) = parts.next_field().await.map_err(broken)? {
        if part.name() != Some("file") {
            continue;
        }
        let path = path
            .clone()
            .or_else(|| part.file_name().map(str::to_owned))
            .ok_or_else(|| ConnectError::invalid_argument("a file has no name"))?;
        let mut upload = Upload::start(guest, path).await?;
        while let Some(data) = part.chunk().await.map_err(broken)? {
            upload = upload.write(data).await?;
        }
        uploaded.push(upload.finish().await?);
    }
    Ok(uploaded)
}

fn broken(cause: impl std::error::Error) -> ConnectError {
    ConnectError::invalid_argument(format!("the body is broken: {cause}"))
}
