//! Records of what goes on.

use std::{sync::Arc, time::Duration};

use sandbox_audit::{Audit, AuditSettings, DISCONNECTED, DONE, Pending};
use sandbox_core::{ManualClock, SessionKey};
use sandbox_store::{AuditAction, AuditRecord};

use crate::fake::{FakeStore, Mood};

const LIMIT: Duration = Duration::from_secs(60);

fn begin(audit: &Audit) -> Pending {
    let key = SessionKey {
        tenant: "t".parse().unwrap(),
        session: "s".parse().unwrap(),
    };
    audit
        .begin(&key, "alice", AuditAction::Write)
        .with(|record| record.path = Some("a/b".into()))
}

/// What is recorded once `doing` is done.
async fn recorded(doing: impl AsyncFnOnce(Audit)) -> Vec<AuditRecord> {
    let store = FakeStore::new(Mood::Up);
    let clock = Arc::new(ManualClock::default());
    let audit = Audit::start(Arc::clone(&store), clock, AuditSettings::default());
    doing(audit.clone()).await;
    // What is recorded for somebody who has gone is recorded by a task of its own.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    audit.flush(LIMIT).await.unwrap();
    store.kept()
}

#[tokio::test(start_paused = true)]
async fn what_ends_is_recorded_once_with_its_outcome() {
    let kept = recorded(async |audit| begin(&audit).end(DONE).await).await;
    let [record] = kept.as_slice() else {
        panic!("{kept:?}");
    };
    assert_eq!(record.outcome, "ok");
    assert_eq!(record.subject, "alice");
    assert_eq!(record.path.as_deref(), Some("a/b"));
    assert_eq!(record.session, Some("s".parse().unwrap()));
}

#[tokio::test(start_paused = true)]
async fn what_is_left_is_recorded_as_left() {
    let kept = recorded(async |audit| drop(begin(&audit))).await;
    let outcomes: Vec<&str> = kept.iter().map(|record| record.outcome.as_str()).collect();
    assert_eq!(outcomes, [DISCONNECTED]);
}

#[tokio::test(start_paused = true)]
async fn what_tells_of_itself_is_not_recorded_when_it_is_left() {
    let kept = recorded(async |audit| {
        drop(begin(&audit).only_if_ended());
        begin(&audit).only_if_ended().end("refused").await;
    })
    .await;
    let outcomes: Vec<&str> = kept.iter().map(|record| record.outcome.as_str()).collect();
    assert_eq!(outcomes, ["refused"]);
}
