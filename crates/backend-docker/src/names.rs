//! What containers and volumes are called, and how they are known again.

use std::collections::HashMap;

use sandbox_core::SandboxId;
use sha2::{Digest as _, Sha256};

/// Whose container or volume it is.
pub(crate) const OWNER: &str = "dev.sandboxd.owner";
/// The sandbox's id.
pub(crate) const SANDBOX: &str = "dev.sandboxd.sandbox";
/// `sandbox`, `guest`, `probe`, or `helper`: a container that is never started.
pub(crate) const KIND: &str = "dev.sandboxd.kind";
/// The version of the guest in it.
pub(crate) const GUEST: &str = "dev.sandboxd.guest";
/// A hash of what of the container cannot be changed while it lives.
pub(crate) const SHAPE: &str = "dev.sandboxd.shape";
/// Of an image: its `/workspace` belongs to the user that programs run as.
pub(crate) const WORKSPACE: &str = "dev.sandboxd.workspace";

const SHORT: usize = 12;

/// The names of one service's things.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    owner: String,
}

impl Names {
    pub fn new(owner: &str) -> Self {
        Self {
            owner: owner.to_owned(),
        }
    }

    /// Of the container and of the volume; an id has no character that a name may not.
    pub fn of(&self, id: &SandboxId) -> String {
        format!("sandboxd-{}-{}", short(&self.owner), id.as_str())
    }

    pub fn of_guest(&self, version: &str) -> String {
        format!("sandboxd-{}-guest-{version}", short(&self.owner))
    }

    pub fn of_probe(&self) -> String {
        format!("sandboxd-{}-probe", short(&self.owner))
    }

    /// Of one of its volumes or containers.
    pub fn labels(&self, id: &SandboxId) -> HashMap<String, String> {
        let mut labels = self.own("sandbox");
        labels.insert(SANDBOX.into(), id.as_str().to_owned());
        labels
    }

    pub fn own(&self, kind: &str) -> HashMap<String, String> {
        HashMap::from([
            (OWNER.into(), self.owner.clone()),
            (KIND.into(), kind.into()),
        ])
    }

    /// What finds all of this kind that is this service's.
    pub fn filter(&self, kind: &str) -> HashMap<String, Vec<String>> {
        HashMap::from([(
            "label".into(),
            vec![format!("{OWNER}={}", self.owner), format!("{KIND}={kind}")],
        )])
    }
}

/// Enough of a hash to tell two apart.
pub(crate) fn short(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))[..SHORT].to_owned()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
