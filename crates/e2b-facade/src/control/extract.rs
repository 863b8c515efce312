//! What requests of the control plane carry; what is wrong with it is said as E2B does.

use axum::{
    body::Body,
    extract::{self, FromRequest, FromRequestParts, Path, Request},
};
use bytes::Bytes;
use http::{StatusCode, request::Parts};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::DeserializeOwned;

use crate::{
    error::{Answer, Refusal},
    state::Facade,
};

const MAX_BYTES: usize = 1 << 20;

/// No body is `{}`.
pub(super) struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Facade> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, facade: &Facade) -> Answer<Self> {
        let bytes = read(request.into_body(), MAX_BYTES, facade).await?;
        parse(&bytes).map(Self)
    }
}

/// A body of at most this many bytes.
pub(crate) async fn read(body: Body, most: usize, facade: &Facade) -> Answer<Bytes> {
    let limit = facade.settings.http.body_timeout;
    match tokio::time::timeout(limit, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("the body is larger than {most} bytes"),
        )),
        Ok(Err(_)) => Err(Refusal::bad("the body did not arrive whole")),
        Err(_) => Err(Refusal::new(
            StatusCode::REQUEST_TIMEOUT,
            "the body did not arrive in time",
        )),
    }
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Answer<T> {
    let bytes = if bytes.is_empty() { b"{}" } else { bytes };
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        // It quotes no more of the body than names and what is wrong with a value.
        let (path, why) = (error.path().to_string(), error.into_inner());
        Refusal::bad(match path.as_str() {
            "." | "?" => format!("the body is not what was expected: {why}"),
            path => format!("`{path}` is not what was expected: {why}"),
        })
    })?;
    json.end()
        .map_err(|_| Refusal::bad("the body is not JSON: it goes on after its end"))?;
    Ok(value)
}

/// The name of a sandbox in the path.
pub(super) struct Id(pub String);

impl FromRequestParts<Facade> for Id {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, facade: &Facade) -> Answer<Self> {
        let path = Path::<String>::from_request_parts(parts, facade).await;
        let Path(id) = path.map_err(|rejection| Refusal::bad(rejection.body_text()))?;
        Ok(Self(id))
    }
}

pub(super) struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<Facade> for Query<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, facade: &Facade) -> Answer<Self> {
        let query = extract::Query::<T>::from_request_parts(parts, facade).await;
        let extract::Query(query) =
            query.map_err(|rejection| Refusal::bad(rejection.body_text()))?;
        Ok(Self(query))
    }
}
