//! Ids that sort by when they were made.

use std::sync::{Mutex, PoisonError};

use sandbox_core::Timestamp;
use uuid::{ContextV7, Uuid};

/// Makes UUIDs of version 7, each larger than the one before, also within a
/// millisecond and when the clock is set back.
#[derive(Default)]
pub struct Ids(Mutex<ContextV7>);

impl Ids {
    pub fn next(&self, now: Timestamp) -> String {
        let ms = u64::try_from(now.0).unwrap_or(0);
        let nanos = u32::try_from(ms % 1000 * 1_000_000).unwrap_or(0);
        let context = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let time = uuid::Timestamp::from_unix(&*context, ms / 1000, nanos);
        Uuid::new_v7(time).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_id_is_larger_than_the_one_before() {
        let ids = Ids::default();
        let times = [0, 5, 5, 4, 1_700_000_000_123, 1_700_000_000_122, 6];
        let made: Vec<_> = times
            .iter()
            .flat_map(|time| (0..1000).map(|_| ids.next(Timestamp(*time))))
            .collect();
        assert!(made.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn an_id_has_its_time_in_it() {
        let id = Ids::default().next(Timestamp(1_700_000_000_123));
        let uuid: Uuid = id.parse().unwrap();
        assert_eq!(uuid.get_version_num(), 7);
        let (seconds, nanos) = uuid.get_timestamp().unwrap().to_unix();
        assert_eq!((seconds, nanos / 1_000_000), (1_700_000_000, 123));
    }
}
