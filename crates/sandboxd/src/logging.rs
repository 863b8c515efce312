//! Logs to standard error, and spans to a collector where one is named.

use std::{error::Error, io::IsTerminal as _, sync::Arc, time::Duration};

use sandbox_http::Spans;
use tokio::runtime::Handle;
use tracing_subscriber::{
    EnvFilter, Layer, Registry, layer::SubscriberExt as _, util::SubscriberInitExt as _,
};

use crate::settings::{LogFormat, Settings};

type Layers = Vec<Box<dyn Layer<Registry> + Send + Sync>>;

/// What must be stopped when the service stops.
pub struct Telemetry {
    #[cfg(feature = "otlp")]
    exporter: Option<crate::otlp::Exporter>,
}

pub fn start(settings: &Settings, runtime: &Handle) -> Result<Telemetry, Box<dyn Error>> {
    let mut layers = vec![log(settings)?];
    let telemetry = Telemetry::start(settings, runtime, &mut layers)?;
    tracing_subscriber::registry().with(layers).try_init()?;
    Ok(telemetry)
}

fn log(settings: &Settings) -> Result<Box<dyn Layer<Registry> + Send + Sync>, Box<dyn Error>> {
    let filter = EnvFilter::try_new(&settings.log)
        .map_err(|error| format!("bad value for `log`: {error}"))?;
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    Ok(match settings.log_format {
        LogFormat::Pretty => lines.with_target(false).with_filter(filter).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_filter(filter).boxed(),
    })
}

#[cfg(feature = "otlp")]
impl Telemetry {
    fn start(
        settings: &Settings,
        runtime: &Handle,
        layers: &mut Layers,
    ) -> Result<Self, Box<dyn Error>> {
        if settings.otlp_endpoint.is_empty() {
            return Ok(Self { exporter: None });
        }
        let exporter = crate::otlp::Exporter::start(&settings.otlp_endpoint, runtime)?;
        layers.push(exporter.layer().boxed());
        Ok(Self {
            exporter: Some(exporter),
        })
    }

    /// Who exports the spans of requests.
    pub fn spans(&self) -> Option<Arc<dyn Spans>> {
        self.exporter
            .is_some()
            .then(|| Arc::new(crate::otlp::Exported) as _)
    }

    /// Sends what is left, and takes no longer than this.
    pub fn stop(self, limit: Duration) {
        if let Some(exporter) = self.exporter {
            exporter.stop(limit);
        }
    }
}

/// Without the feature no endpoint passes the settings' check.
#[cfg(not(feature = "otlp"))]
impl Telemetry {
    fn start(_: &Settings, _: &Handle, _: &mut Layers) -> Result<Self, Box<dyn Error>> {
        Ok(Self {})
    }

    pub fn spans(&self) -> Option<Arc<dyn Spans>> {
        None
    }

    pub fn stop(self, _: Duration) {}
}
