//! What the workspace takes of its disk, and what a program may do about the count.

mod support;

use std::os::unix::fs::symlink;

use guest_client::messages::{UsageRequest, UsageResponse};
use support::TestGuest;

const BIG: u64 = 3_000_000;

async fn usage(guest: &TestGuest) -> UsageResponse {
    let request = UsageRequest::default();
    guest.client.usage(request).await.expect("the guest counts")
}

#[tokio::test]
async fn every_file_counts_once_and_a_link_for_itself() {
    let guest = TestGuest::start().await;
    symlink("/", guest.workspace.path().join("root")).expect("a link");
    let made = guest
        .bash(&format!(
            "mkdir -p a/b && head -c {BIG} /dev/zero > a/b/data && ln a/b/data again"
        ))
        .await;
    assert_eq!(made.exit_code, 0, "{made:?}");
    let used = usage(&guest).await;
    assert!(used.complete);
    assert!((BIG..BIG + 300_000).contains(&used.disk_bytes), "{used:?}");
}

#[tokio::test]
async fn what_lies_too_deep_for_a_path_is_not_passed_over_in_silence() {
    let guest = TestGuest::start().await;
    let made = guest
        .bash(&format!(
            "n=$(printf 'd%.0s' {{1..200}}); for i in {{1..30}}; do mkdir $n && cd -P ./$n || exit 1; \
             done; head -c {BIG} /dev/zero > data"
        ))
        .await;
    assert_eq!(made.exit_code, 0, "{made:?}");
    assert!(!usage(&guest).await.complete);
}
