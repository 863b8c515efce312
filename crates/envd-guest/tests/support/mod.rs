//! Sandboxes whose guest is spoken to as an envd.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use async_trait::async_trait;
use backend_local::{LocalBackend, LocalConfig};
use connectrpc::client::{BoxFuture as RpcFuture, ClientBody, ClientTransport};
use envd_guest::Envd;
use futures::future::BoxFuture;
use guest_client::{GuestClient, GuestConfig};
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use sandbox_backend::{Backend, Found, Place, Readiness, Usage};
use sandbox_core::{Capabilities, Capability, Enforcement, Result, SandboxId, SandboxSpec};
use tempfile::TempDir;

pub struct Local {
    pub backend: Arc<LocalBackend>,
    _state: TempDir,
}

pub async fn local(first_uid: u32) -> Local {
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let guest = guest_binary::materialise(&state.path().join("guest")).unwrap();
    let mut config = LocalConfig::new(state.path().join("state"), guest);
    config.uid_range = first_uid..=first_uid + 255;
    let backend = LocalBackend::new(config).unwrap();
    assert_eq!(backend.self_test().await, []);
    Local {
        backend,
        _state: state,
    }
}

/// The way to a sandbox: its guest, asked for nothing but what the contract has.
#[derive(Clone)]
struct Contract(GuestClient);

impl ClientTransport for Contract {
    type ResponseBody = Incoming;
    type Error = sandbox_core::Error;

    fn send(&self, request: Request<ClientBody>) -> RpcFuture<'static, Result<Response<Incoming>>> {
        let guest = self.0.clone();
        Box::pin(async move { guest.forward(request).await })
    }
}

/// A backend whose guests are never spoken to but as an envd.
pub struct Alone(Arc<LocalBackend>);

impl Alone {
    pub fn over(local: &Local) -> Arc<dyn Backend> {
        Arc::new(Self(Arc::clone(&local.backend)))
    }
}

/// A guest over the contract of one that there is, as long as that is there.
pub async fn guest_over<T>(
    transport: T,
    workspace: &str,
    gone: impl Future<Output = ()> + Send + 'static,
) -> GuestClient
where
    T: ClientTransport<ResponseBody = Incoming>,
{
    let envd = Envd::new(transport, Uri::from_static("http://envd"));
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let workspace = workspace.to_owned();
    tokio::spawn(async move {
        tokio::select! {
            _ = envd_guest::serve(envd, workspace, theirs) => {}
            () = gone => {}
        }
    });
    GuestClient::connect(ours).await.unwrap()
}

#[async_trait]
impl Backend for Alone {
    fn name(&self) -> &'static str {
        "envd"
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = self.0.capabilities();
        for lacked in [Capability::WarmPython, Capability::Freeze] {
            capabilities.remove(&lacked);
        }
        capabilities
    }

    fn enforcement(&self) -> Enforcement {
        self.0.enforcement()
    }

    async fn check(&self) -> Readiness {
        self.0.check().await
    }

    async fn create(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Arc<dyn Place>> {
        let place = self.0.create(id, spec).await?;
        let guest = guest_over(Contract(place.guest().clone()), "/workspace", place.gone()).await;
        guest
            .init(&GuestConfig {
                env: spec.env.clone(),
            })
            .await?;
        Ok(Arc::new(AlonePlace { place, guest }))
    }

    async fn list(&self) -> Result<Vec<Found>> {
        self.0.list().await
    }

    async fn end(&self, id: &SandboxId) -> Result<()> {
        self.0.end(id).await
    }

    async fn remove(&self, id: &SandboxId) -> Result<()> {
        self.0.remove(id).await
    }

    async fn close(&self) {
        self.0.close().await;
    }
}

struct AlonePlace {
    place: Arc<dyn Place>,
    guest: GuestClient,
}

#[async_trait]
impl Place for AlonePlace {
    fn guest(&self) -> &GuestClient {
        &self.guest
    }

    fn oom_kills(&self) -> Option<u64> {
        self.place.oom_kills()
    }

    fn usage(&self) -> Usage {
        self.place.usage()
    }

    fn suits(&self, spec: &SandboxSpec) -> bool {
        self.place.suits(spec)
    }

    async fn adapt(&self, spec: &SandboxSpec) -> Result<()> {
        self.place.adapt(spec).await
    }

    async fn stop(&self) -> Result<()> {
        self.place.stop().await?;
        self.guest.closed().await;
        Ok(())
    }

    fn gone(&self) -> BoxFuture<'static, ()> {
        self.place.gone()
    }
}
