//! `GET /files`: a file as it is, or one range of it.

use std::{fs::OpenOptions, io, ops::Range};

use bytes::Bytes;
use connectrpc::{ConnectError, ErrorCode};
use futures::{TryStreamExt as _, stream};
use http::{HeaderMap, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};

use super::{
    Answer, empty,
    encoding::{Content, Encoding, accepted, packed},
    query, refusal,
};
use crate::{
    blocking::blocking,
    state::Guest,
    workspace::{open::open, read::Chunks},
};

pub(super) async fn download(
    guest: &Guest,
    request: &Request<Incoming>,
) -> Result<Answer, ConnectError> {
    let path = guest.place(&query(request)?.path.unwrap_or_default())?;
    let Some(encoding) = accepted(request.headers()) else {
        let message = "the file can be had as it is, and packed by gzip";
        return Ok(refusal(StatusCode::NOT_ACCEPTABLE, message));
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let disposition = disposition(&name);
    let shown = path.to_string_lossy().into_owned();
    let (file, size) = blocking({
        let path = path.clone();
        move |_| {
            let (file, found) = open(&path, OpenOptions::new().read(true), &shown)?;
            Ok((file, found.len()))
        }
    })
    .await
    .map_err(|failed| in_words(failed, &path.to_string_lossy()))?;
    let (part, is_whole) = match wanted(request.headers(), size) {
        Wanted::Whole => (0..size, true),
        Wanted::Part(part) => (part, false),
        Wanted::Nothing => return Ok(not_satisfiable(size)),
    };
    let length = part.end - part.start;
    // Read when asked for: a reader that stalls stops the reading.
    let content = stream::try_unfold(Chunks::new(file, part.start, length)?, next);
    // A part is a part of the file as it is.
    let is_packed = is_whole && encoding == Encoding::Gzip;
    let content: Content = match is_packed {
        true => packed(content),
        false => Box::pin(content),
    };
    let mut answer = Response::new(StreamBody::new(content.map_ok(Frame::data)).boxed_unsync());
    let headers = answer.headers_mut();
    let by_encoding = header::HeaderValue::from_static("accept-encoding");
    headers.insert(header::VARY, by_encoding);
    if let Ok(disposition) = disposition.try_into() {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    let octets = header::HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, octets);
    if is_packed {
        let gzip = header::HeaderValue::from_static("gzip");
        headers.insert(header::CONTENT_ENCODING, gzip);
        return Ok(answer);
    }
    headers.insert(header::CONTENT_LENGTH, length.into());
    let bytes = header::HeaderValue::from_static("bytes");
    headers.insert(header::ACCEPT_RANGES, bytes);
    if !is_whole {
        content_range(headers, &format!("{}-{}", part.start, part.end - 1), size);
        *answer.status_mut() = StatusCode::PARTIAL_CONTENT;
    }
    Ok(answer)
}

async fn next(chunks: Chunks) -> io::Result<Option<(Bytes, Chunks)>> {
    let next = chunks.next().await.map_err(io::Error::other)?;
    Ok(next.map(|(data, chunks)| (data.into(), chunks)))
}

/// The two refusals that clients tell people in the contract's words.
fn in_words(failed: ConnectError, path: &str) -> ConnectError {
    match (failed.code, failed.message.as_deref()) {
        (ErrorCode::NotFound, _) => {
            ConnectError::not_found(format!("path '{path}' does not exist"))
        }
        (_, Some(message)) if message.ends_with("is a directory") => {
            ConnectError::invalid_argument(format!("path '{path}' is a directory"))
        }
        _ => failed,
    }
}

/// RFC 6266: the name as it is in UTF-8, where ASCII would not do.
fn disposition(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_. ()+,".contains(&byte);
    if name.bytes().all(is_plain) {
        return format!("inline; filename=\"{name}\"");
    }
    let encoded = name.bytes().map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-_.".contains(&byte) => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    format!("inline; filename*=UTF-8''{}", encoded.collect::<String>())
}

fn content_range(headers: &mut HeaderMap, part: &str, size: u64) {
    if let Ok(value) = format!("bytes {part}/{size}").try_into() {
        headers.insert(header::CONTENT_RANGE, value);
    }
}

fn not_satisfiable(size: u64) -> Answer {
    let mut answer = empty(StatusCode::RANGE_NOT_SATISFIABLE);
    content_range(answer.headers_mut(), "*", size);
    answer
}

#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    /// Not empty.
    Part(Range<u64>),
    Nothing,
}

fn wanted(headers: &HeaderMap, size: u64) -> Wanted {
    let range = headers
        .get(header::RANGE)
        .and_then(|range| range.to_str().ok())
        .and_then(|range| parse(range, size));
    match range {
        // Several ranges, other units, and nonsense may all be passed over (RFC 9110, 14.2).
        None => Wanted::Whole,
        Some(part) if part.is_empty() => Wanted::Nothing,
        Some(part) => Wanted::Part(part),
    }
}

fn parse(range: &str, size: u64) -> Option<Range<u64>> {
    let (first, last) = range.strip_prefix("bytes=")?.trim().split_once('-')?;
    let number = |text: &str| -> Option<u64> {
        // `parse` would take a sign.
        text.bytes()
            .all(|byte| byte.is_ascii_digit())
            .then(|| text.parse().ok())?
    };
    match (first, last) {
        ("", last) => Some(size.saturating_sub(number(last)?)..size),
        (first, "") => Some(number(first)?..size),
        (first, last) => {
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then(|| first..last.saturating_add(1).min(size))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_what_the_file_has_of_it() {
        for (range, expected) in [
            ("bytes=0-3", Wanted::Part(0..4)),
            ("bytes=2-", Wanted::Part(2..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-30", Wanted::Part(0..10)),
            ("bytes=9-99", Wanted::Part(9..10)),
            ("bytes=0-18446744073709551615", Wanted::Part(0..10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=10-12", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=3-2", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("bytes=+1-2", Wanted::Whole),
            ("lines=0-1", Wanted::Whole),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, range.parse().unwrap());
            assert_eq!(wanted(&headers, 10), expected, "{range}");
        }
        assert_eq!(wanted(&HeaderMap::new(), 10), Wanted::Whole);
    }
}
