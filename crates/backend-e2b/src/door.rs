//! How the guest in a sandbox is reached.
//!
//! ```text
//!           refused by what is before the sandbox         cannot be run
//! a port ─────────────────────────────────> a command ───────────────────> envd alone
//! ```

use std::time::Duration;

use bytes::BytesMut;
use e2b_wire::{Sandbox, headers};
use guest_client::{GuestClient, GuestConfig};
use http::{HeaderValue, StatusCode};
use sandbox_core::{Error, Result};
use sandbox_wire::listen::{TOKEN_HEADER, bytes_of, websocket_config};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    time::{Instant, sleep, timeout},
};
use tokio_tungstenite::{
    client_async_with_config,
    tungstenite::{self, client::IntoClientRequest as _},
};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use crate::{
    config::E2bConfig,
    envd::{Command, Envd, Output},
    error::{strange, unreachable},
    guest::{PORT, Program, WORKSPACE, end_all, make_workspace},
    http_client::HttpClient,
    secret::Secret,
    token,
};

/// For a connection to a port that is open.
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
/// For a proxy to notice that a port is open.
const OPENS_WITHIN: Duration = Duration::from_secs(3);
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// What may be under way to a command.
const PIPE_BYTES: usize = 256 * 1024;

/// A sandbox, and what is needed to get into it.
pub(crate) struct Entrance<'a> {
    pub config: &'a E2bConfig,
    pub http: &'a HttpClient,
    pub program: &'a Program,
    pub envd: &'a Envd,
    pub sandbox: &'a Sandbox,
}

/// Why a port is no way in.
pub(crate) enum Closed {
    /// What is before the sandbox passes no WebSocket, or nothing.
    Refused(Error),
    Failed(Error),
}

impl From<Error> for Closed {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Entrance<'_> {
    fn token(&self) -> Result<Secret> {
        token::of_guest(&self.config.secret, &self.sandbox.sandbox_id)
            .ok_or_else(|| Error::internal("no token can be made"))
    }

    /// The guest that an earlier connection has left.
    pub async fn again(&self) -> Option<GuestClient> {
        let guest = self.connect(&self.token().ok()?).await.ok()?;
        let answers = timeout(CONNECT_LIMIT, guest.health()).await;
        matches!(answers, Ok(Ok(()))).then_some(guest)
    }

    /// A new guest, by its port.
    pub async fn by_port(&self) -> Result<GuestClient, Closed> {
        let token = self.token()?;
        self.program.install(self.envd).await?;
        self.program.listen(self.envd, self.config, &token).await?;
        let until = Instant::now() + OPENS_WITHIN;
        loop {
            match self.connect(&token).await {
                Ok(guest) => return Ok(guest),
                Err(Closed::Refused(_)) if Instant::now() < until => sleep(LOOK_AGAIN).await,
                Err(closed) => return Err(closed),
            }
        }
    }

    async fn connect(&self, token: &Secret) -> Result<GuestClient, Closed> {
        let connecting = timeout(CONNECT_LIMIT, self.connect_websocket(token));
        connecting
            .await
            .map_err(|late| Closed::Failed(unreachable(late)))?
    }

    async fn connect_websocket(&self, token: &Secret) -> Result<GuestClient, Closed> {
        let domain = self.sandbox.domain.as_deref();
        let servers = &self.config.servers;
        let port = servers
            .port(&self.sandbox.sandbox_id, domain, PORT)
            .ok_or_else(|| strange("a sandbox", "its id is none"))?;
        let uri = port.origin.parse().map_err(Error::internal)?;
        let stream = self.http.connect(uri).await.map_err(unreachable)?;
        let mut request = port
            .origin
            .replacen("http", "ws", 1)
            .into_client_request()
            .map_err(Error::internal)?;
        request.headers_mut().extend(port.headers);
        let traffic = self.sandbox.traffic_access_token.as_deref();
        for (name, token) in [
            (TOKEN_HEADER, Some(token.expose())),
            (headers::TRAFFIC_TOKEN, traffic),
        ] {
            if let Some(token) = token {
                let mut value = HeaderValue::from_str(token).map_err(Error::internal)?;
                value.set_sensitive(true);
                request.headers_mut().insert(name, value);
            }
        }
        let config = Some(websocket_config());
        match client_async_with_config(request, stream, config).await {
            Ok((socket, _)) => Ok(GuestClient::connect_afar(bytes_of(socket)).await?),
            Err(tungstenite::Error::Http(answer)) => Err(refused(answer.status())),
            Err(error) => Err(Closed::Failed(unreachable(error))),
        }
    }

    /// A new guest, by the input and output of a command.
    pub async fn by_command(&self) -> Result<GuestClient> {
        self.program.install(self.envd).await?;
        let (command, tag) = self.program.attach(self.envd, self.config).await?;
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        // Ends with the connection, or with the command.
        tokio::spawn(carry(self.envd.clone(), command, tag, theirs));
        let guest = GuestClient::connect_afar(ours).await?;
        // Nothing else tells that the command has begun to be a guest.
        guest.health().await?;
        Ok(guest)
    }

    /// No guest of ours: what speaks as one is in this process.
    pub async fn alone(&self) -> Result<(GuestClient, AbortOnDropHandle<()>)> {
        make_workspace(self.envd).await?;
        let envd = self.envd.as_guest()?;
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let serving = AbortOnDropHandle::new(tokio::spawn(async move {
            if let Err(error) = envd_guest::serve(envd, WORKSPACE, theirs).await {
                debug!("a sandbox is served no more: {error}");
            }
        }));
        Ok((GuestClient::connect(ours).await?, serving))
    }

    /// Whether envd can be spoken to, whatever else does not work.
    pub async fn envd_answers(&self) -> bool {
        self.envd.tags().await.is_ok()
    }

    /// Ends what an earlier connection has left.
    pub async fn clear(&self) -> Result<()> {
        end_all(self.envd).await
    }
}

fn refused(status: StatusCode) -> Closed {
    let error = strange(
        "a connection to a sandbox's port",
        format!("the answer is {status}"),
    );
    match status {
        // Busy, and no word about ports.
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => Closed::Failed(error),
        _ => Closed::Refused(error),
    }
}

/// Makes the guest ready for its session.
pub(crate) async fn greet(guest: &GuestClient, config: &GuestConfig) -> Result<()> {
    guest.health().await?;
    guest.init(config).await
}

/// Between the connection and the command that is the guest.
async fn carry(envd: Envd, mut command: Command, tag: String, connection: DuplexStream) {
    let (mut from_us, mut to_us) = tokio::io::split(connection);
    let input = async {
        let mut waiting = BytesMut::with_capacity(PIPE_BYTES);
        loop {
            // All that has come while the last was on its way goes at once.
            match from_us.read_buf(&mut waiting).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let part = waiting.split().freeze();
            if envd.send_input(&tag, part).await.is_err() {
                return;
            }
        }
    };
    let output = async {
        loop {
            match command.next().await {
                Ok(Output::Stdout(part)) => {
                    if to_us.write_all(&part).await.is_err() {
                        return;
                    }
                }
                Ok(Output::Stderr(_)) => {}
                Ok(Output::Ended(_)) | Err(_) => return,
            }
        }
    };
    tokio::select! {
        () = input => {}
        () = output => {}
    }
}
