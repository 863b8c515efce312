//! Files of the workspace, and what user programs can plant among them.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{FileExt as _, PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::Path,
    time::Duration,
};

use guest_client::messages::{
    EditRequest, EntryKind, ListEntriesRequest, ReadBytesRequest, ReadLinesRequest,
    ReadLinesResponse, RemoveEntryRequest, RenameRequest, WriteRequest,
};
use rustix::fs::{CWD, FileType, Mode};
use sandbox_core::{Error, ErrorCode, Result};
use support::TestGuest;

/// Fails a test whose call waits for what never comes.
async fn soon<T>(call: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), call)
        .await
        .expect("the guest answers")
}

fn code<T>(result: Result<T>) -> ErrorCode {
    result.err().as_ref().map(Error::code).expect("an error")
}

async fn read(guest: &TestGuest, path: &str) -> Result<ReadLinesResponse> {
    let request = ReadLinesRequest {
        path: path.into(),
        offset: 1,
        limit: 2000,
        max_bytes: 1 << 20,
        ..Default::default()
    };
    soon(guest.client.read_lines(request)).await
}

async fn read_bytes(guest: &TestGuest, request: ReadBytesRequest) -> Result<(u64, Vec<u8>)> {
    let mut file = soon(guest.client.read_bytes(request)).await?;
    let mut all = Vec::new();
    while let Some(data) = soon(file.next()).await? {
        all.extend_from_slice(&data);
    }
    Ok((file.info.size_bytes, all))
}

fn write(path: &str, data: &[u8]) -> WriteRequest {
    WriteRequest {
        path: path.into(),
        data: data.to_vec(),
        create_dirs: true,
        ..Default::default()
    }
}

fn edit(path: &str, old: &str, new: &str) -> EditRequest {
    EditRequest {
        path: path.into(),
        old_string: old.into(),
        new_string: new.into(),
        ..Default::default()
    }
}

fn remove(path: &str, recursive: bool) -> RemoveEntryRequest {
    RemoveEntryRequest {
        path: path.into(),
        recursive,
        ..Default::default()
    }
}

fn rename(source: &str, destination: &str, overwrite: bool) -> RenameRequest {
    RenameRequest {
        source: source.into(),
        destination: destination.into(),
        overwrite,
        ..Default::default()
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn pages_of_lines_add_up_to_the_file() {
    let guest = TestGuest::start().await;
    fs::write(guest.workspace.path().join("f"), "one\r\ntwo\nthrée").unwrap();
    let page = |offset, limit, max_bytes| {
        let request = ReadLinesRequest {
            path: "/workspace/./f".into(),
            offset,
            limit,
            max_bytes,
            ..Default::default()
        };
        let client = guest.client.clone();
        async move {
            let page = soon(client.read_lines(request)).await.unwrap();
            assert_eq!(
                (page.path.as_str(), page.total_lines, page.size_bytes),
                ("f", 3, 15)
            );
            (page.content, page.lines, page.truncated)
        }
    };
    assert_eq!(
        page(1, 10, 100).await,
        ("one\r\ntwo\nthrée".into(), 3, false)
    );
    assert_eq!(page(0, 1, 100).await, ("one\r\n".into(), 1, true));
    assert_eq!(page(3, 10, 100).await, ("thrée".into(), 1, false));
    assert_eq!(page(4, 10, 100).await, (String::new(), 0, false));
    assert_eq!(
        page(u64::MAX, u64::MAX, 100).await,
        (String::new(), 0, false)
    );
    assert_eq!(page(1, 10, 11).await, ("one\r\ntwo\n".into(), 2, true));
    // Not within the two bytes of a character.
    assert_eq!(page(3, 10, 4).await, ("thr".into(), 1, true));
}

#[tokio::test]
async fn a_line_of_20_mib_is_text_that_is_cut() {
    let guest = TestGuest::start().await;
    let mut text = "x".repeat(20 << 20);
    text.push_str("\nlast\n");
    fs::write(guest.workspace.path().join("f"), text).unwrap();
    let page = read(&guest, "f").await.unwrap();
    assert_eq!(
        (
            page.content.len(),
            page.lines,
            page.total_lines,
            page.truncated
        ),
        (1 << 20, 1, 2, true)
    );
}

#[tokio::test]
async fn what_is_not_text_says_so() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    fs::write(dir.join("nul"), "a\0b").unwrap();
    fs::write(dir.join("latin"), b"caf\xe9\n").unwrap();
    fs::write(dir.join("cut"), "é".as_bytes().split_last().unwrap().1).unwrap();
    fs::write(
        dir.join("late"),
        [vec![b'\n'; 100_000], vec![0xff]].concat(),
    )
    .unwrap();
    fs::File::create(dir.join("sparse"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    for path in ["nul", "latin", "cut", "late", "sparse"] {
        let error = read(&guest, path).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::NotText, "{path}");
        assert!(error.detail().contains("read_binary"), "{}", error.detail());
    }
}

#[tokio::test]
async fn bytes_come_whole_or_in_part() {
    let guest = TestGuest::start().await;
    let data: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    fs::write(guest.workspace.path().join("f"), &data).unwrap();
    for (offset, length, from_end, expected) in [
        (0, None, false, &data[..]),
        (299_990, None, false, &data[299_990..]),
        (10, Some(70_000), false, &data[10..70_010]),
        (0, Some(0), false, &[]),
        (400_000, Some(5), false, &[]),
        (1, Some(u64::MAX), false, &data[1..]),
        (7, Some(9), true, &data[299_991..]),
        (0, Some(u64::MAX), true, &data[..]),
    ] {
        let request = ReadBytesRequest {
            path: "f".into(),
            offset,
            length,
            from_end,
            ..Default::default()
        };
        let (size, found) = read_bytes(&guest, request).await.unwrap();
        assert!(
            found == expected,
            "{offset} {length:?} {from_end}: {}",
            found.len()
        );
        assert_eq!(size, 300_000);
    }
}

#[tokio::test]
async fn the_etag_is_of_the_content_and_any_time_is_a_time() {
    let guest = TestGuest::start().await;
    let file = guest.workspace.path().join("f");
    fs::write(&file, "a").unwrap();
    let info = async || {
        let request = ReadBytesRequest {
            path: "f".into(),
            ..Default::default()
        };
        soon(guest.client.read_bytes(request)).await.unwrap().info
    };
    let first = info().await;
    assert_eq!(first.etag, info().await.etag);
    fs::write(&file, "b").unwrap();
    assert_ne!(first.etag, info().await.etag);
    let far = rustix::fs::Timestamps {
        last_access: rustix::fs::Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        },
        last_modification: rustix::fs::Timespec {
            tv_sec: i64::MAX / 2,
            tv_nsec: 999_999_999,
        },
    };
    rustix::fs::utimensat(CWD, &file, &far, rustix::fs::AtFlags::empty()).unwrap();
    assert_ne!(first.etag, info().await.etag);
}

#[tokio::test]
async fn a_reader_that_stalls_or_leaves_stops_the_reading() {
    let guest = TestGuest::start().await;
    fs::File::create(guest.workspace.path().join("f"))
        .unwrap()
        .set_len(1 << 40)
        .unwrap();
    let request = ReadBytesRequest {
        path: "f".into(),
        ..Default::default()
    };
    let mut file = guest.client.read_bytes(request).await.unwrap();
    assert!(soon(file.next()).await.unwrap().is_some());
    let pid = guest.pid().to_string();
    let rchar = || {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap();
        io.lines().next().unwrap().to_owned()
    };
    let mut before = String::new();
    support::until("the reading rests", || {
        std::mem::replace(&mut before, rchar()) == before
    })
    .await;
    // Others are served meanwhile, and afterwards.
    soon(guest.client.write(write("g", b"x"))).await.unwrap();
    drop(file);
    assert_eq!(read(&guest, "g").await.unwrap().content, "x");
}

#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_read_stays_whole() {
    let guest = TestGuest::start().await;
    let file = guest.workspace.path().join("f");
    let data = vec![b'a'; 4 << 20];
    fs::write(&file, &data).unwrap();
    let request = ReadBytesRequest {
        path: "f".into(),
        ..Default::default()
    };
    let mut stream = guest.client.read_bytes(request.clone()).await.unwrap();
    soon(guest.client.write(write("f", b"new"))).await.unwrap();
    let mut all = Vec::new();
    while let Some(part) = soon(stream.next()).await.unwrap() {
        all.extend_from_slice(&part);
    }
    assert!(all == data);
    // One that is cut short ends short.
    fs::write(&file, &data).unwrap();
    let mut stream = guest.client.read_bytes(request).await.unwrap();
    fs::File::options()
        .write(true)
        .open(&file)
        .unwrap()
        .set_len(0)
        .unwrap();
    let mut read = 0;
    while let Some(part) = soon(stream.next()).await.unwrap() {
        read += part.len();
    }
    assert!(read < data.len());
}

#[tokio::test]
async fn a_write_replaces_the_file_and_keeps_what_was_not_asked_for() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    let answer = soon(guest.client.write(write("a/b/f", b"one")))
        .await
        .unwrap();
    assert_eq!(
        (answer.path.as_str(), answer.size_bytes, answer.created),
        ("a/b/f", 3, true)
    );
    let file = dir.join("a/b/f");
    assert_eq!(
        (fs::read(&file).unwrap(), mode(&file)),
        (b"one".to_vec(), 0o644)
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
    let open = fs::File::open(&file).unwrap();
    let answer = soon(guest.client.write(write("a/b/f", b"two!")))
        .await
        .unwrap();
    assert_eq!((answer.size_bytes, answer.created), (4, false));
    assert_eq!(
        (fs::read(&file).unwrap(), mode(&file)),
        (b"two!".to_vec(), 0o751)
    );
    // Who has it open sees the old file, whole.
    let mut old = [0; 3];
    open.read_exact_at(&mut old, 0).unwrap();
    assert_eq!(&old, b"one");
    let with_mode = WriteRequest {
        mode: 0o4600,
        ..write("a/b/f", b"")
    };
    soon(guest.client.write(with_mode)).await.unwrap();
    assert_eq!(mode(&file), 0o600);
    let append = WriteRequest {
        append: true,
        ..write("a/b/f", b"+")
    };
    for size in [1, 2] {
        let answer = soon(guest.client.write(append.clone())).await.unwrap();
        assert_eq!((answer.size_bytes, answer.created), (size, false));
    }
    let append = WriteRequest {
        append: true,
        mode: 0o640,
        ..write("fresh", b"+")
    };
    assert!(soon(guest.client.write(append)).await.unwrap().created);
    assert_eq!(mode(&dir.join("fresh")), 0o640);
    assert_eq!(names(&dir.join("a/b")), ["f"]);
}

#[tokio::test]
async fn what_cannot_be_written_says_why_and_leaves_nothing() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    fs::create_dir(dir.join("dir")).unwrap();
    fs::write(dir.join("file"), "x").unwrap();
    let no_dirs = |path| WriteRequest {
        create_dirs: false,
        ..write(path, b"x")
    };
    for (request, expected) in [
        (write("dir", b""), ErrorCode::IsADirectory),
        (write(".", b""), ErrorCode::IsADirectory),
        (write("file/below", b""), ErrorCode::NotADirectory),
        (write("file/below/it", b""), ErrorCode::NotADirectory),
        (no_dirs("none/f"), ErrorCode::NotFound),
        (write("../f", b""), ErrorCode::InvalidPath),
    ] {
        for append in [false, true] {
            let request = WriteRequest {
                append,
                ..request.clone()
            };
            let path = request.path.clone();
            assert_eq!(
                code(soon(guest.client.write(request)).await),
                expected,
                "{path} {append}"
            );
        }
    }
    assert_eq!(names(dir), ["dir", "file"]);
}

#[tokio::test]
async fn a_write_through_a_link_replaces_what_it_leads_to() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    fs::create_dir_all(dir.join("d/e")).unwrap();
    fs::write(dir.join("d/target"), "old").unwrap();
    symlink("d/e", dir.join("elsewhere")).unwrap();
    symlink("../target", dir.join("d/e/link")).unwrap();
    // The second link is relative to the folder that the first one leads to.
    soon(guest.client.write(write("elsewhere/link", b"new")))
        .await
        .unwrap();
    assert_eq!(fs::read(dir.join("d/target")).unwrap(), b"new");
    assert!(dir.join("d/e/link").is_symlink());
    symlink("d/fresh", dir.join("dangling")).unwrap();
    let answer = soon(guest.client.write(write("dangling", b"x")))
        .await
        .unwrap();
    assert!(answer.created);
    assert_eq!(fs::read(dir.join("d/fresh")).unwrap(), b"x");
    soon(guest.client.edit(edit("dangling", "x", "y")))
        .await
        .unwrap();
    assert_eq!(fs::read(dir.join("d/fresh")).unwrap(), b"y");
    assert!(dir.join("dangling").is_symlink());
}

#[tokio::test]
async fn links_lead_no_further_than_the_sandbox_goes() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    symlink("/etc/passwd", dir.join("passwd")).unwrap();
    assert_eq!(
        read(&guest, "passwd").await.unwrap().content,
        fs::read_to_string("/etc/passwd").unwrap()
    );
    symlink("a", dir.join("b")).unwrap();
    symlink("b", dir.join("a")).unwrap();
    symlink("a/x", dir.join("c")).unwrap();
    for path in ["a", "a/x", "c"] {
        assert_eq!(
            code(read(&guest, path).await),
            ErrorCode::InvalidPath,
            "{path}"
        );
        let written = soon(guest.client.write(write(path, b"x"))).await;
        assert_eq!(code(written), ErrorCode::InvalidPath, "{path}");
    }
    symlink("nowhere/at/all", dir.join("dangling")).unwrap();
    assert_eq!(code(read(&guest, "dangling").await), ErrorCode::NotFound);
}

#[tokio::test]
async fn the_kernels_own_files_are_not_for_reading_or_writing() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    // Behind a link of the user, /proc/self is the guest.
    for (name, target) in [
        ("environ", "/proc/self/environ"),
        ("mem", "/proc/self/mem"),
        ("oom", "/proc/self/oom_score_adj"),
        ("none", "/proc/self/none"),
        ("core", "/proc/sys/kernel/core_pattern"),
        ("sys", "/sys/kernel/uevent_seqnum"),
    ] {
        symlink(target, dir.join(name)).unwrap();
        let request = ReadBytesRequest {
            path: name.into(),
            ..Default::default()
        };
        if name != "none" {
            assert_eq!(
                code(read(&guest, name).await),
                ErrorCode::NotARegularFile,
                "{name}"
            );
            let bytes = read_bytes(&guest, request).await;
            assert_eq!(code(bytes), ErrorCode::NotARegularFile, "{name}");
            let append = WriteRequest {
                append: true,
                ..write(name, b"1")
            };
            let appended = soon(guest.client.write(append)).await;
            assert_eq!(code(appended), ErrorCode::NotARegularFile, "{name}");
        }
        let written = soon(guest.client.write(write(name, b"1"))).await;
        assert_eq!(code(written), ErrorCode::NotARegularFile, "{name}");
    }
    symlink("/proc/self", dir.join("self")).unwrap();
    let list = ListEntriesRequest {
        path: "self/fd".into(),
        max_entries: 100,
        ..Default::default()
    };
    assert_eq!(
        code(soon(guest.client.list(list)).await),
        ErrorCode::NotARegularFile
    );
}

#[tokio::test]
async fn fifos_sockets_and_devices_are_refused_and_never_waited_for() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    rustix::fs::mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _listener = UnixListener::bind(dir.join("socket")).unwrap();
    symlink("fifo", dir.join("to-fifo")).unwrap();
    for device in ["zero", "full", "tty", "ptmx"] {
        symlink(Path::new("/dev").join(device), dir.join(device)).unwrap();
    }
    for path in ["fifo", "to-fifo", "socket", "zero", "full", "tty", "ptmx"] {
        let expected = ErrorCode::NotARegularFile;
        assert_eq!(code(read(&guest, path).await), expected, "{path}");
        let request = ReadBytesRequest {
            path: path.into(),
            ..Default::default()
        };
        assert_eq!(code(read_bytes(&guest, request).await), expected, "{path}");
        assert_eq!(
            code(soon(guest.client.edit(edit(path, "a", "b"))).await),
            expected,
            "{path}"
        );
        for append in [false, true] {
            let request = WriteRequest {
                append,
                ..write(path, b"x")
            };
            assert_eq!(
                code(soon(guest.client.write(request)).await),
                expected,
                "{path}"
            );
        }
        let list = ListEntriesRequest {
            path: path.into(),
            max_entries: 9,
            ..Default::default()
        };
        assert_eq!(
            code(soon(guest.client.list(list)).await),
            ErrorCode::NotADirectory,
            "{path}"
        );
    }
    // They are entries like any other all the same.
    for path in ["fifo", "socket"] {
        soon(guest.client.rename(rename(path, "moved", false)))
            .await
            .unwrap();
        soon(guest.client.remove(remove("moved", false)))
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn odd_names_are_just_names_and_long_ones_are_refused() {
    let guest = TestGuest::start().await;
    for name in [
        "-rf",
        "--",
        "a\nb",
        "a b",
        "*",
        "~",
        "$(touch x)",
        "ä",
        "C:\\x",
    ] {
        soon(guest.client.write(write(name, name.as_bytes())))
            .await
            .unwrap();
        let page = read(&guest, name).await.unwrap();
        assert_eq!((page.path.as_str(), page.content.as_str()), (name, name));
        soon(guest.client.remove(remove(name, false)))
            .await
            .unwrap();
    }
    assert_eq!(names(guest.workspace.path()), [] as [&str; 0]);
    let exactly = format!("{}abc", "n/".repeat(2046) + "a");
    assert_eq!(exactly.len(), 4096);
    for path in [
        "a/".repeat(2500),
        "n".repeat(5000),
        "n".repeat(256),
        exactly,
        "a\0b".into(),
    ] {
        for result in [
            read(&guest, &path).await.map(drop),
            soon(guest.client.write(write(&path, b"x"))).await.map(drop),
            soon(guest.client.remove(remove(&path, true)))
                .await
                .map(drop),
            soon(guest.client.rename(rename(&path, "x", true)))
                .await
                .map(drop),
        ] {
            assert_eq!(code(result), ErrorCode::InvalidPath, "{path:.10?}");
        }
    }
}

#[tokio::test]
async fn an_edit_is_exact_and_says_how_often_it_would_fit() {
    let guest = TestGuest::start().await;
    let file = guest.workspace.path().join("f");
    fs::write(&file, "a.b a.b\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o700)).unwrap();
    let none = soon(guest.client.edit(edit("f", "a-b", "x")))
        .await
        .unwrap_err();
    assert_eq!(none.code(), ErrorCode::NoMatch);
    let several = soon(guest.client.edit(edit("f", "a.b", "x")))
        .await
        .unwrap_err();
    assert_eq!(several.code(), ErrorCode::SeveralMatches);
    assert!(several.detail().contains(" 2 "), "{}", several.detail());
    let answer = soon(guest.client.edit(edit("f", "b a", "$1")))
        .await
        .unwrap();
    assert_eq!(answer.replacements, 1);
    assert_eq!(fs::read_to_string(&file).unwrap(), "a.$1.b\n");
    let all = EditRequest {
        replace_all: true,
        ..edit("f", ".", "")
    };
    assert_eq!(soon(guest.client.edit(all)).await.unwrap().replacements, 2);
    assert_eq!(
        (fs::read_to_string(&file).unwrap().as_str(), mode(&file)),
        ("a$1b\n", 0o700)
    );
    fs::write(guest.workspace.path().join("latin"), b"\xe9").unwrap();
    assert_eq!(
        code(soon(guest.client.edit(edit("latin", "a", "b"))).await),
        ErrorCode::NotText
    );
    assert_eq!(
        code(soon(guest.client.edit(edit("f", "", "b"))).await),
        ErrorCode::InvalidRequest
    );
    fs::File::create(guest.workspace.path().join("big"))
        .unwrap()
        .set_len((32 << 20) + 1)
        .unwrap();
    assert_eq!(
        code(soon(guest.client.edit(edit("big", "a", "b"))).await),
        ErrorCode::TooLarge
    );
}

#[tokio::test]
async fn an_edit_cannot_grow_a_file_beyond_all_memory() {
    let guest = TestGuest::start().await;
    fs::write(guest.workspace.path().join("f"), "a".repeat(1 << 20)).unwrap();
    let request = EditRequest {
        replace_all: true,
        ..edit("f", "a", &"b".repeat(1 << 20))
    };
    assert_eq!(
        code(soon(guest.client.edit(request)).await),
        ErrorCode::TooLarge
    );
}

#[tokio::test]
async fn a_listing_is_by_name_bounded_and_exact_about_names() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path().join("d");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("b"), "123").unwrap();
    fs::create_dir(dir.join("a")).unwrap();
    symlink("no\nwhere", dir.join("c")).unwrap();
    fs::write(dir.join(OsStr::from_bytes(b"z\xff")), "").unwrap();
    rustix::fs::mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let list = |max_entries| ListEntriesRequest {
        path: "d".into(),
        max_entries,
        ..Default::default()
    };
    let answer = soon(guest.client.list(list(5))).await.unwrap();
    let entries: Vec<_> = answer
        .entries
        .iter()
        .map(|e| {
            (
                e.name.as_str(),
                e.path.as_str(),
                e.kind.as_known().unwrap(),
                e.raw_name.as_slice(),
            )
        })
        .collect();
    assert_eq!(
        entries,
        [
            ("a", "d/a", EntryKind::ENTRY_KIND_DIRECTORY, &b""[..]),
            ("b", "d/b", EntryKind::ENTRY_KIND_FILE, b""),
            ("c", "d/c", EntryKind::ENTRY_KIND_SYMLINK, b""),
            ("fifo", "d/fifo", EntryKind::ENTRY_KIND_OTHER, b""),
            (
                "z\u{fffd}",
                "d/z\u{fffd}",
                EntryKind::ENTRY_KIND_FILE,
                b"z\xff"
            ),
        ]
    );
    assert_eq!(answer.entries[1].size_bytes, 3);
    assert_eq!(
        answer.entries[2].symlink_target.as_deref(),
        Some("no\nwhere")
    );
    assert!(!answer.truncated);
    let few = soon(guest.client.list(list(2))).await.unwrap();
    let few_names: Vec<_> = few.entries.iter().map(|e| e.name.as_str()).collect();
    assert_eq!((few_names, few.truncated), (vec!["a", "b"], true));
}

#[tokio::test]
async fn removing_follows_no_link_and_spares_the_workspace() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    fs::create_dir_all(dir.join("kept")).unwrap();
    fs::write(dir.join("kept/f"), "x").unwrap();
    fs::create_dir_all(dir.join("d/e")).unwrap();
    fs::write(dir.join("d/e/f"), "x").unwrap();
    symlink("../../kept", dir.join("d/e/link")).unwrap();
    symlink("kept", dir.join("link")).unwrap();
    assert_eq!(
        code(soon(guest.client.remove(remove("d", false))).await),
        ErrorCode::DirectoryNotEmpty
    );
    soon(guest.client.remove(remove("d", true))).await.unwrap();
    soon(guest.client.remove(remove("link/", true)))
        .await
        .unwrap();
    for path in [".", "/workspace", "kept/..", "/workspace/"] {
        assert_eq!(
            code(soon(guest.client.remove(remove(path, true))).await),
            ErrorCode::InvalidPath
        );
    }
    assert_eq!(
        code(soon(guest.client.remove(remove("none", true))).await),
        ErrorCode::NotFound
    );
    assert_eq!(names(dir), ["kept"]);
    assert_eq!(names(&dir.join("kept")), ["f"]);
}

#[tokio::test]
async fn a_tree_of_any_depth_is_removed() {
    let guest = TestGuest::start().await;
    fs::create_dir(guest.workspace.path().join("deep")).unwrap();
    let mut dir =
        std::os::fd::OwnedFd::from(fs::File::open(guest.workspace.path().join("deep")).unwrap());
    for _ in 0..2500 {
        rustix::fs::mkdirat(&dir, "d", Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, "d", rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    drop(dir);
    // As long as a call may take: the disk decides.
    guest.client.remove(remove("deep", true)).await.unwrap();
    assert_eq!(names(guest.workspace.path()), [] as [&str; 0]);
}

#[tokio::test]
async fn a_rename_replaces_only_when_it_may() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    for name in ["a", "b"] {
        fs::write(dir.join(name), name).unwrap();
    }
    fs::create_dir_all(dir.join("d/full")).unwrap();
    fs::create_dir(dir.join("e")).unwrap();
    for (source, destination, overwrite, expected) in [
        ("a", "b", false, ErrorCode::AlreadyExists),
        ("none", "c", true, ErrorCode::NotFound),
        ("a", "d", true, ErrorCode::IsADirectory),
        ("e", "d", true, ErrorCode::DirectoryNotEmpty),
        ("d", "d/full/x", true, ErrorCode::InvalidPath),
        ("a", "b/c", true, ErrorCode::NotADirectory),
        (".", "x", true, ErrorCode::InvalidPath),
        ("a", "/workspace", true, ErrorCode::InvalidPath),
    ] {
        let result = soon(guest.client.rename(rename(source, destination, overwrite))).await;
        assert_eq!(code(result), expected, "{source} -> {destination}");
    }
    let answer = soon(guest.client.rename(rename("a", "new/dir/c", false)))
        .await
        .unwrap();
    assert_eq!(answer.path, "new/dir/c");
    soon(guest.client.rename(rename("new/dir/c", "b", true)))
        .await
        .unwrap();
    assert_eq!(fs::read(dir.join("b")).unwrap(), b"a");
    // A link is moved, not what it leads to.
    symlink("b", dir.join("link")).unwrap();
    soon(guest.client.rename(rename("link", "moved", false)))
        .await
        .unwrap();
    assert!(dir.join("moved").is_symlink());
    assert_eq!(names(dir), ["b", "d", "e", "moved", "new"]);
}
