//! How sandboxes are known again: what is in their metadata.

use std::collections::BTreeMap;

use sandbox_core::SandboxId;

/// Which service made it.
pub(crate) const OWNER: &str = "sandboxd-owner";
/// The hash of its tenant and session.
pub(crate) const SANDBOX: &str = "sandboxd-sandbox";
/// Whether it reaches the internet.
pub(crate) const INTERNET: &str = "sandboxd-internet";

pub(crate) fn metadata(owner: &str, id: &SandboxId, internet: bool) -> BTreeMap<String, String> {
    [
        (OWNER, owner),
        (SANDBOX, id.as_str()),
        (INTERNET, if internet { "true" } else { "false" }),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .into()
}

/// The sandbox that the metadata is of.
pub(crate) fn sandbox(metadata: &BTreeMap<String, String>) -> Option<SandboxId> {
    metadata.get(SANDBOX)?.parse().ok()
}
