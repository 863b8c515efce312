//! What an operator permits beyond the least.

use crate::{
    image::{ImageName, ImagePattern},
    refusal::{Refusal, Result, quoted},
};

/// The least by default: no network, no GPU, the daemon's own runtime, no pull.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    images: Vec<ImagePattern>,
    networks: Vec<String>,
    runtimes: Vec<String>,
    pub allow_pull: bool,
    pub allow_gpu: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error("`{0}` is not the name of an image, nor a pattern of one")]
    Image(String),
    /// Docker reads some names as orders: to share the host's network for example.
    #[error("`{0}` cannot be permitted as a network: it is not one's name, or means the host's")]
    Network(String),
    #[error("`{0}` is not the name of a runtime")]
    Runtime(String),
}

impl Policy {
    /// Without an image here, containers may be made of all that the daemon has.
    pub fn with_image(mut self, pattern: &str) -> std::result::Result<Self, PolicyError> {
        let pattern =
            ImagePattern::parse(pattern).ok_or_else(|| PolicyError::Image(pattern.to_owned()))?;
        self.images.push(pattern);
        Ok(self)
    }

    pub fn with_network(mut self, name: &str) -> std::result::Result<Self, PolicyError> {
        if !is_word(name) || ["host", "default", "none"].contains(&name) {
            return Err(PolicyError::Network(name.to_owned()));
        }
        self.networks.push(name.to_owned());
        Ok(self)
    }

    /// Once there is one here, a container must name one of them.
    pub fn with_runtime(mut self, name: &str) -> std::result::Result<Self, PolicyError> {
        if !is_word(name) {
            return Err(PolicyError::Runtime(name.to_owned()));
        }
        self.runtimes.push(name.to_owned());
        Ok(self)
    }

    pub(crate) fn check_image(&self, name: &ImageName) -> Result<()> {
        if self.images.is_empty() || self.images.iter().any(|pattern| pattern.matches(name)) {
            return Ok(());
        }
        Err(Refusal::forbidden(format!(
            "the image {} is none of those that --image permits",
            quoted(&name.text())
        )))
    }

    pub(crate) fn check_network(&self, mode: Option<&str>) -> Result<()> {
        match mode {
            Some("none") => Ok(()),
            Some(name) if self.networks.iter().any(|permitted| permitted == name) => Ok(()),
            Some(name) => Err(Refusal::forbidden(format!(
                "HostConfig.NetworkMode {} is not permitted: it must be `none`, or a network that \
                 --allow-network names",
                quoted(name)
            ))),
            // Docker's default is a network.
            None => Err(Refusal::forbidden("HostConfig.NetworkMode must be given")),
        }
    }

    pub(crate) fn check_runtime(&self, runtime: Option<&str>) -> Result<()> {
        let permitted = match runtime {
            // To leave it out would be the way around a stronger one.
            None => self.runtimes.is_empty(),
            Some(name) => self.runtimes.iter().any(|permitted| permitted == name),
        };
        if permitted {
            return Ok(());
        }
        Err(Refusal::forbidden(format!(
            "HostConfig.Runtime {} is not permitted: it must be one that --runtime names, or \
             left out where that is not used",
            quoted(runtime.unwrap_or_default())
        )))
    }
}

fn is_word(text: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_network_cannot_be_permitted() {
        for bad in ["host", "default", "none", "container:abc", "", "-x", "a b"] {
            let error = Policy::default().with_network(bad).unwrap_err();
            assert_eq!(error, PolicyError::Network(bad.into()));
        }
        let policy = Policy::default().with_network("bridge").unwrap();
        assert!(policy.check_network(Some("bridge")).is_ok());
        assert!(policy.check_network(Some("none")).is_ok());
        assert!(policy.check_network(None).is_err());
        assert!(policy.check_network(Some("host")).is_err());
        assert!(Policy::default().check_network(Some("bridge")).is_err());
    }

    #[test]
    fn a_runtime_that_is_demanded_cannot_be_left_out() {
        let policy = Policy::default().with_runtime("runsc").unwrap();
        assert!(policy.check_runtime(Some("runsc")).is_ok());
        assert!(policy.check_runtime(Some("runc")).is_err());
        assert!(policy.check_runtime(None).is_err());
        assert!(Policy::default().check_runtime(None).is_ok());
        assert!(Policy::default().check_runtime(Some("runc")).is_err());
    }
}
