//! A stream that is larger than what is kept of it, whole in a file.

use std::sync::Arc;

use sandbox_wire::sandbox::v1::OutputFile;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::OWN_FOLDER;

/// Where the streams of one run spill to, and when.
#[derive(Clone)]
pub struct Spilling<P> {
    pub place: P,
    /// The name of the run's folder.
    pub run: String,
    /// A stream that is not larger stays in memory.
    pub kept: u64,
    /// A stream that is larger ends the run.
    pub limit: u64,
    /// Told when one is.
    pub over: Arc<Notify>,
}

/// A file of a sandbox that is written from its beginning to its end. `None` is one
/// that cannot be had, or no more: half a stream would pass for the whole one.
pub trait SpillFile: Sized + Send {
    type Place: Clone + Send + Sync;

    /// Makes `run/name` in the folder of outputs.
    fn create(
        place: &Self::Place,
        run: &str,
        name: &'static str,
    ) -> impl Future<Output = Option<Self>> + Send;

    fn write(self, data: &[u8]) -> impl Future<Output = Option<Self>> + Send;

    /// Whether it is all there.
    fn finish(self) -> impl Future<Output = bool> + Send;
}

/// One stream of a run.
pub struct Spill<F: SpillFile> {
    to: Spilling<F::Place>,
    name: &'static str,
    /// What may still be written.
    left: usize,
    is_over: bool,
    at: At<F>,
}

enum At<F> {
    /// From its first byte, for it may grow too large yet.
    Memory(Vec<u8>),
    File(Box<Writing<F>>),
    /// No file can be had: the run goes on without.
    Nowhere,
}

struct Writing<F> {
    file: F,
    hash: Sha256,
    size: u64,
}

impl<F: SpillFile> Spill<F> {
    pub fn new(to: Spilling<F::Place>, name: &'static str) -> Self {
        Self {
            name,
            left: usize::try_from(to.limit).unwrap_or(usize::MAX),
            is_over: false,
            at: At::Memory(Vec::new()),
            to,
        }
    }

    pub async fn take(&mut self, data: &[u8]) {
        let fits = &data[..data.len().min(self.left)];
        self.left -= fits.len();
        if fits.len() < data.len() && !self.is_over {
            self.is_over = true;
            self.to.over.notify_one();
        }
        self.at = match std::mem::replace(&mut self.at, At::Nowhere) {
            At::Memory(mut start) => {
                start.extend_from_slice(fits);
                // What is beyond the limit is beyond what is kept, too.
                if start.len() as u64 > self.to.kept || self.is_over {
                    At::file(self.start(&start).await)
                } else {
                    At::Memory(start)
                }
            }
            At::File(writing) => At::file(writing.add(fits).await),
            At::Nowhere => At::Nowhere,
        };
    }

    async fn start(&self, data: &[u8]) -> Option<Box<Writing<F>>> {
        let file = F::create(&self.to.place, &self.to.run, self.name).await?;
        let writing = Writing {
            file,
            hash: Sha256::new(),
            size: 0,
        };
        Box::new(writing).add(data).await
    }

    /// Whether the stream is larger than it may be.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The file, if there is one.
    pub async fn finish(self) -> Option<OutputFile> {
        let At::File(writing) = self.at else {
            return None;
        };
        let Writing { file, hash, size } = *writing;
        file.finish().await.then(|| OutputFile {
            path: format!("{OWN_FOLDER}/output/{}/{}", self.to.run, self.name),
            size_bytes: size,
            sha256: hash.finalize().to_vec(),
            ..Default::default()
        })
    }
}

impl<F> At<F> {
    fn file(writing: Option<Box<Writing<F>>>) -> Self {
        writing.map_or(Self::Nowhere, Self::File)
    }
}

impl<F: SpillFile> Writing<F> {
    async fn add(self: Box<Self>, data: &[u8]) -> Option<Box<Self>> {
        let Writing {
            file,
            mut hash,
            size,
        } = *self;
        let file = file.write(data).await?;
        hash.update(data);
        let size = size + data.len() as u64;
        Some(Box::new(Self { file, hash, size }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    type Shelf = Arc<Mutex<Option<Vec<u8>>>>;

    /// A file in memory, and how much it takes.
    struct Shelved(Shelf);

    const ROOM: usize = 12;

    impl SpillFile for Shelved {
        type Place = Shelf;

        async fn create(place: &Shelf, run: &str, name: &'static str) -> Option<Self> {
            assert_eq!((run, name), ("run", "stdout"));
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(Vec::new());
            Some(Self(Arc::clone(place)))
        }

        async fn write(self, data: &[u8]) -> Option<Self> {
            let mut shelf = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let fits = shelf.as_ref()?.len() + data.len() <= ROOM;
            if !fits {
                *shelf = None;
                return None;
            }
            shelf.as_mut()?.extend_from_slice(data);
            drop(shelf);
            Some(self)
        }

        async fn finish(self) -> bool {
            true
        }
    }

    fn spill(limit: u64) -> (Spill<Shelved>, Shelf) {
        let place = Shelf::default();
        let to = Spilling {
            place: Arc::clone(&place),
            run: "run".into(),
            kept: 4,
            limit,
            over: Arc::default(),
        };
        (Spill::new(to, "stdout"), place)
    }

    fn on(shelf: &Shelf) -> Option<Vec<u8>> {
        shelf.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[tokio::test]
    async fn a_file_begins_when_the_stream_is_too_large_to_be_kept() {
        let (mut spill, shelf) = spill(10);
        spill.take(b"abcd").await;
        assert_eq!(on(&shelf), None);
        spill.take(b"e").await;
        assert_eq!(on(&shelf).as_deref(), Some(&b"abcde"[..]));
        spill.take(b"fghijkl").await;
        assert!(spill.is_over());
        spill.take(b"mn").await;
        assert_eq!(on(&shelf).as_deref(), Some(&b"abcdefghij"[..]));
        let kept = spill.finish().await;
        let expected = OutputFile {
            path: ".sandbox/output/run/stdout".into(),
            size_bytes: 10,
            sha256: Sha256::digest(b"abcdefghij").to_vec(),
            ..Default::default()
        };
        assert_eq!(kept, Some(expected));
    }

    #[tokio::test]
    async fn a_file_that_does_not_get_it_all_is_none() {
        let (mut spill, shelf) = spill(100);
        for piece in [&b"abcdef"[..], b"ghijkl", b"m", b"n"] {
            spill.take(piece).await;
        }
        assert!(!spill.is_over());
        assert_eq!(on(&shelf), None);
        assert_eq!(spill.finish().await, None);
    }

    #[tokio::test]
    async fn a_short_stream_has_no_file() {
        let (mut spill, shelf) = spill(10);
        spill.take(b"abc").await;
        assert_eq!(spill.finish().await, None);
        assert_eq!(on(&shelf), None);
    }
}
