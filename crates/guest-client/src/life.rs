//! A sandbox's processes as a whole.

use std::time::Duration;

use connectrpc::client::CallOptions;
use sandbox_core::Result;
use sandbox_wire::sandbox::v1::{FreezeRequest, ThawRequest};

use crate::{GuestClient, error::from_guest};

/// Many processes take a moment.
const CALL_LIMIT: Duration = Duration::from_secs(10);

impl GuestClient {
    /// Stops every process of the sandbox, and its limits of time with them. What is
    /// asked for meanwhile waits where it needs a process, and is done where it does not.
    /// Again, it changes nothing.
    ///
    /// `Unsupported`: the guest is not the init of its sandbox.
    pub async fn freeze(&self) -> Result<()> {
        let options = CallOptions::default().with_timeout(CALL_LIMIT);
        let call = self
            .life
            .freeze_with_options(FreezeRequest::default(), options);
        call.await.map(drop).map_err(from_guest)
    }

    /// Lets them go on; nothing where they do.
    pub async fn thaw(&self) -> Result<()> {
        let options = CallOptions::default().with_timeout(CALL_LIMIT);
        let call = self.life.thaw_with_options(ThawRequest::default(), options);
        call.await.map(drop).map_err(from_guest)
    }
}
