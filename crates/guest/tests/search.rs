//! Search, and what a workspace can be made to hold against it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::{
    ffi::OsStr,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
    path::Path,
    time::Duration,
};

use guest_client::messages::{GlobRequest, GlobResponse, GrepOutput, GrepRequest, GrepResponse};
use rustix::fs::{CWD, FileType, Mode};
use sandbox_core::{Error, ErrorCode, Result};
use support::TestGuest;

fn code<T>(result: Result<T>) -> ErrorCode {
    result.err().as_ref().map(Error::code).expect("an error")
}

fn pattern(pattern: &str) -> GrepRequest {
    GrepRequest {
        pattern: pattern.into(),
        path: ".".into(),
        max_matches: 1000,
        timeout_ms: 20_000,
        max_bytes: 1 << 20,
        ..Default::default()
    }
}

async fn grep(guest: &TestGuest, request: GrepRequest) -> Result<GrepResponse> {
    tokio::time::timeout(Duration::from_secs(15), guest.client.grep(request))
        .await
        .expect("the guest answers")
}

/// `path:line:column:text` of each match.
fn lines(found: &GrepResponse) -> Vec<String> {
    found
        .matches
        .iter()
        .map(|m| format!("{}:{}:{}:{}", m.path, m.line, m.column, m.text))
        .collect()
}

async fn grep_lines(guest: &TestGuest, request: GrepRequest) -> Vec<String> {
    lines(&grep(guest, request).await.unwrap())
}

fn files(pattern: &str) -> GlobRequest {
    GlobRequest {
        pattern: pattern.into(),
        path: ".".into(),
        max_results: 1000,
        timeout_ms: 20_000,
        ..Default::default()
    }
}

async fn glob(guest: &TestGuest, request: GlobRequest) -> Result<GlobResponse> {
    tokio::time::timeout(Duration::from_secs(15), guest.client.glob(request))
        .await
        .expect("the guest answers")
}

fn put(dir: &Path, path: &str, content: impl AsRef<[u8]>) {
    let file = dir.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

#[tokio::test]
async fn matches_come_in_the_order_of_paths_with_their_place() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    put(dir, "b.txt", "nothing\nä x\r\n");
    put(dir, "a/z.txt", "x\n");
    put(dir, "a.txt", "axa");
    put(dir, ".hidden", "x");
    put(dir, "binary", "x\n\0");
    put(dir, "latin", b"\xe9\xe9x\n");
    assert_eq!(
        grep_lines(&guest, pattern("x")).await,
        [
            "a/z.txt:1:1:x",
            "a.txt:1:2:axa",
            "b.txt:2:3:ä x",
            "latin:1:3:\u{fffd}\u{fffd}x"
        ]
    );
    let hidden = GrepRequest {
        hidden: true,
        glob: ".*".into(),
        ..pattern("X")
    };
    assert_eq!(grep_lines(&guest, hidden.clone()).await, [] as [&str; 0]);
    let hidden = GrepRequest {
        ignore_case: true,
        ..hidden
    };
    assert_eq!(grep_lines(&guest, hidden).await, [".hidden:1:1:x"]);
    let below = GrepRequest {
        path: "/workspace/a".into(),
        ..pattern("x")
    };
    assert_eq!(grep_lines(&guest, below).await, ["a/z.txt:1:1:x"]);
    let but = GrepRequest {
        glob: "!*.txt".into(),
        ..pattern("x")
    };
    assert_eq!(grep_lines(&guest, but).await.len(), 1);
    let file = GrepRequest {
        path: "b.txt".into(),
        glob: "*.py".into(),
        ..pattern("x")
    };
    assert_eq!(grep_lines(&guest, file).await, ["b.txt:2:3:ä x"]);
}

#[tokio::test]
async fn patterns_are_never_options_and_bad_ones_are_refused() {
    let guest = TestGuest::start().await;
    put(guest.workspace.path(), "f", "--pre=x\n(a|b)\nfoo(\nbar\n");
    assert_eq!(
        grep_lines(&guest, pattern("--pre=x")).await,
        ["f:1:1:--pre=x"]
    );
    assert_eq!(grep_lines(&guest, pattern("-e")).await, [] as [&str; 0]);
    let literal = GrepRequest {
        literal: true,
        ..pattern("(a|b)")
    };
    assert_eq!(grep_lines(&guest, literal).await, ["f:2:1:(a|b)"]);
    let multiline = GrepRequest {
        multiline: true,
        ..pattern(r"foo\(\nbar")
    };
    assert_eq!(grep_lines(&guest, multiline).await, ["f:3:1:foo(\nbar"]);
    for bad in [
        "(",
        "a{99999999}",
        "((a{1000}){1000}){1000}",
        "[",
        &"(".repeat(60_000),
        &"a".repeat(65_537),
    ] {
        assert_eq!(
            code(grep(&guest, pattern(bad)).await),
            ErrorCode::InvalidPattern,
            "{bad:.20}"
        );
    }
    for bad in [
        "[",
        &"{".repeat(60_000),
        &"{a,".repeat(20_000),
        "{a",
        &"[a-z]".repeat(60_000),
    ] {
        let filter = GrepRequest {
            glob: bad.into(),
            ..pattern("x")
        };
        assert_eq!(
            code(grep(&guest, filter).await),
            ErrorCode::InvalidPattern,
            "{bad:.20}"
        );
        assert_eq!(
            code(glob(&guest, files(bad)).await),
            ErrorCode::InvalidPattern,
            "{bad:.20}"
        );
    }
    let deep = format!("{}a{}", "{".repeat(20_000), "}".repeat(20_000));
    assert_eq!(
        code(glob(&guest, files(&deep)).await),
        ErrorCode::InvalidPattern
    );
    assert_eq!(
        code(glob(&guest, files("")).await),
        ErrorCode::InvalidPattern
    );
    assert_eq!(grep_lines(&guest, pattern("bar")).await, ["f:4:1:bar"]);
}

#[tokio::test]
async fn context_and_counts_are_given_as_asked() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    put(dir, "f", "1\n2\nx3\n4\nx5\n6\n7\n");
    put(dir, "g", "x\n");
    let found = grep(
        &guest,
        GrepRequest {
            before: 1,
            after: 1,
            path: "f".into(),
            ..pattern("x")
        },
    )
    .await
    .unwrap();
    let contexts: Vec<_> = found
        .matches
        .iter()
        .map(|m| (m.before.clone(), m.text.as_str(), m.after.clone()))
        .collect();
    assert_eq!(
        contexts,
        [
            (vec!["2".to_owned()], "x3", vec!["4".to_owned()]),
            (vec![], "x5", vec!["6".to_owned()]),
        ]
    );
    let many = GrepRequest {
        before: u32::MAX,
        after: u32::MAX,
        path: "f".into(),
        ..pattern("4")
    };
    let found = grep(&guest, many).await.unwrap();
    assert_eq!(
        (found.matches[0].before.len(), found.matches[0].after.len()),
        (3, 3)
    );
    for (output, expected) in [
        (GrepOutput::GREP_OUTPUT_COUNT, [("f", 2), ("g", 1)]),
        (GrepOutput::GREP_OUTPUT_FILES, [("f", 1), ("g", 1)]),
    ] {
        let found = grep(
            &guest,
            GrepRequest {
                output: output.into(),
                ..pattern("x")
            },
        )
        .await
        .unwrap();
        let counts: Vec<_> = found
            .files
            .iter()
            .map(|f| (f.path.as_str(), f.count))
            .collect();
        assert_eq!(
            (counts.as_slice(), found.matches.len(), found.truncated),
            (&expected[..], 0, false)
        );
        let one = GrepRequest {
            output: output.into(),
            max_matches: 1,
            ..pattern("x")
        };
        let found = grep(&guest, one).await.unwrap();
        assert_eq!((found.files.len(), found.truncated), (1, true));
    }
}

#[tokio::test]
async fn an_answer_is_cut_where_it_was_told() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    put(dir, "f", "x\n".repeat(10));
    for (max, truncated) in [(9, true), (10, false)] {
        let found = grep(
            &guest,
            GrepRequest {
                max_matches: max,
                ..pattern("x")
            },
        )
        .await
        .unwrap();
        assert_eq!(
            (found.matches.len(), found.truncated),
            (max as usize, truncated)
        );
    }
    put(
        dir,
        "long",
        format!("{}y{}", "é".repeat(1999), "é".repeat(5000)),
    );
    let found = grep(&guest, pattern("y")).await.unwrap();
    assert_eq!(found.matches[0].column, 2000);
    assert_eq!(found.matches[0].text, format!("{}y…", "é".repeat(1999)));
    put(dir, "many", "many words\n".repeat(100_000));
    let small = GrepRequest {
        max_bytes: 10_000,
        max_matches: u32::MAX,
        ..pattern("many")
    };
    let found = grep(&guest, small).await.unwrap();
    let bytes: usize = found
        .matches
        .iter()
        .map(|m| m.path.len() + m.text.len())
        .sum();
    assert!(
        found.truncated && bytes <= 10_000 && found.matches.len() > 50,
        "{bytes}"
    );
}

#[tokio::test]
async fn ignore_files_have_their_say_also_outside_a_repository() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    put(dir, ".gitignore", "# comment\n*.log\n/build/\n!keep.log\n");
    put(dir, "sub/.gitignore", "!b.log\nmine\n");
    put(dir, "sub/.ignore", "b.log\n!c.log\n");
    for path in [
        "a.log",
        "keep.log",
        "build/x",
        "sub/build/x",
        "sub/b.log",
        "sub/c.log",
        "sub/mine",
        "mine",
    ] {
        put(dir, path, "x");
    }
    let paths = async |request| {
        let found = grep(&guest, request).await.unwrap();
        found
            .matches
            .into_iter()
            .map(|m| m.path)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        paths(pattern("x")).await,
        ["keep.log", "mine", "sub/build/x", "sub/c.log"]
    );
    // The files above the folder that is searched count as well.
    let below = GrepRequest {
        path: "sub".into(),
        ..pattern("x")
    };
    assert_eq!(paths(below).await, ["sub/build/x", "sub/c.log"]);
    let named = GrepRequest {
        path: "a.log".into(),
        ..pattern("x")
    };
    assert_eq!(paths(named).await, ["a.log"]);
    let all = GrepRequest {
        no_ignore: true,
        ..pattern("x")
    };
    assert_eq!(paths(all).await.len(), 8);
}

#[tokio::test]
async fn an_ignore_file_can_be_anything() {
    for kind in [
        "fifo", "zero", "dir", "loop", "huge", "deep", "latin", "costly",
    ] {
        let guest = TestGuest::start().await;
        let dir = guest.workspace.path();
        put(dir, "f", "x");
        for file in [".gitignore", ".ignore", ".git"] {
            let file = dir.join(file);
            match kind {
                "fifo" => rustix::fs::mknodat(CWD, file, FileType::Fifo, Mode::RWXU, 0).unwrap(),
                "zero" => symlink("/dev/zero", file).unwrap(),
                "dir" => fs::create_dir(file).unwrap(),
                "loop" => symlink(&file, &file).unwrap(),
                "huge" => fs::write(file, "a*b*c?d\n".repeat(4 << 20)).unwrap(),
                "deep" => {
                    fs::write(file, "{".repeat(1 << 20) + "a" + &"}".repeat(1 << 20)).unwrap()
                }
                "latin" => fs::write(file, b"\xff\n\0\n[\n").unwrap(),
                _ => fs::write(file, "**/[a-z]*[!b-y]*?x{a,b,c}*\n".repeat(8000)).unwrap(),
            }
        }
        assert_eq!(
            grep_lines(&guest, pattern("x")).await,
            ["f:1:1:x"],
            "{kind}"
        );
        assert_eq!(
            glob(&guest, files("*")).await.unwrap().paths,
            ["f"],
            "{kind}"
        );
    }
}

#[tokio::test]
async fn only_regular_files_are_searched_and_no_link_is_followed() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    put(dir, "d/f", "x");
    put(dir, "ä\n-", "x");
    fs::write(dir.join(OsStr::from_bytes(b"\xff")), "x").unwrap();
    rustix::fs::mknodat(CWD, dir.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    for (link, target) in [
        ("zero", "/dev/zero"),
        ("loop", "loop"),
        ("etc", "/etc"),
        ("up", ".."),
        ("to-d", "d"),
        ("to-f", "d/f"),
        ("self", "/proc/self"),
    ] {
        symlink(target, dir.join(link)).unwrap();
    }
    let found = grep(&guest, pattern("x")).await.unwrap();
    assert_eq!(lines(&found), ["d/f:1:1:x", "ä\n-:1:1:x", "\u{fffd}:1:1:x"]);
    assert!(!found.truncated);
    // A link that is named is another thing.
    for (path, expected) in [("to-f", "to-f:1:1:x"), ("to-d", "to-d/f:1:1:x")] {
        assert_eq!(
            grep_lines(
                &guest,
                GrepRequest {
                    path: path.into(),
                    ..pattern("x")
                }
            )
            .await,
            [expected]
        );
    }
    for (path, expected) in [
        ("fifo", ErrorCode::NotARegularFile),
        ("zero", ErrorCode::NotARegularFile),
        ("self", ErrorCode::NotARegularFile),
        ("loop", ErrorCode::InvalidPath),
        ("none", ErrorCode::NotFound),
        ("../x", ErrorCode::InvalidPath),
    ] {
        assert_eq!(
            code(
                grep(
                    &guest,
                    GrepRequest {
                        path: path.into(),
                        ..pattern("x")
                    }
                )
                .await
            ),
            expected,
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_search_ends_when_its_time_is_up() {
    let guest = TestGuest::start().await;
    // One file, and no match in it that could end the search.
    let file = fs::File::create(guest.workspace.path().join("f")).unwrap();
    let chunk = "some words and no match\n".repeat(50_000);
    let mut file = std::io::BufWriter::new(file);
    for _ in 0..400 {
        std::io::Write::write_all(&mut file, chunk.as_bytes()).unwrap();
    }
    drop(file);
    let slow = GrepRequest {
        timeout_ms: 1,
        ..pattern("[a-z]+q$")
    };
    let found = grep(&guest, slow).await.unwrap();
    assert_eq!(
        (found.matches.len(), found.truncated, found.timed_out),
        (0, true, true)
    );
    let found = glob(
        &guest,
        GlobRequest {
            timeout_ms: 0,
            ..files("*")
        },
    )
    .await
    .unwrap();
    assert_eq!((found.paths.len(), found.truncated), (0, true));
}

#[tokio::test]
async fn a_line_beyond_all_bounds_is_not_passed_over_in_silence() {
    let guest = TestGuest::start().await;
    put(guest.workspace.path(), "long", "y".repeat(40 << 20) + "x");
    put(guest.workspace.path(), "z", "x");
    let found = grep(&guest, pattern("x")).await.unwrap();
    assert_eq!(
        (lines(&found), found.truncated),
        (vec!["z:1:1:x".to_owned()], true)
    );
}

#[tokio::test]
async fn a_tree_of_any_depth_is_searched_as_far_as_paths_go() {
    let guest = TestGuest::start().await;
    put(guest.workspace.path(), "z", "x");
    let mut dir = std::os::fd::OwnedFd::from(fs::File::open(guest.workspace.path()).unwrap());
    for _ in 0..5000 {
        rustix::fs::mkdirat(&dir, "d", Mode::RWXU).unwrap();
        dir = rustix::fs::openat(&dir, "d", rustix::fs::OFlags::DIRECTORY, Mode::empty()).unwrap();
    }
    assert_eq!(grep_lines(&guest, pattern("x")).await, ["z:1:1:x"]);
    assert_eq!(glob(&guest, files("**/*")).await.unwrap().paths, ["z"]);
}

#[tokio::test]
async fn glob_lists_the_newest_first_with_a_shells_rules() {
    let guest = TestGuest::start().await;
    let dir = guest.workspace.path();
    for (age, path) in [
        "a.py",
        "d/b.py",
        "d/e/c.py",
        "x.txt",
        ".h.py",
        "d/.h/i.py",
        "-f.py",
    ]
    .iter()
    .enumerate()
    {
        put(dir, path, "");
        let time = std::time::SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age as u64);
        fs::File::options()
            .write(true)
            .open(dir.join(path))
            .unwrap()
            .set_modified(time)
            .unwrap();
    }
    put(dir, ".gitignore", "*.py");
    symlink("nowhere.py", dir.join("link.py")).unwrap();
    for (pattern, expected) in [
        ("*.py", vec!["link.py", "a.py", "-f.py"]),
        ("./*.txt", vec!["x.txt"]),
        (
            "**/*.py",
            vec!["link.py", "a.py", "d/b.py", "d/e/c.py", "-f.py"],
        ),
        ("d/*.py", vec!["d/b.py"]),
        ("d/**", vec!["d/b.py", "d/e/c.py"]),
        ("{a,d/b}.py", vec!["a.py", "d/b.py"]),
        ("[!a].*", vec!["x.txt"]),
        ("-*", vec!["-f.py"]),
        ("../*", vec![]),
    ] {
        let found = glob(&guest, files(pattern)).await.unwrap();
        assert_eq!(
            (found.paths, found.truncated),
            (expected.iter().map(|p| (*p).to_owned()).collect(), false),
            "{pattern}"
        );
    }
    let found = glob(
        &guest,
        GlobRequest {
            max_results: 2,
            ..files("**/*.py")
        },
    )
    .await
    .unwrap();
    assert_eq!(
        (found.paths, found.truncated),
        (vec!["link.py".into(), "a.py".into()], true)
    );
    let found = glob(
        &guest,
        GlobRequest {
            path: "d".into(),
            hidden: true,
            ..files("**/*.py")
        },
    )
    .await
    .unwrap();
    assert_eq!(found.paths, ["d/b.py", "d/e/c.py", "d/.h/i.py"]);
    assert_eq!(
        code(
            glob(
                &guest,
                GlobRequest {
                    path: "a.py".into(),
                    ..files("*")
                }
            )
            .await
        ),
        ErrorCode::NotADirectory
    );
    assert_eq!(
        code(
            glob(
                &guest,
                GlobRequest {
                    path: "none".into(),
                    ..files("*")
                }
            )
            .await
        ),
        ErrorCode::NotFound
    );
}
