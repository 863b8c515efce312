//! Sandboxes whose guest is spoken to as an envd.
#![expect(dead_code, reason = "each test binary uses its part")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{fs, os::unix::fs::PermissionsExt as _, sync::Arc};

use async_trait::async_trait;
use backend_local::{LocalBackend, LocalConfig};
use bytes::Bytes;
use connectrpc::client::{BoxFuture as RpcFuture, ClientBody, ClientTransport};
use envd_guest::Envd;
use futures::future::BoxFuture;
use guest_client::{GuestClient, GuestConfig};
use http::{Request, Response, Uri};
use hyper::{body::Incoming, client::conn::http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sandbox_backend::{Backend, Found, Place, Readiness, Usage};
use sandbox_core::{Capabilities, Capability, Enforcement, Result, SandboxId, SandboxSpec};
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncWrite};

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
