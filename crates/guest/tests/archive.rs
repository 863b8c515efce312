//! Archives in and out of the workspace: whole, or not at all.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    fs,
    io::{Read, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    time::Duration,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use guest_client::messages::{Compression, ExportRequest, ImportResponse, ImportStart};
use sandbox_core::{Error, ErrorCode, Result};
use support::TestGuest;
use tar::{Archive, Builder, EntryType, Header};

const MIB: u64 = 1 << 20;

fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header
}

/// An entry with this very name, which a builder would not write.
fn entry(name: &[u8], kind: EntryType, target: &[u8], data: &[u8]) -> Vec<u8> {
    let mut header = header(kind, data.len() as u64);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..target.len()].copy_from_slice(target);
    header.set_cksum();
    let mut bytes = header.as_bytes().to_vec();
    bytes.extend(data);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    bytes
}

fn file(name: &str, data: &str) -> Vec<u8> {
    entry(name.as_bytes(), EntryType::Regular, b"", data.as_bytes())
}

/// A good entry before and after, and the end.
fn around(bad: Vec<u8>) -> Vec<u8> {
    [file("before", "x"), bad, file("after", "x"), vec![0; 1024]].concat()
}

fn whole(entries: &[Vec<u8>]) -> Vec<u8> {
    [entries.concat(), vec![0; 1024]].concat()
}

fn gzip(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

fn start(path: &str, compression: Compression) -> ImportStart {
    ImportStart {
        path: path.into(),
        compression: compression.into(),
        max_bytes: 64 * MIB,
        max_entries: 1000,
        ..Default::default()
    }
}

/// In chunks that tear headers apart.
fn chunks(data: Vec<u8>) -> impl futures::Stream<Item = Result<Bytes>> + Send + 'static {
    let chunks: Vec<_> = data
        .chunks(1000)
        .map(|chunk| Ok(Bytes::copy_from_slice(chunk)))
        .collect();
    stream::iter(chunks)
}

async fn import(guest: &TestGuest, data: Vec<u8>) -> Result<ImportResponse> {
    let start = start(".", Compression::COMPRESSION_NONE);
    guest.client.import(start, chunks(data)).await
}

/// What the workspace has, but for the guest's own folder: nothing of an import may be left there.
fn tree(guest: &TestGuest) -> Vec<String> {
    let own = guest.workspace.path().join(".sandbox");
    if let Ok(entries) = fs::read_dir(own) {
        let left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| name == ".gitignore"), "{left:?}");
    }
    let mut found = Vec::new();
    let mut open = vec![guest.workspace.path().to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(guest.workspace.path()).unwrap();
            if name == Path::new(".sandbox") {
                continue;
            }
            found.push(name.to_str().unwrap().to_owned());
            if path.symlink_metadata().unwrap().is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(guest: &TestGuest, path: &str) -> String {
    fs::read_to_string(guest.workspace.path().join(path)).unwrap()
}

#[tokio::test]
async fn an_archive_is_unpacked_over_what_is_there() {
    let guest = TestGuest::start().await;
    let workspace = guest.workspace.path();
    fs::create_dir(workspace.join("d")).unwrap();
    fs::write(workspace.join("d/old"), "old").unwrap();
    fs::write(workspace.join("d/kept"), "kept").unwrap();
    fs::write(workspace.join("victim"), "victim").unwrap();
    symlink("victim", workspace.join("link")).unwrap();
    let mut script = header(EntryType::Regular, 3);
    script.set_path("./bin/run").unwrap();
    script.set_mode(0o4755);
    script.set_cksum();
    let mut script = script.as_bytes().to_vec();
    script.extend(b"run");
    script.resize(1024, 0);
    let data = whole(&[
        entry(b"./", EntryType::Directory, b"", b""),
        entry(b"d/", EntryType::Directory, b"", b""),
        file("d/old", "new"),
        file("d/twice", "first"),
        file("d/twice", "second"),
        entry(b"empty/", EntryType::Directory, b"", b""),
        script,
        entry(b"d/hard", EntryType::Link, b"d/twice", b""),
        entry(b"d/soft", EntryType::Symlink, b"../bin/run", b""),
        file("link", "mine"),
        file(".sandbox/planted", &"x".repeat(200_000)),
    ]);
    let done = import(&guest, data).await.unwrap();
    assert_eq!((done.written, done.bytes), (5, 3 + 5 + 6 + 3 + 4));
    assert_eq!(
        tree(&guest),
        [
            "bin", "bin/run", "d", "d/hard", "d/kept", "d/old", "d/soft", "d/twice", "empty",
            "link", "victim"
        ]
    );
    assert_eq!(read(&guest, "d/old"), "new");
    assert_eq!(read(&guest, "d/twice"), "second");
    assert_eq!(read(&guest, "d/hard"), "second");
    assert_eq!(read(&guest, "d/soft"), "run");
    // A link that was there is replaced, and what it led to is not written.
    assert_eq!(
        (read(&guest, "link"), read(&guest, "victim")),
        ("mine".into(), "victim".into())
    );
    let mode = fs::metadata(workspace.join("bin/run"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[tokio::test]
async fn what_could_do_harm_is_refused_whole() {
    let guest = TestGuest::start().await;
    fs::write(guest.workspace.path().join("before"), "mine").unwrap();
    let link = |name: &[u8], target: &[u8]| entry(name, EntryType::Symlink, target, b"");
    let sparse = {
        let mut builder = Builder::new(Vec::new());
        builder
            .append_pax_extensions([("GNU.sparse.major", b"1".as_slice())])
            .unwrap();
        let mut header = header(EntryType::Regular, 1);
        builder
            .append_data(&mut header, "sparse", b"x".as_slice())
            .unwrap();
        let mut bytes = builder.into_inner().unwrap();
        bytes.truncate(bytes.len() - 1024);
        bytes
    };
    let long_name = {
        // A GNU long name of a million bytes.
        let mut header = header(EntryType::GNULongName, 1_000_000);
        header.set_path("././@LongLink").unwrap();
        header.set_cksum();
        let mut bytes = header.as_bytes().to_vec();
        bytes.resize(512 + 1_000_000_usize.next_multiple_of(512), b'n');
        bytes
    };
    let hostile = [
        ("absolute", file("/etc/passwd", "x")),
        ("parent", file("../outside", "x")),
        ("parent within", file("a/../b", "x")),
        ("absolute link", link(b"l", b"/etc")),
        ("leaving link", link(b"l", b"..")),
        ("leaving link below", link(b"d/l", b"../../x")),
        (
            "link by a link",
            [link(b"d/up", b".."), link(b"l", b"d/up/../..")].concat(),
        ),
        (
            "through its link",
            [link(b"l", b"d"), file("l/x", "x")].concat(),
        ),
        (
            "link over its folder",
            [file("d/x", "x"), link(b"d", b"e")].concat(),
        ),
        (
            "file under its file",
            [file("f", "x"), file("f/x", "x")].concat(),
        ),
        (
            "folder over its file",
            [file("f", "x"), entry(b"f/", EntryType::Directory, b"", b"")].concat(),
        ),
        (
            "hard link outside",
            entry(b"h", EntryType::Link, b"/etc/passwd", b""),
        ),
        ("hard link up", entry(b"h", EntryType::Link, b"../x", b"")),
        (
            "hard link to what is not there",
            entry(b"h", EntryType::Link, b"nowhere", b""),
        ),
        (
            "hard link to a link",
            [link(b"l", b"x"), entry(b"h", EntryType::Link, b"l", b"")].concat(),
        ),
        ("fifo", entry(b"p", EntryType::Fifo, b"", b"")),
        ("device", entry(b"c", EntryType::Char, b"", b"")),
        ("disk", entry(b"b", EntryType::Block, b"", b"")),
        ("unknown", entry(b"z", EntryType::new(b'Z'), b"", b"")),
        ("old sparse", entry(b"s", EntryType::GNUSparse, b"", b"")),
        ("sparse", sparse),
        ("long name", long_name),
        ("no name", entry(b"./", EntryType::Regular, b"", b"x")),
        ("garbage", vec![b'x'; 512]),
        (
            "folder with content",
            entry(b"d/", EntryType::Directory, b"", b"x"),
        ),
    ];
    for (what, bad) in hostile {
        let error = import(&guest, around(bad)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArchive, "{what}: {error}");
        assert_eq!(tree(&guest), ["before"], "{what}");
        assert_eq!(read(&guest, "before"), "mine", "{what}");
    }
    // Cut short: in a header, in a file, before the end of what it says.
    let good = around(file("f", &"y".repeat(2000)));
    for length in [100, 700, 1600, 3000] {
        let error = import(&guest, good[..length].to_vec()).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArchive, "{length}: {error}");
        assert_eq!(tree(&guest), ["before"], "{length}");
    }
    assert_eq!(import(&guest, good).await.unwrap().written, 3);
}

#[tokio::test]
async fn a_bomb_stops_at_its_limit() {
    let guest = TestGuest::start().await;
    let mut bomb = header(EntryType::Regular, 1024 * MIB);
    bomb.set_path("zeros").unwrap();
    bomb.set_cksum();
    let zeros = vec![0; MIB as usize];
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut zst = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    for output in [&mut gz as &mut dyn std::io::Write, &mut zst] {
        output.write_all(bomb.as_bytes()).unwrap();
        for _ in 0..128 {
            output.write_all(&zeros).unwrap();
        }
    }
    for (packed, compression) in [
        (gz.finish().unwrap(), Compression::COMPRESSION_GZIP),
        (zst.finish().unwrap(), Compression::COMPRESSION_ZSTD),
    ] {
        assert!(packed.len() < MIB as usize);
        let error = guest
            .client
            .import(start(".", compression), chunks(packed))
            .await
            .unwrap_err();
        assert_eq!(error.code(), ErrorCode::TooLarge, "{error}");
        assert_eq!(tree(&guest), Vec::<String>::new());
    }
    // By many small files, and by many entries.
    let large: Vec<u8> = (0..70)
        .flat_map(|n| file(&format!("f{n}"), &"x".repeat(MIB as usize)))
        .collect();
    assert_eq!(
        import(&guest, large).await.unwrap_err().code(),
        ErrorCode::TooLarge
    );
    let many: Vec<u8> = (0..1001).flat_map(|n| file(&format!("f{n}"), "")).collect();
    assert_eq!(
        import(&guest, many).await.unwrap_err().code(),
        ErrorCode::TooLarge
    );
    assert_eq!(tree(&guest), Vec::<String>::new());
    // What is packed and never ends.
    let endless = gzip(&[file("f", "x"), vec![0; 1024], vec![7; 32 << 20]].concat());
    let done = guest
        .client
        .import(start(".", Compression::COMPRESSION_GZIP), chunks(endless))
        .await
        .unwrap();
    assert_eq!(done.written, 1);
}

#[tokio::test]
async fn what_is_in_the_way_refuses_all_of_it() {
    let guest = TestGuest::start().await;
    let workspace = guest.workspace.path();
    fs::create_dir_all(workspace.join("folder/sub")).unwrap();
    fs::write(workspace.join("file"), "mine").unwrap();
    symlink("folder", workspace.join("link")).unwrap();
    let before = tree(&guest);
    for (entries, code) in [
        (
            vec![file("a", "x"), file("folder", "x")],
            ErrorCode::IsADirectory,
        ),
        (
            vec![file("a", "x"), file("file/x", "x")],
            ErrorCode::NotADirectory,
        ),
        (
            vec![file("a", "x"), file("link/x", "x")],
            ErrorCode::NotADirectory,
        ),
        (
            vec![
                file("a", "x"),
                entry(b"file", EntryType::Directory, b"", b""),
            ],
            ErrorCode::NotADirectory,
        ),
    ] {
        let error = import(&guest, whole(&entries)).await.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(tree(&guest), before);
    }
    assert_eq!(read(&guest, "file"), "mine");
    for (path, code) in [
        ("file", ErrorCode::NotADirectory),
        ("../x", ErrorCode::InvalidPath),
        ("/etc", ErrorCode::InvalidPath),
        (".sandbox", ErrorCode::InvalidPath),
        (".sandbox/output", ErrorCode::InvalidPath),
    ] {
        let start = start(path, Compression::COMPRESSION_NONE);
        let data = chunks(whole(&[file("a", "x")]));
        let error = guest.client.import(start, data).await.unwrap_err();
        assert_eq!(error.code(), code, "{path}: {error}");
    }
    assert_eq!(tree(&guest), before);
    let start = start("new/folder", Compression::COMPRESSION_NONE);
    guest
        .client
        .import(start, chunks(whole(&[file("a", "x")])))
        .await
        .unwrap();
    assert_eq!(read(&guest, "new/folder/a"), "x");
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing() {
    let guest = TestGuest::start().await;
    let half = file("f", &"x".repeat(100_000))[..50_000].to_vec();
    let gone = chunks(half.clone()).chain(stream::once(async {
        Err(Error::new(ErrorCode::RequestTimeout, "too slow"))
    }));
    let error = guest
        .client
        .import(start(".", Compression::COMPRESSION_NONE), gone)
        .await
        .unwrap_err();
    assert_eq!(
        (error.code(), error.detail()),
        (ErrorCode::RequestTimeout, "too slow")
    );
    let waiting = chunks(half).chain(stream::pending());
    let call = guest
        .client
        .import(start(".", Compression::COMPRESSION_NONE), waiting);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), call)
            .await
            .is_err()
    );
    support::until("nothing is left", || {
        fs::read_dir(guest.workspace.path().join(".sandbox"))
            .unwrap()
            .count()
            == 1
    })
    .await;
    assert_eq!(tree(&guest), Vec::<String>::new());
    // More at a time than there are places for.
    let stuck: Vec<_> = (0..4)
        .map(|_| {
            let client = guest.client.clone();
            tokio::spawn(async move {
                let start = start(".", Compression::COMPRESSION_NONE);
                client.import(start, stream::pending()).await
            })
        })
        .collect();
    let busy = loop {
        let result = import(&guest, whole(&[file("a", "x")])).await;
        if let Err(error) = result {
            break error;
        }
    };
    assert_eq!(busy.code(), ErrorCode::SandboxExhausted, "{busy}");
    stuck.iter().for_each(|task| task.abort());
}

async fn export(guest: &TestGuest, path: &str, compression: Compression) -> Result<Vec<u8>> {
    let request = ExportRequest {
        path: path.into(),
        compression: compression.into(),
        ..Default::default()
    };
    let mut stream = guest.client.export(request).await?;
    let mut all = Vec::new();
    while let Some(part) = stream.next().await? {
        all.extend_from_slice(&part);
    }
    Ok(all)
}

fn names(data: impl Read) -> Vec<String> {
    let mut archive = Archive::new(data);
    archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect()
}

#[tokio::test]
async fn what_goes_out_comes_back_as_it_was() {
    let guest = TestGuest::start().await;
    let made = guest
        .bash(
            "mkdir -p a/b empty; echo hi > a/b/f; printf '\\0\\1' > bin; chmod 750 bin; \
             ln -s b/f a/link; ln -s /etc/passwd out; mkfifo fifo; \
             n=$(printf 'x%.0s' {1..120}); mkdir -p $n/$n; echo deep > $n/$n/ä; \
             head -c 3000000 /dev/urandom > big",
        )
        .await;
    assert_eq!(made.exit_code, 0, "{}", made.stderr.to_text());
    let before = tree(&guest);
    let plain = export(&guest, ".", Compression::COMPRESSION_NONE)
        .await
        .unwrap();
    let mut packed = names(plain.as_slice());
    packed.sort();
    let kept = |name: &&String| *name != "fifo";
    assert_eq!(
        packed,
        before.iter().filter(kept).cloned().collect::<Vec<_>>()
    );
    let gz = export(&guest, ".", Compression::COMPRESSION_GZIP)
        .await
        .unwrap();
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(gz.as_slice())
        .read_to_end(&mut unpacked)
        .unwrap();
    assert_eq!(unpacked, plain);
    let zst = export(&guest, ".", Compression::COMPRESSION_ZSTD)
        .await
        .unwrap();
    assert_eq!(zstd::stream::decode_all(zst.as_slice()).unwrap(), plain);

    // The link that leaves is the program's own; into another sandbox it does not come.
    let other = TestGuest::start().await;
    let error = other
        .client
        .import(start(".", Compression::COMPRESSION_ZSTD), chunks(zst))
        .await
        .unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArchive);
    fs::remove_file(guest.workspace.path().join("out")).unwrap();
    let gz = export(&guest, ".", Compression::COMPRESSION_GZIP)
        .await
        .unwrap();
    other
        .client
        .import(start(".", Compression::COMPRESSION_GZIP), chunks(gz))
        .await
        .unwrap();
    let kept: Vec<_> = before
        .into_iter()
        .filter(|name| name != "out" && name != "fifo")
        .collect();
    assert_eq!(tree(&other), kept);
    for path in ["big", "bin", "a/b/f"] {
        let bytes = |guest: &TestGuest| fs::read(guest.workspace.path().join(path)).unwrap();
        assert_eq!(bytes(&guest), bytes(&other), "{path}");
    }
    let mode = fs::metadata(other.workspace.path().join("bin"))
        .unwrap()
        .mode();
    assert_eq!(mode & 0o777, 0o750);
    assert_eq!(read(&other, "a/link"), "hi\n");
}

#[tokio::test]
async fn one_file_goes_out_alone_and_what_cannot_go_is_said() {
    let guest = TestGuest::start().await;
    fs::create_dir(guest.workspace.path().join("d")).unwrap();
    fs::write(guest.workspace.path().join("d/f"), "text").unwrap();
    symlink("d/f", guest.workspace.path().join("link")).unwrap();
    symlink("/proc/self", guest.workspace.path().join("proc")).unwrap();
    for (path, name) in [("d/f", "f"), ("link", "link")] {
        let data = export(&guest, path, Compression::COMPRESSION_NONE)
            .await
            .unwrap();
        assert_eq!(names(data.as_slice()), [name]);
    }
    assert_eq!(
        names(
            export(&guest, "d", Compression::COMPRESSION_NONE)
                .await
                .unwrap()
                .as_slice()
        ),
        ["f"]
    );
    for (path, code) in [
        ("missing", ErrorCode::NotFound),
        ("..", ErrorCode::InvalidPath),
        ("proc", ErrorCode::NotARegularFile),
        ("/dev/null", ErrorCode::InvalidPath),
    ] {
        let error = export(&guest, path, Compression::COMPRESSION_NONE)
            .await
            .unwrap_err();
        assert_eq!(error.code(), code, "{path}: {error}");
    }
}
