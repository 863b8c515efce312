//! What happens during a run, as the interpreter's lines.

use std::{io, sync::Arc};

use e2b_wire::interpreter::Line;
use futures::{Stream, StreamExt as _, stream};
use sandbox_core::{ContextLoss, SessionKey, Stream as Output, Termination};
use sandbox_execution::{Event, Finished, Item, Reader};
use sandbox_session::{Lease, RunReport, SessionState};
use serde_json::Value;

use super::output::output;
use crate::state::Facade;

/// What happens, to the end; the sandbox is in use until then. Where the sandbox ends
/// the lines break off, for a last one would say that the code had ended.
pub(super) fn lines(
    facade: &Facade,
    key: &SessionKey,
    reader: Reader,
    lease: Lease,
) -> impl Stream<Item = io::Result<Line>> + use<> {
    let clock = Arc::clone(&facade.clock);
    let (facade, key) = (facade.clone(), key.clone());
    let steps = stream::unfold(Some((reader, lease)), move |state| {
        let (facade, key) = (facade.clone(), key.clone());
        async move {
            let (mut reader, lease) = state?;
            let outcome = match reader.next().await {
                Some(Item::Event {
                    event: Event::Ended,
                    ..
                }) => reader.execution().outcome(),
                Some(item) => return Some((Step::Item(item), Some((reader, lease)))),
                // The client has read nothing for so long that it was left behind.
                None => None,
            };
            let last = match outcome {
                Some(finished) if is_there(&facade, &key) => Step::Last(failure(&finished)),
                _ => Step::Broken,
            };
            Some((last, None))
        }
    });
    steps.flat_map(move |step| {
        stream::iter(match step {
            Step::Item(item) => line(item, clock.now().0).map(Ok).into_iter().collect(),
            Step::Last(failure) => {
                let last = failure.into_iter().chain([Line::EndOfExecution]);
                last.map(Ok).collect()
            }
            Step::Broken => vec![Err(io::ErrorKind::ConnectionAborted.into())],
        })
    })
}

enum Step {
    Item(Item<Event>),
    Last(Option<Line>),
    Broken,
}

fn is_there(facade: &Facade, key: &SessionKey) -> bool {
    facade.sessions.knows(key)
        && (facade.sessions.get(key)).is_some_and(|info| info.state != SessionState::Paused)
}

fn line(item: Item<Event>, now_ms: i64) -> Option<Line> {
    let Item::Event { event, .. } = item else {
        return None;
    };
    // In nanoseconds, as the SDKs say.
    let timestamp = Value::from(now_ms.saturating_mul(1_000_000));
    match event {
        Event::Output { stream, text } => Some(match stream {
            Output::Stdout => Line::Stdout { text, timestamp },
            Output::Stderr => Line::Stderr { text, timestamp },
        }),
        Event::Display(bundle) => output(&bundle, false).map(|it| Line::Result(Box::new(it))),
        Event::Result(bundle) => output(&bundle, true).map(|it| Line::Result(Box::new(it))),
        Event::Raised(raised) => Some(Line::Error {
            name: raised.name,
            value: raised.value,
            traceback: raised.traceback,
        }),
        Event::Started | Event::Artifact(_) | Event::Ended => None,
    }
}

/// Why it did not end as code does, where no exception says it.
fn failure(finished: &Finished) -> Option<Line> {
    let (name, value) = match &finished.result {
        Ok(report) => unusual(report)?,
        Err(error) => ("ExecutionError".to_owned(), error.detail().to_owned()),
    };
    Some(Line::Error {
        name,
        value,
        traceback: String::new(),
    })
}

fn unusual(report: &RunReport) -> Option<(String, String)> {
    let outcome = &report.outcome;
    let said = |name: &str, value: &str| Some((name.to_owned(), value.to_owned()));
    match outcome.termination {
        Termination::TimedOut => return said("TimeoutError", "the run took too long"),
        Termination::OutOfMemory => return said("MemoryError", "the sandbox is out of memory"),
        Termination::OutputLimit => return said("OutputLimitError", "it printed too much"),
        Termination::Cancelled => return said("CancelledError", "the run was cancelled"),
        Termination::SandboxLost => return said("SandboxLostError", "the sandbox ended"),
        Termination::Exited | Termination::Signaled => {}
    }
    match outcome.context {
        Some(end) => end.loss.and_then(|loss| {
            let how = match loss {
                ContextLoss::Died => "the interpreter ended",
                ContextLoss::Killed => "the interpreter was killed",
                ContextLoss::Broken => "the interpreter did not answer as it should",
                ContextLoss::Stopped => "the context was restarted or removed",
            };
            said(
                "ContextLostError",
                &format!("{how}; its variables are lost"),
            )
        }),
        // A language without contexts says on stderr what went wrong.
        None if outcome.exit_code != 0 => {
            said("ExitError", &format!("exit status {}", outcome.exit_code))
        }
        None => None,
    }
}
