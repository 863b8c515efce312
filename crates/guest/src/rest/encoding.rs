//! Bodies that are packed by gzip on their way (RFC 9110, 8.4 and 12.5.3).

use std::{io, pin::Pin};

use async_compression::{
    Level,
    tokio::bufread::{GzipDecoder, GzipEncoder},
};
use bytes::Bytes;
use connectrpc::ConnectError;
use futures::{Stream, TryStreamExt as _};
use http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tokio_util::io::{ReaderStream, StreamReader};

/// The bytes of a body, unpacked.
pub(super) type Content = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

const PART_BYTES: usize = 32 * 1024;

/// What was meant to be sent.
pub(super) fn unpacked(headers: &HeaderMap, body: Incoming) -> Result<Content, ConnectError> {
    let encoding = text(headers, header::CONTENT_ENCODING)
        .trim()
        .to_ascii_lowercase();
    let plain = body.into_data_stream().map_err(io::Error::other);
    match encoding.as_str() {
        "" | "identity" => Ok(Box::pin(plain)),
        "gzip" => {
            let mut decoder = GzipDecoder::new(StreamReader::new(plain));
            decoder.multiple_members(true);
            Ok(Box::pin(ReaderStream::with_capacity(decoder, PART_BYTES)))
        }
        _ => Err(ConnectError::invalid_argument(
            "a body may have the content encoding gzip, and no other",
        )),
    }
}

pub(super) fn packed(content: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Content {
    let encoder = GzipEncoder::with_quality(StreamReader::new(Box::pin(content)), Level::Fastest);
    Box::pin(ReaderStream::with_capacity(encoder, PART_BYTES))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

/// The encoding that the client likes best of ours; none when it likes neither.
pub(super) fn accepted(headers: &HeaderMap) -> Option<Encoding> {
    let wanted = text(headers, header::ACCEPT_ENCODING);
    let weight_of = |name: &str| {
        wanted.split(',').find_map(|item| {
            let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
            let is_it = coding.trim().eq_ignore_ascii_case(name);
            is_it.then(|| weight(parameters))
        })
    };
    let any = weight_of("*");
    let gzip = weight_of("gzip").or(any).unwrap_or(0.0);
    // Unless it is ruled out, identity will do.
    let identity = weight_of("identity");
    match (gzip > 0.0, identity.or(any.filter(|any| *any == 0.0))) {
        (true, Some(identity)) if identity > gzip => Some(Encoding::Identity),
        // `*` alone asks for nothing in particular.
        (true, _) if weight_of("gzip").is_some() => Some(Encoding::Gzip),
        (_, Some(0.0)) if gzip > 0.0 => Some(Encoding::Gzip),
        (_, Some(0.0)) => None,
        _ => Some(Encoding::Identity),
    }
}

fn weight(parameters: &str) -> f32 {
    let q = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim()
            .eq_ignore_ascii_case("q")
            .then(|| value.trim().parse().ok())?
    });
    q.unwrap_or(1.0)
}

pub(super) fn text(headers: &HeaderMap, name: header::HeaderName) -> &str {
    let value = headers.get(name);
    value
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_what_is_accepted_is_taken() {
        use Encoding::{Gzip, Identity};
        for (wanted, encoding) in [
            ("", Some(Identity)),
            ("gzip", Some(Gzip)),
            ("GZIP, deflate, br", Some(Gzip)),
            ("br, gzip;q=0.5, identity;q=0.2", Some(Gzip)),
            ("gzip;q=0.5, identity", Some(Identity)),
            ("gzip;q=0", Some(Identity)),
            ("*", Some(Identity)),
            ("identity", Some(Identity)),
            ("br", Some(Identity)),
            ("identity;q=0", None),
            ("identity;q=0, gzip", Some(Gzip)),
            ("gzip, *;q=0", Some(Gzip)),
            ("*;q=0", None),
            ("br, *;q=0, identity", Some(Identity)),
        ] {
            let mut headers = HeaderMap::new();
            if !wanted.is_empty() {
                headers.insert(header::ACCEPT_ENCODING, wanted.parse().unwrap());
            }
            assert_eq!(accepted(&headers), encoding, "{wanted}");
        }
    }
}
