//! `sandboxd docker-gate`: the filter before a Docker socket.

use std::error::Error;

use docker_gate::{GateLimits, Listener, Policy, serve};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::{
    cli::{DockerGate, Options},
    logging, settings,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub fn run(options: &Options, wanted: &DockerGate) -> Result<()> {
    let Some(listen) = &options.listen else {
        return Err("--listen must be given: HOST:PORT, or the path of a socket".into());
    };
    let policy = policy(wanted)?;
    // Where to listen is the gate's own; of the settings it has those of the log.
    let others = Options {
        config: options.config.clone(),
        set: options.set.clone(),
        ..Options::default()
    };
    let settings = settings::read(&others)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let telemetry = logging::start(&settings, runtime.handle())?;
    let result = runtime.block_on(serve_at(listen, policy, wanted));
    telemetry.stop(std::time::Duration::ZERO);
    result
}

fn policy(wanted: &DockerGate) -> Result<Policy> {
    let mut policy = Policy::default();
    for pattern in &wanted.image {
        policy = policy.with_image(pattern)?;
    }
    for network in &wanted.allow_network {
        policy = policy.with_network(network)?;
    }
    for runtime in &wanted.runtime {
        policy = policy.with_runtime(runtime)?;
    }
    policy.allow_pull = wanted.allow_pull;
    policy.allow_gpu = wanted.allow_gpu;
    Ok(policy)
}

async fn serve_at(listen: &str, policy: Policy, wanted: &DockerGate) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let listener = Listener::bind(listen)
        .await
        .map_err(|error| format!("failed to listen on `{listen}`: {error}"))?;
    let upstream = wanted.upstream.display();
    info!("the Docker gate listens on {listen}, before `{upstream}`");
    if let Err(error) = tokio::net::UnixStream::connect(&wanted.upstream).await {
        // It may come later; until then calls are answered with 502.
        warn!("failed to connect to the Docker daemon at `{upstream}`: {error}");
    }
    let limits = GateLimits {
        max_connections: wanted.max_connections,
        ..GateLimits::default()
    };
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    serve(listener, policy, wanted.upstream.clone(), limits, shutdown).await;
    Ok(())
}
