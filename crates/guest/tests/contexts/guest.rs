//! A guest in which contexts are started.

#[path = "../support/mod.rs"]
mod process;

pub use process::{TestGuest, alive, bash, until};

impl TestGuest {
    /// As where interpreters are forked: here nothing is preloaded.
    pub async fn preloading(_modules: &str) -> Self {
        Self::start().await
    }

    pub async fn get_warm(&self) {}
}
