//! Which way into sandboxes this server leaves open: tried once, and then known.

use std::sync::atomic::{AtomicU8, Ordering};

use guest_client::GuestClient;
use sandbox_core::{Error, Result, chain};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use crate::{
    config::Door,
    door::{Closed, Entrance},
};

/// What is spoken to in a sandbox.
pub(crate) struct Entered {
    pub guest: GuestClient,
    /// What gives a guest's services by envd, where no guest of ours is there.
    pub alone: Option<AbortOnDropHandle<()>>,
}

impl Entered {
    fn inside(guest: GuestClient) -> Self {
        Self { guest, alone: None }
    }

    fn alone((guest, serving): (GuestClient, AbortOnDropHandle<()>)) -> Self {
        Self {
            guest,
            alone: Some(serving),
        }
    }
}

/// The way that has worked last, where the operator names none.
pub(crate) struct Ways {
    wanted: Door,
    known: AtomicU8,
}

const UNKNOWN: u8 = 0;
const PORT: u8 = 1;
const COMMAND: u8 = 2;
const ENVD: u8 = 3;

impl Ways {
    pub fn new(wanted: Door) -> Self {
        Self {
            wanted,
            known: AtomicU8::new(UNKNOWN),
        }
    }

    /// What `/backends` shows.
    pub fn name(&self) -> &'static str {
        match (self.wanted, self.known.load(Ordering::Relaxed)) {
            (Door::Port, _) | (Door::Auto, PORT) => "port",
            (Door::Command, _) | (Door::Auto, COMMAND) => "command of envd",
            (Door::Envd, _) | (Door::Auto, ENVD) => "envd alone",
            (Door::Auto, _) => "not known yet",
        }
    }

    /// No guest of ours was put into the last sandbox.
    pub fn is_alone(&self) -> bool {
        self.wanted == Door::Envd || self.known.load(Ordering::Relaxed) == ENVD
    }

    /// A guest in a sandbox; `fresh` is one that no guest of ours was in.
    pub async fn enter(&self, entrance: &Entrance<'_>, fresh: bool) -> Result<Entered> {
        let inside = match self.wanted {
            Door::Port => self.by_port(entrance, fresh).await.map_err(Error::from),
            Door::Command => self.by_command(entrance, fresh).await,
            Door::Envd => return entrance.alone().await.map(Entered::alone),
            Door::Auto => self.inside(entrance, fresh).await,
        };
        match inside {
            Err(error) if self.wanted == Door::Auto && entrance.envd_answers().await => {
                warn!(
                    "our guest cannot be put into a sandbox of E2B, envd serves it alone: {}",
                    chain(&error)
                );
                let alone = entrance.alone().await?;
                self.has_worked(ENVD);
                Ok(Entered::alone(alone))
            }
            inside => inside.map(Entered::inside),
        }
    }

    /// What was refused once is not tried again; what failed otherwise is.
    async fn inside(&self, entrance: &Entrance<'_>, fresh: bool) -> Result<GuestClient> {
        if self.known.load(Ordering::Relaxed) == COMMAND {
            return self.by_command(entrance, fresh).await;
        }
        match self.by_port(entrance, fresh).await {
            Err(Closed::Refused(error)) => {
                warn!(
                    "ports of the E2B server's sandboxes are closed, guests become commands of \
                     envd: {}",
                    chain(&error)
                );
                self.by_command(entrance, false).await
            }
            entered => entered.map_err(Error::from),
        }
    }

    async fn by_port(&self, entrance: &Entrance<'_>, fresh: bool) -> Result<GuestClient, Closed> {
        if !fresh {
            if let Some(guest) = entrance.again().await {
                info!("took over the guest of a sandbox");
                return Ok(guest);
            }
            entrance.clear().await?;
        }
        let guest = entrance.by_port().await?;
        self.has_worked(PORT);
        Ok(guest)
    }

    async fn by_command(&self, entrance: &Entrance<'_>, fresh: bool) -> Result<GuestClient> {
        if !fresh {
            entrance.clear().await?;
        }
        let guest = entrance.by_command().await?;
        self.has_worked(COMMAND);
        Ok(guest)
    }

    fn has_worked(&self, way: u8) {
        if self.known.swap(way, Ordering::Relaxed) != way {
            info!("guests in sandboxes of E2B are reached by: {}", self.name());
        }
    }
}

impl From<Closed> for Error {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Refused(error) | Closed::Failed(error) => error,
        }
    }
}
