//! A backend whose sandboxes are tasks of this process.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::{FutureExt as _, future::BoxFuture};
use guest_client::GuestClient;
use sandbox_backend::{Backend, Found, Place, Problem, Readiness, Usage};
use sandbox_core::{
    Capabilities, Capability, Enforcement, Error, ErrorCode, Result, SandboxId, SandboxSpec,
};
use tokio_util::sync::CancellationToken;

use super::guest::{self, Guest};

#[derive(Clone, Default)]
pub struct FakeBackend {
    /// What is wrong with it, if anything is.
    pub problem: Option<Problem>,
    /// How often it was looked at.
    pub checks: Arc<Mutex<u32>>,
    /// What its programs did.
    pub guest: Guest,
}

#[async_trait]
impl Backend for FakeBackend {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::from([
            Capability::Exec,
            Capability::Files,
            Capability::PersistentWorkspace,
        ])
    }

    fn enforcement(&self) -> Enforcement {
        Enforcement::from([("memory", "good manners")])
    }

    async fn check(&self) -> Readiness {
        *self.checks.lock().unwrap() += 1;
        Readiness {
            problems: self.problem.clone().into_iter().collect(),
        }
    }

    async fn create(&self, _: &SandboxId, _: &SandboxSpec) -> Result<Arc<dyn Place>> {
        if let Some(problem) = &self.problem {
            return Err(
                Error::new(ErrorCode::BackendUnavailable, "no sandbox can be made now")
                    .with_source(problem.what.clone()),
            );
        }
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let ended = CancellationToken::new();
        tokio::spawn({
            let (ended, guest) = (ended.clone(), self.guest.clone());
            async move {
                tokio::select! {
                    () = guest::serve(theirs, guest) => {}
                    () = ended.cancelled() => {}
                }
                ended.cancel();
            }
        });
        let client = GuestClient::connect(ours).await?;
        Ok(Arc::new(FakePlace { client, ended }))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        Ok(vec![])
    }

    async fn end(&self, _: &SandboxId) -> Result<()> {
        Ok(())
    }

    async fn close(&self) {}

    async fn remove(&self, _: &SandboxId) -> Result<()> {
        Ok(())
    }
}

struct FakePlace {
    client: GuestClient,
    ended: CancellationToken,
}

#[async_trait]
impl Place for FakePlace {
    fn guest(&self) -> &GuestClient {
        &self.client
    }

    fn oom_kills(&self) -> Option<u64> {
        Some(0)
    }

    fn usage(&self) -> Usage {
        Usage {
            memory_bytes: Some(4096),
            cpu_seconds: Some(0.5),
            pids: None,
        }
    }

    fn suits(&self, _: &SandboxSpec) -> bool {
        true
    }

    async fn adapt(&self, _: &SandboxSpec) -> Result<()> {
        Ok(())
    }

    async fn stop(&self) -> Result<()> {
        self.ended.cancel();
        Ok(())
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        self.ended.clone().cancelled_owned().boxed()
    }
}
