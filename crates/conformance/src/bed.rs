//! Where a case makes its sandboxes, and what it does in them.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use guest_client::{
    GuestClient,
    messages::{ReadBytesRequest, WriteRequest},
};
use sandbox_backend::{Backend, Place};
use sandbox_core::{
    ContextDriver, ContextLimits, Error, InContext, Limits, Program, Result, RunOutcome,
    RunRequest, SandboxId, SandboxSpec, Script, Termination,
};

/// How long a case waits for what must come.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// A clone is the same bed.
#[derive(Clone)]
pub struct Bed {
    pub backend: Arc<dyn Backend>,
    made: Arc<Mutex<Vec<Made>>>,
    salt: u64,
    next: Arc<AtomicU64>,
}

struct Made {
    id: SandboxId,
    places: Vec<Arc<dyn Place>>,
}

/// A sandbox that runs; a clone is the same one.
#[derive(Clone)]
pub struct Sandbox {
    pub id: SandboxId,
    pub place: Arc<dyn Place>,
}

impl Bed {
    pub(crate) fn new(backend: Arc<dyn Backend>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Self {
            backend,
            made: Arc::default(),
            salt: (u64::from(std::process::id()) << 32) | NEXT.fetch_add(1, Ordering::Relaxed),
            next: Arc::default(),
        }
    }

    /// A name that no other case has.
    pub fn id(&self) -> SandboxId {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        let id: SandboxId = format!("{:016x}{n:016x}", self.salt).parse().unwrap();
        let made = Made {
            id: id.clone(),
            places: Vec::new(),
        };
        self.made().push(made);
        id
    }

    fn made(&self) -> std::sync::MutexGuard<'_, Vec<Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn start(&self) -> Sandbox {
        self.start_with(&SandboxSpec::default()).await
    }

    pub async fn start_limited(&self, limits: Limits) -> Sandbox {
        let spec = SandboxSpec {
            limits,
            ..SandboxSpec::default()
        };
        self.start_with(&spec).await
    }

    pub async fn start_with(&self, spec: &SandboxSpec) -> Sandbox {
        let id = self.id();
        self.start_as(&id, spec).await.unwrap()
    }

    pub async fn start_as(&self, id: &SandboxId, spec: &SandboxSpec) -> Result<Sandbox> {
        let place = self.backend.create(id, spec).await?;
        let mut made = self.made();
        if let Some(made) = made.iter_mut().find(|made| made.id == *id) {
            made.places.push(Arc::clone(&place));
        }
        Ok(Sandbox {
            id: id.clone(),
            place,
        })
    }

    pub async fn has_workspace(&self, id: &SandboxId) -> bool {
        let found = self.backend.list().await.unwrap();
        found.iter().any(|found| found.id == *id)
    }

    pub(crate) async fn clean_up(&self) {
        let all = std::mem::take(&mut *self.made());
        for made in all {
            for place in made.places {
                place.stop().await.unwrap();
            }
            self.backend.remove(&made.id).await.unwrap();
        }
    }
}

impl Sandbox {
    pub fn guest(&self) -> &GuestClient {
        self.place.guest()
    }

    pub async fn try_run(&self, request: RunRequest) -> Result<RunOutcome> {
        let kills = self.place.oom_kills();
        let mut outcome = self.guest().run(request).await?.collect().await?;
        // Who counts, the guest or the place, is the backend's own affair.
        if outcome.signal == Some(9) && kills < self.place.oom_kills() {
            outcome.termination = Termination::OutOfMemory;
        }
        Ok(outcome)
    }

    pub async fn sh(&self, script: &str) -> RunOutcome {
        self.try_run(shell(script)).await.unwrap()
    }

    /// What a shell script prints; it must end well.
    pub async fn says(&self, script: &str) -> String {
        let outcome = self.sh(script).await;
        assert_eq!(
            (outcome.exit_code, outcome.stderr.to_text().as_str()),
            (0, ""),
            "{script}: {}",
            outcome.stdout.to_text()
        );
        outcome.stdout.to_text()
    }

    /// What a Python program prints; it must end well.
    pub async fn python(&self, program: &str) -> String {
        let outcome = self.try_run(python(program)).await.unwrap();
        assert_eq!(
            (outcome.exit_code, outcome.stderr.to_text().as_str()),
            (0, ""),
            "{program}"
        );
        outcome.stdout.to_text()
    }

    pub async fn write(&self, path: &str, data: &[u8]) -> Result<()> {
        let request = WriteRequest {
            path: path.into(),
            data: data.into(),
            mode: 0o644,
            create_dirs: true,
            ..Default::default()
        };
        self.guest().write(request).await.map(drop)
    }

    pub async fn read(&self, path: &str) -> Result<Vec<u8>> {
        let request = ReadBytesRequest {
            path: path.into(),
            ..Default::default()
        };
        let mut file = self.guest().read_bytes(request).await?;
        let mut data = Vec::new();
        while let Some(part) = file.next().await? {
            data.extend_from_slice(&part);
        }
        Ok(data)
    }
}

pub fn request(argv: &[&str]) -> RunRequest {
    RunRequest {
        program: Program {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            script: None,
        },
        env: Default::default(),
        cwd: None,
        stdin: Default::default(),
        timeout: Duration::from_secs(30),
        output_limit: 1 << 20,
        live: false,
        spill_limit: 0,
        artifacts: None,
        python_display: false,
        context: None,
    }
}

pub fn shell(script: &str) -> RunRequest {
    request(&["/bin/sh", "-c", script])
}

pub fn python(program: &str) -> RunRequest {
    request(&["python3", "-c", program])
}

/// Python code for the context of this name.
pub fn in_context(name: &str, code: &str) -> RunRequest {
    let mut request = request(&["python3", "-u", "{file}"]);
    request.program.script = Some(Script {
        file_name: "main.py".into(),
        source: code.to_owned().into(),
        compile: Vec::new(),
    });
    request.context = Some(InContext {
        name: name.parse().unwrap(),
        language: "python".into(),
        driver: ContextDriver::Python,
        limits: ContextLimits::default(),
    });
    request
}

/// Waits for a state that nothing announces.
pub async fn until<F: Future<Output = bool>>(what: &str, mut reached: impl FnMut() -> F) {
    let looking = async {
        while !reached().await {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    let within = tokio::time::timeout(PATIENCE, looking).await;
    assert!(within.is_ok(), "not in time: {what}");
}

pub async fn soon<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    let within = tokio::time::timeout(PATIENCE, waiting).await;
    within.map_err(|_: _| what.to_owned()).unwrap()
}

pub fn code(result: Result<impl Sized>) -> String {
    result
        .err()
        .map(|error: Error| error.code().as_str().to_owned())
        .unwrap_or_default()
}
