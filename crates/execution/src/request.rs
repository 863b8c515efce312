//! What is asked for.

use guest_client::messages::WriteRequest;
use sandbox_core::{ExecutionId, RunRequest, SessionId, TenantId};
use sandbox_store::AuditAction;
use sha2::{Digest, Sha256};

/// A run to make, checked.
#[derive(Clone, Debug)]
pub struct ExecutionRequest {
    pub tenant: TenantId,
    /// `None`: a sandbox of its own, destroyed after it.
    pub session: Option<SessionId>,
    /// The session is not made: it is there, or there is no run.
    pub existing: bool,
    /// Chosen by the caller: the same one again is the same run.
    pub id: Option<ExecutionId>,
    pub files: Vec<WriteRequest>,
    pub run: RunRequest,
    /// `execute` or `bash`.
    pub action: AuditAction,
    /// The code, or the command.
    pub code: String,
    pub language: String,
    /// The program that runs it.
    pub runtime: String,
    /// What to say where that program is not installed.
    pub missing: String,
    /// Goes on when nobody waits for it any more.
    pub detach: bool,
    /// Who asks, for the audit trail.
    pub subject: String,
    pub request_id: Option<String>,
}

impl ExecutionRequest {
    /// Of everything that decides what the run does, in hex.
    pub(crate) fn sha256(&self) -> String {
        let mut digest = Parts(Sha256::new());
        digest.add(self.action.as_str());
        digest.add(self.session.as_ref().map_or("", SessionId::as_str));
        digest.add(&self.language);
        digest.add(&self.code);
        digest.add(&self.run.stdin);
        digest.add(self.run.cwd.as_deref().unwrap_or_default());
        digest.add(self.run.timeout.as_nanos().to_be_bytes());
        digest.count(self.run.program.argv.len());
        for argument in &self.run.program.argv {
            digest.add(argument);
        }
        digest.count(self.run.env.len());
        for (name, value) in &self.run.env {
            digest.add(name);
            digest.add(value);
        }
        digest.count(self.files.len());
        for file in &self.files {
            digest.add(&file.path);
            digest.add(&file.data);
            digest.add(file.mode.to_be_bytes());
        }
        // Names that were used before there were contexts mean the same still.
        if let Some(context) = &self.run.context {
            digest.add("context");
            digest.add(context.name.as_str());
        }
        hex(&digest.0.finalize())
    }

    pub(crate) fn code_sha256(&self) -> String {
        hex(&Sha256::digest(self.code.as_bytes()))
    }
}

/// Each part with its length before it, so that none runs into the next.
struct Parts(Sha256);

impl Parts {
    fn add(&mut self, part: impl AsRef<[u8]>) {
        let part = part.as_ref();
        self.count(part.len());
        self.0.update(part);
    }

    fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
