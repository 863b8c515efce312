//! Turns in the contexts of a session: one run at a time in each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use sandbox_core::ContextName;
use tokio::sync::Semaphore;

/// Those that somebody has or waits for; tokio's semaphore is fair.
#[derive(Default)]
pub(crate) struct ContextTurns(Mutex<HashMap<ContextName, Weak<Semaphore>>>);

impl ContextTurns {
    pub fn of(&self, name: &ContextName) -> Arc<Semaphore> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(name).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::new(Semaphore::new(1));
        turns.insert(name.clone(), Arc::downgrade(&turn));
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_as_long_as_somebody_has_it_and_is_forgotten_then() {
        let turns = ContextTurns::default();
        let (a, b) = ("a".parse().unwrap(), "b".parse().unwrap());
        let first = turns.of(&a);
        assert!(Arc::ptr_eq(&first, &turns.of(&a)));
        let permit = Arc::clone(&first).try_acquire_owned().unwrap();
        drop(first);
        assert!(turns.of(&a).try_acquire_owned().is_err());
        assert!(turns.of(&b).try_acquire_owned().is_ok());
        drop(permit);
        turns.of(&b);
        assert_eq!(turns.0.lock().unwrap().len(), 1);
    }
}
