//! The backend that the settings name.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use backend_docker::{DockerBackend, DockerConfig, Gpu, PullPolicy};
use backend_e2b::E2bBackend;
use backend_local::{LocalBackend, LocalConfig, PythonTemplate};
use futures::future::BoxFuture;
use sandbox_backend::Backend;
use sandbox_core::{Error as CoreError, ErrorCode};
use tracing::warn;

use crate::{
    e2b_backend,
    settings::{DockerPull, Settings},
};

const SANDBOX_START_LIMIT: Duration = Duration::from_secs(10);
/// The network that every Docker daemon has.
const BRIDGE: &str = "bridge";

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A backend, and what is to be done in the background while it begins to serve.
pub struct Chosen {
    pub backend: Arc<dyn Backend>,
    pub begin: BoxFuture<'static, ()>,
    /// What to do when it cannot say what the service before has left.
    pub if_away: Option<&'static str>,
}

const E2B_AWAY: &str = "the service starts when the server answers, for it must know which of \
                        its sandboxes are left; look at E2B_API_KEY, at E2B_API_URL or \
                        E2B_DOMAIN, and at the way there";

/// Why the service cannot start, for its operator.
#[derive(Debug)]
struct Away {
    error: CoreError,
    fix: &'static str,
}

impl fmt::Display for Away {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.error.detail(), self.fix)
    }
}

impl Error for Away {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// An error of the start, with what to do about it.
pub fn not_started(error: CoreError, if_away: Option<&'static str>) -> Box<dyn Error> {
    match if_away {
        Some(fix) if error.code() == ErrorCode::BackendUnavailable => Box::new(Away { error, fix }),
        _ => error.into(),
    }
}

/// `owner` tells services apart that share a daemon.
pub fn choose(settings: &Settings, owner: &str) -> Result<Chosen> {
    if settings.backend == "docker" {
        let backend = DockerBackend::new(docker_config(settings, owner));
        return Ok(Chosen {
            backend: Arc::clone(&backend) as _,
            begin: Box::pin(async move {
                if let Err(error) = backend.warm_up().await {
                    warn!("no sandbox can be made yet: {}", error.detail());
                }
            }),
            // Its errors say it themselves.
            if_away: None,
        });
    }
    if settings.backend == "e2b" {
        let backend = E2bBackend::new(e2b_backend::config(settings, owner)?)?;
        return Ok(Chosen {
            backend: Arc::clone(&backend) as _,
            begin: Box::pin(async move {
                for problem in backend.check().await.problems {
                    warn!("no sandbox can be made: {}; {}", problem.what, problem.fix);
                }
            }),
            if_away: Some(E2B_AWAY),
        });
    }
    let backend = LocalBackend::new(local_config(settings)?)?;
    Ok(Chosen {
        backend: Arc::clone(&backend) as _,
        begin: Box::pin(async move {
            for problem in backend.self_test().await {
                warn!("no sandbox can be made: {}; {}", problem.what, problem.fix);
            }
        }),
        if_away: None,
    })
}

pub fn local_config(settings: &Settings) -> Result<LocalConfig> {
    let guest = guest_binary::materialise(&settings.state_dir.join("guest"))
        .map_err(|error| format!("failed to write the guest to the state directory: {error}"))?;
    Ok(LocalConfig {
        state_dir: settings.state_dir.clone(),
        guest,
        bwrap: settings.bwrap.clone(),
        uid_range: settings.uid_range().ok_or("bad value for `uid_range`")?,
        read_only_paths: settings.read_only_paths.clone(),
        start_timeout: SANDBOX_START_LIMIT,
        python_preload: preload(settings),
        python_template: (settings.python_warm && settings.python_template)
            .then(|| python_template(settings)),
    })
}

fn preload(settings: &Settings) -> Option<Vec<String>> {
    settings
        .python_warm
        .then(|| settings.python_preload.clone())
}

fn python_template(settings: &Settings) -> PythonTemplate {
    PythonTemplate::of_zygote(
        guest_binary::PYTHON_ZYGOTE,
        &guest_binary::PYTHON_FILES,
        &settings.python_preload,
    )
}

pub fn docker_config(settings: &Settings, owner: &str) -> DockerConfig {
    let set = |text: &String| (!text.is_empty()).then(|| text.clone());
    let network = set(&settings.docker_network);
    DockerConfig {
        host: set(&settings.docker_host),
        images: settings.worker_images.clone(),
        pull: match settings.docker_pull {
            DockerPull::Missing => PullPolicy::Missing,
            DockerPull::Never => PullPolicy::Never,
        },
        pull_limit: Duration::from_secs(settings.docker_pull_timeout),
        runtime: set(&settings.docker_runtime),
        gpu: settings.gpu_enabled.then(|| Gpu {
            network: settings
                .gpu_network_enabled
                .then(|| network.clone().unwrap_or_else(|| BRIDGE.to_owned())),
        }),
        network,
        python_preload: preload(settings),
        ..DockerConfig::new(owner, &settings.worker_image, guest_binary::GUEST.into())
    }
}
