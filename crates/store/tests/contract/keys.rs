//! API keys.

use sandbox_core::Timestamp;
use sandbox_store::{KeyRecord, KeyStore};

fn api_key(id: &str, tenant: &str, created_at: i64) -> KeyRecord {
    KeyRecord {
        id: id.into(),
        tenant: tenant.parse().unwrap(),
        admin: false,
        name: "for the build".into(),
        secret_sha256: std::array::from_fn(|n| 255 - n as u8),
        created_at: Timestamp(created_at),
        revoked_at: None,
    }
}

pub async fn a_key_comes_back_as_it_was_kept(store: &dyn KeyStore) {
    let key = api_key("k1", "t", 1);
    let admin = KeyRecord {
        admin: true,
        name: String::new(),
        secret_sha256: [0; 32],
        revoked_at: Some(Timestamp(9)),
        ..api_key("k2", "t", 2)
    };
    store.add_key(&key).await.unwrap();
    store.add_key(&admin).await.unwrap();
    assert_eq!(store.find_key("k1").await.unwrap(), Some(key));
    assert_eq!(store.find_key("k2").await.unwrap(), Some(admin));
    for unknown in ["", "K1", "k1'--", "k1\0", "%"] {
        assert_eq!(store.find_key(unknown).await.unwrap(), None, "{unknown:?}");
    }
}

pub async fn a_key_is_revoked_once(store: &dyn KeyStore) {
    store.add_key(&api_key("k", "t", 1)).await.unwrap();
    assert!(store.revoke_key("k", Timestamp(5)).await.unwrap());
    assert!(!store.revoke_key("k", Timestamp(6)).await.unwrap());
    assert!(!store.revoke_key("unknown", Timestamp(6)).await.unwrap());
    let found = store.find_key("k").await.unwrap().unwrap();
    assert_eq!(found.revoked_at, Some(Timestamp(5)));
}

pub async fn keys_are_listed_by_tenant_and_age(store: &dyn KeyStore) {
    let keys = [
        api_key("b", "t", 1),
        api_key("a", "u", 2),
        api_key("c", "t", 2),
    ];
    for key in keys.iter().rev() {
        store.add_key(key).await.unwrap();
    }
    assert_eq!(store.list_keys(None).await.unwrap(), keys);
    let tenant = "t".parse().unwrap();
    let of_tenant = store.list_keys(Some(&tenant)).await.unwrap();
    assert_eq!(of_tenant, [keys[0].clone(), keys[2].clone()]);
    let nobody = "nobody".parse().unwrap();
    assert_eq!(store.list_keys(Some(&nobody)).await.unwrap(), []);
}

pub async fn a_key_id_is_kept_once(store: &dyn KeyStore) {
    let key = api_key("k", "t", 1);
    store.add_key(&key).await.unwrap();
    let another = api_key("k", "u", 2);
    store.add_key(&another).await.unwrap_err();
    assert_eq!(store.list_keys(None).await.unwrap(), [key]);
}
