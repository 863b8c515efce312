//! What happens during a run, as its readers learn of it.

use sandbox_core::{Artifact, Raised, Stream};

use crate::log::Weighed;

/// Something that happened during a run.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The program has started.
    Started,
    Output {
        stream: Stream,
        text: String,
    },
    /// A JSON object of MIME type to text.
    Display(String),
    /// The same, of the value of the last expression of code in a context.
    Result(String),
    /// What ended code in a context.
    Raised(Raised),
    Artifact(Artifact),
    /// The last one: the outcome is known.
    Ended,
}

impl Weighed for Event {
    fn weight(&self) -> usize {
        match self {
            Self::Started | Self::Ended => 0,
            Self::Output { text, .. } => text.len(),
            Self::Display(bundle) | Self::Result(bundle) => bundle.len(),
            Self::Raised(raised) => raised.name.len() + raised.value.len() + raised.traceback.len(),
            Self::Artifact(artifact) => {
                artifact.name.len()
                    + 2 * artifact.path.len()
                    + artifact.table.as_ref().map_or(0, String::len)
            }
        }
    }
}
