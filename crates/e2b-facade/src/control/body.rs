//! Bodies of the control plane: JSON, small, and there in time.

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use bytes::Bytes;
use http::StatusCode;
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
    // serde_json quotes no more of the body than the names and kinds of what is wrong.
    serde_json::from_slice(bytes)
        .map_err(|error| Refusal::bad(format!("the body is not what was expected: {error}")))
}
