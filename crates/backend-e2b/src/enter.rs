//! Which way into sandboxes this server leaves open: tried once, and then known.

use std::sync::atomic::{AtomicU8, Ordering};

use guest_client::GuestClient;
use sandbox_core::{Error, Result, chain};
use tracing::{info, warn};

use crate::{
    config::Door,
    door::{Closed, Entrance},
    error::unavailable,
};

/// The way that has worked last, where the operator names none.
pub(crate) struct Ways {
    wanted: Door,
    known: AtomicU8,
}

const UNKNOWN: u8 = 0;
const PORT: u8 = 1;
const COMMAND: u8 = 2;

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
            (Door::Envd, _) => "envd alone",
            (Door::Auto, _) => "not known yet",
        }
    }

    /// A guest in a sandbox; `fresh` is one that no guest of ours was in.
    pub async fn enter(&self, entrance: &Entrance<'_>, fresh: bool) -> Result<GuestClient> {
        let known = self.known.load(Ordering::Relaxed);
        match self.wanted {
            Door::Port => self.by_port(entrance, fresh).await.map_err(Error::from),
            Door::Auto if known != COMMAND => match self.by_port(entrance, fresh).await {
                Err(Closed::Refused(error)) => {
                    warn!(
                        "ports of the E2B server's sandboxes are closed, guests become commands \
                         of envd: {}",
                        chain(&error)
                    );
                    self.by_command(entrance, false).await
                }
                entered => entered.map_err(Error::from),
            },
            Door::Auto | Door::Command => self.by_command(entrance, fresh).await,
            Door::Envd => Err(unavailable("envd alone serves no sandbox yet")),
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
