//! All sessions by their keys, and those of the E2B API by their names alone too: each
//! request to one of their sandboxes asks by that.

use std::{
    collections::{HashMap, hash_map},
    sync::Arc,
};

use sandbox_core::{SessionId, SessionKey, TenantId};

use crate::session::{Session, State};

pub(crate) struct Entry {
    pub session: Arc<Session>,
    pub state: State,
}

#[derive(Default)]
pub(crate) struct Entries {
    by_key: HashMap<SessionKey, Entry>,
    /// Whose they are. Written where entries come and go, and nowhere else.
    tenants: HashMap<SessionId, TenantId>,
}

impl Entries {
    pub fn get(&self, key: &SessionKey) -> Option<&Entry> {
        self.by_key.get(key)
    }

    /// *Requires*: what is put in the place of its session has the same terms.
    pub fn get_mut(&mut self, key: &SessionKey) -> Option<&mut Entry> {
        self.by_key.get_mut(key)
    }

    /// The one of the E2B API that has this name, whoever's it is.
    pub fn of_e2b(&self, name: &SessionId) -> Option<&Entry> {
        let tenant = self.tenants.get(name)?;
        let key = SessionKey::new(tenant.clone(), name.clone());
        self.by_key.get(&key)
    }

    pub fn insert(&mut self, entry: Entry) {
        let key = entry.session.key().clone();
        // Whatever had the key before is gone with its name.
        self.remove(&key);
        if entry.session.terms.options.e2b.is_some() {
            let (name, tenant) = (key.session.clone(), key.tenant.clone());
            self.tenants.insert(name, tenant);
        }
        self.by_key.insert(key, entry);
    }

    pub fn remove(&mut self, key: &SessionKey) {
        self.by_key.remove(key);
        if self.tenants.get(&key.session) == Some(&key.tenant) {
            self.tenants.remove(&key.session);
        }
    }

    pub fn contains_key(&self, key: &SessionKey) -> bool {
        self.by_key.contains_key(key)
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn iter(&self) -> hash_map::Iter<'_, SessionKey, Entry> {
        self.by_key.iter()
    }

    pub fn values(&self) -> hash_map::Values<'_, SessionKey, Entry> {
        self.by_key.values()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use sandbox_core::{E2bOptions, SandboxSpec, SessionOptions, Timestamp};

    use super::*;
    use crate::session::{Terms, Times};

    fn key(tenant: &str, name: &str) -> SessionKey {
        SessionKey::new(tenant.parse().unwrap(), name.parse().unwrap())
    }

    fn entry(key: &SessionKey, e2b: Option<&str>) -> Entry {
        let template = e2b.map(str::to_owned);
        let terms = Terms {
            key: key.clone(),
            sandbox_id: key.sandbox_id(),
            spec: SandboxSpec::default(),
            options: SessionOptions {
                e2b: template.map(|template| E2bOptions {
                    template,
                    ..E2bOptions::default()
                }),
                ..SessionOptions::default()
            },
            created_at: Timestamp(0),
            idle_timeout: Duration::from_secs(1),
            ephemeral: false,
        };
        Entry {
            session: Arc::new(Session::new(terms, Times::default(), Timestamp(0), 1)),
            state: State::Stopped(None),
        }
    }

    /// Of which template the one of this name is, and the tenant's name.
    fn found(entries: &Entries, name: &str) -> Option<(String, String)> {
        let entry = entries.of_e2b(&name.parse().unwrap())?;
        let template = entry.session.terms.options.e2b.clone().unwrap().template;
        Some((entry.session.key().tenant.as_str().to_owned(), template))
    }

    fn some(tenant: &str, template: &str) -> Option<(String, String)> {
        Some((tenant.to_owned(), template.to_owned()))
    }

    #[test]
    fn a_name_leads_to_what_has_it_now() {
        let mut entries = Entries::default();
        let (mine, other) = (key("a", "s"), key("b", "s"));
        assert_eq!(found(&entries, "s"), None);
        entries.insert(entry(&mine, Some("first")));
        assert_eq!(found(&entries, "s"), some("a", "first"));
        // One of the other API has no such name, whatever its key.
        entries.insert(entry(&other, None));
        assert_eq!(found(&entries, "s"), some("a", "first"));
        entries.remove(&other);
        assert_eq!(found(&entries, "s"), some("a", "first"));
        entries.insert(entry(&mine, Some("second")));
        assert_eq!(found(&entries, "s"), some("a", "second"));
        entries.remove(&mine);
        assert_eq!(found(&entries, "s"), None);
        // Again, by another tenant, and then as one of the other API.
        entries.insert(entry(&other, Some("third")));
        assert_eq!(found(&entries, "s"), some("b", "third"));
        entries.insert(entry(&other, None));
        assert_eq!(found(&entries, "s"), None);
        entries.remove(&other);
        assert!(entries.by_key.is_empty() && entries.tenants.is_empty());
    }
}
