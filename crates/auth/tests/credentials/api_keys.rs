//! API keys, over a store that can be slow, down or asked too often.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use sandbox_auth::{ApiKey, ApiKeys, Auth, Credential};
use sandbox_core::{Error, ErrorCode, Result, TenantId, Timestamp};
use sandbox_store::{KeyRecord, KeyStore};
use tokio::time::{Instant, advance};

use crate::support::{refused, told};

#[derive(Clone, Copy, PartialEq)]
enum Mood {
    Well,
    Down,
    Hanging,
    /// Hangs for ids that it does not have.
    HangingForStrangers,
}

struct Keys {
    records: Mutex<BTreeMap<String, KeyRecord>>,
    asked: Mutex<Vec<String>>,
    mood: Mutex<Mood>,
}

impl Keys {
    fn asked_for(&self, id: &str) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|it| *it == id).count()
    }

    fn feel(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }

    fn revoke(&self, id: &str) {
        let mut records = self.records.lock().unwrap();
        records.get_mut(id).unwrap().revoked_at = Some(Timestamp(2));
    }
}

#[async_trait]
impl KeyStore for Keys {
    async fn add_key(&self, key: &KeyRecord) -> Result<()> {
        let mut records = self.records.lock().unwrap();
        records.insert(key.id.clone(), key.clone());
        Ok(())
    }

    async fn find_key(&self, id: &str) -> Result<Option<KeyRecord>> {
        self.asked.lock().unwrap().push(id.to_owned());
        let found = self.records.lock().unwrap().get(id).cloned();
        let mood = *self.mood.lock().unwrap();
        match mood {
            Mood::Well => Ok(found),
            Mood::Down => Err(Error::internal("the database is away")),
            Mood::HangingForStrangers if found.is_some() => Ok(found),
            Mood::Hanging | Mood::HangingForStrangers => std::future::pending().await,
        }
    }

    async fn list_keys(&self, tenant: Option<&TenantId>) -> Result<Vec<KeyRecord>> {
        let records = self.records.lock().unwrap();
        let wanted = |key: &&KeyRecord| tenant.is_none_or(|tenant| key.tenant == *tenant);
        Ok(records.values().filter(wanted).cloned().collect())
    }

    async fn revoke_key(&self, id: &str, now: Timestamp) -> Result<bool> {
        let mut records = self.records.lock().unwrap();
        Ok(records
            .get_mut(id)
            .filter(|key| key.revoked_at.is_none())
            .map(|key| key.revoked_at = Some(now))
            .is_some())
    }
}

/// A store with one key, who checks by it, the key and its id.
async fn one_key() -> (Arc<Keys>, Arc<Auth>, String, String) {
    let store = Arc::new(Keys {
        records: Mutex::default(),
        asked: Mutex::default(),
        mood: Mutex::new(Mood::Well),
    });
    let key = add(&store).await;
    let keys = ApiKeys::new(Arc::clone(&store) as Arc<dyn KeyStore>);
    let auth = Arc::new(Auth::on(None, Some(keys)));
    (store, auth, key.reveal(), key.id().to_owned())
}

async fn add(store: &Keys) -> ApiKey {
    let key = ApiKey::generate().unwrap();
    let record = KeyRecord {
        id: key.id().to_owned(),
        tenant: "acme".parse().unwrap(),
        admin: false,
        name: String::new(),
        secret_sha256: key.secret_sha256(),
        created_at: Timestamp(1),
        revoked_at: None,
    };
    store.add_key(&record).await.unwrap();
    key
}

async fn subject(auth: &Auth, key: &str) -> Result<String, (ErrorCode, String)> {
    auth.identify(Some(Credential::ApiKey(key)))
        .await
        .map(|identity| identity.subject().to_owned())
        .map_err(told)
}

fn unavailable() -> Result<String, (ErrorCode, String)> {
    Err((
        ErrorCode::KeysUnavailable,
        "API keys cannot be looked up now".to_owned(),
    ))
}

fn invented(at: usize) -> String {
    format!("sbx_{at:016x}_{}", "A".repeat(43))
}

#[tokio::test(start_paused = true)]
async fn a_request_does_not_wait_for_the_store_again() {
    let (store, auth, key, id) = one_key().await;
    for _ in 0..100 {
        assert_eq!(subject(&auth, &key).await, Ok(format!("key:{id}")));
    }
    assert_eq!(store.asked_for(&id), 1);
    let unknown = invented(7);
    for _ in 0..100 {
        assert_eq!(
            subject(&auth, &unknown).await,
            refused("the API key is not valid")
        );
    }
    assert_eq!(store.asked_for(&unknown[4..20]), 1);
    for bad in ["", "sbx_", "sbx_x_y", "key"] {
        assert_eq!(
            subject(&auth, bad).await,
            refused("the API key is not valid")
        );
    }
    assert_eq!(store.asked.lock().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_is_refused_within_five_seconds_and_for_ever() {
    let (store, auth, key, id) = one_key().await;
    assert!(subject(&auth, &key).await.is_ok());
    store.revoke(&id);
    advance(Duration::from_secs(5)).await;
    for _ in 0..3 {
        assert_eq!(
            subject(&auth, &key).await,
            refused("the API key was revoked")
        );
        advance(Duration::from_secs(60)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_store_is_used_for_three_seconds() {
    let (store, auth, key, id) = one_key().await;
    assert!(subject(&auth, &key).await.is_ok());
    store.revoke(&id);
    advance(Duration::from_millis(2900)).await;
    assert!(subject(&auth, &key).await.is_ok());
    advance(Duration::from_millis(100)).await;
    assert!(subject(&auth, &key).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_wrong_secret_learns_nothing_of_the_key() {
    let (store, auth, key, id) = one_key().await;
    let wrong = format!("{}{}", &key[..21], "A".repeat(43));
    assert_eq!(
        subject(&auth, &wrong).await,
        refused("the API key is not valid")
    );
    store.revoke(&id);
    advance(Duration::from_secs(5)).await;
    // Whether a key was revoked is for its holder.
    assert_eq!(
        subject(&auth, &wrong).await,
        refused("the API key is not valid")
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_key_works_soon_after_it_was_refused() {
    let (store, auth, ..) = one_key().await;
    let key = ApiKey::generate().unwrap();
    assert!(subject(&auth, &key.reveal()).await.is_err());
    let record = KeyRecord {
        id: key.id().to_owned(),
        tenant: "acme".parse().unwrap(),
        admin: false,
        name: String::new(),
        secret_sha256: key.secret_sha256(),
        created_at: Timestamp(1),
        revoked_at: None,
    };
    store.add_key(&record).await.unwrap();
    advance(Duration::from_secs(5)).await;
    assert!(subject(&auth, &key.reveal()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn invented_ids_do_not_push_out_the_keys_in_use() {
    let (store, auth, key, id) = one_key().await;
    assert!(subject(&auth, &key).await.is_ok());
    for at in 0..10_000 {
        assert!(subject(&auth, &invented(at)).await.is_err());
    }
    assert!(subject(&auth, &key).await.is_ok());
    assert_eq!(store.asked_for(&id), 1);
}

#[tokio::test(start_paused = true)]
async fn many_who_show_the_same_new_key_ask_once() {
    let (store, auth, key, id) = one_key().await;
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let (auth, key) = (Arc::clone(&auth), key.clone());
            tokio::spawn(async move { subject(&auth, &key).await })
        })
        .collect();
    for answer in asking {
        assert_eq!(answer.await.unwrap(), Ok(format!("key:{id}")));
    }
    assert_eq!(store.asked_for(&id), 1);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_database_is_no_outage() {
    for mood in [Mood::Down, Mood::Hanging] {
        let (store, auth, key, id) = one_key().await;
        assert!(subject(&auth, &key).await.is_ok());
        advance(Duration::from_secs(4)).await;
        store.feel(mood);
        let started = Instant::now();
        for _ in 0..100 {
            assert_eq!(subject(&auth, &key).await, Ok(format!("key:{id}")));
        }
        assert!(started.elapsed() <= Duration::from_secs(2));
        assert_eq!(store.asked_for(&id), 2, "the store is left alone");
        assert_eq!(
            subject(&auth, &invented(1)).await,
            unavailable(),
            "one that was never seen is not believed"
        );
        // Not for ever: it may have been revoked.
        advance(Duration::from_secs(31)).await;
        assert_eq!(subject(&auth, &key).await, unavailable());
        store.feel(Mood::Well);
        assert!(subject(&auth, &key).await.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_was_revoked_stays_so_while_the_store_is_away() {
    let (store, auth, key, id) = one_key().await;
    store.revoke(&id);
    assert!(subject(&auth, &key).await.is_err());
    advance(Duration::from_secs(4)).await;
    store.feel(Mood::Down);
    assert_eq!(
        subject(&auth, &key).await,
        refused("the API key was revoked")
    );
}

#[tokio::test(start_paused = true)]
async fn keys_in_use_do_not_wait_behind_invented_ones() {
    let (store, auth, key, _) = one_key().await;
    assert!(subject(&auth, &key).await.is_ok());
    advance(Duration::from_secs(4)).await;
    store.feel(Mood::HangingForStrangers);
    let strangers: Vec<_> = (0..20)
        .map(|at| {
            let auth = Arc::clone(&auth);
            tokio::spawn(async move { subject(&auth, &invented(at)).await })
        })
        .collect();
    // Until the first of them holds the turn.
    while store.asked.lock().unwrap().len() < 2 {
        tokio::task::yield_now().await;
    }
    let started = Instant::now();
    assert!(subject(&auth, &key).await.is_ok());
    assert_eq!(started.elapsed(), Duration::ZERO);
    for answer in strangers {
        assert_eq!(answer.await.unwrap(), unavailable());
    }
    assert!(started.elapsed() <= Duration::from_secs(2));
}
