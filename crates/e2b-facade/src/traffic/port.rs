//! Every other port: HTTP and WebSockets to a program in the sandbox.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::Request,
    response::{IntoResponse, Response},
};
use e2b_wire::ProxyError;
use guest_client::{PortError, PortStream};
use http::{HeaderValue, StatusCode, Uri, Version, header, uri::PathAndQuery};
use hyper::{
    client::conn::http1,
    upgrade::{self, OnUpgrade},
};
use hyper_util::rt::TokioIo;
use sandbox_admission::{Full, Place};
use sandbox_http::E2bTraffic;
use sandbox_session::Lease;
use tokio::{io::copy_bidirectional, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::{
    body::{Arriving, Leased, over},
    lease, not_found, proxy_error, stripped, token, unreached,
};
use crate::{error::Refusal, sandbox::Found, state::Facade};

const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// Until the head of the answer is there; as long as E2B's proxy waits.
const ANSWER_LIMIT: Duration = Duration::from_secs(600);
/// Between two pieces of a request's body.
const BODY_LIMIT: Duration = Duration::from_secs(300);

pub(super) async fn answer(
    facade: &Facade,
    found: &Found,
    port: u16,
    mut request: Request,
) -> Response {
    let sandbox = found.key.session.as_str();
    if !found.options.public_traffic
        && let Err(given) = token::traffic(facade, found, request.headers())
    {
        return proxy_error(ProxyError::token_refused(sandbox, given));
    }
    let theirs = upgrade::on(&mut request);
    let (request, upgrade) = match for_program(request) {
        Ok(request) => request,
        Err(bad) => return bad.into_response(),
    };
    let upgrade = match upgrade {
        Some(protocol) => match facade.sockets.take(&found.key.tenant) {
            Ok(place) => Some(Upgrade {
                protocol,
                theirs,
                place,
            }),
            Err(full) => return too_many(sandbox, port, full),
        },
        None => None,
    };
    let lease = match lease(facade, found).await {
        Ok(lease) => Arc::new(lease),
        Err(refused) => return refused,
    };
    let stream = match open(&lease, port).await {
        Ok(stream) => stream,
        Err(Unopened::Closed) => return proxy_error(ProxyError::port_closed(sandbox, port)),
        Err(Unopened::Gone(error)) => return unreached(sandbox, error),
        Err(Unopened::Silent) => {
            return timed_out("the port did not accept the connection in time");
        }
        Err(Unopened::TooMany) => {
            return Refusal::new(
                StatusCode::SERVICE_UNAVAILABLE,
                "the sandbox has as many connections as it may have",
            )
            .into_response();
        }
    };
    match pass_on(facade, &lease, stream, request, upgrade).await {
        Ok(answer) => answer,
        Err(Failed::NoAnswer) => proxy_error(ProxyError::port_closed(sandbox, port)),
        Err(Failed::Late) => timed_out("the program did not answer in time"),
        Err(Failed::Gone) => not_found(sandbox),
    }
}

/// Before the program hears of it, and before a sandbox is resumed for it.
fn too_many(sandbox: &str, port: u16, full: Full) -> Response {
    let (code, message) = match full {
        Full {
            of_tenant: true, ..
        } => (
            StatusCode::TOO_MANY_REQUESTS,
            "the tenant has as many WebSockets to ports as it may have",
        ),
        Full {
            of_tenant: false, ..
        } => (
            StatusCode::SERVICE_UNAVAILABLE,
            "the service has as many WebSockets to ports as it may have",
        ),
    };
    proxy_error(ProxyError::too_many(sandbox, port, code.as_u16(), message))
}

fn timed_out(message: &str) -> Response {
    Refusal::new(StatusCode::GATEWAY_TIMEOUT, message).into_response()
}

enum Unopened {
    Closed,
    Silent,
    TooMany,
    Gone(sandbox_core::Error),
}

async fn open(lease: &Lease, port: u16) -> Result<PortStream, Unopened> {
    let opened = timeout(CONNECT_LIMIT, lease.guest().open_port(port));
    let opened = tokio::select! {
        biased;
        opened = opened => opened,
        error = lease.until_over() => return Err(Unopened::Gone(error)),
    };
    match opened {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(PortError::NotOpen)) => Err(Unopened::Closed),
        Ok(Err(PortError::Silent)) | Err(_) => Err(Unopened::Silent),
        Ok(Err(PortError::TooMany)) => Err(Unopened::TooMany),
        Ok(Err(PortError::Sandbox(error))) => Err(Unopened::Gone(error)),
    }
}

enum Failed {
    NoAnswer,
    Late,
    Gone,
}

/// A change of the protocol that a client asks for.
struct Upgrade {
    protocol: HeaderValue,
    theirs: OnUpgrade,
    /// Of the connection that it would become.
    place: Place,
}

async fn pass_on(
    facade: &Facade,
    lease: &Arc<Lease>,
    stream: PortStream,
    request: http::Request<Arriving>,
    upgrade: Option<Upgrade>,
) -> Result<Response, Failed> {
    let handshake = http1::Builder::new().handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|_| Failed::NoAnswer)?;
    let until_over = over(Arc::clone(lease));
    let left = CancellationToken::new();
    // A program that does not read what is sent holds nothing once its client has gone.
    let client = left.clone().drop_guard();
    facade.tasks.spawn(async move {
        tokio::select! {
            ended = connection.with_upgrades() => {
                if let Err(error) = ended {
                    debug!("a connection to a program ended: {error}");
                }
            }
            _ = until_over => {}
            () = left.cancelled() => {}
        }
    });
    let answered = tokio::select! {
        biased;
        answered = timeout(ANSWER_LIMIT, sender.send_request(request)) => answered,
        _ = lease.until_over() => return Err(Failed::Gone),
    };
    let mut answer = answered
        .map_err(|_| Failed::Late)?
        .map_err(|_| Failed::NoAnswer)?;
    let switched = answer.status() == StatusCode::SWITCHING_PROTOCOLS;
    let ours = switched.then(|| upgrade::on(&mut answer));
    let chosen = answer.headers().get(header::UPGRADE).cloned();
    stripped::strip_hop(answer.headers_mut());
    stripped::strip_of_gateways(answer.headers_mut());
    let Some(ours) = ours else {
        let lease = Arc::clone(lease);
        return Ok(answer.map(|body| Body::new(Leased::new(body, lease).until_dropped(client))));
    };
    // Nobody asked for it.
    let Upgrade {
        protocol,
        theirs,
        place,
    } = upgrade.ok_or(Failed::NoAnswer)?;
    let headers = answer.headers_mut();
    headers.insert(header::UPGRADE, chosen.unwrap_or(protocol));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    let until_over = over(Arc::clone(lease));
    let count = facade.metrics.e2b_traffic(E2bTraffic::WebSocket);
    facade.tasks.spawn(async move {
        // The connection is this task's now.
        let _held = (client, place, count);
        let both = async {
            let (theirs, ours) = tokio::try_join!(theirs, ours)?;
            let (mut theirs, mut ours) = (TokioIo::new(theirs), TokioIo::new(ours));
            let _ = copy_bidirectional(&mut theirs, &mut ours).await;
            Ok::<_, hyper::Error>(())
        };
        tokio::select! {
            _ = both => {}
            _ = until_over => {}
        }
    });
    Ok(answer.map(|_| Body::empty()))
}

/// The request as the program gets it, and the protocol that it asks to change to.
fn for_program(
    request: Request,
) -> Result<(http::Request<Arriving>, Option<HeaderValue>), Refusal> {
    let (mut head, body) = request.into_parts();
    let authority = head
        .uri
        .authority()
        .map(|authority| authority.as_str().to_owned());
    let target = head.uri.path_and_query().cloned();
    head.uri = Uri::from(target.unwrap_or_else(|| PathAndQuery::from_static("/")));
    stripped::strip_ours(&mut head.headers);
    let mut upgrade = stripped::strip_hop(&mut head.headers);
    if head.version == Version::HTTP_2 {
        upgrade = None;
    }
    head.version = Version::HTTP_11;
    if let Some(authority) = authority {
        let host = HeaderValue::from_str(&authority)
            .map_err(|_| Refusal::bad("the request cannot be passed on"))?;
        head.headers.insert(header::HOST, host);
    }
    if let Some(protocol) = &upgrade {
        head.headers.insert(header::UPGRADE, protocol.clone());
        head.headers
            .insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    let body = Arriving::new(body, BODY_LIMIT);
    Ok((http::Request::from_parts(head, body), upgrade))
}
