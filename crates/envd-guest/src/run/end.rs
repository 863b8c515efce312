//! Ending all that a program has started.
//!
//! envd's signals reach one process. What it has started is known by a variable that
//! goes on to every child, and by being a child of such a process. Who takes the
//! variable out of its environment and lets its parent end is not found: it lives until
//! the sandbox ends, within the sandbox's limits.

use std::time::Duration;

use sandbox_wire::process::{
    __buffa::oneof::process_selector::Selector, ProcessSelector, SendSignalRequest, Signal,
};

use crate::{
    envd::{CALL_LIMIT, Envd},
    state::random,
};

const VARIABLE: &str = "GUEST_RUN";
/// Beyond the grace, for what the sandbox needs to see it through.
const SLACK: Duration = Duration::from_secs(5);

/// $1 is the mark, $2 the grace in tenths of a second.
const END: &str = r#"
mark=$1 tenths=$2
below() {
    for child in $(cat /proc/"$1"/task/*/children 2>/dev/null); do
        echo "$child"
        below "$child"
    done
}
all() {
    for file in $(grep -lF -- "$mark" /proc/[0-9]*/environ 2>/dev/null); do
        file=${file#/proc/}
        file=${file%/environ}
        echo "$file"
        below "$file"
    done
}
left=$(all)
[ -n "$left" ] || exit 0
if [ "$tenths" -gt 0 ]; then
    kill -TERM $left 2>/dev/null
    while [ "$tenths" -gt 0 ]; do
        tenths=$((tenths - 1))
        sleep 0.1
        left=$(all)
        [ -n "$left" ] || exit 0
    done
fi
rounds=0
while [ "$rounds" -lt 100 ]; do
    rounds=$((rounds + 1))
    kill -KILL $left 2>/dev/null
    left=$(all)
    [ -n "$left" ] || exit 0
done
exit 1
"#;

/// What the processes of one run have in common.
#[derive(Clone, Debug)]
pub(crate) struct Mark(String);

impl Mark {
    pub fn new() -> Self {
        Self(random())
    }

    pub fn variable(&self) -> (String, String) {
        (VARIABLE.to_owned(), self.0.clone())
    }

    /// The name under which envd knows the process.
    pub fn tag(&self) -> &str {
        &self.0
    }
}

/// SIGTERM to all of them, SIGKILL after the grace; without one, SIGKILL at once.
pub(crate) async fn end_all(envd: &Envd, mark: &Mark, process: ProcessSelector, grace: Duration) {
    let wanted = format!("{VARIABLE}={}", mark.0);
    let tenths = (grace.as_millis() / 100).to_string();
    let argv = ["/bin/sh", "-c", END, "sh", &wanted, &tenths];
    let ended = envd.tool(&argv, grace + SLACK).await;
    if ended.is_ok_and(|said| said.code == 0) {
        return;
    }
    // No shell, or no process left for one.
    signal(envd, process, Signal::SIGNAL_SIGKILL).await;
}

/// To the process alone; that there is none any more is fine.
pub(super) async fn signal(envd: &Envd, process: ProcessSelector, signal: Signal) {
    let request = SendSignalRequest {
        process: process.into(),
        signal: signal.into(),
        ..Default::default()
    };
    let call = envd
        .process
        .send_signal_with_options(request, envd.options(CALL_LIMIT));
    if let Err(cause) = call.await {
        tracing::debug!(error = %cause, "envd did not send a signal");
    }
}

/// The process that was started with this mark.
pub(super) fn marked(mark: &Mark) -> ProcessSelector {
    ProcessSelector {
        selector: Some(Selector::Tag(mark.tag().to_owned())),
        ..Default::default()
    }
}
