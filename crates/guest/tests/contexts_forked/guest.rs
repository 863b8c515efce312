//! A guest in which contexts of Python are forked.

#[path = "../support/mod.rs"]
mod process;

use std::{
    ops::Deref,
    time::{Duration, Instant},
};

pub use process::{alive, bash, until};
use sandbox_core::RunRequest;

pub struct TestGuest(process::TestGuest);

impl Deref for TestGuest {
    type Target = process::TestGuest;

    fn deref(&self) -> &process::TestGuest {
        &self.0
    }
}

impl TestGuest {
    pub async fn start() -> Self {
        let guest = Self::preloading("numpy,pandas,matplotlib.pyplot").await;
        guest.get_warm().await;
        guest
    }

    pub async fn preloading(modules: &str) -> Self {
        Self(process::TestGuest::with(&["--python-preload", modules]).await)
    }

    /// Waits until there is what to fork from, with few imports and with all.
    pub async fn get_warm(&self) {
        get_warm(self).await;
    }
}

/// One in which they are started.
pub async fn started() -> process::TestGuest {
    process::TestGuest::start().await
}

async fn get_warm(guest: &process::TestGuest) {
    let until = Instant::now() + Duration::from_secs(60);
    // The second fails in a fork of what has few imports.
    for source in ["pass", "import sys\nsys.exit('numpy' not in sys.modules)"] {
        let mut request = process::python(source);
        request.program.argv.insert(1, "-u".into());
        let request = RunRequest {
            python_display: true,
            ..request
        };
        loop {
            let ran = guest.run(request.clone()).await;
            if (ran.warm, ran.exit_code) == (true, 0) {
                break;
            }
            assert!(Instant::now() < until, "nothing gets warm");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
