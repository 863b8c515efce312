//! A guest beside another init: reached over a port, by whoever has its token.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener as StdTcpListener,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use guest_client::GuestClient;
use sandbox_wire::listen::{LISTENING, TOKEN_HEADER, bytes_of, websocket_config};
use support::{alive, bash, until};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::{
    client_async_with_config,
    tungstenite::{Error, client::IntoClientRequest as _},
};

const TOKEN: &str = "a token that nobody guesses";

struct Listening {
    process: Child,
    port: u16,
    _workspace: TempDir,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Listening {
    fn start(options: &[&str]) -> Self {
        let workspace = tempfile::tempdir().unwrap();
        let port = {
            let free = StdTcpListener::bind("127.0.0.1:0").unwrap();
            free.local_addr().unwrap().port()
        };
        let mut process = Command::new(env!("CARGO_BIN_EXE_sandbox-guest"))
            .args(["listen", "--port", &port.to_string(), "--workspace"])
            .arg(workspace.path())
            .args(options)
            .env("HOME", workspace.path())
            .env("TMPDIR", workspace.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = process.stdin.take().unwrap();
        input.write_all(format!("{TOKEN}\n").as_bytes()).unwrap();
        let mut said = vec![0; LISTENING.len()];
        let mut output = process.stdout.take().unwrap();
        output.read_exact(&mut said).unwrap();
        assert_eq!(said, LISTENING);
        Self {
            process,
            port,
            _workspace: workspace,
        }
    }

    async fn connect(&self, token: Option<&str>) -> Result<GuestClient, Error> {
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let url = format!("ws://127.0.0.1:{}/", self.port);
        let mut request = url.into_client_request().unwrap();
        if let Some(token) = token {
            let value = token.parse().unwrap();
            request.headers_mut().insert(TOKEN_HEADER, value);
        }
        let config = Some(websocket_config());
        let (socket, _) = client_async_with_config(request, tcp, config).await?;
        Ok(GuestClient::connect_afar(bytes_of(socket)).await.unwrap())
    }

    fn has_ended(&mut self) -> bool {
        self.process.try_wait().unwrap().is_some()
    }
}

async fn says(guest: &GuestClient, line: &str) -> String {
    let outcome = guest.run(bash(line)).await.unwrap().collect().await;
    outcome.unwrap().stdout.to_text()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_the_token_is_served() {
    let listening = Listening::start(&[]);
    for token in [None, Some(""), Some("a token that nobody guesseS")] {
        let refused = listening.connect(token).await.err().unwrap();
        assert!(
            matches!(&refused, Error::Http(response) if response.status() == 401),
            "{refused:?}"
        );
    }
    let guest = listening.connect(Some(TOKEN)).await.unwrap();
    assert_eq!(says(&guest, "echo on").await, "on\n");
    // The token came on standard input and is in no environment.
    assert!(!says(&guest, "env").await.contains("nobody guesses"));
    let outcome = guest
        .run(bash("head -c 30000000 /dev/zero"))
        .await
        .unwrap()
        .collect()
        .await
        .unwrap();
    assert_eq!(outcome.stdout.total_bytes(), 30_000_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_gives_way_to_the_next_and_processes_live_on() {
    let listening = Listening::start(&[]);
    let first = listening.connect(Some(TOKEN)).await.unwrap();
    let pid = says(&first, "sleep 600 >/dev/null 2>&1 & echo $!").await;
    let second = listening.connect(Some(TOKEN)).await.unwrap();
    first.closed().await;
    assert_eq!(says(&second, "echo second").await, "second\n");
    drop((first, second));
    let third = listening.connect(Some(TOKEN)).await.unwrap();
    assert_eq!(says(&third, "echo third").await, "third\n");
    assert!(alive(&pid));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_guest_ends_with_all_that_it_started() {
    let mut listening = Listening::start(&[]);
    let guest = listening.connect(Some(TOKEN)).await.unwrap();
    let daemon = says(
        &guest,
        "setsid sh -c 'trap \"\" TERM; sleep 600' >/dev/null 2>&1 & echo $!",
    )
    .await;
    assert!(alive(&daemon));
    let pid = listening.process.id().to_string();
    let told = Command::new("kill").arg(&pid).status().unwrap();
    assert!(told.success());
    until("it has ended", || listening.has_ended()).await;
    assert!(!alive(&daemon));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_nobody_connects_to_ends() {
    let began = Instant::now();
    let mut listening = Listening::start(&["--alone-seconds", "1"]);
    let guest = listening.connect(Some(TOKEN)).await.unwrap();
    let pid = says(&guest, "sleep 600 >/dev/null 2>&1 & echo $!").await;
    drop(guest);
    until("it has ended", || listening.has_ended()).await;
    assert!(began.elapsed() < Duration::from_secs(8));
    assert!(!alive(&pid));
}
