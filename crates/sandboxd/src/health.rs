//! `sandboxd health`: whether a service on this machine answers, for images that
//! have no other program to ask with.

use std::{
    error::Error,
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    time::Duration,
};

use crate::{cli::Health, settings::Settings};

/// Of the connection, and of each time that nothing comes.
const WAIT: Duration = Duration::from_secs(3);
/// Of the answer; what is wrong with a service is told in less.
const MAX_ANSWER: u64 = 64 * 1024;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub fn check(settings: &Settings, wanted: &Health) -> Result<()> {
    let address = reachable(settings.listen);
    let answer = get(address, &wanted.path)
        .map_err(|error| format!("`{address}` does not answer: {error}"))?;
    let (status, body) =
        parse(&answer).ok_or_else(|| format!("`{address}` answers something that is not HTTP"))?;
    println!("{}", body.trim());
    if status == 200 {
        Ok(())
    } else {
        Err(format!("`{}` answers {status}", wanted.path).into())
    }
}

/// Where to find on this machine what listens on all its addresses.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    // 1.0, so that the end of the connection is that of the answer.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn parse(answer: &str) -> Option<(u16, &str)> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut words = head.lines().next()?.split_ascii_whitespace();
    words.next()?.strip_prefix("HTTP/1.")?;
    Some((words.next()?.parse().ok()?, body))
}

/// A path without what would make it more than one.
pub fn path(text: &str) -> std::result::Result<String, String> {
    if text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        Ok(text.to_owned())
    } else {
        Err("a path such as /readyz is expected".into())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    fn ask(answer: &'static [u8], path: &str) -> Result<()> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let settings = Settings {
            listen: SocketAddr::new(
                Ipv4Addr::UNSPECIFIED.into(),
                listener.local_addr().unwrap().port(),
            ),
            ..Settings::default()
        };
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let length = stream.read(&mut request).unwrap();
            stream.write_all(answer).unwrap();
            String::from_utf8_lossy(&request[..length]).into_owned()
        });
        let path = path.to_owned();
        let wanted = Health { path };
        let result = check(&settings, &wanted);
        let request = server.join().unwrap();
        assert!(request.starts_with(&format!("GET {} HTTP/1.0\r\n", wanted.path)));
        result
    }

    #[test]
    fn only_200_is_healthy() {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n\r\nOK";
        ask(answer, "/healthz").unwrap();
        let answer = b"HTTP/1.1 503 Service Unavailable\r\n\r\n{\"ready\":false}";
        let error = ask(answer, "/readyz").unwrap_err();
        assert_eq!(error.to_string(), "`/readyz` answers 503");
        for garbage in ["", "SSH-2.0\r\n\r\n", "HTTP/1.1\r\n\r\n", "HTTP/1.1 200"] {
            assert!(ask(garbage.as_bytes(), "/").is_err(), "{garbage}");
        }
    }

    #[test]
    fn nobody_there_is_not_healthy() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let listen = listener.local_addr().unwrap();
        drop(listener);
        let settings = Settings {
            listen,
            ..Settings::default()
        };
        let wanted = Health { path: "/".into() };
        let error = check(&settings, &wanted).unwrap_err().to_string();
        assert!(error.contains("does not answer"), "{error}");
    }

    #[test]
    fn a_path_is_one_word() {
        path("/healthz?a=b").unwrap();
        for wrong in ["", "healthz", "/a b", "/a\r\nHost: b"] {
            assert!(path(wrong).is_err(), "{wrong:?}");
        }
    }
}
