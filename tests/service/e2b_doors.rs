//! Servers of E2B that leave less open than ours does: ours, with a proxy before it that
//! refuses what they refuse.

use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use backend_e2b::{Door, E2bBackend, E2bConfig};
use sandbox_backend::Backend as _;
use sandbox_core::{SandboxId, SandboxSpec};
use serde_json::json;

use crate::{
    e2b_backend::{Server, config, conforms},
    support::Service,
};

/// What becomes of a request, by its head: what is sent on, or the answer.
type Rule = fn(&str) -> Result<String, &'static str>;

/// A proxy before a server. Each request has a connection of its own.
struct Proxy {
    origin: String,
    refused: Arc<AtomicUsize>,
    /// The heads of all requests.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn start(server: &Server, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let behind = server.origin.strip_prefix("http://").unwrap().to_owned();
        let refused = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&refused);
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let note = Arc::clone(&asked);
        // It ends with the tests.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (behind, count, note) = (behind.clone(), Arc::clone(&count), Arc::clone(&note));
                let rule = move |head: &str| {
                    note.lock().unwrap().push(head.to_owned());
                    rule(head)
                };
                // A client that goes away is no fault of the proxy's.
                thread::spawn(move || pass(client, &behind, rule, &count).ok());
            }
        });
        Self {
            origin,
            refused,
            asked,
        }
    }

    fn refused(&self) -> usize {
        self.refused.load(Ordering::SeqCst)
    }
}

fn pass(
    mut client: TcpStream,
    behind: &str,
    rule: impl Fn(&str) -> Result<String, &'static str>,
    refused: &AtomicUsize,
) -> io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        client.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let head = match rule(&head) {
        Ok(head) => head,
        Err(answer) => {
            refused.fetch_add(1, Ordering::SeqCst);
            client.write_all(answer.as_bytes())?;
            client.shutdown(Shutdown::Write)?;
            // What still comes must not make the answer a reset.
            return io::copy(&mut client, &mut io::sink()).map(drop);
        }
    };
    let head = match head.to_ascii_lowercase().contains("\r\nupgrade: ") {
        true => head,
        false => head.replacen("\r\n", "\r\nconnection: close\r\n", 1),
    };
    let mut server = TcpStream::connect(behind)?;
    server.write_all(head.as_bytes())?;
    let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut from_client, &mut to_server);
        to_server.shutdown(Shutdown::Write)
    });
    let copied = io::copy(&mut server, &mut client);
    client.shutdown(Shutdown::Both)?;
    copied.map(drop)
}

const FORBIDDEN: &str = "HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// No port of a sandbox but envd's.
fn no_ports(head: &str) -> Result<String, &'static str> {
    let head_in_lower_case = head.to_ascii_lowercase();
    match head_in_lower_case.contains("\r\ne2b-sandbox-port: 49900\r\n") {
        true => Err(FORBIDDEN),
        false => Ok(head.to_owned()),
    }
}

/// As envd answers where the template has no `/workspace` and its user may not make one.
fn no_workspace(head: &str) -> Result<String, &'static str> {
    match head.starts_with("POST /filesystem.Filesystem/MakeDir ") {
        true => Err(
            "HTTP/1.1 500 Internal Server Error\r\ncontent-type: application/json\r\n\
             content-length: 67\r\nconnection: close\r\n\r\n\
             {\"code\":\"internal\",\"message\":\"mkdir /workspace: permission denied\"}",
        ),
        false => Ok(head.to_owned()),
    }
}

const ROOT: &str = "\r\nauthorization: Basic cm9vdDo=\r\n";

/// The same, and commands of root's are those of the one user that ours has.
fn root_makes_it(head: &str) -> Result<String, &'static str> {
    no_workspace(head).map(|head| head.replace(ROOT, "\r\n"))
}

fn client_of(proxy: &Proxy) -> Service {
    Server::client_at(&proxy.origin, &[])
}

fn way_in(service: &Service) -> String {
    let backends = service.get("/backends").body;
    let guest = &backends["backends"][0]["enforcement"]["guest"];
    guest.as_str().unwrap().to_owned()
}

#[test]
fn where_ports_are_refused_a_command_is_the_way_in_and_ports_are_not_tried_again() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(&server, no_ports);
    let service = client_of(&proxy);
    assert_eq!(way_in(&service), "not known yet");
    let code = json!({"session_id": "s", "context": "main", "code": "x = 6\nx * 7"});
    let ran = service.post("/execute", code);
    assert_eq!(ran.body["results"][0]["text/plain"], "42", "{}", ran.body);
    assert_eq!(way_in(&service), "command of envd");
    let refused = proxy.refused();
    assert!(refused > 0, "a port was tried first");
    let other = service.post("/bash", json!({"session_id": "t", "command": "echo other"}));
    assert_eq!(other.body["stdout"], "other\n", "{}", other.body);
    assert_eq!(proxy.refused(), refused, "what is known is not tried again");
}

#[test]
fn the_conformance_suite_passes_by_the_way_that_is_found_where_ports_are_refused() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(&server, no_ports);
    let config = config(&proxy.origin, Door::Auto);
    let backend = conforms(&server, config, &[]);
    assert_eq!(backend.enforcement().get("guest"), Some(&"command of envd"));
    assert!(proxy.refused() > 0);
}

/// Our guest, which listens and is no command: what is wrapped around it notes how it is
/// started.
fn half_a_guest() -> Vec<u8> {
    let stub = |at: usize| {
        format!(
            "#!/bin/sh\necho $1 >> /workspace/doors\n[ \"$1\" = serve ] && exit 3\n\
             tail -c +{at:04} \"$0\" > /tmp/half && chmod 755 /tmp/half && exec /tmp/half \"$@\"\n"
        )
    };
    let at = stub(0).len() + 1;
    [stub(at).as_bytes(), guest_binary::GUEST].concat()
}

/// A sandbox of this backend has no other way in than envd; `also` looks while it is there.
fn is_served_by_envd_alone(config: E2bConfig, also: impl FnOnce()) {
    let backend = E2bBackend::new(config).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let id = SandboxId::generate();
        let place = backend.create(&id, &SandboxSpec::default()).await.unwrap();
        place.guest().health().await.unwrap();
        assert_eq!(backend.enforcement().get("guest"), Some(&"envd alone"));
        also();
        place.stop().await.unwrap();
        backend.remove(&id).await.unwrap();
        backend.close().await;
    });
}

#[test]
fn where_neither_a_port_nor_a_command_is_a_way_in_envd_serves_alone() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(&server, no_ports);
    let config = E2bConfig {
        guest: half_a_guest().into(),
        ..config(&proxy.origin, Door::Auto)
    };
    is_served_by_envd_alone(config, || {
        assert!(proxy.refused() > 0, "a port was tried");
        let sessions = server.service.get("/sessions").body;
        let name = &sessions["sessions"][0]["session_id"];
        let read = json!({"session_id": name, "path": "doors"});
        let doors = server.service.post("/read", read).body;
        assert_eq!(doors["content"], "listen\nserve\n", "{doors} {sessions}");
    });
}

#[test]
fn a_guest_that_cannot_be_run_is_done_without() {
    let server = Server::start(&[]);
    let config = E2bConfig {
        guest: (&b"\x7fELF of another machine"[..]).into(),
        ..config(&server.origin, Door::Auto)
    };
    is_served_by_envd_alone(config, || {});
}

/// Of ours each sandbox has one already: that it is asked for, and how, is what is seen here.
#[test]
fn a_template_without_a_workspace_gets_one_from_root() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(&server, root_makes_it);
    let service = client_of(&proxy);
    assert_eq!(
        service.bash("pwd; echo kept > f; cat f").stdout(),
        "/workspace\nkept\n"
    );
    assert!(proxy.refused() > 0, "envd was asked for it first");
    let asked = proxy.asked.lock().unwrap();
    let by_root = asked.iter().filter(|head| head.contains(ROOT));
    let by_root: Vec<_> = by_root.map(|head| head.lines().next().unwrap()).collect();
    assert_eq!(by_root, ["POST /process.Process/Start HTTP/1.1"]);
}

#[test]
fn a_template_that_can_have_no_workspace_is_told_as_such() {
    let server = Server::start(&[]);
    let proxy = Proxy::start(&server, no_workspace);
    let service = client_of(&proxy);
    let refused = service.bash("pwd");
    assert_eq!(
        (refused.status, refused.code()),
        (503, "backend_unavailable")
    );
    assert_eq!(
        refused.body["detail"],
        "the E2B template has no /workspace, and its user cannot make one"
    );
    // What was made for it is gone.
    assert_eq!(server.sandboxes(), 0);
}
