//! The backend's own self-test, apart from a service that may be running.

use std::thread;

use sandbox_backend::{Backend as _, Problem};
use sandbox_core::{Enforcement, Error, Result, chain};

use super::Finding;
use crate::{LocalConfig, backend::LocalBackend, tree::remove_tree};

/// Makes real sandboxes and tries to break out of them.
pub(super) fn try_sandbox(config: &LocalConfig) -> Finding {
    let name = "sandbox";
    let fix = "mend what is named above; with RUST_LOG=debug the log has more";
    match self_test(apart(config)) {
        Err(error) => Finding::missing(name, chain(&error), fix),
        Ok((problems, enforcement)) if problems.is_empty() => Finding::ok(
            name,
            format!(
                "made two; no network, no host file, no file of the other, no /proc/sys, no more \
                 memory than the limit ({})",
                enforcement.get("memory").copied().unwrap_or("none")
            ),
        ),
        Ok((mut problems, _)) => Finding::problem(name, problems.swap_remove(0)),
    }
}

/// A service on the same directory would take these sandboxes for its own, and
/// give their host users to others: it counts from the other end of the range.
fn apart(config: &LocalConfig) -> LocalConfig {
    let (start, end) = (*config.uid_range.start(), *config.uid_range.end());
    LocalConfig {
        state_dir: config.state_dir.join("doctor"),
        uid_range: end.saturating_sub(1).max(start)..=end,
        ..config.clone()
    }
}

fn self_test(config: LocalConfig) -> Result<(Vec<Problem>, Enforcement)> {
    let state = config.state_dir.clone();
    // A thread of its own, for the caller may be in a runtime already.
    let tested = thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(Error::internal)?;
        runtime.block_on(async {
            let backend = LocalBackend::new(config)?;
            Ok((backend.self_test().await, backend.enforcement()))
        })
    });
    let tested = tested
        .join()
        .unwrap_or_else(|_| Err(Error::internal("the self-test panicked")));
    if let Err(error) = remove_tree(&state) {
        tracing::warn!(%error, "failed to remove `{}`", state.display());
    }
    tested
}
