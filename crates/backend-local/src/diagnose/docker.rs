//! Whether a Docker daemon answers. Local sandboxes do without it.

use std::{
    env,
    io::{self, Read as _, Write as _},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::Duration,
};

use super::Finding;

const SOCKET: &str = "/var/run/docker.sock";
const LIMIT: Duration = Duration::from_secs(2);
/// Enough for the answer's head and its two letters.
const ANSWER_BYTES: u64 = 4096;

/// For information: always `ok`.
pub(super) fn reach() -> Finding {
    let name = "docker (optional)";
    let socket = match env::var("DOCKER_HOST") {
        Err(_) => PathBuf::from(SOCKET),
        Ok(host) => match host.strip_prefix("unix://") {
            Some(path) => PathBuf::from(path),
            None => return Finding::ok(name, "DOCKER_HOST is no UNIX socket; not tried"),
        },
    };
    match ping(&socket) {
        Ok(true) => Finding::ok(name, format!("answers at {}", socket.display())),
        Ok(false) => Finding::ok(name, format!("{} is no Docker", socket.display())),
        Err(error) => Finding {
            fix: Some("start Docker, or let this user open its socket, if you want it".into()),
            ..Finding::ok(
                name,
                format!("not reachable at {}: {error}", socket.display()),
            )
        },
    }
}

fn ping(socket: &Path) -> io::Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.set_write_timeout(Some(LIMIT))?;
    stream.write_all(b"GET /_ping HTTP/1.1\r\nHost: docker\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
    Ok(answer.starts_with(b"HTTP/1.1 200"))
}

#[cfg(test)]
mod tests {
    use std::{os::unix::net::UnixListener, thread};

    use super::*;

    fn daemon(answer: &'static [u8]) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("docker.sock");
        let listener = UnixListener::bind(&path).unwrap();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 64];
            let read = stream.read(&mut request).unwrap();
            assert!(request[..read].starts_with(b"GET /_ping "));
            stream.write_all(answer).unwrap();
        });
        (dir, path)
    }

    #[test]
    fn a_daemon_that_answers_is_told_from_one_that_does_not() {
        let (_dir, docker) = daemon(b"HTTP/1.1 200 OK\r\nApi-Version: 1.45\r\n\r\nOK");
        assert!(ping(&docker).unwrap());
        let (_dir, other) = daemon(b"HTTP/1.1 404 Not Found\r\n\r\n");
        assert!(!ping(&other).unwrap());
        assert!(ping(Path::new("/nowhere/docker.sock")).is_err());
    }
}
