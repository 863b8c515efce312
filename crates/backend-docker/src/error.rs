//! What the daemon says, as errors of ours.

use bollard::errors::Error as Docker;
use sandbox_core::{Error, ErrorCode};

/// The detail says what was done and nothing of the daemon's words, which may
/// name paths of its host; those go to the log.
pub(crate) fn failed(what: &str, error: Docker) -> Error {
    unavailable(format!("the Docker daemon did not {what}")).with_source(error)
}

pub(crate) fn unavailable(detail: impl Into<String>) -> Error {
    Error::new(ErrorCode::BackendUnavailable, detail)
}

/// The daemon's answer, if it answered.
fn status(error: &Docker) -> Option<u16> {
    match error {
        Docker::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

pub(crate) fn is_missing(error: &Docker) -> bool {
    status(error) == Some(404)
}

/// A name that is taken, a volume that is in use, a removal that is under way.
pub(crate) fn is_conflict(error: &Docker) -> bool {
    status(error) == Some(409)
}

pub(crate) fn is_forbidden(error: &Docker) -> bool {
    status(error) == Some(403)
}
