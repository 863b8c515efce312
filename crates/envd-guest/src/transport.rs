//! How requests get to envd: whatever way the caller has.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use connectrpc::client::{BoxFuture, ClientBody, ClientTransport};
use http::{Request, Response};
use http_body_util::{BodyExt as _, combinators::UnsyncBoxBody};

pub(crate) type Body = UnsyncBoxBody<Bytes, Failed>;

/// Why there is no answer, or no more of it.
#[derive(Debug)]
pub(crate) struct Failed(Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the sandbox's envd cannot be reached")
    }
}

impl std::error::Error for Failed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(self.0.as_ref())
    }
}

type Sending = BoxFuture<'static, Result<Response<Body>, Failed>>;

/// Any transport as one type.
#[derive(Clone)]
pub(crate) struct Transport(Arc<dyn Fn(Request<ClientBody>) -> Sending + Send + Sync>);

impl Transport {
    pub fn new<T, B, E>(transport: T) -> Self
    where
        T: ClientTransport<ResponseBody = B>,
        B: hyper::body::Body<Data = Bytes, Error = E> + Send + 'static,
        E: std::error::Error + Send + Sync + 'static,
    {
        Self(Arc::new(move |request| {
            let sending = transport.send(request);
            Box::pin(async move {
                match sending.await {
                    Ok(answer) => Ok(answer
                        .map(|body| body.map_err(|cause| Failed(Box::new(cause))).boxed_unsync())),
                    Err(cause) => Err(Failed(Box::new(cause))),
                }
            })
        }))
    }
}

impl ClientTransport for Transport {
    type ResponseBody = Body;
    type Error = Failed;

    fn send(&self, request: Request<ClientBody>) -> Sending {
        (self.0)(request)
    }
}
