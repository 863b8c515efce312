//! Files and search, which the guest does inside.

use guest_client::messages::{
    EditRequest, GlobRequest, GrepRequest, ListEntriesRequest, RemoveEntryRequest, RenameRequest,
};
use sandbox_core::ErrorCode;

use super::cases;
use crate::bed::{Bed, code};

cases! {
    whole: "a file comes back as it was written, whatever is in it";
    seen_by_programs: "programs and calls see the same files, and both may change them";
    paths: "a path that leaves the workspace is refused";
    links: "a link leads to nothing outside of the sandbox";
    special: "what is no regular file is refused, and nothing waits for it";
    changes: "files are edited, moved, listed and removed";
    search: "files are found by content and by name";
}

async fn whole(bed: Bed) {
    let sandbox = bed.start().await;
    let data: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7) as u8).collect();
    sandbox.write("deep/in/a b/ä.bin", &data).await.unwrap();
    assert_eq!(sandbox.read("deep/in/a b/ä.bin").await.unwrap(), data);
    sandbox.write("empty", b"").await.unwrap();
    assert_eq!(sandbox.read("/workspace/empty").await.unwrap(), b"");
    let none = sandbox.read("none").await;
    assert_eq!(code(none), ErrorCode::NotFound.as_str());
}

async fn seen_by_programs(bed: Bed) {
    let sandbox = bed.start().await;
    sandbox.write("by_call", b"one").await.unwrap();
    let said = sandbox
        .says("cat by_call; printf two > by_program; printf + >> by_call")
        .await;
    assert_eq!(said, "one");
    assert_eq!(sandbox.read("by_program").await.unwrap(), b"two");
    assert_eq!(sandbox.read("by_call").await.unwrap(), b"one+");
    sandbox.write("by_program", b"three").await.unwrap();
    assert_eq!(sandbox.says("cat by_program").await, "three");
}

async fn paths(bed: Bed) {
    let sandbox = bed.start().await;
    for path in [
        "../x",
        "/etc/passwd",
        "a/../../x",
        "a\0b",
        "/workspace/../etc/passwd",
    ] {
        let read = sandbox.read(path).await;
        assert_eq!(code(read), ErrorCode::InvalidPath.as_str(), "{path:?}");
        let written = sandbox.write(path, b"x").await;
        assert_eq!(code(written), ErrorCode::InvalidPath.as_str(), "{path:?}");
    }
}

async fn links(bed: Bed) {
    let sandbox = bed.start().await;
    sandbox
        .says("ln -s /proc/1/environ environ; ln -s /etc/shadow shadow; ln -s / root; ln -s none dangling")
        .await;
    for path in [
        "environ",
        "shadow",
        "root/etc/shadow",
        "root/proc/1/environ",
        "dangling",
    ] {
        let read = sandbox.read(path).await;
        assert!(read.is_err(), "{path}");
    }
    // The sandbox's own system is no secret, and not to be written.
    let written = sandbox.write("root/usr/x", b"x").await;
    assert!(written.is_err());
}

async fn special(bed: Bed) {
    let sandbox = bed.start().await;
    sandbox
        .says("mkfifo fifo; ln -s /dev/zero zero; mkdir folder")
        .await;
    for path in ["fifo", "zero"] {
        let read = sandbox.read(path).await;
        assert_eq!(code(read), ErrorCode::NotARegularFile.as_str(), "{path}");
    }
    assert!(sandbox.read("folder").await.is_err());
}

async fn changes(bed: Bed) {
    let sandbox = bed.start().await;
    let guest = sandbox.guest();
    sandbox.write("a/f", b"one two").await.unwrap();
    let edit = EditRequest {
        path: "a/f".into(),
        old_string: "two".into(),
        new_string: "three".into(),
        ..Default::default()
    };
    assert_eq!(guest.edit(edit).await.unwrap().replacements, 1);
    let rename = RenameRequest {
        source: "a/f".into(),
        destination: "b/g".into(),
        ..Default::default()
    };
    // Its folder must be there.
    sandbox.says("mkdir b").await;
    guest.rename(rename).await.unwrap();
    assert_eq!(sandbox.read("b/g").await.unwrap(), b"one three");
    let list = ListEntriesRequest {
        path: "b".into(),
        max_entries: 10,
        ..Default::default()
    };
    let listed = guest.list(list).await.unwrap();
    assert_eq!(listed.entries.len(), 1);
    assert_eq!(
        (
            listed.entries[0].name.as_str(),
            listed.entries[0].size_bytes
        ),
        ("g", 9)
    );
    let remove = RemoveEntryRequest {
        path: "b".into(),
        recursive: true,
        ..Default::default()
    };
    guest.remove(remove).await.unwrap();
    assert!(sandbox.read("b/g").await.is_err());
}

async fn search(bed: Bed) {
    let sandbox = bed.start().await;
    sandbox
        .write("src/a.py", b"x = 1\nneedle = 2\n")
        .await
        .unwrap();
    sandbox.write("src/b.txt", b"no\n").await.unwrap();
    sandbox.write("skipped/c.py", b"needle\n").await.unwrap();
    sandbox.write(".gitignore", b"skipped\n").await.unwrap();
    let grep = GrepRequest {
        pattern: "need.e".into(),
        path: ".".into(),
        max_matches: 10,
        timeout_ms: 5000,
        max_bytes: 1 << 20,
        ..Default::default()
    };
    let found = sandbox.guest().grep(grep).await.unwrap();
    let places: Vec<_> = found
        .matches
        .iter()
        .map(|it| (it.path.as_str(), it.line))
        .collect();
    assert_eq!(places, [("src/a.py", 2)]);
    let glob = GlobRequest {
        pattern: "**/*.py".into(),
        path: ".".into(),
        max_results: 10,
        timeout_ms: 5000,
        ..Default::default()
    };
    let found = sandbox.guest().glob(glob).await.unwrap();
    assert!(
        found.paths.contains(&"src/a.py".to_owned()),
        "{:?}",
        found.paths
    );
}
