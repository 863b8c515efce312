//! What every backend does, over the envd contract alone: sandboxes of the local backend,
//! whose guest speaks that contract, with nothing of it used but that.

mod support;

use sandbox_conformance::{Outcome, run, table};
use support::{Alone, local};

/// What envd alone does not give: interpreters that our guest keeps alive. What a sandbox
/// uses is told by the local backend here.
const NOT_GIVEN: [&str; 1] =
    ["an interpreter stays alive between runs, is interrupted, and ends with what it started"];

#[tokio::test(flavor = "multi_thread")]
async fn what_every_backend_does_is_done_through_envd_alone() {
    let local = local(1_900_020_000).await;
    let report = run(Alone::over(&local)).await;
    println!("{}", table(std::slice::from_ref(&report)));
    let mut failed = Vec::new();
    for (name, outcome) in &report.outcomes {
        match outcome {
            Outcome::Fails(why) if !NOT_GIVEN.contains(name) => {
                failed.push(format!("{name}: {why}"));
            }
            Outcome::Holds if NOT_GIVEN.contains(name) => {
                failed.push(format!("{name}: it is said not to be given, and is"));
            }
            _ => {}
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(report.held() > 45, "{report:?}");
}
