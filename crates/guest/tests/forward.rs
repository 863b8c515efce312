//! Requests of the public contract that the service passes on.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use bytes::Bytes;
use futures::stream;
use guest_client::{ClientBody, full_body};
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use sandbox_core::ErrorCode;
use serde_json::{Value, json};
use support::{TestGuest, wire::Frames};

fn rpc(procedure: &str, message: &Value) -> Request<ClientBody> {
    Request::post(format!("/{procedure}"))
        .header("content-type", "application/json")
        .header("connect-protocol-version", "1")
        // What a proxy gets of an HTTP/1.1 client.
        .header("host", "49983-i1.sbx.example")
        .header("connection", "keep-alive")
        .header("transfer-encoding", "chunked")
        .body(full_body(message.to_string().into()))
        .unwrap()
}

async fn json(answer: Response<Incoming>) -> Value {
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    serde_json::from_slice(&body).unwrap()
}

#[tokio::test]
async fn calls_and_their_errors_are_passed_on() {
    let guest = TestGuest::start().await;
    let request = rpc("filesystem.Filesystem/MakeDir", &json!({"path": "d"}));
    let answer = guest.client.forward(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(json(answer).await["entry"]["name"], "d");
    let request = rpc("filesystem.Filesystem/MakeDir", &json!({"path": "d"}));
    let answer = guest.client.forward(request).await.unwrap();
    assert_eq!(answer.status(), 409);
    assert_eq!(json(answer).await["code"], "already_exists");
}

#[tokio::test]
async fn streams_are_passed_on_as_they_come() {
    let guest = TestGuest::start().await;
    let message =
        json!({"process": {"cmd": "/bin/bash", "args": ["-c", "echo one; read x; echo $x"]}});
    let mut request = rpc("process.Process/Start", &json!(null));
    *request.body_mut() = full_body(support::wire::frame(&message).into());
    let kind = "application/connect+json".parse().unwrap();
    request.headers_mut().insert("content-type", kind);
    let answer = guest.client.forward(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut frames = Frames::of(answer);
    let pid = frames.next().await.1["event"]["start"]["pid"].clone();
    assert_eq!(frames.next().await.1["event"]["data"]["stdout"], "b25lCg==");
    let input = json!({"process": {"pid": pid}, "input": {"stdin": "dHdvCg=="}});
    let request = rpc("process.Process/SendInput", &input);
    assert_eq!(guest.client.forward(request).await.unwrap().status(), 200);
    let events = frames.events().await;
    assert_eq!(events[0]["data"]["stdout"], "dHdvCg==");
}

#[tokio::test]
async fn files_of_any_size_go_up_and_down() {
    const PARTS: usize = 512;
    let guest = TestGuest::start().await;
    let part = Bytes::from(vec![b'x'; 64 * 1024]);
    let parts = stream::iter((0..PARTS).map({
        let part = part.clone();
        move |_| Ok(Frame::data(part.clone()))
    }));
    let request = Request::post("/files?path=big.bin")
        .header("content-type", "application/octet-stream")
        .body(StreamBody::new(parts).boxed())
        .unwrap();
    let answer = guest.client.forward(request).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(json(answer).await[0]["name"], "big.bin");
    let request = Request::get("/files?path=big.bin").body(full_body(Bytes::new()));
    let answer = guest.client.forward(request.unwrap()).await.unwrap();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), PARTS * part.len());
}

#[tokio::test]
async fn what_is_not_of_the_contract_never_reaches_the_guest() {
    let guest = TestGuest::start().await;
    for path in ["/init", "/ports/80", "/sandbox.v1.Code/Run", "/nothing"] {
        let request = Request::post(path).body(full_body(Bytes::new())).unwrap();
        let refused = guest.client.forward(request).await.err().unwrap();
        assert_eq!(refused.code(), ErrorCode::NotFound, "{path}");
    }
}
