//! What is known of artifacts.

use sandbox_core::Timestamp;
use sandbox_store::{ArtifactRecord, ArtifactStore};

use super::key;

pub fn artifact(id: &str, tenant: &str, session: &str, created_at: i64) -> ArtifactRecord {
    ArtifactRecord {
        id: id.into(),
        session: key(tenant, session),
        execution: "run".parse().unwrap(),
        name: "plot.png".into(),
        path: "out/plot.png".into(),
        stored_path: ".artifacts/1/plot.png".into(),
        kind: "plot".into(),
        mime_type: "image/png".into(),
        size_bytes: 10,
        sha256: "cd".repeat(32),
        table: None,
        created_at: Timestamp(created_at),
    }
}

pub async fn artifacts_come_back_whole_newest_first(store: &dyn ArtifactStore) {
    let table = ArtifactRecord {
        kind: "table".into(),
        table: Some("{\"rows\": [[1, \"ä\"]]}".into()),
        ..artifact("a", "t", "s", 2)
    };
    let plot = artifact("b", "t", "s", 1);
    let other = artifact("c", "t", "x", 3);
    store.add_artifacts(&[]).await.unwrap();
    store
        .add_artifacts(&[plot.clone(), table.clone(), other])
        .await
        .unwrap();
    let changed = ArtifactRecord {
        name: "changed".into(),
        ..plot.clone()
    };
    store.add_artifacts(&[changed]).await.unwrap();
    let session = key("t", "s");
    let found = store.session_artifacts(&session, 10).await.unwrap();
    assert_eq!(found, [table.clone(), plot.clone()]);
    let first = store.session_artifacts(&session, 1).await.unwrap();
    assert_eq!(first, [table]);
    assert_eq!(store.find_artifact("b").await.unwrap(), Some(plot));
    assert_eq!(store.find_artifact("unknown").await.unwrap(), None);
}

pub async fn artifacts_of_a_tenant_are_added_up(store: &dyn ArtifactStore) {
    let sized = |id, tenant, size_bytes| ArtifactRecord {
        size_bytes,
        ..artifact(id, tenant, "s", 1)
    };
    let (t, u) = ("t".parse().unwrap(), "u".parse().unwrap());
    assert_eq!(store.tenant_artifact_bytes(&t).await.unwrap(), 0);
    store
        .add_artifacts(&[
            sized("a", "t", (1 << 40) + 1),
            sized("b", "t", 5),
            sized("c", "u", u64::MAX),
            sized("d", "u", u64::MAX),
        ])
        .await
        .unwrap();
    let sum = store.tenant_artifact_bytes(&t).await.unwrap();
    assert_eq!(sum, (1 << 40) + 6);
    assert!(store.tenant_artifact_bytes(&u).await.unwrap() >= u64::MAX / 2);
}

pub async fn old_artifacts_are_found_oldest_first(store: &dyn ArtifactStore) {
    let artifacts: Vec<_> = (0..5)
        .map(|n| artifact(&format!("{}", 9 - n), "t", "s", n))
        .collect();
    store.add_artifacts(&artifacts).await.unwrap();
    let found = store.artifacts_before(Timestamp(4), 3).await.unwrap();
    assert_eq!(found, artifacts[..3]);
    let found = store.artifacts_before(Timestamp(2), 3).await.unwrap();
    assert_eq!(found, artifacts[..2]);
    let other = artifact("0", "u", "s", 0);
    store.add_artifacts(&[other]).await.unwrap();
    let (tenant, nobody) = ("t".parse().unwrap(), "v".parse().unwrap());
    let found = store.tenant_artifacts(&tenant, 3).await.unwrap();
    assert_eq!(found, artifacts[..3]);
    assert_eq!(store.tenant_artifacts(&nobody, 3).await.unwrap(), []);
}

pub async fn artifacts_are_forgotten_by_id_and_by_session(store: &dyn ArtifactStore) {
    let mut artifacts: Vec<_> = (0..600)
        .map(|n| artifact(&format!("{n:04}"), "t", "s", n))
        .collect();
    artifacts.push(artifact("x", "t", "x", 1));
    store.add_artifacts(&artifacts).await.unwrap();
    let ids: Vec<_> = (0..599).map(|n| format!("{n:04}")).collect();
    store.remove_artifacts(&[]).await.unwrap();
    store.remove_artifacts(&ids).await.unwrap();
    let of = async |session: &str| {
        let found = store.session_artifacts(&key("t", session), 1000).await;
        found.unwrap()
    };
    assert_eq!(of("s").await, artifacts[599..600]);
    store
        .remove_session_artifacts(&key("t", "s"))
        .await
        .unwrap();
    store
        .remove_session_artifacts(&key("t", "s"))
        .await
        .unwrap();
    assert_eq!(of("s").await, []);
    assert_eq!(of("x").await, artifacts[600..]);
}
