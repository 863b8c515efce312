//! `sandboxd doctor`: what this machine can isolate.

use std::error::Error;

use crate::{backend::local_config, settings::Settings};

pub fn doctor(settings: &Settings) -> Result<(), Box<dyn Error>> {
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
