//! `sandboxd doctor`: what this machine can isolate.

use std::error::Error;

use backend_docker::DockerBackend;
use backend_e2b::E2bBackend;
use sandbox_backend::Backend;

use crate::{
    backend::{docker_config, local_config},
    e2b_backend,
    settings::Settings,
};

pub fn doctor(settings: &Settings) -> Result<(), Box<dyn Error>> {
    if settings.backend == "docker" {
        let backend = DockerBackend::new(docker_config(settings, "doctor"));
        return ask(backend.as_ref(), "the Docker daemon");
    }
    if settings.backend == "e2b" {
        let backend = E2bBackend::new(e2b_backend::config(settings, "doctor")?)?;
        return ask(backend.as_ref(), "the E2B server");
    }
    let findings = backend_local::diagnose(&local_config(settings)?);
    let mut broken = 0;
    for finding in &findings {
        let mark = if finding.ok { "ok  " } else { "MISS" };
        println!("{mark} {}: {}", finding.name, finding.detail);
        if let Some(fix) = &finding.fix {
            println!("     fix: {fix}");
        }
        broken += usize::from(!finding.ok);
    }
    match broken {
        0 => Ok(()),
        n => Err(format!("{n} of {} checks did not pass", findings.len()).into()),
    }
}

/// Asks who makes the sandboxes; nothing is made there.
fn ask(backend: &dyn Backend, who: &str) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let readiness = runtime.block_on(backend.check());
    for problem in &readiness.problems {
        println!("MISS {}\n     fix: {}", problem.what, problem.fix);
    }
    match readiness.problems.len() {
        0 => {
            println!("ok   {who} can make sandboxes");
            Ok(())
        }
        n => Err(format!("{n} checks did not pass").into()),
    }
}
