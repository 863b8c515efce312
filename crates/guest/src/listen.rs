//! The connection of a guest that another program's sandbox has: whoever has the token
//! may connect to its port, and the newest of them is served.
//!
//! ```text
//! waiting ── a connection with the token ──> serving ── another one ──> serving it
//!    │  ^───── its end, or nothing heard ───────┘
//!    └─ nobody for long ─> the guest ends
//! ```

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsFd as _,
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use http::StatusCode;
use sandbox_wire::listen::{LISTENING, MAX_TOKEN, TOKEN_HEADER, bytes_of, websocket_config};
use subtle::ConstantTimeEq as _;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, Join, ReadHalf, WriteHalf},
    net::{TcpListener, TcpStream, unix::pipe},
    sync::{Semaphore, mpsc},
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    accept_hdr_async_with_config,
    tungstenite::handshake::server::{ErrorResponse, Request, Response},
};

use crate::attached::{Heard, nobody};

/// How long who has started the guest may take to say its token.
const TOKEN_LIMIT: Duration = Duration::from_secs(60);
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(10);
/// Connections that have not shown a token yet.
const MAX_STRANGERS: usize = 32;
/// After an error of the listener, such as no free descriptor.
const PAUSE: Duration = Duration::from_millis(100);

/// A stream in an own box: what it is made of is the other side's affair.
pub(crate) type Socket = Pin<Box<dyn Stream>>;

pub(crate) trait Stream: AsyncRead + AsyncWrite + Send {}
impl<T: AsyncRead + AsyncWrite + Send> Stream for T {}

pub(crate) type Connection<'a> = Join<&'a mut Heard<ReadHalf<Socket>>, WriteHalf<Socket>>;

pub(crate) struct Listening {
    listener: TcpListener,
    token: Arc<str>,
    /// Without a word from the service for so long, there is none any more.
    alone: Option<Duration>,
}

impl Listening {
    /// Reads the token from standard input, and says on standard output that it listens.
    pub async fn start(port: u16, alone: Option<Duration>) -> io::Result<Self> {
        let input = io::stdin().as_fd().try_clone_to_owned()?;
        let token = timeout(
            TOKEN_LIMIT,
            read_token(pipe::Receiver::from_owned_fd(input)?),
        );
        let token = token.await??;
        let listener = match TcpListener::bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))
            .await
        {
            Ok(listener) => listener,
            // Without IPv6.
            Err(_) => TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port))).await?,
        };
        rustix::io::write(io::stdout(), LISTENING)?;
        let null = std::fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")?;
        rustix::stdio::dup2_stdin(&null)?;
        rustix::stdio::dup2_stdout(&null)?;
        rustix::stdio::dup2_stderr(&null)?;
        Ok(Self {
            listener,
            token,
            alone,
        })
    }

    /// Serves one service after the other.
    pub async fn serve(
        self,
        serve: impl AsyncFn(Connection<'_>) -> io::Result<()>,
    ) -> io::Result<()> {
        let (found, mut next) = mpsc::channel(1);
        tokio::spawn(accept(self.listener, self.token, found));
        let alone = self.alone.unwrap_or(Duration::MAX);
        loop {
            let Ok(Some(mut socket)) = timeout(alone, next.recv()).await else {
                return Err(nobody());
            };
            loop {
                let (input, output) = tokio::io::split(socket);
                let mut input = Heard::new(input);
                let clock = input.clock();
                tokio::select! {
                    biased;
                    another = next.recv() => match another {
                        Some(another) => {
                            socket = another;
                            continue;
                        }
                        None => return Err(nobody()),
                    },
                    // However it ended, another may come.
                    _ = serve(tokio::io::join(&mut input, output)) => {}
                    () = clock.silent_for(self.alone) => {}
                }
                break;
            }
        }
    }
}

async fn read_token(mut input: pipe::Receiver) -> io::Result<Arc<str>> {
    let mut token = Vec::new();
    loop {
        match input.read_u8().await? {
            b'\n' => break,
            byte if token.len() < MAX_TOKEN => token.push(byte),
            _ => return Err(io::Error::other("the token is too long")),
        }
    }
    let token = String::from_utf8(token).map_err(io::Error::other)?;
    match token.is_empty() {
        // Then anybody would have it.
        true => Err(io::Error::other("the token is empty")),
        false => Ok(token.into()),
    }
}

async fn accept(listener: TcpListener, token: Arc<str>, found: mpsc::Sender<Socket>) {
    let strangers = Arc::new(Semaphore::new(MAX_STRANGERS));
    loop {
        let Ok(stranger) = Arc::clone(&strangers).acquire_owned().await else {
            return;
        };
        let Ok((socket, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let (token, found) = (Arc::clone(&token), found.clone());
        tokio::spawn(async move {
            let shaken = timeout(HANDSHAKE_LIMIT, shake_hands(socket, &token)).await;
            drop(stranger);
            if let Ok(Some(socket)) = shaken {
                let _ = found.send(socket).await;
            }
        });
    }
}

async fn shake_hands(socket: TcpStream, token: &str) -> Option<Socket> {
    socket.set_nodelay(true).ok()?;
    #[expect(
        clippy::result_large_err,
        reason = "the handshake's callback is made so"
    )]
    let callback = |request: &Request, response: Response| match shows(request, token) {
        true => Ok(response),
        false => {
            let mut refusal = ErrorResponse::new(None);
            *refusal.status_mut() = StatusCode::UNAUTHORIZED;
            Err(refusal)
        }
    };
    let config = Some(websocket_config());
    let socket = accept_hdr_async_with_config(socket, callback, config).await;
    Some(Box::pin(bytes_of(socket.ok()?)))
}

fn shows(request: &Request, token: &str) -> bool {
    let mut shown = request.headers().get_all(TOKEN_HEADER).iter();
    let shows = shown
        .next()
        .is_some_and(|shown| bool::from(shown.as_bytes().ct_eq(token.as_bytes())));
    shows && shown.next().is_none()
}
