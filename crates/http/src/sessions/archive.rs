//! POST /sessions/{tenant_id}/{session_id}/copy and GET .../archive: many files at once.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRequest as _, Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use guest_client::{
    ArchiveStream,
    messages::{Compression, ExportRequest, ImportStart},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sandbox_core::{Error, ErrorCode, Result, SessionKey};
use sandbox_session::Lease;
use sandbox_store::AuditAction;
use serde::{Deserialize, Serialize};
use tokio::time::timeout;
use tracing::{Span, warn};
use utoipa::{IntoParams, ToSchema};

use super::no_session;
use crate::{
    AppState,
    audit::Deed,
    caller::Caller,
    extract::{Json, Query, SessionPath},
    input::{self, InputFile},
    problem::{ApiError, ApiResult, Problem},
};

const MAX_ENTRIES: u32 = 100_000;
/// How long the guest may take for a part of an archive.
const PART_LIMIT: Duration = Duration::from_secs(30);
const TAR: &str = "application/x-tar";

/// Where files are put.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct CopyQuery {
    /// A folder, relative to the workspace, which is the default; made where it is missing.
    #[serde(default = "workspace")]
    path: String,
}

fn workspace() -> String {
    ".".into()
}

/// Files to write, all of them or none.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CopyBody {
    /// At most 256.
    #[schema(max_items = 256)]
    files: Vec<InputFile>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CopyResponse {
    /// How many files.
    written: u32,
    /// What is in them.
    bytes: u64,
}

/// Copy files into a session
///
/// All of them, or nothing is changed. As JSON, or as a tar that is unpacked while it arrives:
/// `Content-Type: application/x-tar`, packed by gzip or zstd where `Content-Encoding` says so, or
/// `application/gzip` or `application/zstd`. Files that are there are replaced, folders are kept.
/// Of a tar, files, folders and links are taken; refused with `invalid_archive` are absolute paths
/// and `..`, links that leave it, devices, FIFOs and sparse files. It may have 100,000 entries and
/// 1 GiB (`copy_limit`), unpacked and packed, but no more than the session's disk. The session is
/// made if there is none.
#[utoipa::path(
    post, path = "/sessions/{tenant_id}/{session_id}/copy", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path), CopyQuery),
    request_body(content((CopyBody = "application/json"), (Vec<u8> = "application/x-tar"), (Vec<u8> = "application/gzip"), (Vec<u8> = "application/zstd"))),
    responses((status = 200, description = "All is there", body = CopyResponse), (status = "default", response = Problem)),
)]
pub(crate) async fn copy(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
    Query(query): Query<CopyQuery>,
    request: Request,
) -> ApiResult<Json<CopyResponse>> {
    let key = caller.managed(path.tenant, path.session)?;
    let (compression, archive) = match compression(request.headers())? {
        None => {
            let Json(body) = Json::<CopyBody>::from_request(request, &state).await?;
            let tar = tar_of(body.files)?;
            (
                Compression::COMPRESSION_NONE,
                stream::iter([Ok(tar)]).boxed(),
            )
        }
        Some(compression) => (compression, archive(&state, request)?.boxed()),
    };
    let deed = Deed {
        caller: &caller,
        key: &key,
        action: AuditAction::Copy,
        path: Some(&query.path),
        bytes: None,
    };
    let call = import(&state, &key, query.path.clone(), compression, archive);
    let done = state.audited(deed, call).await?;
    Ok(Json(done))
}

async fn import(
    state: &AppState,
    key: &SessionKey,
    path: String,
    compression: Compression,
    archive: impl Stream<Item = Result<Bytes>> + Send + 'static,
) -> Result<CopyResponse> {
    let lease = state.sessions.lease(key).await?;
    let disk = lease.spec().limits.disk.bytes();
    let start = ImportStart {
        path,
        compression: compression.into(),
        max_bytes: state.settings.max_copy_bytes.min(disk),
        max_entries: MAX_ENTRIES,
        ..Default::default()
    };
    let done = lease.call(lease.guest().import(start, archive)).await?;
    Ok(CopyResponse {
        written: done.written,
        bytes: done.bytes,
    })
}

/// How the tar in the body is packed; `None` is no tar but JSON.
fn compression(headers: &HeaderMap) -> ApiResult<Option<Compression>> {
    let text = |name: &header::HeaderName| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        let value = value.unwrap_or_default().split(';').next();
        value.unwrap_or_default().trim().to_ascii_lowercase()
    };
    let refused = || {
        ApiError::new(
            ErrorCode::UnsupportedMediaType,
            "the body must be JSON or a tar: `Content-Type` application/json, application/x-tar, \
             application/gzip or application/zstd; a tar may have `Content-Encoding` gzip or zstd",
        )
    };
    let encoding = text(&header::CONTENT_ENCODING);
    let plain = encoding.is_empty() || encoding == "identity";
    match text(&header::CONTENT_TYPE).as_str() {
        "application/json" => Ok(None),
        TAR | "application/x-gtar" | "application/tar" => match encoding.as_str() {
            _ if plain => Ok(Some(Compression::COMPRESSION_NONE)),
            "gzip" | "x-gzip" => Ok(Some(Compression::COMPRESSION_GZIP)),
            "zstd" => Ok(Some(Compression::COMPRESSION_ZSTD)),
            _ => Err(refused()),
        },
        "application/gzip" | "application/x-gzip" if plain => {
            Ok(Some(Compression::COMPRESSION_GZIP))
        }
        "application/zstd" if plain => Ok(Some(Compression::COMPRESSION_ZSTD)),
        _ => Err(refused()),
    }
}

/// The body as it arrives, bounded in size and in how long it may stand still.
fn archive(
    state: &AppState,
    request: Request,
) -> ApiResult<impl Stream<Item = Result<Bytes>> + Send + 'static> {
    let limit = state.settings.max_copy_bytes;
    let patience = state.settings.body_timeout;
    let announced = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limit) {
        return Err(too_large(limit).into());
    }
    let body = request.into_body().into_data_stream();
    let parts = stream::unfold((body, limit), move |(mut body, left)| async move {
        let next = match timeout(patience, body.next()).await {
            Ok(None) => return None,
            Ok(Some(Ok(data))) => match left.checked_sub(data.len() as u64) {
                Some(left) => return Some((Ok(data), (body, left))),
                None => too_large(limit),
            },
            Ok(Some(Err(_))) => {
                Error::new(ErrorCode::InvalidRequest, "the body ended before its time")
            }
            Err(_) => Error::new(
                ErrorCode::RequestTimeout,
                format!("nothing of the body arrived for {} s", patience.as_secs()),
            ),
        };
        Some((Err(next), (body, 0)))
    });
    Ok(parts)
}

fn too_large(limit: u64) -> Error {
    Error::new(
        ErrorCode::BodyTooLarge,
        format!("the body is larger than {limit} bytes"),
    )
}

/// The same way for one file or many: all or nothing.
fn tar_of(files: Vec<InputFile>) -> ApiResult<Bytes> {
    let mut tar = tar::Builder::new(Vec::new());
    for file in input::files(files)? {
        let path = relative(&file.path)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(file.data.len() as u64);
        header.set_mode(file.mode);
        tar.append_data(&mut header, path, file.data.as_slice())
            .map_err(|error| ApiError::new(ErrorCode::InvalidPath, format!("`{path}`: {error}")))?;
    }
    tar.into_inner()
        .map(Bytes::from)
        .map_err(|error| Error::internal(error).into())
}

/// As the other routes take it: `/workspace/...` is the same as `...`.
fn relative(path: &str) -> ApiResult<&str> {
    let path = path.strip_prefix("/workspace/").unwrap_or(path);
    let parts = || {
        path.split('/')
            .filter(|part| !part.is_empty() && *part != ".")
    };
    let good = !path.starts_with('/')
        && !path.contains('\0')
        && path.len() <= 3072
        && parts().all(|part| part != ".." && part.len() <= 255)
        && parts().next().is_some()
        && !path.ends_with('/');
    good.then_some(path).ok_or_else(|| {
        ApiError::new(
            ErrorCode::InvalidPath,
            "`files` has a path that is not below the folder that they are copied to",
        )
    })
}

/// What to pack, and how.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ArchiveQuery {
    /// A folder or a file, relative to the workspace, which is the default.
    #[serde(default = "workspace")]
    path: String,
    #[serde(default)]
    #[param(inline)]
    format: Format,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, ToSchema)]
pub(crate) enum Format {
    #[default]
    #[serde(rename = "tar")]
    Tar,
    #[serde(rename = "tar.gz")]
    TarGz,
    #[serde(rename = "tar.zst")]
    TarZst,
}

impl Format {
    fn parts(self) -> (Compression, &'static str, &'static str) {
        match self {
            Self::Tar => (Compression::COMPRESSION_NONE, TAR, "tar"),
            Self::TarGz => (Compression::COMPRESSION_GZIP, "application/gzip", "tar.gz"),
            Self::TarZst => (Compression::COMPRESSION_ZSTD, "application/zstd", "tar.zst"),
        }
    }
}

/// Fetch files of a session as an archive
///
/// Made while it is sent. Paths in it are relative to what is asked for; links stay links, and
/// sockets, FIFOs and devices are left out, like the service's own folder `.sandbox`. When it
/// cannot be completed the connection breaks: a whole answer is a whole archive.
#[utoipa::path(
    get, path = "/sessions/{tenant_id}/{session_id}/archive", tag = "sessions",
    params(("tenant_id" = String, Path), ("session_id" = String, Path), ArchiveQuery),
    responses(
        (status = 200, description = "The archive", content((Vec<u8> = "application/x-tar"), (Vec<u8> = "application/gzip"), (Vec<u8> = "application/zstd"))),
        (status = "default", response = Problem),
    ),
)]
pub(crate) async fn archive_of(
    caller: Caller,
    State(state): State<AppState>,
    path: SessionPath,
    Query(query): Query<ArchiveQuery>,
) -> ApiResult<Response> {
    let key = caller.managed(path.tenant, path.session)?;
    if !state.sessions.knows(&key) {
        return Err(no_session().into());
    }
    let (compression, content_type, extension) = query.format.parts();
    let lease = state.sessions.lease(&key).await?;
    let request = ExportRequest {
        path: query.path,
        compression: compression.into(),
        ..Default::default()
    };
    let opened = lease.call(async {
        let mut archive = lease.guest().export(request).await?;
        // An error comes in place of the first part.
        let first = within(archive.next()).await?;
        Ok((archive, first))
    });
    let (archive, first) = opened.await?;
    let body = Body::from_stream(parts(lease, archive, first));
    let mut response = (StatusCode::OK, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    // An id has nothing that would have to be quoted.
    let name = format!("attachment; filename=\"{}.{extension}\"", key.session);
    if let Ok(name) = HeaderValue::from_str(&name) {
        headers.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

/// The session is in use as long as its archive is on its way.
fn parts(
    lease: Lease,
    archive: ArchiveStream,
    first: Option<Bytes>,
) -> impl Stream<Item = Result<Bytes>> + Send + 'static {
    let span = Span::current();
    stream::unfold(
        (lease, archive, first),
        move |(lease, mut archive, first)| {
            let span = span.clone();
            async move {
                if let Some(first) = first {
                    return Some((Ok(first), (lease, archive, None)));
                }
                match lease.call(within(archive.next())).await {
                    Ok(Some(data)) => Some((Ok(data), (lease, archive, None))),
                    Ok(None) => None,
                    Err(error) => {
                        span.in_scope(|| warn!("broke off an archive: {error}"));
                        Some((Err(error), (lease, archive, None)))
                    }
                }
            }
        },
    )
}

async fn within<T>(part: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(PART_LIMIT, part).await.map_err(|_| {
        Error::new(
            ErrorCode::Timeout,
            "the sandbox did not go on with the archive",
        )
    })?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_json_is_below_its_folder() {
        for (path, same) in [("a/b", "a/b"), ("/workspace/a", "a"), ("./a//b", "./a//b")] {
            assert_eq!(relative(path).unwrap(), same);
        }
        let long = "n".repeat(256);
        for bad in [
            "",
            ".",
            "..",
            "a/../b",
            "/etc/passwd",
            "a/",
            "a\0",
            &long,
            "/workspace/",
        ] {
            assert!(relative(bad).is_err(), "{bad}");
        }
    }
}
