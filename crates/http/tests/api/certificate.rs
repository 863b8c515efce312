//! TLS, and a certificate that is renewed while the server runs.

use std::{fs, os::unix::fs::symlink, path::Path, process::Command, sync::Arc};

use axum::{Router, routing::get};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use sandbox_http::{ServeLimits, Tls, TlsError, serve_over};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const OPENSSL: &str = "\
[req]
distinguished_name = dn
x509_extensions = own
[dn]
[own]
basicConstraints = critical, CA:FALSE
subjectAltName = DNS:localhost
";

/// Files as Kubernetes keeps them: `now` is a link to the folder that counts.
struct Certificates(TempDir);

impl Certificates {
    fn new() -> Self {
        let it = Self(tempfile::tempdir().unwrap());
        fs::write(it.0.path().join("openssl.cnf"), OPENSSL).unwrap();
        it
    }

    /// A certificate with its key in a folder of this name.
    fn make(&self, name: &str, days: u32) -> CertificateDer<'static> {
        let folder = self.0.path().join(name);
        fs::create_dir(&folder).unwrap();
        let output = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-config", "../openssl.cnf"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-subj", &format!("/CN={name}"), "-days", &days.to_string()])
            .args(["-keyout", "key.pem", "-out", "chain.pem"])
            .current_dir(&folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        CertificateDer::from_pem_file(folder.join("chain.pem")).unwrap()
    }

    fn choose(&self, name: &str) {
        let (new, now) = (self.0.path().join("new"), self.0.path().join("now"));
        symlink(name, &new).unwrap();
        fs::rename(new, now).unwrap();
    }

    fn tls(&self) -> Result<Tls, TlsError> {
        let now = self.0.path().join("now");
        Tls::from_files(&now.join("chain.pem"), &now.join("key.pem"))
    }

    fn text(&self, file: &str) -> String {
        fs::read_to_string(self.0.path().join(file)).unwrap()
    }

    /// A folder of these two files.
    fn mix(&self, name: &str, chain: &str, key: &str) {
        let folder = self.0.path().join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("chain.pem"), chain).unwrap();
        fs::write(folder.join("key.pem"), key).unwrap();
    }
}

struct Server {
    address: std::net::SocketAddr,
    task: JoinHandle<()>,
    client: TlsConnector,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(tls: Tls, known: &[&CertificateDer<'static>]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let router = Router::new().route("/", get(async || "done"));
        let limits = ServeLimits::default();
        let task = tokio::spawn(serve_over(
            Some(tls),
            listener,
            router,
            limits,
            std::future::pending(),
        ));
        let mut roots = RootCertStore::empty();
        for certificate in known {
            roots.add((*certificate).clone()).unwrap();
        }
        let config =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        Self {
            address,
            task,
            client: TlsConnector::from(Arc::new(config)),
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        self.client.connect(name, stream).await.unwrap()
    }
}

async fn ask(stream: &mut TlsStream<TcpStream>) {
    let request = b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"done") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200"));
}

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0]
        .clone()
        .into_owned()
}

/// In days from now, roughly.
fn days_left(tls: &Tls) -> f64 {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    (tls.expires().unwrap().0 as f64 / 1000.0 - now) / 86_400.0
}

#[tokio::test]
async fn a_renewed_certificate_is_for_new_connections_and_living_ones_go_on() {
    let files = Certificates::new();
    let (first, second) = (files.make("first", 2), files.make("second", 30));
    files.choose("first");
    let tls = files.tls().unwrap();
    assert!((1.9..2.1).contains(&days_left(&tls)), "{}", days_left(&tls));
    let server = Server::start(tls.clone(), &[&first, &second]).await;
    let mut living = server.connect().await;
    ask(&mut living).await;
    assert_eq!(shown(&living), first);

    assert!(!tls.read_again().unwrap(), "nothing has changed");
    files.choose("second");
    assert!(tls.read_again().unwrap());
    assert!(!tls.read_again().unwrap());

    let days = days_left(&tls);
    assert!((29.9..30.1).contains(&days), "{days}");
    let mut new = server.connect().await;
    ask(&mut new).await;
    assert_eq!(shown(&new), second);
    ask(&mut living).await;
    assert_eq!(shown(&living), first);
}

#[tokio::test]
async fn a_pair_that_cannot_be_used_changes_nothing() {
    let files = Certificates::new();
    let (first, second) = (files.make("first", 2), files.make("second", 2));
    files.choose("first");
    let tls = files.tls().unwrap();
    let server = Server::start(tls.clone(), &[&first, &second]).await;
    let (chain, key) = (files.text("second/chain.pem"), files.text("second/key.pem"));
    let secret = key.lines().nth(1).unwrap();
    // As they become in an environment variable: the parser takes such a line for a mark.
    let in_one_line = key.replace('\n', "\\n");
    let cut = &key[..key.len() / 2];
    files.mix("unfit", &files.text("first/chain.pem"), &key);
    files.mix("no-key", &chain, &chain);
    files.mix("no-chain", &key, &key);
    files.mix("empty", "", "");
    files.mix("one-line", &chain, &in_one_line);
    files.mix("line-as-chain", &in_one_line, &key);
    files.mix("cut", &chain, cut);
    let strange = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    files.mix("strange", strange, &key);
    for name in [
        "unfit",
        "no-key",
        "no-chain",
        "empty",
        "one-line",
        "line-as-chain",
        "cut",
        "strange",
        "not-there",
    ] {
        files.choose(name);
        let error = sandbox_core::chain(&tls.read_again().unwrap_err());
        // As a list of numbers too, which is how the parser quotes.
        let numbers = format!("{:?}", secret.as_bytes());
        let numbers = numbers.trim_matches(['[', ']']);
        assert!(
            !error.contains(secret) && !error.contains(numbers),
            "{name}: the key is in the error"
        );
        assert!(files.tls().is_err(), "{name}");
        let mut new = server.connect().await;
        ask(&mut new).await;
        assert_eq!(shown(&new), first, "{name}");
    }
    files.choose("second");
    assert!(tls.read_again().unwrap());
    assert_eq!(shown(&server.connect().await), second);
}

#[test]
fn files_that_are_missing_are_named() {
    let error = Tls::from_files(Path::new("/nowhere/chain.pem"), Path::new("/nowhere/key"));
    let error = sandbox_core::chain(&error.err().unwrap());
    assert!(
        error.starts_with("failed to read `/nowhere/chain.pem`: "),
        "{error}"
    );
}
