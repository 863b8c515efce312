//! Events, numbered, in a ring of bounded size.
//!
//! A reader that is slow holds the writer back, and through it the program; a
//! ring that nobody reads forgets its oldest events.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::sync::Notify;

/// How long a reader may keep the run waiting before it is left behind.
const STALL_LIMIT: Duration = Duration::from_secs(60);
/// What an event costs beside its text.
const OVERHEAD: usize = 64;

/// What can be kept in the ring.
pub(crate) trait Weighed: Clone {
    /// Bytes beside the struct itself, about.
    fn weight(&self) -> usize;
}

/// What a reader gets.
#[derive(Clone, Debug, PartialEq)]
pub enum Item<E> {
    Event {
        /// From 1, one more with each event.
        id: u64,
        event: E,
    },
    /// Events that the ring has forgotten; the next one has the id after `last`.
    Gap { last: u64 },
}

pub(crate) struct Log<E> {
    ring: Mutex<Ring<E>>,
    changed: Notify,
    limit: usize,
}

struct Ring<E> {
    events: VecDeque<E>,
    /// Of the oldest event that is here.
    first: u64,
    bytes: usize,
    /// The id that each reader wants next.
    readers: BTreeMap<u64, u64>,
    next_reader: u64,
    ended: bool,
}

impl<E: Weighed> Log<E> {
    /// Keeps about this many bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            ring: Mutex::new(Ring {
                events: VecDeque::new(),
                first: 1,
                bytes: 0,
                readers: BTreeMap::new(),
                next_reader: 0,
                ended: false,
            }),
            changed: Notify::new(),
            limit,
        }
    }

    fn ring(&self) -> MutexGuard<'_, Ring<E>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event; waits for readers that have not seen what would be forgotten.
    pub async fn push(&self, event: E) {
        let patience = tokio::time::sleep(STALL_LIMIT);
        tokio::pin!(patience);
        loop {
            let changed = self.changed.notified();
            {
                let mut ring = self.ring();
                if ring.make_room(weighed(&event), self.limit) {
                    ring.append(event);
                    break;
                }
            }
            tokio::select! {
                () = changed => {}
                () = &mut patience => self.ring().leave_slow_readers_behind(),
            }
        }
        self.changed.notify_waiters();
    }

    /// The last event always has room.
    pub fn end(&self, last: E) {
        {
            let mut ring = self.ring();
            ring.append(last);
            ring.ended = true;
        }
        self.changed.notify_waiters();
    }

    /// A reader of everything after this event.
    pub fn reader(&self, after: u64) -> u64 {
        let mut ring = self.ring();
        let reader = ring.next_reader;
        ring.next_reader += 1;
        // One cannot wait for what comes after the future.
        let next = after.saturating_add(1).min(ring.next_id());
        ring.readers.insert(reader, next);
        reader
    }

    pub fn forget(&self, reader: u64) {
        self.ring().readers.remove(&reader);
        self.changed.notify_waiters();
    }

    /// The next item; `None` after the last one, or when the reader was left behind.
    pub async fn next(&self, reader: u64) -> Option<Item<E>> {
        loop {
            let changed = self.changed.notified();
            let item = {
                let mut ring = self.ring();
                let next = *ring.readers.get(&reader)?;
                if next < ring.first {
                    let first = ring.first;
                    ring.readers.insert(reader, first);
                    Some(Item::Gap { last: first - 1 })
                } else if next < ring.next_id() {
                    let at = usize::try_from(next - ring.first).ok()?;
                    let event = ring.events.get(at)?.clone();
                    ring.readers.insert(reader, next + 1);
                    Some(Item::Event { id: next, event })
                } else if ring.ended {
                    return None;
                } else {
                    None
                }
            };
            if item.is_some() {
                self.changed.notify_waiters();
                return item;
            }
            changed.await;
        }
    }

    /// Whether a reader has seen all that there is.
    pub fn is_read(&self, reader: u64) -> bool {
        let ring = self.ring();
        ring.readers
            .get(&reader)
            .is_none_or(|next| *next >= ring.next_id())
    }

    /// An event that is still here.
    pub fn get(&self, id: u64) -> Option<E> {
        let ring = self.ring();
        let at = usize::try_from(id.checked_sub(ring.first)?).ok()?;
        ring.events.get(at).cloned()
    }

    pub fn bytes(&self) -> usize {
        self.ring().bytes
    }

    /// Of the newest event; 0 before the first.
    pub fn last_id(&self) -> u64 {
        self.ring().next_id() - 1
    }
}

fn weighed(event: &impl Weighed) -> usize {
    OVERHEAD + event.weight()
}

impl<E: Weighed> Ring<E> {
    fn next_id(&self) -> u64 {
        self.first + self.events.len() as u64
    }

    /// Forgets what every reader has seen, until there is room.
    fn make_room(&mut self, size: usize, limit: usize) -> bool {
        while self.bytes + size > limit {
            let Some(oldest) = self.events.front() else {
                break;
            };
            if self.readers.values().any(|next| *next <= self.first) {
                return false;
            }
            self.bytes -= weighed(oldest);
            self.events.pop_front();
            self.first += 1;
        }
        true
    }

    fn append(&mut self, event: E) {
        self.bytes += weighed(&event);
        self.events.push_back(event);
    }

    fn leave_slow_readers_behind(&mut self) {
        let first = self.first;
        self.readers.retain(|_, next| *next > first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Event {
        Started,
        Output(String),
        Ended,
    }

    impl Weighed for Event {
        fn weight(&self) -> usize {
            match self {
                Self::Output(text) => text.len(),
                _ => 0,
            }
        }
    }

    fn output(text: &str) -> Event {
        Event::Output(text.into())
    }

    fn item(id: u64, event: Event) -> Option<Item<Event>> {
        Some(Item::Event { id, event })
    }

    #[tokio::test]
    async fn events_are_numbered_and_can_be_read_again_from_anywhere() {
        let log = Log::new(10_000);
        log.push(Event::Started).await;
        log.push(output("a")).await;
        log.end(Event::Ended);
        for after in [0, 1, 2] {
            let reader = log.reader(after);
            for (id, event) in [(1, Event::Started), (2, output("a")), (3, Event::Ended)] {
                if id > after {
                    assert_eq!(log.next(reader).await, item(id, event));
                }
            }
            assert_eq!(log.next(reader).await, None);
        }
        let beyond = log.reader(u64::MAX);
        assert_eq!(log.next(beyond).await, None);
    }

    #[tokio::test]
    async fn what_nobody_reads_is_forgotten_and_the_gap_is_told() {
        let log = Log::new(4 * (OVERHEAD + 1));
        for text in ["a", "b", "c", "d", "e", "f"] {
            log.push(output(text)).await;
        }
        let reader = log.reader(0);
        assert_eq!(log.next(reader).await, Some(Item::Gap { last: 2 }));
        assert_eq!(log.next(reader).await, item(3, output("c")));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_holds_the_writer_and_one_that_stalls_is_left_behind() {
        let log = Log::new(2 * (OVERHEAD + 1));
        let reader = log.reader(0);
        log.push(output("a")).await;
        log.push(output("b")).await;
        let mut third = std::pin::pin!(log.push(output("c")));
        assert!(futures_pending(third.as_mut()).await);
        assert_eq!(log.next(reader).await, item(1, output("a")));
        third.await;
        assert_eq!(log.next(reader).await, item(2, output("b")));
        // Now it reads no more.
        log.push(output("d")).await;
        let began = tokio::time::Instant::now();
        log.push(output("e")).await;
        assert!(began.elapsed() >= STALL_LIMIT);
        assert_eq!(log.next(reader).await, None);
    }

    async fn futures_pending(future: std::pin::Pin<&mut impl Future<Output = ()>>) -> bool {
        let mut future = Some(future);
        std::future::poll_fn(|cx| {
            let pending = future
                .as_mut()
                .is_some_and(|future| future.as_mut().poll(cx).is_pending());
            std::task::Poll::Ready(pending)
        })
        .await
    }
}
