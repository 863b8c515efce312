//! Which names of runs are taken.

use futures::future::join_all;
use sandbox_core::{ExecutionId, TenantId, Timestamp};
use sandbox_store::ExecutionStore;

fn names(tenant: &str, execution: &str) -> (TenantId, ExecutionId) {
    (tenant.parse().unwrap(), execution.parse().unwrap())
}

async fn claim(
    store: &dyn ExecutionStore,
    (tenant, execution): &(TenantId, ExecutionId),
    request: &str,
    time: i64,
) -> Option<String> {
    store
        .claim(tenant, execution, request, Timestamp(time))
        .await
        .unwrap()
}

pub async fn a_name_of_a_run_is_taken_once(store: &dyn ExecutionStore) {
    let name = names("t", "run");
    assert_eq!(claim(store, &name, "first", 1).await, None);
    assert_eq!(claim(store, &name, "second", 2).await, Some("first".into()));
    assert_eq!(claim(store, &name, "first", 3).await, Some("first".into()));
    // Another tenant's run may have the same name.
    assert_eq!(claim(store, &names("u", "run"), "third", 4).await, None);
    store.release(&name.0, &name.1).await.unwrap();
    store.release(&name.0, &name.1).await.unwrap();
    assert_eq!(claim(store, &name, "fourth", 5).await, None);
    let other = claim(store, &names("u", "run"), "fifth", 6).await;
    assert_eq!(other, Some("third".into()));
}

pub async fn of_many_claims_at_once_one_wins(store: &dyn ExecutionStore) {
    for round in 0..20 {
        let name = names("t", &format!("run-{round}"));
        let requests: Vec<_> = (0..16).map(|n| format!("request-{n}")).collect();
        let answers = join_all(
            requests
                .iter()
                .map(|request| claim(store, &name, request, 1)),
        )
        .await;
        let winners: Vec<_> = (0..16).filter(|n| answers[*n].is_none()).collect();
        assert_eq!(winners.len(), 1, "{answers:?}");
        let won = &requests[winners[0]];
        assert!(answers.iter().flatten().all(|request| request == won));
    }
}

pub async fn old_names_of_runs_are_free_again(store: &dyn ExecutionStore) {
    let (old, new) = (names("t", "old"), names("t", "new"));
    claim(store, &old, "r", 1).await;
    claim(store, &new, "r", 2).await;
    assert_eq!(store.forget_claims(Timestamp(2)).await.unwrap(), 1);
    assert_eq!(claim(store, &old, "r", 3).await, None);
    assert_eq!(claim(store, &new, "r", 3).await, Some("r".into()));
}
