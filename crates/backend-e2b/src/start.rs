//! How a sandbox is started: the one that is there, or a new one, with a guest in it.

use std::sync::{Arc, atomic::Ordering};

use e2b_wire::{NetworkConfig, NewSandbox, Sandbox};
use guest_client::GuestConfig;
use sandbox_core::{Error, ErrorCode, NetworkPolicy, Result, SandboxId, SandboxSpec};
use tokio::time::timeout;

use crate::{
    backend::Inner,
    door::{Entrance, greet},
    enter::Entered,
    envd::Envd,
    error::unavailable,
    names,
    place::{E2bPlace, Running},
    slots::{Slot, Theirs},
    usage::Told,
};

impl Inner {
    fn check_spec(&self, spec: &SandboxSpec) -> Result<()> {
        if let Some(missing) = spec.required().difference(&self.capabilities()).next() {
            return Err(unsupported(format!(
                "sandboxes of E2B do not have the capability {missing:?}"
            )));
        }
        if spec.limits != self.config.limits {
            return Err(unsupported(
                "sandboxes of E2B have the limits of their template alone",
            ));
        }
        Ok(())
    }

    pub async fn start(self: Arc<Self>, id: SandboxId, spec: SandboxSpec) -> Result<E2bPlace> {
        if let Err(refused) = self.check_spec(&spec) {
            // What the operator has taken back does not run on.
            self.end(&id).await?;
            return Err(refused);
        }
        self.wait_for_earlier(&id).await?;
        self.find_once().await?;
        let mut slot = self.slots.take(&id).await;
        let (sandbox, fresh) = match self.resume(&slot, &spec).await? {
            Some(sandbox) => (sandbox, false),
            None => {
                let sandbox = self.make(&id, &spec).await?;
                slot.theirs = Some(Theirs {
                    id: sandbox.sandbox_id.clone(),
                    internet: wants_internet(&spec),
                });
                (sandbox, true)
            }
        };
        match self.enter(&id, &sandbox, &spec, fresh).await {
            Ok(place) => {
                self.earlier.is(&id, place.ended());
                Ok(place)
            }
            Err(error) => {
                if fresh {
                    self.control.kill(&sandbox.sandbox_id).await?;
                    slot.theirs = None;
                    self.slots.forget(&id);
                } else {
                    drop(slot);
                    self.rest(&id);
                }
                Err(error)
            }
        }
    }

    /// The sandbox that is there already, resumed if it was paused.
    async fn resume(&self, slot: &Slot, spec: &SandboxSpec) -> Result<Option<Sandbox>> {
        let Some(theirs) = &slot.theirs else {
            return Ok(None);
        };
        if theirs.internet != wants_internet(spec) {
            return Err(unsupported(
                "the session's sandbox was made with another network",
            ));
        }
        self.control.connect(&theirs.id, self.config.life).await
    }

    async fn make(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Sandbox> {
        let config = &self.config;
        let internet = wants_internet(spec);
        let new = NewSandbox {
            template_id: config.template.clone(),
            timeout: Some(u32::try_from(config.life.as_secs()).unwrap_or(u32::MAX)),
            metadata: Some(names::metadata(&config.owner, id, internet)),
            allow_internet_access: Some(internet),
            // A service that dies leaves workspaces to the next, and nothing that runs.
            auto_pause: Some(!self.cannot_pause.load(Ordering::Relaxed)),
            network: config.secure.then(|| NetworkConfig {
                allow_public_traffic: Some(false),
                ..NetworkConfig::default()
            }),
            ..NewSandbox::default()
        };
        self.control.create(new, config.secure).await
    }

    async fn enter(
        self: &Arc<Self>,
        id: &SandboxId,
        sandbox: &Sandbox,
        spec: &SandboxSpec,
        fresh: bool,
    ) -> Result<E2bPlace> {
        if self.config.secure && sandbox.envd_access_token.is_none() {
            return Err(unavailable(
                "the E2B server makes sandboxes without tokens; whoever wants that sets \
                 E2B_SECURE_ACCESS=false",
            ));
        }
        let envd = Envd::new(&self.http, &self.config.servers, sandbox)?;
        let entrance = Entrance {
            config: &self.config,
            http: &self.http,
            program: &self.program,
            envd: &envd,
            sandbox,
        };
        let guest_config = GuestConfig {
            env: spec.env.clone(),
        };
        let entering = async {
            let entered = self.ways.enter(&entrance, fresh).await?;
            greet(&entered.guest, &guest_config).await?;
            Ok::<_, Error>(entered)
        };
        let Entered { guest, alone } = timeout(self.config.start_timeout, entering)
            .await
            .map_err(|_| unavailable("the sandbox did not start in time"))??;
        let told = || Told::new(self.control.clone(), sandbox.sandbox_id.clone());
        let told = alone.is_some().then(told);
        let is_alone = alone.is_some();
        let running = Running {
            control: self.control.clone(),
            envd,
            theirs: sandbox.sandbox_id.clone(),
            life: self.config.life,
            alone,
        };
        let (inner, id) = (Arc::clone(self), id.clone());
        let rest = async move {
            // What runs in it ends with a guest of ours, or with the pause alone.
            if is_alone {
                let slot = inner.slots.take(&id).await;
                inner.pause_or_tell(&id, slot).await;
            } else {
                inner.rest(&id);
            }
        };
        Ok(E2bPlace::new(guest, told, spec.clone(), running, rest))
    }
}

fn wants_internet(spec: &SandboxSpec) -> bool {
    spec.network != NetworkPolicy::Disabled
}

fn unsupported(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::Unsupported, detail)
}
