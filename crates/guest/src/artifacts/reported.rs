//! Which files were reported already.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Mutex, PoisonError},
};

use super::{changes::Moment, walk::Found};

/// Files that are remembered; of more, the oldest are forgotten.
const MAX: usize = 10_000;

/// A file as it was when it was reported.
type Seen = (u64, u64, u64, Moment);

/// Runs that overlap find the same files: who ends first has them.
#[derive(Default)]
pub(crate) struct Reported(Mutex<Memory>);

#[derive(Default)]
struct Memory {
    seen: HashSet<Seen>,
    order: VecDeque<Seen>,
}

impl Reported {
    /// Leaves the files of which nobody was told as they are now, and
    /// remembers them.
    pub fn retain_new(&self, files: &mut Vec<Found>) {
        let mut memory = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| !memory.seen.contains(&seen(file)));
        for key in files.iter().map(seen) {
            if memory.seen.insert(key) {
                memory.order.push_back(key);
            }
            if memory.order.len() > MAX
                && let Some(oldest) = memory.order.pop_front()
            {
                memory.seen.remove(&oldest);
            }
        }
    }
}

fn seen(file: &Found) -> Seen {
    (file.dev, file.ino, file.size, file.changed)
}
