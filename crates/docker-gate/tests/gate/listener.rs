//! Where the gate listens, and a daemon that is away. None of it needs one.

use std::{fs, io::ErrorKind, os::unix::fs::PermissionsExt as _, path::Path};

use docker_gate::{GateLimits, Listener, Policy, serve};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
};

async fn bind(path: &Path) -> std::io::Result<Listener> {
    Listener::bind(&format!("unix://{}", path.display())).await
}

#[tokio::test]
async fn a_socket_is_for_owner_and_group_and_takes_nobodys_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.sock");
    let first = bind(&path).await.unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    let second = bind(&path).await.err().unwrap();
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
    // Of a gate that was killed.
    drop(first);
    assert!(path.exists());
    bind(&path).await.unwrap();
    // And a file is not a socket.
    let file = folder.path().join("file");
    fs::write(&file, "kept").unwrap();
    let error = bind(&file).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&file).unwrap(), b"kept");
}

#[tokio::test]
async fn a_daemon_that_is_away_is_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gate.sock");
    let listener = bind(&path).await.unwrap();
    let nowhere = folder.path().join("docker.sock");
    let gate = serve(
        listener,
        Policy::default(),
        nowhere,
        GateLimits::default(),
        std::future::pending(),
    );
    let call = async {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        let request = b"GET /_ping HTTP/1.1\r\nHost: x\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::select! {
        () = gate => panic!("the gate ended"),
        answer = call => answer,
    };
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    let message = r#"{"message":"docker-gate: the Docker daemon cannot be reached"}"#;
    assert!(answer.ends_with(message), "{answer}");
}
