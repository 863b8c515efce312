//! A route that does nothing, in a process of its own like the service.

use std::{env, process::Command};

use axum::{Router, routing::post};

use crate::{
    Result,
    client::{Call, Expect},
    service::Listener,
};

/// The argument that makes this program the server.
pub const SERVE_EMPTY: &str = "serve-empty";

pub struct Empty(Listener);

impl Empty {
    pub fn start() -> Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        Listener::start(command.arg(SERVE_EMPTY)).map(Self)
    }

    pub async fn call(&self) -> Result<Call> {
        let body = serde_json::json!({"session_id": "living", "command": "true"});
        Call::post(&self.0.url, "/", &body, Expect::Success).await
    }
}

/// It ends when it is killed.
pub fn serve_empty() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("listening on http://{}", listener.local_addr()?);
        let app = Router::new().route("/", post(async |_: bytes::Bytes| ""));
        Ok(axum::serve(listener, app).await?)
    })
}
