//! An envd that answers what it should not, or nothing: every call ends, with an error or
//! with what was asked for and no more.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use buffa::Message as _;
use bytes::Bytes;
use connectrpc::client::{BoxFuture, ClientBody, ClientTransport};
use envd_guest::Envd;
use futures::{StreamExt as _, stream};
use guest_client::{
    GuestClient,
    messages::{
        GlobRequest, GrepRequest, ListEntriesRequest, ReadBytesRequest, ReadLinesRequest,
        WriteRequest,
    },
};
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, StreamBody, combinators::UnsyncBoxBody};
use hyper::body::Frame;
use sandbox_core::{ErrorCode, Program, Result, RunRequest, Termination};
use sandbox_wire::{
    filesystem::{EntryInfo, FileType, ListDirResponse, StatResponse},
    process::{
        ProcessEvent, StartResponse,
        process_event::{DataEvent, EndEvent, StartEvent},
    },
};

/// What it does to a call.
enum Reply {
    Message(Vec<u8>),
    /// Frames of a stream, and whether it ends then.
    Frames(Vec<Vec<u8>>, bool),
    Plain(StatusCode, &'static str),
    /// A body that never ends.
    Endless(&'static str),
    /// No answer at all.
    Silence,
}

type Says = Arc<dyn Fn(&str) -> Reply + Send + Sync>;

#[derive(Clone)]
struct Liar(Says);

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn body(parts: impl futures::Stream<Item = Bytes> + Send + 'static) -> Body {
    StreamBody::new(parts.map(|part| Ok(Frame::data(part)))).boxed_unsync()
}

impl ClientTransport for Liar {
    type ResponseBody = Body;
    type Error = Infallible;

    fn send(
        &self,
        request: Request<ClientBody>,
    ) -> BoxFuture<'static, Result<Response<Body>, Infallible>> {
        let reply = (self.0)(request.uri().path());
        Box::pin(async move {
            let with = |kind: &str, body| {
                Response::builder()
                    .header("content-type", kind)
                    .body(body)
                    .unwrap()
            };
            Ok(match reply {
                Reply::Message(data) => {
                    with("application/proto", body(stream::iter([Bytes::from(data)])))
                }
                Reply::Frames(frames, ends) => {
                    let frames = frames.into_iter().map(|data| {
                        let mut frame = vec![0];
                        frame.extend(u32::try_from(data.len()).unwrap().to_be_bytes());
                        frame.extend(data);
                        Bytes::from(frame)
                    });
                    let end = Bytes::from_static(b"\x02\0\0\0\x02{}");
                    let rest = match ends {
                        true => stream::iter([end]).left_stream(),
                        false => stream::pending().right_stream(),
                    };
                    let all = stream::iter(frames.collect::<Vec<_>>()).chain(rest);
                    with("application/connect+proto", body(all))
                }
                Reply::Plain(status, text) => {
                    let text = Bytes::from_static(text.as_bytes());
                    let mut answer = with("text/html", body(stream::iter([text])));
                    *answer.status_mut() = status;
                    answer
                }
                Reply::Endless(kind) => {
                    let part = Bytes::from(vec![b'a'; 1 << 20]);
                    with(kind, body(stream::repeat(part)))
                }
                Reply::Silence => std::future::pending().await,
            })
        })
    }
}

async fn guest(says: impl Fn(&str) -> Reply + Send + Sync + 'static) -> GuestClient {
    let envd = Envd::new(Liar(Arc::new(says)), Uri::from_static("http://envd"));
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    tokio::spawn(envd_guest::serve(envd, "/w", theirs));
    GuestClient::connect(ours).await.unwrap()
}

fn entry(path: &str, kind: FileType, size: i64) -> EntryInfo {
    EntryInfo {
        name: path.rsplit('/').next().unwrap().to_owned(),
        path: path.to_owned(),
        r#type: kind.into(),
        size,
        mode: 0o644,
        ..Default::default()
    }
}

fn stat(entry: EntryInfo) -> Reply {
    let answer = StatResponse {
        entry: entry.into(),
        ..Default::default()
    };
    Reply::Message(answer.encode_to_vec())
}

fn event(event: ProcessEvent) -> Vec<u8> {
    let message = StartResponse {
        event: event.into(),
        ..Default::default()
    };
    message.encode_to_vec()
}

fn started() -> Vec<u8> {
    let start = StartEvent {
        pid: 7,
        ..Default::default()
    };
    event(ProcessEvent {
        event: Some(start.into()),
        ..Default::default()
    })
}

fn read(path: &str) -> ReadLinesRequest {
    ReadLinesRequest {
        path: path.into(),
        limit: 100,
        max_bytes: 1 << 20,
        ..Default::default()
    }
}

fn list(path: &str) -> ListEntriesRequest {
    ListEntriesRequest {
        path: path.into(),
        max_entries: 100,
        ..Default::default()
    }
}

fn write(path: &str) -> WriteRequest {
    WriteRequest {
        path: path.into(),
        data: b"data".into(),
        create_dirs: true,
        ..Default::default()
    }
}

fn run() -> RunRequest {
    RunRequest {
        program: Program {
            argv: vec!["program".into()],
            script: None,
        },
        env: Default::default(),
        cwd: None,
        stdin: Default::default(),
        timeout: Duration::from_secs(5),
        output_limit: 1000,
        live: false,
        spill_limit: 0,
        artifacts: None,
        python_display: false,
        context: None,
    }
}

fn code<T>(result: Result<T>) -> ErrorCode {
    result.err().unwrap().code()
}

#[tokio::test]
async fn one_that_never_answers_costs_time_and_no_more() {
    let guest = guest(|_| Reply::Silence).await;
    let ended = tokio::join!(
        async { code(guest.read_lines(read("f")).await) },
        async { code(guest.list(list(".")).await) },
        async { code(guest.write(write("f")).await) },
        async { code(guest.usage(Default::default()).await) },
        async { code(guest.run(run()).await) },
    );
    let late = ErrorCode::Timeout;
    assert_eq!(ended, (late, late, late, late, late));
}

#[tokio::test]
async fn what_is_no_answer_of_envds_is_an_error() {
    for status in [200, 301, 404, 500, 502] {
        let status = StatusCode::from_u16(status).unwrap();
        let guest = guest(move |_| Reply::Plain(status, "<html>Hello</html>")).await;
        for found in [
            code(guest.read_lines(read("f")).await),
            code(guest.list(list(".")).await),
            code(guest.write(write("f")).await),
            code(guest.run(run()).await),
        ] {
            assert!(
                !matches!(found, ErrorCode::InvalidRequest),
                "{status}: {found:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_file_has_no_more_than_its_size() {
    let guest = guest(|path| match path {
        "/files" => Reply::Endless("application/octet-stream"),
        _ => stat(entry("/w/f", FileType::FILE_TYPE_FILE, 10)),
    })
    .await;
    let page = guest.read_lines(read("f")).await.unwrap();
    assert_eq!(page.content, "aaaaaaaaaa");
    let part = ReadBytesRequest {
        path: "f".into(),
        offset: 4,
        length: Some(3),
        ..Default::default()
    };
    let mut file = guest.read_bytes(part).await.unwrap();
    let mut all = Vec::new();
    while let Some(data) = file.next().await.unwrap() {
        all.extend_from_slice(&data);
    }
    assert_eq!(all, b"aaa");
}

#[tokio::test]
async fn a_listing_without_end_is_refused() {
    let guest = guest(|path| match path {
        "/filesystem.Filesystem/Stat" => stat(entry("/w", FileType::FILE_TYPE_DIRECTORY, 0)),
        _ => Reply::Endless("application/proto"),
    })
    .await;
    assert_eq!(code(guest.list(list(".")).await), ErrorCode::TooLarge);
    let grep = GrepRequest {
        pattern: "x".into(),
        path: ".".into(),
        max_matches: 10,
        max_bytes: 1000,
        timeout_ms: 3000,
        ..Default::default()
    };
    assert_eq!(code(guest.grep(grep).await), ErrorCode::TooLarge);
}

#[tokio::test]
async fn entries_that_are_not_where_they_should_be_are_passed_over() {
    let guest = guest(|path| match path {
        "/filesystem.Filesystem/Stat" => stat(entry("/w", FileType::FILE_TYPE_DIRECTORY, 0)),
        _ => {
            let places = [
                "/w/good",
                "/etc/passwd",
                "/w/../x",
                "/w",
                "/w/",
                "",
                "/w/a/b",
            ];
            let entries = places.map(|path| entry(path, FileType::FILE_TYPE_FILE, -5));
            let answer = ListDirResponse {
                entries: entries.to_vec(),
                ..Default::default()
            };
            Reply::Message(answer.encode_to_vec())
        }
    })
    .await;
    let listed = guest.list(list(".")).await.unwrap();
    let names: Vec<_> = listed.entries.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(names, ["good"]);
    assert_eq!(listed.entries[0].size_bytes, 0);
    let glob = GlobRequest {
        pattern: "**".into(),
        path: ".".into(),
        max_results: 10,
        timeout_ms: 3000,
        ..Default::default()
    };
    let found = guest.glob(glob).await.unwrap();
    assert_eq!(found.paths, ["good"]);
}

#[tokio::test]
async fn links_without_end_are_followed_no_further_than_the_kernel_would() {
    let asked = Arc::new(Mutex::new(0));
    let count = Arc::clone(&asked);
    let guest = guest(move |_| {
        let mut asked = count.lock().unwrap();
        *asked += 1;
        stat(EntryInfo {
            symlink_target: Some(format!("/w/{asked}")),
            ..entry("/w/f", FileType::FILE_TYPE_FILE, 10)
        })
    })
    .await;
    assert_eq!(
        code(guest.read_lines(read("f")).await),
        ErrorCode::InvalidPath
    );
    assert_eq!(*asked.lock().unwrap(), 40);
}

#[tokio::test]
async fn a_disk_that_is_full_is_said_to_be() {
    let guest = guest(|path| match path {
        "/filesystem.Filesystem/Stat" => stat(entry("/w/f", FileType::FILE_TYPE_FILE, 1)),
        "/files" => Reply::Plain(
            StatusCode::INSUFFICIENT_STORAGE,
            r#"{"code":507,"message":"attempted to write 4 bytes: not enough disk space available"}"#,
        ),
        _ => Reply::Plain(StatusCode::NOT_FOUND, ""),
    })
    .await;
    assert_eq!(code(guest.write(write("f")).await), ErrorCode::NoSpace);
}

#[tokio::test]
async fn a_program_that_does_not_end_is_ended_without_envd() {
    let guest = guest(|path| match path {
        "/process.Process/Start" => Reply::Frames(vec![started()], false),
        _ => Reply::Silence,
    })
    .await;
    let outcome = guest.run(run()).await.unwrap().collect().await.unwrap();
    assert_eq!(
        (outcome.termination, outcome.exit_code),
        (Termination::TimedOut, 124)
    );
}

#[tokio::test]
async fn a_stream_of_a_program_that_is_none_is_an_error() {
    let data = || {
        event(ProcessEvent {
            event: Some(DataEvent::default().into()),
            ..Default::default()
        })
    };
    let end = || {
        event(ProcessEvent {
            event: Some(EndEvent::default().into()),
            ..Default::default()
        })
    };
    // No start, an end without one, nothing, and what is no message.
    for frames in [vec![data()], vec![end()], vec![], vec![vec![0xff; 100]]] {
        let shown = format!("{frames:?}");
        let guest = guest(move |path| match path {
            "/process.Process/Start" => Reply::Frames(frames.clone(), true),
            _ => Reply::Silence,
        })
        .await;
        assert!(guest.run(run()).await.is_err(), "{shown}");
    }
    // A start and no end.
    let guest = guest(|path| match path {
        "/process.Process/Start" => Reply::Frames(vec![started()], true),
        _ => Reply::Silence,
    })
    .await;
    let run = guest.run(run()).await.unwrap().collect().await;
    assert_eq!(code(run), ErrorCode::SandboxLost);
}
