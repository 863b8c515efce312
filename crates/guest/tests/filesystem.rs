//! `filesystem.Filesystem` and the plain routes, as the public contract words them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    time::Duration,
};

use http_body_util::BodyExt as _;
use rustix::fs::{CWD, FileType, Mode};
use serde_json::{Value, json};
use support::{WireGuest, wire::Frames};

async fn call(guest: &WireGuest, method: &str, message: Value) -> Result<Value, (u16, Value)> {
    let procedure = format!("filesystem.Filesystem/{method}");
    tokio::time::timeout(
        Duration::from_secs(20),
        guest.wire.call(&procedure, message),
    )
    .await
    .expect("the guest answers")
}

/// HTTP status and Connect code of a refusal.
async fn refused(guest: &WireGuest, method: &str, message: Value) -> (u16, String) {
    let (status, error) = call(guest, method, message).await.expect_err("a refusal");
    (status, error["code"].as_str().unwrap().to_owned())
}

fn is(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

struct Answer {
    status: u16,
    headers: http::HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers
            .get(name)
            .map_or("", |value| value.to_str().unwrap())
    }
}

async fn http(
    guest: &WireGuest,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<bytes::Bytes>,
) -> Answer {
    let response = guest.wire.send(method, path, headers, body).await;
    Answer {
        status: response.status().as_u16(),
        headers: response.headers().clone(),
        body: response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .to_vec(),
    }
}

const OCTETS: (&str, &str) = ("content-type", "application/octet-stream");

#[tokio::test]
async fn an_entry_is_described_in_the_contracts_words() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    fs::write(dir.join("f"), "12345").unwrap();
    fs::set_permissions(dir.join("f"), fs::Permissions::from_mode(0o640)).unwrap();
    let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    fs::File::options()
        .write(true)
        .open(dir.join("f"))
        .unwrap()
        .set_modified(time)
        .unwrap();
    let path = dir.join("f").to_str().unwrap().to_owned();
    let mut entry = call(&guest, "Stat", json!({"path": path})).await.unwrap()["entry"].take();
    for field in ["owner", "group"] {
        assert!(!entry[field].take().as_str().unwrap().is_empty());
    }
    assert_eq!(
        entry,
        json!({"name": "f", "type": "FILE_TYPE_FILE", "path": path, "size": "5", "mode": 0o640,
               "permissions": "-rw-r-----", "modifiedTime": "2020-09-13T12:26:40Z",
               "owner": null, "group": null})
    );
    for same in ["f", "~/f", "./x/../f", "f/"] {
        let entry = &call(&guest, "Stat", json!({"path": same})).await.unwrap()["entry"];
        assert_eq!(entry["path"], path, "{same}");
    }
    symlink("nowhere", dir.join("link")).unwrap();
    let link = &call(&guest, "Stat", json!({"path": "link"})).await.unwrap()["entry"];
    assert_eq!(
        (&link["type"], &link["symlinkTarget"], &link["permissions"]),
        (&json!(null), &link["path"], &json!("Lrwxrwxrwx")),
        "a link to nowhere is of no kind"
    );
    symlink("f", dir.join("good")).unwrap();
    let link = &call(&guest, "Stat", json!({"path": "good"})).await.unwrap()["entry"];
    let target = dir.canonicalize().unwrap().join("f");
    assert_eq!(
        (&link["type"], &link["symlinkTarget"], &link["mode"]),
        (&json!("FILE_TYPE_FILE"), &json!(target), &json!(0o640))
    );
    for (path, expected) in [
        ("none", is(404, "not_found")),
        ("a\0", is(400, "invalid_argument")),
    ] {
        assert_eq!(
            refused(&guest, "Stat", json!({"path": path})).await,
            expected
        );
    }
}

#[tokio::test]
async fn folders_are_made_listed_moved_and_removed() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let made = call(&guest, "MakeDir", json!({"path": "a/b"}))
        .await
        .unwrap();
    assert_eq!(made["entry"]["type"], "FILE_TYPE_DIRECTORY");
    let again = json!({"path": "a/b"});
    assert_eq!(
        refused(&guest, "MakeDir", again).await,
        is(409, "already_exists")
    );
    fs::write(dir.join("a/f"), "").unwrap();
    assert_eq!(
        refused(&guest, "MakeDir", json!({"path": "a/f/x"})).await,
        is(400, "invalid_argument")
    );
    assert_eq!(
        refused(&guest, "MakeDir", json!({"path": "a/f"})).await,
        is(400, "invalid_argument")
    );
    fs::write(dir.join("a/b/g"), "").unwrap();
    symlink("b", dir.join("a/link")).unwrap();
    let names = async |path: &str, depth: u32| {
        let listed = call(&guest, "ListDir", json!({"path": path, "depth": depth}))
            .await
            .unwrap();
        let entries = listed["entries"].as_array().unwrap().clone();
        let mut names: Vec<_> = entries
            .iter()
            .map(|e| e["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("a", 0).await, ["b", "f", "link"]);
    assert_eq!(names("a", 1).await, ["b", "f", "link"]);
    assert_eq!(names("a", u32::MAX).await, ["b", "f", "g", "link"]);
    assert_eq!(names("a/link", 1).await, ["g"]);
    assert_eq!(
        refused(&guest, "ListDir", json!({"path": "a/f"})).await,
        is(400, "invalid_argument")
    );
    let moved = call(
        &guest,
        "Move",
        json!({"source": "a/b", "destination": "c/d"}),
    )
    .await
    .unwrap();
    assert_eq!(moved["entry"]["path"], dir.join("c/d").to_str().unwrap());
    assert_eq!(
        refused(&guest, "Move", json!({"source": "no", "destination": "x"})).await,
        is(404, "not_found")
    );
    symlink("d", dir.join("c/to-d")).unwrap();
    call(&guest, "Remove", json!({"path": "c/to-d/"}))
        .await
        .unwrap();
    assert!(dir.join("c/d/g").exists());
    call(&guest, "Remove", json!({"path": "c"})).await.unwrap();
    assert!(!dir.join("c").exists());
    call(&guest, "Remove", json!({"path": "c"})).await.unwrap();
    for path in ["~", "/", ".", dir.parent().unwrap().to_str().unwrap()] {
        assert_eq!(
            refused(&guest, "Remove", json!({"path": path})).await,
            is(400, "invalid_argument")
        );
    }
    assert!(dir.join("a/f").exists());
}

/// Events up to the one that is waited for, as `type name`.
async fn until(frames: &mut Frames, last: &str) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.last().is_none_or(|seen| seen != last) {
        let (_, message) = frames.next().await;
        if message == json!({"keepalive": {}}) {
            continue;
        }
        let event = &message["filesystem"];
        let kind = event["type"]
            .as_str()
            .unwrap()
            .trim_start_matches("EVENT_TYPE_");
        seen.push(format!("{kind} {}", event["name"].as_str().unwrap()));
    }
    seen
}

#[tokio::test]
async fn a_watched_folder_tells_what_happens_in_it() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    fs::create_dir(dir.join("sub")).unwrap();
    let mut frames = guest
        .wire
        .stream("filesystem.Filesystem/WatchDir", &[], json!({"path": "."}))
        .await;
    assert_eq!(frames.next().await.1, json!({"start": {}}));
    fs::write(dir.join("sub/unseen"), "x").unwrap();
    fs::write(dir.join("f"), "x").unwrap();
    assert_eq!(until(&mut frames, "WRITE f").await, ["CREATE f", "WRITE f"]);
    fs::set_permissions(dir.join("f"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::rename(dir.join("f"), dir.join("g")).unwrap();
    fs::remove_file(dir.join("g")).unwrap();
    assert_eq!(
        until(&mut frames, "REMOVE g").await,
        ["CHMOD f", "RENAME f", "CREATE g", "REMOVE g"]
    );
    // What a call writes comes into its place whole, and is told as if it were written there.
    let up = http(&guest, "POST", "/files?path=f", &[OCTETS], "x").await;
    assert_eq!(up.status, 200);
    assert_eq!(until(&mut frames, "WRITE f").await, ["CREATE f", "WRITE f"]);
    for (path, expected) in [("none", "not_found"), ("sub/unseen", "invalid_argument")] {
        let mut frames = guest
            .wire
            .stream("filesystem.Filesystem/WatchDir", &[], json!({"path": path}))
            .await;
        let (last, end) = frames.next().await;
        assert!(last);
        assert_eq!(end["error"]["code"], expected);
    }
}

#[tokio::test]
async fn a_recursive_watch_keeps_up_with_the_tree_and_follows_no_link() {
    let guest = WireGuest::start().await;
    let outside = tempfile::tempdir().unwrap();
    let dir = guest.workspace.path();
    fs::create_dir_all(dir.join("a/b")).unwrap();
    symlink(outside.path(), dir.join("a/link")).unwrap();
    let message = json!({"path": ".", "recursive": true, "includeEntry": true});
    let mut frames = guest
        .wire
        .stream("filesystem.Filesystem/WatchDir", &[], message)
        .await;
    frames.next().await;
    fs::write(outside.path().join("f"), "x").unwrap();
    fs::write(dir.join("a/b/f"), "x").unwrap();
    assert_eq!(
        until(&mut frames, "WRITE a/b/f").await,
        ["CREATE a/b/f", "WRITE a/b/f"]
    );
    // What comes with its content is told whole, and watched from then on.
    let fresh = outside.path().join("fresh");
    fs::create_dir_all(fresh.join("d")).unwrap();
    fs::write(fresh.join("d/g"), "x").unwrap();
    fs::rename(&fresh, dir.join("fresh")).unwrap();
    let seen = until(&mut frames, "CREATE fresh/d/g").await;
    assert_eq!(seen, ["CREATE fresh", "CREATE fresh/d", "CREATE fresh/d/g"]);
    fs::remove_file(dir.join("fresh/d/g")).unwrap();
    until(&mut frames, "REMOVE fresh/d/g").await;
    // A folder that moves is known under its new name.
    fs::rename(dir.join("fresh"), dir.join("moved")).unwrap();
    assert_eq!(
        until(&mut frames, "CREATE moved/d").await,
        ["RENAME fresh", "CREATE moved", "CREATE moved/d"]
    );
    fs::write(dir.join("moved/d/h"), "x").unwrap();
    let (_, message) = frames.next().await;
    let event = &message["filesystem"];
    assert_eq!(
        (&event["name"], &event["entry"]["type"]),
        (&json!("moved/d/h"), &json!("FILE_TYPE_FILE"))
    );
}

#[tokio::test]
async fn a_flood_of_events_and_a_rest_both_reach_the_watcher() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let mut frames = guest
        .wire
        .stream(
            "filesystem.Filesystem/WatchDir",
            &[("keepalive-ping-interval", "1")],
            json!({"path": "."}),
        )
        .await;
    frames.next().await;
    // More than is taken at once, and less than the kernel keeps.
    for n in 0..6000 {
        fs::File::create(dir.join(format!("f{n}"))).unwrap();
    }
    assert_eq!(until(&mut frames, "CREATE f5999").await.len(), 6000);
    assert_eq!(frames.next().await.1, json!({"keepalive": {}}));
}

#[tokio::test]
async fn watchers_can_be_polled_and_are_few() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let create = async || call(&guest, "CreateWatcher", json!({"path": "~"})).await;
    let id = create().await.unwrap()["watcherId"]
        .as_str()
        .unwrap()
        .to_owned();
    let events = async || call(&guest, "GetWatcherEvents", json!({"watcherId": id})).await;
    assert_eq!(events().await.unwrap(), json!({}));
    fs::create_dir(dir.join("d")).unwrap();
    assert_eq!(
        events().await.unwrap(),
        json!({"events": [{"name": "d", "type": "EVENT_TYPE_CREATE"}]})
    );
    let mut opened = 1;
    let refusal = loop {
        match create().await {
            Ok(_) => opened += 1,
            Err((status, error)) => break (status, error["code"].as_str().unwrap().to_owned()),
        }
    };
    assert_eq!((opened, refusal), (32, is(429, "resource_exhausted")));
    call(&guest, "RemoveWatcher", json!({"watcherId": id}))
        .await
        .unwrap();
    let gone = json!({"watcherId": id});
    assert_eq!(
        refused(&guest, "RemoveWatcher", gone.clone()).await,
        is(404, "not_found")
    );
    assert_eq!(
        refused(&guest, "GetWatcherEvents", gone).await,
        is(404, "not_found")
    );
    // A stream takes the place that is free, and gives it back when it is dropped.
    for _ in 0..3 {
        let stream = async || {
            let message = json!({"path": "."});
            let mut frames = guest
                .wire
                .stream("filesystem.Filesystem/WatchDir", &[], message)
                .await;
            let first = frames.next().await.1;
            (frames, first)
        };
        let mut open = stream().await;
        for _ in 0..500 {
            if open.1 == json!({"start": {}}) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
            open = stream().await;
        }
        assert_eq!(open.1, json!({"start": {}}));
        assert_eq!(stream().await.1["error"]["code"], "resource_exhausted");
    }
}

#[tokio::test]
async fn a_file_goes_up_and_comes_down_whole_or_in_part() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let data: Vec<u8> = (0..1_000_000u32).map(|n| (n % 253) as u8).collect();
    let up = http(
        &guest,
        "POST",
        "/files?path=new/d%C3%A4%20%0A/f&username=user",
        &[OCTETS],
        data.clone(),
    )
    .await;
    let path = dir.join("new/dä \n/f");
    assert_eq!(
        (up.status, up.json()),
        (200, json!([{"name": "f", "type": "file", "path": path}]))
    );
    assert!(fs::read(&path).unwrap() == data);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let route = "/files?path=~/new/d%C3%A4%20%0A/f";
    let down = http(&guest, "GET", route, &[], "").await;
    assert!((down.status, &down.body) == (200, &data));
    assert_eq!(
        (
            down.header("content-type"),
            down.header("content-length"),
            down.header("accept-ranges")
        ),
        ("application/octet-stream", "1000000", "bytes")
    );
    let part = http(&guest, "GET", route, &[("range", "bytes=999990-")], "").await;
    assert_eq!((part.status, part.body.as_slice()), (206, &data[999_990..]));
    assert_eq!(part.header("content-range"), "bytes 999990-999999/1000000");
    let none = http(&guest, "GET", route, &[("range", "bytes=1000000-")], "").await;
    assert_eq!(
        (none.status, none.header("content-range")),
        (416, "bytes */1000000")
    );
    let over = http(&guest, "POST", route, &[OCTETS], "").await;
    assert_eq!(over.status, 200);
    let found = fs::metadata(&path).unwrap();
    assert_eq!(
        (found.len(), found.permissions().mode() & 0o777),
        (0, 0o755)
    );
    let empty = http(&guest, "GET", route, &[], "").await;
    assert_eq!(
        (
            empty.status,
            empty.body.len(),
            empty.header("content-length")
        ),
        (200, 0, "0")
    );
}

fn multipart(parts: &[(&str, &str)]) -> String {
    let mut body = String::new();
    for (disposition, content) in parts {
        body +=
            &format!("--XX\r\nContent-Disposition: form-data; {disposition}\r\n\r\n{content}\r\n");
    }
    body + "--XX--\r\n"
}

const MULTIPART: (&str, &str) = ("content-type", "multipart/form-data; boundary=XX");

#[tokio::test]
async fn several_files_go_up_in_one_form() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let absolute = dir.join("x/ö.txt");
    let form = multipart(&[
        (
            &format!("name=\"file\"; filename=\"{}\"", absolute.to_str().unwrap()),
            "one",
        ),
        ("name=\"other\"", "passed over"),
        ("name=\"file\"; filename=\"two\"", "2\r\n--X"),
    ]);
    let up = http(&guest, "POST", "/files", &[MULTIPART], form).await;
    assert_eq!(
        (up.status, up.json()),
        (
            200,
            json!([{"name": "ö.txt", "type": "file", "path": absolute},
                     {"name": "two", "type": "file", "path": dir.join("two")}])
        )
    );
    assert_eq!(fs::read_to_string(absolute).unwrap(), "one");
    assert_eq!(fs::read_to_string(dir.join("two")).unwrap(), "2\r\n--X");
    let form = multipart(&[("name=\"file\"; filename=\"ignored\"", "three")]);
    let up = http(&guest, "POST", "/files?path=three", &[MULTIPART], form).await;
    assert_eq!(up.json()[0]["name"], "three");
    assert_eq!(fs::read_to_string(dir.join("three")).unwrap(), "three");
}

#[tokio::test]
async fn what_is_no_file_is_refused_and_a_broken_upload_leaves_nothing() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    fs::create_dir(dir.join("d")).unwrap();
    rustix::fs::mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    symlink("/proc/self/environ", dir.join("environ")).unwrap();
    let twice = multipart(&[
        ("name=\"file\"; filename=\"twice\"", "first"),
        ("name=\"file\"; filename=\"./twice\"", "second"),
    ]);
    let broken = multipart(&[("name=\"file\"; filename=\"broken\"", "half")]).replace("--XX--", "");
    for (method, route, headers, body, status) in [
        ("GET", "/files?path=none", &[][..], "", 404),
        ("GET", "/files?path=d", &[], "", 400),
        ("GET", "/files?path=fifo", &[], "", 400),
        ("GET", "/files?path=environ", &[], "", 400),
        ("GET", "/files?path=/dev/zero", &[], "", 400),
        ("GET", "/files", &[], "", 400),
        ("POST", "/files?path=d", &[OCTETS], "x", 400),
        ("POST", "/files?path=fifo", &[OCTETS], "x", 400),
        ("POST", "/files?path=environ", &[OCTETS], "x", 400),
        ("POST", "/files?path=/dev/full", &[OCTETS], "x", 400),
        ("POST", "/files", &[OCTETS], "x", 400),
        (
            "POST",
            "/files?path=z",
            &[OCTETS, ("content-encoding", "gzip")],
            "x",
            400,
        ),
        (
            "POST",
            "/files?path=z",
            &[OCTETS, ("content-encoding", "br")],
            "x",
            400,
        ),
        (
            "POST",
            "/files?path=z",
            &[OCTETS, ("x-metadata-k", "\t")],
            "x",
            400,
        ),
        ("GET", "/files?path=d&username=root", &[], "", 401),
        ("POST", "/files?path=z&username=", &[OCTETS], "x", 401),
        ("POST", "/files", &[MULTIPART], &twice, 400),
        ("POST", "/files?path=x", &[], "x", 400),
        ("POST", "/files", &[MULTIPART], &broken, 400),
        ("POST", "/files", &[MULTIPART], "nonsense", 400),
        ("PUT", "/files?path=x", &[], "x", 404),
        ("GET", "/none", &[], "", 404),
    ] {
        let answer = tokio::time::timeout(
            Duration::from_secs(10),
            http(&guest, method, route, headers, body.to_owned()),
        )
        .await
        .expect("the guest answers");
        assert_eq!(
            answer.status,
            status,
            "{method} {route} {}",
            String::from_utf8_lossy(&answer.body)
        );
        let error = answer.json();
        assert_eq!(error["code"], status, "{route}");
        assert!(!error["message"].as_str().unwrap().is_empty(), "{route}");
    }
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["d", "environ", "fifo", "twice"]);
    assert_eq!(fs::read_to_string(dir.join("twice")).unwrap(), "first");
}

#[tokio::test]
async fn the_guest_tells_its_health_environment_and_use() {
    let guest = WireGuest::start().await;
    let json_type = ("content-type", "application/json");
    assert_eq!(http(&guest, "GET", "/health", &[], "").await.status, 204);
    let init = json!({"envVars": {"GIVEN": "1"}, "defaultUser": "user", "timestamp": "now"});
    let answer = http(&guest, "POST", "/init", &[json_type], init.to_string()).await;
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    assert_eq!(
        http(&guest, "POST", "/init", &[json_type], "{}")
            .await
            .status,
        204
    );
    assert_eq!(
        http(&guest, "POST", "/init", &[json_type], "[")
            .await
            .status,
        400
    );
    let env = http(&guest, "GET", "/envs", &[], "").await.json();
    assert_eq!(env["GIVEN"], "1");
    let metrics = http(&guest, "GET", "/metrics", &[], "").await.json();
    for name in [
        "ts",
        "cpu_count",
        "mem_total",
        "mem_used",
        "disk_total",
        "disk_used",
    ] {
        assert!(
            metrics[name].as_u64().is_some_and(|value| value > 0),
            "{metrics}"
        );
    }
    assert!(
        metrics["cpu_used_pct"].is_f64() && metrics["mem_cache"].is_u64(),
        "{metrics}"
    );
    assert!(
        metrics["mem_used"].as_u64() < metrics["mem_total"].as_u64(),
        "{metrics}"
    );
}

/// The message of a refusal in the contract's form.
async fn told(guest: &WireGuest, route: &str) -> String {
    let answer = http(guest, "GET", route, &[], "").await;
    answer.json()["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_refused_download_names_the_path_in_the_contracts_words() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let path = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    assert_eq!(
        told(&guest, "/files?path=none").await,
        format!("path '{}' does not exist", path("none"))
    );
    fs::create_dir(dir.join("d")).unwrap();
    assert_eq!(
        told(&guest, "/files?path=~/d").await,
        format!("path '{}' is a directory", path("d"))
    );
    assert!(
        told(&guest, "/files?path=d&username=root")
            .await
            .contains("no root")
    );
}

fn gzip(data: &[u8]) -> Vec<u8> {
    use std::io::Write as _;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(data).unwrap();
    packed.finish().unwrap()
}

fn gunzip(data: &[u8]) -> Vec<u8> {
    use std::io::Read as _;
    let mut plain = Vec::new();
    let mut packed = flate2::read::MultiGzDecoder::new(data);
    packed.read_to_end(&mut plain).unwrap();
    plain
}

#[tokio::test]
async fn files_travel_packed_where_both_sides_can() {
    let guest = WireGuest::start().await;
    let data: Vec<u8> = (0..700_000u32).map(|n| (n / 999 % 253) as u8).collect();
    let packed = ("content-encoding", "gzip");
    let up = http(
        &guest,
        "POST",
        "/files?path=f.txt",
        &[OCTETS, packed],
        gzip(&data),
    )
    .await;
    assert_eq!((up.status, &up.json()[0]["name"]), (200, &json!("f.txt")));
    assert!(fs::read(guest.workspace.path().join("f.txt")).unwrap() == data);
    let form = multipart(&[("name=\"file\"; filename=\"g\"", "packed form")]);
    let up = http(
        &guest,
        "POST",
        "/files",
        &[MULTIPART, packed],
        gzip(form.as_bytes()),
    )
    .await;
    assert_eq!(up.status, 200);
    let route = "/files?path=f.txt";
    let accepts = ("accept-encoding", "br, gzip");
    let down = http(&guest, "GET", route, &[accepts], "").await;
    assert_eq!(
        (down.status, down.header("content-encoding")),
        (200, "gzip")
    );
    assert!(down.body.len() < data.len() / 10);
    assert!(gunzip(&down.body) == data);
    let part = http(&guest, "GET", route, &[accepts, ("range", "bytes=1-2")], "").await;
    assert_eq!((part.status, part.body.as_slice()), (206, &data[1..3]));
    assert_eq!(part.header("content-encoding"), "");
    let plain = http(&guest, "GET", route, &[("accept-encoding", "identity")], "").await;
    assert!((plain.status, &plain.body) == (200, &data));
    assert_eq!(
        plain.header("content-disposition"),
        "inline; filename=\"f.txt\""
    );
    let none = http(&guest, "GET", route, &[("accept-encoding", "*;q=0")], "").await;
    assert_eq!(none.status, 406);
    // Cut short it is broken, and leaves nothing.
    let half = gzip(&data)[..500].to_vec();
    let up = http(&guest, "POST", "/files?path=half", &[OCTETS, packed], half).await;
    assert_eq!(up.status, 400);
    assert!(!guest.workspace.path().join("half").exists());
}

#[tokio::test]
async fn what_uploads_say_of_a_file_stays_with_it_until_the_next() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let said = [
        OCTETS,
        ("x-metadata-Author", "me & you"),
        ("x-metadata-n", "1"),
    ];
    let up = http(&guest, "POST", "/files?path=f", &said, "x").await;
    let metadata = json!({"author": "me & you", "n": "1"});
    assert_eq!(up.json()[0]["metadata"], metadata);
    let entry = async |name: &str| {
        call(&guest, "Stat", json!({"path": name})).await.unwrap()["entry"].take()
    };
    assert_eq!(entry("f").await["metadata"], metadata);
    call(&guest, "Move", json!({"source": "f", "destination": "g"}))
        .await
        .unwrap();
    let listed = call(&guest, "ListDir", json!({"path": "."})).await.unwrap();
    assert_eq!(listed["entries"][0]["metadata"], metadata);
    // What is no text, or not ours, is not shown.
    let file = fs::File::open(dir.join("g")).unwrap();
    for (name, value) in [("user.e2b.bad", &b"\xff"[..]), ("user.other", b"x")] {
        rustix::fs::fsetxattr(&file, name, value, rustix::fs::XattrFlags::empty()).unwrap();
    }
    assert_eq!(entry("g").await["metadata"], metadata);
    let up = http(&guest, "POST", "/files?path=g", &[OCTETS], "y").await;
    assert_eq!(
        up.json(),
        json!([{"name": "g", "type": "file", "path": dir.join("g")}])
    );
    assert_eq!(entry("g").await["metadata"], json!(null));
    let long = "x".repeat(4096);
    let up = http(
        &guest,
        "POST",
        "/files?path=g",
        &[OCTETS, ("x-metadata-k", &long)],
        "",
    )
    .await;
    assert_eq!((up.status, &up.json()["code"]), (400, &json!(400)));
}

#[tokio::test]
async fn a_file_is_made_of_several() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    for (name, content) in [("a", "1"), ("b", "2"), ("c", "3")] {
        fs::write(dir.join(name), content).unwrap();
    }
    let compose = async |message: Value| {
        http(&guest, "POST", "/files/compose", &[], message.to_string()).await
    };
    let made = compose(json!({"source_paths": ["b", "~/a"], "destination": "d/whole"})).await;
    assert_eq!(
        (made.status, made.json()),
        (
            200,
            json!({"name": "whole", "type": "file", "path": dir.join("d/whole")})
        )
    );
    assert_eq!(fs::read_to_string(dir.join("d/whole")).unwrap(), "21");
    assert!(!dir.join("a").exists() && !dir.join("b").exists());
    for (message, status) in [
        (
            json!({"source_paths": ["c", "none"], "destination": "x"}),
            404,
        ),
        (json!({"source_paths": ["c"], "destination": "./c"}), 400),
        (
            json!({"source_paths": ["c", "./c"], "destination": "x"}),
            400,
        ),
        (json!({"source_paths": ["d"], "destination": "x"}), 400),
        (json!({"source_paths": [], "destination": "x"}), 400),
        (json!({"source_paths": ["c"]}), 400),
        (
            json!({"source_paths": ["c"], "destination": "x", "username": "root"}),
            401,
        ),
        (json!([1]), 400),
    ] {
        let answer = compose(message.clone()).await;
        assert_eq!(answer.status, status, "{message}");
    }
    assert_eq!(fs::read_to_string(dir.join("c")).unwrap(), "3");
    assert!(!dir.join("x").exists());
}

#[tokio::test]
async fn events_that_are_lost_are_told() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    let made = call(&guest, "CreateWatcher", json!({"path": "."}))
        .await
        .unwrap();
    for n in 0..=limit {
        fs::File::create(dir.join(format!("f{n}"))).unwrap();
    }
    let mut seen = 0;
    let (status, error) = loop {
        match call(&guest, "GetWatcherEvents", made.clone()).await {
            Ok(events) => seen += events["events"].as_array().unwrap().len(),
            Err(refused) => break refused,
        }
    };
    assert_eq!((status, &error["code"]), (500, &json!("internal")));
    assert!(
        error["message"].as_str().unwrap().contains("overflow"),
        "{error}"
    );
    assert!(seen > limit / 2, "{seen} of {limit}");
}

#[tokio::test]
async fn the_only_user_may_be_named_and_no_other() {
    let guest = WireGuest::start().await;
    let stat = async |authorization: &str| {
        let headers = [
            ("content-type", "application/json"),
            ("connect-protocol-version", "1"),
            ("authorization", authorization),
        ];
        let path = "/filesystem.Filesystem/Stat";
        let answer = http(
            &guest,
            "POST",
            path,
            &headers,
            json!({"path": "/"}).to_string(),
        )
        .await;
        (answer.status, answer.json()["code"].take())
    };
    assert_eq!(stat("Basic dXNlcjo=").await, (200, json!(null)));
    assert_eq!(stat("Bearer x").await, (200, json!(null)));
    assert_eq!(
        stat("Basic cm9vdDo=").await,
        (401, json!("unauthenticated"))
    );
    let message = json!({"process": {"cmd": "/bin/true"}});
    let headers = [("authorization", "Basic cm9vdDo=")];
    let mut frames = guest
        .wire
        .stream("process.Process/Start", &headers, message)
        .await;
    let (last, end) = frames.next().await;
    assert!(last);
    assert_eq!(end["error"]["code"], "unauthenticated");
}

#[tokio::test]
async fn the_folder_that_an_empty_path_means_can_be_set() {
    let guest = WireGuest::start().await;
    let dir = guest.workspace.path();
    let listed = async || call(&guest, "ListDir", json!({"path": ""})).await.unwrap();
    fs::create_dir_all(dir.join("home/sub")).unwrap();
    assert_eq!(listed().await["entries"][0]["name"], "home");
    let init = json!({"defaultWorkdir": "home", "defaultUser": "user"});
    let answer = http(&guest, "POST", "/init", &[], init.to_string()).await;
    assert_eq!(answer.status, 204);
    assert_eq!(listed().await["entries"][0]["name"], "sub");
    let message = json!({"process": {"cmd": "/bin/pwd"}});
    let frames = guest
        .wire
        .stream("process.Process/Start", &[], message)
        .await;
    let events = frames.events().await;
    let said = events[1]["data"]["stdout"].as_str().unwrap();
    let said = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, said).unwrap();
    assert!(String::from_utf8(said).unwrap().ends_with("/home\n"));
    let root = json!({"defaultUser": "root"});
    assert_eq!(
        http(&guest, "POST", "/init", &[], root.to_string())
            .await
            .status,
        401
    );
}

#[tokio::test]
async fn an_upload_to_a_full_workspace_is_507() {
    let guest = WireGuest::with(&["--disk-bytes", "100000"]).await;
    let upload =
        async |bytes| http(&guest, "POST", "/files?path=f", &[OCTETS], vec![7; bytes]).await;
    // What has no room at all is never taken.
    assert_eq!(upload(200_000).await.status, 507);
    assert_eq!(upload(90_000).await.status, 200);
    // Looked at now and then: the first may find room.
    for _ in 0..500 {
        let answer = upload(90_000).await;
        if answer.status == 507 {
            assert_eq!(answer.json()["code"], 507);
            return;
        }
        assert_eq!(answer.status, 200);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the workspace never becomes full");
}
