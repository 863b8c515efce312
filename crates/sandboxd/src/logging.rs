//! Logs to standard error.

use std::{error::Error, io::IsTerminal as _};

use tracing_subscriber::EnvFilter;

use crate::settings::{LogFormat, Settings};

pub fn start(settings: &Settings) -> Result<(), Box<dyn Error>> {
    let filter = EnvFilter::try_new(&settings.log)
        .map_err(|error| format!("bad value for `log`: {error}"))?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    match settings.log_format {
        LogFormat::Pretty => logs.with_target(false).init(),
        LogFormat::Json => logs.json().flatten_event(true).init(),
    }
    Ok(())
}
