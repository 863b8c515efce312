//! A file on its way to a client, as fast as the client takes it.

use std::time::Duration;

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use futures::{TryStreamExt as _, stream};
use guest_client::{
    FileStream,
    messages::{FileInfo, ReadBytesRequest},
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use sandbox_core::{Error, ErrorCode, Result};
use sandbox_session::Lease;
use tracing::{Span, warn};

use crate::{
    files::range::{self, Range},
    problem::{ApiError, ApiResult},
};

/// How long the guest may take to open a file, and to send each part of it.
const CALL_LIMIT: Duration = Duration::from_secs(30);

/// What is known of a file beside what the guest says.
#[derive(Default)]
pub(crate) struct Described {
    /// Else what the path's extension says.
    pub(crate) content_type: Option<String>,
    pub(crate) disposition: Option<HeaderValue>,
    /// A file of another size is not the one that was meant.
    pub(crate) size: Option<u64>,
    /// Else the guest's.
    pub(crate) etag: Option<String>,
}

/// Answers with a file, or the part of it that the client asks for.
pub(crate) async fn send(
    lease: Lease,
    path: &str,
    headers: &HeaderMap,
    described: Described,
) -> ApiResult<Response> {
    let tag_of = |file: &FileStream| described.etag.clone().or_else(|| etag(&file.info));
    let mut range = Range::of(headers);
    let mut file = open(&lease, path, range).await?;
    let mut etag = tag_of(&file);
    if range != Range::All && !range::if_range(headers, etag.as_deref()) {
        range = Range::All;
        file = open(&lease, path, range).await?;
        etag = tag_of(&file);
    }
    if described
        .size
        .is_some_and(|size| size != file.info.size_bytes)
    {
        return Err(ApiError::new(ErrorCode::NotFound, "the file has changed"));
    }
    let tag = etag
        .as_deref()
        .and_then(|etag| HeaderValue::from_str(etag).ok());
    let mut response = if etag.is_some_and(|etag| range::none_match(headers, &etag)) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        in_bytes(lease, file, range, described)
    };
    if let Some(tag) = tag {
        response.headers_mut().insert(header::ETAG, tag);
    }
    Ok(response)
}

pub(crate) async fn open(lease: &Lease, path: &str, range: Range) -> ApiResult<FileStream> {
    let (offset, length, from_end) = match range {
        Range::All => (0, None, false),
        Range::From { first, last } => {
            let length = last.map(|last| (last - first).saturating_add(1));
            (first, length, false)
        }
        Range::Suffix(count) => (0, Some(count), true),
    };
    let request = ReadBytesRequest {
        path: path.to_owned(),
        offset,
        length,
        from_end,
        ..Default::default()
    };
    Ok(in_time(lease.call(lease.guest().read_bytes(request))).await?)
}

pub(crate) async fn in_time<T>(call: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(CALL_LIMIT, call)
        .await
        .unwrap_or_else(|_| {
            Err(Error::new(
                ErrorCode::Timeout,
                "the sandbox did not answer in time",
            ))
        })
}

/// A tag comes from inside the sandbox: one that could leave its quotes is none.
pub(crate) fn etag(info: &FileInfo) -> Option<String> {
    let plain = |b: u8| b.is_ascii_graphic() && b != b'"';
    (!info.etag.is_empty() && info.etag.bytes().all(plain)).then(|| format!("\"{}\"", info.etag))
}

pub(crate) fn content_type(path: &str) -> mime_guess::Mime {
    mime_guess::from_path(path).first_or_octet_stream()
}

/// The session stays in use until the last byte is with the client.
fn in_bytes(lease: Lease, file: FileStream, range: Range, described: Described) -> Response {
    let size = file.info.size_bytes;
    let slice = range.within(size);
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    let (status, length) = match (range, slice) {
        (Range::All, slice) => (StatusCode::OK, slice.map_or(0, range::Slice::len)),
        (_, Some(slice)) => {
            let part = format!("bytes {}-{}/{size}", slice.first, slice.last);
            insert(&mut headers, header::CONTENT_RANGE, &part);
            (StatusCode::PARTIAL_CONTENT, slice.len())
        }
        (_, None) => {
            insert(
                &mut headers,
                header::CONTENT_RANGE,
                &format!("bytes */{size}"),
            );
            let problem = ApiError::new(
                ErrorCode::RangeNotSatisfiable,
                format!("the file has {size} bytes, and none in this range"),
            );
            return (headers, problem).into_response();
        }
    };
    let kind = described
        .content_type
        .unwrap_or_else(|| content_type(&file.info.path).to_string());
    insert(&mut headers, header::CONTENT_TYPE, &kind);
    if let Some(disposition) = described.disposition {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    headers.insert(header::CONTENT_LENGTH, length.into());
    // What is in a sandbox must not act as a page of this service.
    headers.insert(
        header::X_CONTENT_TYPE_OPTIONS,
        HeaderValue::from_static("nosniff"),
    );
    headers.insert(
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; sandbox"),
    );
    let parts = stream::try_unfold((lease, file), |(lease, mut file)| async move {
        let data = in_time(file.next()).await?;
        Ok::<_, Error>(data.map(|data| (data, (lease, file))))
    });
    // The answer has begun: the client sees only that the connection breaks.
    let span = Span::current();
    let parts = parts.inspect_err(move |error| {
        span.in_scope(|| {
            warn!(
                error.code = error.code().as_str(),
                "failed to send a file to its end"
            )
        });
    });
    (status, headers, Body::from_stream(parts)).into_response()
}

fn insert(headers: &mut HeaderMap, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_could_leave_its_quotes_is_none() {
        let tag = |text: &str| {
            etag(&FileInfo {
                etag: text.into(),
                ..Default::default()
            })
        };
        assert_eq!(tag("1-2-3").as_deref(), Some("\"1-2-3\""));
        for bad in ["", "a\"b", "a\nb", "a b", "ä"] {
            assert_eq!(tag(bad), None, "{bad:?}");
        }
    }
}
