//! The SDKs by a domain alone: TLS, `api.DOMAIN` and `PORT-SANDBOX.DOMAIN`, as E2B's own
//! service is reached.

use std::{
    collections::HashMap,
    fs,
    net::{Ipv4Addr, TcpListener, UdpSocket},
    path::Path,
    process::Command,
    thread,
};

use crate::{
    server::{Key, Server},
    suites,
};

/// A certificate for a domain and all below it, by an authority of its own.
pub fn certificate(dir: &Path, domain: &str) {
    let openssl = |arguments: &[&str]| {
        let output = Command::new("openssl")
            .args(arguments)
            .current_dir(dir)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {said}");
    };
    let key = [
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
    ];
    let authority = [
        "req",
        "-x509",
        "-subj",
        "/CN=authority",
        "-days",
        "2",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-addext",
        "basicConstraints=critical,CA:TRUE",
    ];
    openssl(&[&authority[..], &key[..]].concat());
    let request = [
        "req",
        "-subj",
        "/CN=sandboxes",
        "-keyout",
        "key.pem",
        "-out",
        "request.pem",
    ];
    openssl(&[&request[..], &key[..]].concat());
    let names =
        format!("subjectAltName=DNS:{domain},DNS:*.{domain}\nextendedKeyUsage=serverAuth\n");
    fs::write(dir.join("names"), names).unwrap();
    openssl(&[
        "x509",
        "-req",
        "-in",
        "request.pem",
        "-CA",
        "ca.pem",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-days",
        "2",
        "-extfile",
        "names",
        "-out",
        "leaf.pem",
    ]);
    let chain = ["leaf.pem", "ca.pem"].map(|name| fs::read_to_string(dir.join(name)).unwrap());
    fs::write(dir.join("chain.pem"), chain.concat()).unwrap();
}

/// A port that was free a moment ago: the domain names it, so it must be known before.
fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// A name server at an address of its own on loopback, for which every name is this machine.
fn name_server() -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    let address = Ipv4Addr::new(127, 53, high, low.max(1));
    let socket = UdpSocket::bind((address, 53)).unwrap();
    thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let _ = socket.send_to(&resolved(&question[..length]), from);
        }
    });
    address
}

/// RFC 1035, 4.1: the question again, and for an A record 127.0.0.1.
fn resolved(query: &[u8]) -> Vec<u8> {
    // Labels, each with its length before it, up to an empty one.
    let name = query[12..].iter().position(|byte| *byte == 0).unwrap() + 1;
    let question = &query[12..12 + name + 4];
    let is_a = question[name..name + 2] == [0, 1];
    let head = [0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0];
    let mut answer = [&query[..2], &head, question].concat();
    if is_a {
        // Its name is that of the question; class IN, a second to live, four bytes.
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 1, 0, 4, 127, 0, 0, 1]);
    }
    answer
}

#[test]
fn a_domain_is_all_that_the_sdks_need() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED: a name server, and a resolver that asks it, take root");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    certificate(dir.path(), "sandboxes.test");
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let port = free_port();
    let domain = format!("sandboxes.test:{port}");
    let server = Server::start(&[
        ("SANDBOX_E2B_LISTEN", &format!("127.0.0.1:{port}")),
        ("SANDBOX_E2B_PUBLIC_DOMAIN", &domain),
        ("SANDBOX_E2B_TLS_CERT", &path("chain.pem")),
        ("SANDBOX_E2B_TLS_KEY", &path("key.pem")),
    ]);
    assert_eq!(server.e2b, format!("https://127.0.0.1:{port}"));
    let resolver = format!("nameserver {}\noptions timeout:2\n", name_server());
    fs::write(dir.path().join("resolv.conf"), resolver).unwrap();
    let around: HashMap<String, String> = [
        ("E2B_DOMAIN", domain),
        ("E2B_API_KEY", server.key("acme", Key::E2b)),
        ("E2B_TEST_RESOLVER", path("resolv.conf")),
        ("SSL_CERT_FILE", path("ca.pem")),
        ("NODE_EXTRA_CA_CERTS", path("ca.pem")),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    suites::python("domain", &around, &[]).all_of(8);
    suites::javascript("domain", &around).all_of(2);
}
