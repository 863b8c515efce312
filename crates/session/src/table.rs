//! All sessions, and whether there is place for one more.

use std::{collections::HashMap, sync::Arc, time::Duration};

use sandbox_core::{Error, ErrorCode, SessionKey, TenantId, Timestamp};

use crate::{
    DestroyReason, SessionSettings,
    entries::{Entries, Entry},
    pool::Pool,
    session::{Session, State},
};

/// Used only under its lock, which is never held over a wait.
#[derive(Default)]
pub(crate) struct Table {
    pub entries: Entries,
    pub pool: Pool,
    /// The service is shutting down: nothing begins any more.
    pub closing: bool,
}

/// Whether a sandbox may be made now.
pub(crate) enum Admission {
    Admitted,
    /// This session's time is up: it gives its place up first.
    AfterEndOf(SessionKey, DestroyReason),
    /// A sandbox is on its way out.
    WhenOneIsGone,
    Refused(Error),
}

impl Entry {
    /// Whether it takes a place: a sandbox that died takes none.
    fn occupies(&self) -> bool {
        match &self.state {
            State::Starting(_) => true,
            State::Running(sandbox) => sandbox.is_alive(),
            State::Stopped(_) => false,
            State::Ending { occupies, .. } => *occupies,
        }
    }

    pub fn expired(&self, now: Timestamp) -> Option<DestroyReason> {
        match (&self.state, self.session.expired(now)) {
            (State::Ending { .. }, _) => None,
            // Whoever wanted it has gone; it gets its time once it runs.
            (State::Starting(_), Some(DestroyReason::Idle)) => None,
            (_, expired) => expired,
        }
    }
}

impl Table {
    pub fn running(&self) -> usize {
        let running = |entry: &&Entry| matches!(entry.state, State::Running(_));
        self.entries.values().filter(running).count()
    }

    /// Sandboxes of sessions.
    pub fn occupying(&self) -> usize {
        let entries = self.entries.values();
        entries.filter(|entry| entry.occupies()).count()
    }

    pub fn in_use(&self) -> bool {
        self.entries.values().any(|entry| entry.session.in_use())
    }

    pub fn expired(&self, now: Timestamp) -> Vec<(SessionKey, DestroyReason)> {
        self.entries
            .iter()
            .filter_map(|(key, entry)| Some((key.clone(), entry.expired(now)?)))
            .collect()
    }

    /// Sessions whose time is over and that are to be kept.
    pub fn to_pause(&self, now: Timestamp) -> Vec<SessionKey> {
        self.entries
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Running(_) | State::Stopped(_)))
            .filter(|(_, entry)| entry.session.is_to_pause(now))
            .map(|(key, _)| key.clone())
            .collect()
    }

    /// Whether one more session of this tenant may be paused.
    pub fn may_pause(&self, tenant: &TenantId, settings: &SessionSettings) -> bool {
        let entries = self.entries.values();
        let own = entries.filter(|entry| entry.session.key().tenant == *tenant);
        own.filter(|entry| entry.session.is_paused()).count() < settings.tenant_max_paused
    }

    /// Whether there is place for one more sandbox of this tenant.
    pub fn admit(
        &self,
        tenant: &TenantId,
        settings: &SessionSettings,
        now: Timestamp,
    ) -> Admission {
        let occupying: Vec<&Entry> = self.entries.values().filter(|e| e.occupies()).collect();
        let own: Vec<&Entry> = occupying
            .iter()
            .copied()
            .filter(|entry| entry.session.key().tenant == *tenant)
            .collect();
        if own.len() >= settings.tenant_max_sessions {
            let detail = "the tenant has as many sessions as it may have";
            make_room(&own, now, detail)
        } else if occupying.len() >= settings.max_sessions {
            let detail = "the service has as many sessions as it can hold";
            make_room(&occupying, now, detail)
        } else {
            Admission::Admitted
        }
    }

    /// Stopped sessions beyond what is kept, the longest unused first.
    pub fn surplus(&self, settings: &SessionSettings) -> Vec<SessionKey> {
        let mut stopped: Vec<&Arc<Session>> = self
            .entries
            .values()
            .filter(|entry| matches!(entry.state, State::Stopped(_)) && !entry.session.in_use())
            .map(|entry| &entry.session)
            // Somebody has asked for those to be kept.
            .filter(|session| !session.is_paused())
            .collect();
        stopped.sort_by_key(|session| std::cmp::Reverse(session.last_used()));
        let mut kept = 0;
        let mut of_tenant: HashMap<&TenantId, usize> = HashMap::new();
        let mut surplus = Vec::new();
        for session in stopped {
            let own = of_tenant.entry(&session.key().tenant).or_default();
            // By tenant too: one must not push out what the others have.
            if kept >= settings.max_sessions || *own >= settings.tenant_max_sessions {
                surplus.push(session.key().clone());
            } else {
                kept += 1;
                *own += 1;
            }
        }
        surplus
    }
}

fn make_room(among: &[&Entry], now: Timestamp, detail: &str) -> Admission {
    let expired = among
        .iter()
        .filter_map(|entry| Some((&entry.session, entry.expired(now)?)))
        .min_by_key(|(session, _)| session.last_used());
    if let Some((session, reason)) = expired {
        return Admission::AfterEndOf(session.key().clone(), reason);
    }
    let ending = |entry: &&Entry| matches!(entry.state, State::Ending { .. });
    if among.iter().any(ending) {
        return Admission::WhenOneIsGone;
    }
    let next = among
        .iter()
        .map(|entry| entry.session.expires(now).since(now))
        .min()
        .unwrap_or_default();
    let after = Duration::from_secs(next.as_millis().div_ceil(1000).clamp(1, 60) as u64);
    Admission::Refused(Error::new(ErrorCode::SessionLimitReached, detail).with_retry_after(after))
}
