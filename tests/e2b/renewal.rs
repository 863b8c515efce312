//! A certificate that is renewed under the real service.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use crate::{domain::certificate, server::Server};

const PATIENCE: Duration = Duration::from_secs(20);

/// A client that stays connected.
struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Client {
    fn connect(address: &str) -> Self {
        let mut process = Command::new("openssl")
            .args(["s_client", "-quiet", "-connect", address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            input: process.stdin.take().unwrap(),
            output: BufReader::new(process.stdout.take().unwrap()),
            process,
        }
    }

    /// The status of an answer; without a key it is a refusal, and that is one.
    fn ask(&mut self) -> String {
        let request = "GET /sandboxes HTTP/1.1\r\nhost: localhost\r\n\r\n";
        self.input.write_all(request.as_bytes()).unwrap();
        self.input.flush().unwrap();
        let mut line = String::new();
        // A body has no line's end, so the next answer's first line begins behind it.
        while !line.contains("HTTP/1.1 ") {
            line.clear();
            let read = self.output.read_line(&mut line).unwrap();
            assert_ne!(read, 0, "the connection has ended");
        }
        let status = line.split("HTTP/1.1 ").nth(1).unwrap().trim().to_owned();
        while line != "\r\n" {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0);
        }
        status
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The certificate that a new connection is shown, as PEM.
fn shown(address: &str) -> String {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", address])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let begin = said.find("-----BEGIN CERTIFICATE-----").expect(&said);
    let end = said.find("-----END CERTIFICATE-----").expect(&said);
    said[begin..end].to_owned()
}

fn made(dir: &Path, name: &str) -> String {
    let folder = dir.join(name);
    fs::create_dir(&folder).unwrap();
    certificate(&folder, "sandboxes.test");
    let leaf = fs::read_to_string(folder.join("leaf.pem")).unwrap();
    leaf[..leaf.find("-----END").unwrap()].to_owned()
}

fn choose(dir: &Path, name: &str) {
    symlink(name, dir.join("new")).unwrap();
    fs::rename(dir.join("new"), dir.join("now")).unwrap();
}

#[test]
fn a_renewed_certificate_is_taken_up_at_sighup() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (first, second) = (made(dir, "first"), made(dir, "second"));
    choose(dir, "first");
    let path = |name: &str| dir.join("now").join(name).to_str().unwrap().to_owned();
    let server = Server::start(&[
        ("SANDBOX_E2B_TLS_CERT", &path("chain.pem")),
        ("SANDBOX_E2B_TLS_KEY", &path("key.pem")),
    ]);
    let address = server.e2b.strip_prefix("https://").unwrap();
    let mut living = Client::connect(address);
    let answer = living.ask();
    assert_eq!(answer, "401 Unauthorized");
    assert_eq!(shown(address), first);
    let metrics = ureq::get(format!("{}/metrics", server.url)).call().unwrap();
    let metrics = metrics.into_body().read_to_string().unwrap();
    let expires = metrics
        .lines()
        .find_map(|line| line.strip_prefix("sandbox_e2b_certificate_expires_timestamp_seconds "))
        .unwrap();
    assert!(expires.parse::<f64>().unwrap() > 1.7e9, "{expires}");

    choose(dir, "second");
    server.signal("HUP");
    let begun = Instant::now();
    while shown(address) != second {
        assert!(begun.elapsed() < PATIENCE, "the certificate is the old one");
        sleep(Duration::from_millis(50));
    }
    assert_eq!(living.ask(), answer, "a connection that lives goes on");
}
