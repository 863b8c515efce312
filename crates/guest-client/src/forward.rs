//! Requests of the public contract, passed on as they are.

use std::time::Duration;

use connectrpc::client::{ClientBody, ClientTransport as _};
use http::{Method, Request, Response, Uri, header};
use hyper::body::Incoming;
use sandbox_core::{Error, ErrorCode, Result};

use crate::{GuestClient, connection::lost};

/// Headers of one connection, which another has no use for.
const OF_A_CONNECTION: [header::HeaderName; 6] = [
    header::CONNECTION,
    header::HOST,
    header::TE,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    header::HeaderName::from_static("keep-alive"),
];

/// How long after a request's error that of its connection is known, at the latest.
const END_OF_CONNECTION: Duration = Duration::from_millis(100);

/// Whether the public contract has the route for callers. `/init` is for who made
/// the sandbox, and the rest of the guest's routes are ours.
pub fn is_of_the_contract(method: &Method, path: &str) -> bool {
    let is_method = |service: &str| {
        path.strip_prefix(service).is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
    };
    match path {
        "/files" => [Method::GET, Method::POST].contains(method),
        "/files/compose" => method == Method::POST,
        "/health" | "/metrics" | "/envs" => method == Method::GET,
        _ => {
            method == Method::POST
                && (is_method("/process.Process/") || is_method("/filesystem.Filesystem/"))
        }
    }
}

impl GuestClient {
    /// Passes a request of the public contract to the guest, and its answer back,
    /// both as they come: bodies of any size, streams of any length.
    ///
    /// What the contract does not have for callers is refused with
    /// [`ErrorCode::NotFound`] and never reaches the guest.
    pub async fn forward(&self, mut request: Request<ClientBody>) -> Result<Response<Incoming>> {
        let target = request.uri().path_and_query().cloned();
        let target = target.filter(|it| is_of_the_contract(request.method(), it.path()));
        let Some(target) = target else {
            return Err(Error::new(ErrorCode::NotFound, "there is no such route"));
        };
        *request.uri_mut() = Uri::builder()
            .scheme("http")
            .authority("guest")
            .path_and_query(target)
            .build()
            .map_err(Error::internal)?;
        *request.version_mut() = http::Version::HTTP_2;
        for name in &OF_A_CONNECTION {
            request.headers_mut().remove(name);
        }
        match self.transport.send(request).await {
            Ok(response) => Ok(response),
            Err(error) if self.ends_now().await => Err(lost(error)),
            Err(error) => {
                let ended = Error::new(ErrorCode::InvalidRequest, "the request did not end");
                Err(ended.with_source(error))
            }
        }
    }

    /// Whether it is the connection that ended, and not one request of it, whose client
    /// went away. The two are told apart by nothing in the error.
    async fn ends_now(&self) -> bool {
        tokio::time::timeout(END_OF_CONNECTION, self.closed())
            .await
            .is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_callers_have_of_the_contract_is_passed_on() {
        for (method, path) in [
            (Method::POST, "/process.Process/Start"),
            (Method::POST, "/filesystem.Filesystem/Stat"),
            (Method::GET, "/files"),
            (Method::POST, "/files"),
            (Method::POST, "/files/compose"),
            (Method::GET, "/health"),
            (Method::GET, "/metrics"),
            (Method::GET, "/envs"),
        ] {
            assert!(is_of_the_contract(&method, path), "{method} {path}");
        }
        for (method, path) in [
            (Method::POST, "/init"),
            (Method::POST, "/ports/22"),
            (Method::POST, "/sandbox.v1.Code/Run"),
            (Method::POST, "/sandbox.v1.Life/Freeze"),
            (Method::POST, "/process.Process/"),
            (Method::POST, "/process.Process/../sandbox.v1.Code/Run"),
            (Method::POST, "/process.Process/%2e%2e/init"),
            (Method::POST, "/process.ProcessX/Start"),
            (Method::POST, "//process.Process/Start"),
            (Method::POST, "/health"),
            (Method::DELETE, "/files"),
            (Method::GET, "/files/"),
            (Method::GET, "/"),
            (Method::GET, ""),
        ] {
            assert!(!is_of_the_contract(&method, path), "{method} {path}");
        }
    }
}
