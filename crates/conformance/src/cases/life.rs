//! Beginnings and ends.

use futures::future::join_all;
use sandbox_core::{Capability, SandboxSpec};

use super::cases;
use crate::bed::{Bed, soon};

cases! {
    ready: "the backend says that it is ready";
    stop_twice: "to stop a sandbox twice is to stop it once";
    stop_under_run: "a stop ends the runs in a sandbox";
    workspace_stays: "a sandbox that is made again has its workspace" [PersistentWorkspace];
    remove: "what is removed is gone, and removing it again is fine";
    listed: "a sandbox is listed while it has a workspace";
    dropped: "a sandbox ends with its handle";
    many: "many sandboxes begin and end at the same time";
}

async fn ready(bed: Bed) {
    let readiness = bed.backend.check().await;
    assert!(readiness.ready(), "{readiness:?}");
}

async fn stop_twice(bed: Bed) {
    let sandbox = bed.start().await;
    sandbox.place.stop().await.unwrap();
    sandbox.place.stop().await.unwrap();
    soon("its end", sandbox.place.gone()).await;
    // Its connection's end is told by another task, a moment before or after.
    soon("its connection's end", sandbox.guest().closed()).await;
    assert!(sandbox.guest().is_closed());
}

async fn stop_under_run(bed: Bed) {
    let sandbox = bed.start().await;
    let run = sandbox
        .guest()
        .run(crate::bed::shell("sleep 100"))
        .await
        .unwrap();
    sandbox.place.stop().await.unwrap();
    assert!(soon("the run's end", run.collect()).await.is_err());
}

async fn workspace_stays(bed: Bed) {
    let (id, spec) = (bed.id(), SandboxSpec::default());
    let sandbox = bed.start_as(&id, &spec).await.unwrap();
    sandbox
        .says("mkdir d; echo kept > d/f; chmod 600 d/f; echo gone > /tmp/f")
        .await;
    sandbox.place.stop().await.unwrap();
    let again = bed.start_as(&id, &spec).await.unwrap();
    let said = again
        .says("cat d/f; stat -c %a d/f; echo more >> d/f")
        .await;
    assert_eq!(said, "kept\n600\n");
    // With a limit of its own it is memory of the sandbox, and gone with it.
    if bed.backend.capabilities().contains(&Capability::Limits) {
        assert_eq!(again.says("ls /tmp").await, "");
    }
}

async fn remove(bed: Bed) {
    let (id, spec) = (bed.id(), SandboxSpec::default());
    bed.backend.remove(&id).await.unwrap();
    let sandbox = bed.start_as(&id, &spec).await.unwrap();
    sandbox
        .says("echo x > f; mkdir -p a/b; touch a/b/c; chmod 000 a/b a; ln -s / l")
        .await;
    sandbox.place.stop().await.unwrap();
    bed.backend.remove(&id).await.unwrap();
    bed.backend.remove(&id).await.unwrap();
    assert!(!bed.has_workspace(&id).await);
    let again = bed.start_as(&id, &spec).await.unwrap();
    assert_eq!(again.says("ls").await, "");
}

async fn listed(bed: Bed) {
    let id = bed.id();
    assert!(!bed.has_workspace(&id).await);
    let sandbox = bed.start_as(&id, &SandboxSpec::default()).await.unwrap();
    assert!(bed.has_workspace(&id).await);
    sandbox.place.stop().await.unwrap();
    assert!(bed.has_workspace(&id).await);
}

async fn dropped(bed: Bed) {
    // Not known to the bed, which would hold it.
    let id = bed.id();
    let place = bed
        .backend
        .create(&id, &SandboxSpec::default())
        .await
        .unwrap();
    let gone = place.gone();
    drop(place);
    soon("its end", gone).await;
}

async fn many(bed: Bed) {
    let one = |n: u32| {
        let bed = bed.clone();
        async move {
            let sandbox = bed.start().await;
            assert_eq!(sandbox.says(&format!("echo {n}")).await, format!("{n}\n"));
            sandbox.place.stop().await.unwrap();
            bed.backend.remove(&sandbox.id).await.unwrap();
            sandbox.id
        }
    };
    for id in join_all((0..8).map(one)).await {
        assert!(!bed.has_workspace(&id).await);
    }
}
