//! What every backend does, as tests that run on any of them.
//!
//! A [`Case`] is one behaviour, asserted from inside a sandbox or through the guest.
//! A third party runs [`run`] with a backend of its own and looks at the report.

#![expect(
    clippy::unwrap_used,
    reason = "a case that cannot go on has failed, and its panic is what is reported"
)]

mod bed;
mod cases;
mod report;

use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream};
use sandbox_backend::Backend;
use sandbox_core::{Capabilities, Capability};

pub use bed::{Bed, Sandbox, request, shell};
pub use report::{Outcome, Report, table};

/// Cases at the same time: sandboxes must not notice each other anyway.
const AT_ONCE: usize = 3;

/// One behaviour.
#[derive(Clone, Copy)]
pub struct Case {
    /// What holds, as a sentence.
    pub name: &'static str,
    /// Without these it does not apply.
    pub needs: &'static [Capability],
    run: fn(Bed) -> BoxFuture<'static, ()>,
}

impl Case {
    pub const fn new(name: &'static str, run: fn(Bed) -> BoxFuture<'static, ()>) -> Self {
        Self {
            name,
            needs: &[],
            run,
        }
    }

    pub const fn needs(mut self, needs: &'static [Capability]) -> Self {
        self.needs = needs;
        self
    }

    fn applies(&self, capabilities: &Capabilities) -> bool {
        self.needs.iter().all(|it| capabilities.contains(it))
    }
}

/// All of them.
pub fn cases() -> Vec<Case> {
    cases::all()
}

/// Runs every case on the backend; what it leaves is removed.
pub async fn run(backend: Arc<dyn Backend>) -> Report {
    let capabilities = backend.capabilities();
    let outcomes = stream::iter(cases())
        .map(|case| {
            let backend = Arc::clone(&backend);
            let applies = case.applies(&capabilities);
            async move {
                let outcome = match applies {
                    true => try_case(case, backend).await,
                    false => Outcome::DoesNotApply,
                };
                (case.name, outcome)
            }
        })
        .buffered(AT_ONCE)
        .collect()
        .await;
    Report {
        backend: backend.name().to_owned(),
        outcomes,
    }
}

async fn try_case(case: Case, backend: Arc<dyn Backend>) -> Outcome {
    let bed = Bed::new(backend);
    // In a task, so that its panic is an outcome.
    let ended = tokio::spawn((case.run)(bed.clone())).await;
    let cleaned = std::panic::AssertUnwindSafe(bed.clean_up())
        .catch_unwind()
        .await;
    match (ended, cleaned) {
        (Ok(()), Ok(())) => Outcome::Holds,
        (Err(failed), _) => Outcome::Fails(reason(failed.into_panic())),
        (_, Err(failed)) => Outcome::Fails(reason(failed)),
    }
}

fn reason(panic: Box<dyn std::any::Any + Send>) -> String {
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .map_or_else(|| "it panicked".to_owned(), |text| (*text).to_owned()),
    }
}
