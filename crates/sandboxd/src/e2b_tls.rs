//! The certificate of the E2B API, which is renewed while the service runs.

use std::{
    error::Error,
    future::pending,
    io,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use sandbox_core::{Timestamp, chain};
use sandbox_http::{Metrics, Tls, TlsError};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::{MissedTickBehavior, interval, sleep},
};
use tracing::{error, info, warn};

use crate::settings::Settings;

/// Between two looks whether the files are others.
const LOOK_INTERVAL: Duration = Duration::from_secs(60);
/// Two files are not replaced at once: what does not go together may do so in a moment.
const SETTLE: Duration = Duration::from_secs(2);

/// The listener's certificate, where it has one.
pub fn tls(settings: &Settings) -> Result<Option<Tls>, Box<dyn Error>> {
    let (chain_file, key) = (&settings.e2b_tls_cert, &settings.e2b_tls_key);
    if chain_file.as_os_str().is_empty() {
        return Ok(None);
    }
    let tls = Tls::from_files(chain_file, key)
        .map_err(|error| format!("e2b_tls_cert, e2b_tls_key: {}", chain(&error)))?;
    Ok(Some(tls))
}

/// Takes up what the files have become, every minute and at SIGHUP, until it is dropped.
pub struct Renewal {
    tls: Tls,
    metrics: Arc<Metrics>,
    hangup: Signal,
    /// What was said of files that cannot be used; once is enough.
    said: Option<String>,
}

impl Renewal {
    /// From here on SIGHUP does not end the service.
    pub fn new(tls: Tls, metrics: Arc<Metrics>) -> io::Result<Self> {
        metrics.set_e2b_certificate_expires(tls.expires());
        Ok(Self {
            tls,
            metrics,
            hangup: signal(SignalKind::hangup())?,
            said: None,
        })
    }

    pub async fn run(mut self) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first is at once, and they have just been read.
        looks.tick().await;
        loop {
            tokio::select! {
                _ = looks.tick() => {}
                () = wanted(&mut self.hangup) => {
                    // Whoever asks is told, also what was told before.
                    self.said = None;
                }
            }
            self.look().await;
        }
    }

    async fn look(&mut self) {
        let mut read = self.read_again().await;
        if read.is_err() {
            sleep(SETTLE).await;
            read = self.read_again().await;
        }
        match read {
            Ok(renewed) => {
                self.said = None;
                if renewed {
                    self.metrics.set_e2b_certificate_expires(self.tls.expires());
                    info!(
                        expires = expires(self.tls.expires()),
                        "took up another certificate for the E2B API"
                    );
                }
            }
            Err(problem) => {
                if self.said.as_ref() != Some(&problem) {
                    error!(
                        expires = expires(self.tls.expires()),
                        "e2b_tls_cert, e2b_tls_key: the certificate stays what it was: {problem}"
                    );
                    self.said = Some(problem);
                }
            }
        }
    }

    async fn read_again(&self) -> Result<bool, String> {
        let tls = self.tls.clone();
        match tokio::task::spawn_blocking(move || tls.read_again()).await {
            Ok(read) => read.map_err(|error: TlsError| chain(&error).to_string()),
            Err(ended) => Err(ended.to_string()),
        }
    }
}

/// For people.
fn expires(at: Option<Timestamp>) -> String {
    let seconds = at.and_then(|at| u64::try_from(at.0 / 1000).ok());
    let time = seconds.and_then(|it| UNIX_EPOCH.checked_add(Duration::from_secs(it)));
    time.map_or_else(
        || "unknown".to_owned(),
        |time| humantime::format_rfc3339_seconds(time).to_string(),
    )
}

async fn wanted(hangup: &mut Signal) {
    if hangup.recv().await.is_none() {
        // The runtime gives no more signals: the clock is left.
        warn!("SIGHUP is not heard any more");
        pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Write, path::Path, process::Command, sync::Mutex};

    use super::*;

    /// What was logged; a clone is the same.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        /// The lines since the last time.
        fn take(&self) -> Vec<String> {
            let bytes = std::mem::take(&mut *self.0.lock().unwrap());
            let text = String::from_utf8(bytes).unwrap();
            text.lines().map(str::to_owned).collect()
        }
    }

    fn make_pair(dir: &Path) {
        let output = Command::new("openssl")
            .args(["req", "-x509", "-nodes", "-subj", "/CN=localhost"])
            .args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
            .args(["-keyout", "key.pem", "-out", "chain.pem"])
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }

    #[tokio::test]
    async fn files_that_cannot_be_used_are_told_once_and_what_can_is_taken_up() {
        let log = Log::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .finish();
        let _guard = tracing::subscriber::set_default(subscriber);
        let dir = tempfile::tempdir().unwrap();
        make_pair(dir.path());
        let [chain, key] = ["chain.pem", "key.pem"].map(|name| dir.path().join(name));
        let tls = Tls::from_files(&chain, &key).unwrap();
        let mut renewal = Renewal::new(tls, Arc::new(Metrics::new().unwrap())).unwrap();
        renewal.look().await;
        assert_eq!(log.take(), [""; 0], "nothing has changed");

        // In one line, as it comes out of an environment variable.
        let mangled = fs::read_to_string(&key).unwrap().replace('\n', "\\n");
        fs::write(&key, &mangled).unwrap();
        renewal.look().await;
        renewal.look().await;
        let said = log.take();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].contains("ERROR") && said[0].contains("key.pem` has no private key"),
            "{said:?}"
        );
        assert!(!said[0].contains("BEGIN"), "{said:?}");

        make_pair(dir.path());
        renewal.look().await;
        let said = log.take();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("took up another certificate"), "{said:?}");
    }
}
