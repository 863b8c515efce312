//! A context whose interpreter was forked cannot be told from one that was started.

use crate::{
    guest::{TestGuest, started},
    support::{ended, python, wish},
};

const CELLS: &str = include_str!("same.py");

/// What can be seen of each cell of the context `main`, in words.
async fn seen(guest: &guest_client::GuestClient, first: &str) -> (Vec<String>, bool) {
    let run =
        async |code: &str| ended(guest.run(wish(&python(), "main", code)).await.unwrap()).await;
    let mut seen = Vec::new();
    let mut is_forked = true;
    run(first).await;
    for cell in CELLS.split("\n#: ").skip(1) {
        let (name, code) = cell.split_once('\n').unwrap();
        let ran = run(code).await;
        is_forked &= ran.outcome.warm;
        let results: Vec<_> = ran.results.iter().collect();
        let error = ran.outcome.raised.as_ref();
        let error = error.map(|it| (&it.name, &it.value, &it.traceback));
        seen.push(format!(
            "{name}: {:?}\n{}\n--\n{}\n{results:?} {:?} {error:?}",
            (ran.outcome.exit_code, ran.loss()),
            ran.stdout(),
            ran.stderr(),
            ran.main_result,
        ));
    }
    (seen, is_forked)
}

/// Without what differs between any two guests.
fn plain(text: &str, workspace: &std::path::Path) -> String {
    let text = text.replace(workspace.to_str().unwrap(), "W");
    let words = text.split_inclusive(['\'', '"', ' ', '\n']);
    let hide = |word: &str| {
        let mut word = word.to_owned();
        for (mark, is_part) in [
            ("/tmp/.tmp", char::is_alphanumeric as fn(char) -> bool),
            (".sandbox-python-", |c| c.is_ascii_hexdigit()),
            ("0x", |c| c.is_ascii_hexdigit()),
        ] {
            if let Some((before, after)) = word.split_once(mark) {
                word = format!("{before}{mark}{}", after.trim_start_matches(is_part));
            }
        }
        word
    };
    words.map(hide).collect()
}

/// The lines that differ, below the name of their cell.
fn differing(expected: &str, found: &str) -> Option<String> {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (expected, found) = (lines(expected), lines(found));
    if expected == found {
        return None;
    }
    let only = |these: &[String], those: &[String], mark: &str| {
        let lines = these.iter().filter(|line| !those.contains(line));
        lines
            .map(|line| format!("{mark} {line}\n"))
            .collect::<String>()
    };
    let (started, forked) = (only(&expected, &found, "-"), only(&found, &expected, "+"));
    if started.is_empty() && forked.is_empty() {
        return Some(format!("===== {expected:#?}\n===== forked {found:#?}"));
    }
    Some(format!("===== {}\n{started}{forked}", expected[0]))
}

#[tokio::test]
async fn what_it_shows_is_the_same() {
    let (cold, warm) = (started().await, TestGuest::start().await);
    let mut differ = Vec::new();
    for first in ["0", "import numpy"] {
        let (expected, was_forked) = seen(&cold.client, first).await;
        assert!(!was_forked);
        let (found, was_forked) = seen(&warm.client, first).await;
        assert!(was_forked);
        assert_eq!(expected.len(), found.len());
        for (expected, found) in expected.iter().zip(&found) {
            let expected = plain(expected, cold.workspace.path());
            let found = plain(found, warm.workspace.path());
            differ.extend(differing(&expected, &found));
        }
        for guest in [&cold.client, &warm.client] {
            guest
                .delete_context(&"main".parse().unwrap())
                .await
                .unwrap();
        }
        for guest in [cold.workspace.path(), warm.workspace.path()] {
            std::fs::remove_file(guest.join("beside.py")).unwrap();
        }
    }
    assert!(
        differ.is_empty(),
        "{}:\n{}",
        differ.len(),
        differ.join("\n")
    );
}
