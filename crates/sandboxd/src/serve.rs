//! `sandboxd serve`: everything wired together, from start to stop.

use std::{
    error::Error,
    fs::{self, File},
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::Duration,
};

use sandbox_admission::{Admission, AdmissionSettings};
use sandbox_audit::{Audit, AuditSettings};
use sandbox_backend::{Problem, Readiness};
use sandbox_core::{ArtifactLimits, Clock, ContextLimits, Limits, SandboxSpec, SystemClock};
use sandbox_e2b::E2bParts;
use sandbox_execution::{
    ArtifactSettings, Artifacts, ExecutionSettings, Executions, ProcessSettings, Processes,
};
use sandbox_http::{
    AppParts, AppState, HttpSettings, LanguageTable, Metrics, ServeLimits, SessionBounds,
    SessionWatch, Spans,
};
use sandbox_session::{SessionManager, SessionSettings};
use sandbox_store::Store;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{info, warn};

use crate::{
    auth::auth,
    backend::{Chosen, choose, not_started},
    e2b,
    e2b_tls::{self, Renewal},
    logging,
    settings::Settings,
};

/// Between two looks for sessions that are idle or whose time is up.
const REAP_INTERVAL: Duration = Duration::from_secs(1);
/// How long the last words of what has ended already may take.
const END_LIMIT: Duration = Duration::from_secs(5);
/// How long a stop may wait for the collector of traces.
const TELEMETRY_STOP_LIMIT: Duration = Duration::from_secs(3);

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub fn serve(settings: Settings) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let telemetry = logging::start(&settings, runtime.handle())?;
    let result = runtime.block_on(run(settings, telemetry.spans()));
    telemetry.stop(TELEMETRY_STOP_LIMIT);
    result
}

async fn run(settings: Settings, spans: Option<Arc<dyn Spans>>) -> Result<()> {
    let _lock = own_state_dir(&settings)?;
    let name = own_name(&settings)?;
    let Chosen {
        backend,
        begin,
        if_away,
    } = choose(&settings, &name)?;
    let store = sandbox_store::open(&settings.database(), &name).await?;
    let auth = auth(&settings, Arc::clone(&store) as _)?;
    let open_to_all = auth.is_off();
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let metrics = Arc::new(Metrics::new()?);
    let audit = Audit::start(
        Arc::clone(&store),
        Arc::clone(&clock),
        audit_settings(&settings),
    );
    metrics.set_sessions_limit(settings.max_sessions);
    let sessions = SessionManager::start(
        session_settings(&settings),
        Arc::clone(&backend),
        Arc::clone(&store) as _,
        Arc::clone(&clock),
        Arc::new(SessionWatch {
            metrics: Arc::clone(&metrics),
            audit: audit.clone(),
        }),
    )
    .await
    .map_err(|error| not_started(error, if_away))?;
    let admission = Arc::new(Admission::observed(
        admission_settings(&settings),
        Arc::clone(&metrics) as _,
    ));
    let artifacts = Artifacts::start(
        artifact_settings(&settings),
        Arc::clone(&store) as _,
        Arc::clone(&sessions),
        Arc::clone(&clock),
    );
    let executions = Executions::new(
        execution_settings(&settings),
        sandbox_execution::Parts {
            sessions: Arc::clone(&sessions),
            admission: Arc::clone(&admission),
            audit: audit.clone(),
            artifacts: artifacts.clone(),
            claims: Arc::clone(&store) as _,
            clock: Arc::clone(&clock),
            observer: Arc::clone(&metrics) as _,
        },
    );
    let processes = Processes::new(
        ProcessSettings::default(),
        Arc::clone(&sessions),
        audit.clone(),
        Arc::clone(&clock),
    );
    let e2b = match settings.e2b_address() {
        Some(address) => Some((
            address,
            E2bParts {
                sessions: Arc::clone(&sessions),
                executions: executions.clone(),
                admission: Arc::clone(&admission),
                auth: auth.clone(),
                audit: audit.clone(),
                metrics: Arc::clone(&metrics),
                clock: Arc::clone(&clock),
                capabilities: backend.capabilities(),
                secret: e2b::secret(&settings)?,
                settings: e2b::e2b_settings(&settings, http_settings(&settings)?)?,
            },
        )),
        None => None,
    };
    let readiness = Arc::clone(&store);
    let state = AppState::new(AppParts {
        sessions: Arc::clone(&sessions),
        admission,
        executions: executions.clone(),
        processes: processes.clone(),
        artifacts: artifacts.clone(),
        audit: audit.clone(),
        audit_trail: store,
        backends: vec![Arc::clone(&backend)],
        store: Arc::new(move || {
            let store = Arc::clone(&readiness);
            Box::pin(async move { store_readiness(store.as_ref()).await })
        }),
        auth,
        metrics: Arc::clone(&metrics),
        settings: http_settings(&settings)?,
        spans,
    });
    let listener = TcpListener::bind(settings.listen)
        .await
        .map_err(|error| format!("failed to listen on `{}`: {error}", settings.listen))?;
    let address = listener.local_addr()?;
    if open_to_all {
        warn!("no tokens or API keys are asked for: whoever reaches {address} may do everything");
    }
    announce(&format!("http://{address}"));
    let e2b = match e2b {
        Some((address, parts)) => {
            let tls = e2b_tls::tls(&settings)?;
            let listener = e2b::listen(address, tls.is_some()).await?;
            Some((tls, listener, e2b::router(parts, state.clone())))
        }
        None => None,
    };
    let begin = tokio::spawn(begin);

    let grace = Duration::from_secs(settings.shutdown_grace);
    let stop = CancellationToken::new();
    let limits = ServeLimits {
        max_connections: settings.max_connections,
        // Longer than the runs may take, for their answers are still to be sent.
        drain_timeout: grace + Duration::from_secs(5),
        ..ServeLimits::default()
    };
    let mut serving = JoinSet::new();
    let mut renewal = None;
    if let Some((tls, listener, router)) = e2b {
        if let Some(tls) = &tls {
            let running = Renewal::new(tls.clone(), metrics)?.run();
            renewal = Some(AbortOnDropHandle::new(tokio::spawn(running)));
        }
        let stopped = stop.clone().cancelled_owned();
        serving.spawn(sandbox_http::serve_over(
            tls,
            listener,
            router,
            limits.clone(),
            stopped,
        ));
    }
    serving.spawn(sandbox_http::serve(
        listener,
        sandbox_http::router(state),
        limits,
        stop.clone().cancelled_owned(),
    ));
    stop_signal().await?;
    info!("stopping");
    stop.cancel();
    sessions.shutdown(grace).await;
    begin.abort();
    drop(renewal);
    // Their sandboxes are gone: what is left is to tell their callers.
    executions.shutdown(END_LIMIT).await;
    processes.shutdown(END_LIMIT).await;
    while let Some(served) = serving.join_next().await {
        served?;
    }
    if tokio::time::timeout(END_LIMIT, backend.close())
        .await
        .is_err()
    {
        warn!("the backend took too long to stop");
    }
    artifacts.shutdown(END_LIMIT).await;
    // Last, for all of these record something.
    audit.shutdown(END_LIMIT).await;
    info!("stopped");
    Ok(())
}

async fn stop_signal() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Says where the service listens, for people and for scripts.
fn announce(url: &str) {
    let said = format!(
        "listening on {url}\n\
         try: curl -s {url}/v1/sandbox/execute -H 'content-type: application/json' \
         -d '{{\"session_id\": \"demo\", \"code\": \"print(6 * 7)\"}}'\n"
    );
    // Nobody needs to listen.
    let _ = io::stdout().lock().write_all(said.as_bytes());
}

/// Makes the state directory and holds it: two services on one would take each
/// other's sessions for remains.
fn own_state_dir(settings: &Settings) -> Result<File> {
    let dir = &settings.state_dir;
    fs::create_dir_all(dir).map_err(|error| {
        format!(
            "failed to make the state directory `{}`: {error}",
            dir.display()
        )
    })?;
    // Sandboxes run as other users when the service is root: they may pass, not look.
    fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
    let lock = File::create(dir.join("lock"))?;
    lock.try_lock().map_err(|_| {
        format!(
            "the state directory `{}` is in use by another service",
            dir.display()
        )
    })?;
    Ok(lock)
}

/// The name that this service's sessions have in a database which it may share
/// with others. It goes with the state directory, which has the workspaces.
fn own_name(settings: &Settings) -> Result<String> {
    let path = settings.state_dir.join("instance");
    let failed = |error: io::Error| format!("failed to keep `{}`: {error}", path.display());
    match fs::read_to_string(&path) {
        Ok(text) => {
            let name = text.trim();
            match name.parse::<uuid::Uuid>() {
                Ok(_) => Ok(name.to_owned()),
                Err(_) => Err(format!("`{}` has no UUID in it", path.display()).into()),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let name = uuid::Uuid::new_v4().to_string();
            // Never half a name, whenever the machine stops.
            let new = path.with_extension("new");
            let mut file = File::create(&new).map_err(failed)?;
            writeln!(file, "{name}").map_err(failed)?;
            file.sync_all().map_err(failed)?;
            fs::rename(&new, &path).map_err(failed)?;
            Ok(name)
        }
        Err(error) => Err(failed(error).into()),
    }
}

pub fn usual_spec(settings: &Settings) -> SandboxSpec {
    SandboxSpec {
        limits: Limits {
            memory: settings.mem_limit,
            cpus: settings.cpu_limit,
            pids: settings.pids_limit,
            disk: settings.disk_limit,
            tmp: settings.tmp_limit,
        },
        ..SandboxSpec::default()
    }
}

/// A ceiling that is not set is what every session has.
fn session_bounds(settings: &Settings) -> SessionBounds {
    let spec = usual_spec(settings);
    let usual = &spec.limits;
    let longest_ttl = settings.max_session_ttl.max(settings.session_ttl);
    SessionBounds {
        max_limits: Limits {
            memory: settings.max_mem_limit.max(usual.memory),
            cpus: settings.max_cpu_limit.max(usual.cpus),
            pids: settings.max_pids_limit.max(usual.pids),
            disk: settings.max_disk_limit.max(usual.disk),
            tmp: usual.tmp,
        },
        max_idle_timeout: Duration::from_secs(settings.max_idle_timeout.max(settings.idle_timeout)),
        max_ttl: (longest_ttl > 0).then(|| Duration::from_secs(longest_ttl)),
        spec,
    }
}

fn session_settings(settings: &Settings) -> SessionSettings {
    let idle_timeout = Duration::from_secs(settings.idle_timeout);
    SessionSettings {
        spec: usual_spec(settings),
        max_sessions: settings.max_sessions,
        tenant_max_sessions: settings.tenant_max_sessions,
        tenant_max_paused: settings.tenant_max_paused,
        idle_timeout,
        ttl: (settings.session_ttl > 0).then(|| Duration::from_secs(settings.session_ttl)),
        runs_per_session: settings.session_runs,
        queued_runs_per_session: settings.session_queue,
        pool_size: settings.pool_size,
        reap_interval: REAP_INTERVAL.min(idle_timeout),
    }
}

fn audit_settings(settings: &Settings) -> AuditSettings {
    let retention = settings.audit_retention;
    AuditSettings {
        retention: (retention > 0).then(|| Duration::from_secs(retention)),
        spool: Some(settings.state_dir.join("audit")),
        ..AuditSettings::default()
    }
}

fn artifact_settings(settings: &Settings) -> ArtifactSettings {
    let retention = settings.artifact_retention;
    ArtifactSettings {
        retention: (retention > 0).then(|| Duration::from_secs(retention)),
        tenant_bytes: settings.tenant_artifacts.bytes(),
    }
}

fn execution_settings(settings: &Settings) -> ExecutionSettings {
    ExecutionSettings {
        retention: Duration::from_secs(settings.execution_retention),
        audit_code: settings.audit_code,
        ..ExecutionSettings::default()
    }
}

fn admission_settings(settings: &Settings) -> AdmissionSettings {
    AdmissionSettings {
        tenant_runs: settings.tenant_runs,
        tenant_queue: settings.tenant_queue,
        total_runs: settings.total_runs,
        total_queue: settings.total_queue,
        queue_wait: Duration::from_secs(settings.queue_wait_seconds),
        requests_per_second: settings.requests_per_second,
        request_burst: settings.request_burst,
    }
}

fn http_settings(settings: &Settings) -> Result<HttpSettings> {
    let languages = if settings.languages.as_os_str().is_empty() {
        LanguageTable::built_in()?
    } else {
        let text = fs::read_to_string(&settings.languages).map_err(|error| {
            format!("failed to read `{}`: {error}", settings.languages.display())
        })?;
        LanguageTable::built_in()?.extended_by(&text)?
    };
    let languages = languages.restricted_to(&settings.allowed_languages)?;
    Ok(HttpSettings {
        hosts: settings.hosts.clone(),
        prefix: settings.prefix.parse()?,
        body_timeout: Duration::from_secs(settings.body_timeout),
        max_body_bytes: usize::try_from(settings.body_limit.bytes())?,
        max_code_bytes: usize::try_from(settings.code_limit.bytes())?,
        max_copy_bytes: settings.copy_limit.bytes(),
        default_timeout: Duration::from_secs_f64(settings.timeout_sec),
        max_timeout: Duration::from_secs_f64(settings.max_timeout_sec),
        max_output_bytes: settings.output_limit.bytes(),
        spill_bytes: settings.spill_limit.bytes(),
        contexts: ContextLimits {
            max_contexts: settings.session_contexts,
            idle: (settings.context_idle_timeout > 0)
                .then(|| Duration::from_secs(settings.context_idle_timeout)),
            memory: (settings.context_mem_limit.bytes() > 0).then_some(settings.context_mem_limit),
        },
        artifacts: (settings.artifact_files > 0).then(|| ArtifactLimits {
            max_files: settings.artifact_files,
            max_file_bytes: settings.artifact_limit.bytes(),
            max_total_bytes: settings.artifacts_limit.bytes(),
        }),
        sessions: session_bounds(settings),
        ..HttpSettings::new(languages)
    })
}

async fn store_readiness(store: &dyn Store) -> Readiness {
    match store.ping().await {
        Ok(()) => Readiness::default(),
        Err(_) => Readiness {
            problems: vec![Problem::new(
                "the store does not answer",
                "look at the disk of state_dir, or at the server in database_url",
            )],
        },
    }
}
