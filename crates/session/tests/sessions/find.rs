//! Sessions of the E2B API, by their names alone.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use sandbox_core::{E2bOptions, SandboxSpec, SessionKey, SessionOptions};
use sandbox_session::{CreatedBy, NewSession};

use crate::support::{World, ended, key, settings, until};

fn of_e2b(salt: &str) -> NewSession {
    NewSession {
        spec: SandboxSpec::default(),
        options: SessionOptions {
            e2b: Some(E2bOptions {
                token_salt: salt.to_owned(),
                ..E2bOptions::default()
            }),
            request_sha256: Some(salt.to_owned()),
            ..SessionOptions::default()
        },
        idle_timeout: None,
        ttl: Some(Duration::from_secs(600)),
        files: Vec::new(),
        by: CreatedBy {
            subject: "ada".into(),
            request_id: None,
        },
    }
}

/// The one of this name, with its salt.
fn found(world: &World, name: &str) -> Option<(SessionKey, String)> {
    let found = world.sessions.find_e2b(&name.parse().unwrap());
    found.map(|(key, options)| (key, options.token_salt))
}

async fn made(world: &World, key: &SessionKey, salt: &str) {
    assert!(world.sessions.create(key, &of_e2b(salt)).await.unwrap());
    assert_eq!(found(world, "s"), Some((key.clone(), salt.to_owned())));
}

#[tokio::test]
async fn a_name_leads_to_the_session_that_has_it_now() {
    let world = World::new().await;
    let (mine, other) = (key("a", "s"), key("b", "s"));
    assert_eq!(found(&world, "s"), None);
    world.run(&other, &["echo"]).await.unwrap();
    assert_eq!(found(&world, "s"), None, "the other API made it");

    made(&world, &mine, "first").await;
    world.sessions.delete(&other).await.unwrap();
    assert_eq!(found(&world, "s"), Some((mine.clone(), "first".into())));
    world.sessions.delete(&mine).await.unwrap();
    assert_eq!(found(&world, "s"), None);
    made(&world, &mine, "second").await;
    world.sessions.delete(&mine).await.unwrap();
    made(&world, &other, "third").await;

    world.sessions.shutdown(Duration::ZERO).await;
    let after = world.restarted(settings()).await;
    assert_eq!(found(&after, "s"), Some((other.clone(), "third".into())));
    after.sessions.delete(&other).await.unwrap();
    after.run(&other, &["echo"]).await.unwrap();
    assert_eq!(found(&after, "s"), None, "it is one of the other API now");
}

#[tokio::test]
async fn one_whose_end_fails_is_found_until_it_is_gone() {
    let world = World::new().await;
    let mine = key("a", "s");
    made(&world, &mine, "first").await;
    world.backend.failing_removes.store(3, Ordering::SeqCst);
    assert!(world.sessions.delete(&mine).await.is_err());
    assert_eq!(found(&world, "s"), Some((mine.clone(), "first".into())));
    world.backend.removing.close();
    let (sessions, ending) = (Arc::clone(&world.sessions), mine.clone());
    let deleted = tokio::spawn(async move { sessions.delete(&ending).await });
    until("it is ending", || !world.sessions.knows(&mine)).await;
    assert_eq!(found(&world, "s"), None);
    world.backend.removing.open();
    ended(deleted).await.unwrap();
    made(&world, &mine, "second").await;
}
