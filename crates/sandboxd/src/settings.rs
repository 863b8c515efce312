//! The settings: defaults, file, environment, command line, in rising order.

use std::{
    collections::BTreeMap,
    env, fmt, fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use figment::{
    Figment, Metadata, Profile, Provider,
    providers::Serialized,
    value::{Dict, Map, Num, Value},
};
use sandbox_core::ByteSize;
use serde::{Deserialize, Serialize};

use crate::{auth, cli::Options, e2b_backend};

const ENV_PREFIX: &str = "SANDBOX_";
/// Other names of a variable, and the key that each sets.
const ENV_ALIASES: [(&str, &str); 9] = [
    ("SANDBOX_TYPE", "backend"),
    ("DATABASE_URL", "database_url"),
    ("E2B_API_KEY", "e2b_api_key"),
    ("E2B_DOMAIN", "e2b_domain"),
    ("E2B_API_URL", "e2b_api_url"),
    ("E2B_SANDBOX_URL", "e2b_sandbox_url"),
    ("E2B_TEMPLATE", "e2b_template"),
    ("E2B_ALLOW_INTERNET_ACCESS", "e2b_allow_internet_access"),
    ("E2B_SECURE_ACCESS", "e2b_secure_access"),
];
const SECRETS: [&str; 3] = ["jwt_secret", "e2b_token_secret", "e2b_api_key"];

/// Every setting; `config/sandboxd.toml` says what each means.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub listen: SocketAddr,
    pub prefix: String,
    pub state_dir: PathBuf,
    pub database_url: String,
    pub backend: String,
    pub log: String,
    pub log_format: LogFormat,
    pub otlp_endpoint: String,

    pub jwt_secret: String,
    pub jwt_public_key: String,
    pub jwt_algorithm: String,
    pub jwks_url: String,
    pub jwt_audience: String,
    pub jwt_issuer: String,
    pub jwt_leeway_seconds: u64,
    pub api_keys: bool,
    pub hosts: Vec<String>,

    pub mem_limit: ByteSize,
    pub cpu_limit: f64,
    pub pids_limit: u32,
    pub disk_limit: ByteSize,
    pub tmp_limit: ByteSize,

    pub idle_timeout: u64,
    pub session_ttl: u64,
    pub max_mem_limit: ByteSize,
    pub max_cpu_limit: f64,
    pub max_pids_limit: u32,
    pub max_disk_limit: ByteSize,
    pub max_idle_timeout: u64,
    pub max_session_ttl: u64,
    pub max_sessions: usize,
    pub tenant_max_sessions: usize,
    pub tenant_max_paused: usize,
    pub pool_size: usize,
    pub session_runs: usize,
    pub session_queue: usize,
    pub session_contexts: u32,
    pub context_idle_timeout: u64,
    pub context_mem_limit: ByteSize,

    pub tenant_runs: usize,
    pub tenant_queue: usize,
    pub total_runs: usize,
    pub total_queue: usize,
    pub queue_wait_seconds: u64,
    pub requests_per_second: u32,
    pub request_burst: u32,

    pub timeout_sec: f64,
    pub max_timeout_sec: f64,
    pub output_limit: ByteSize,
    pub spill_limit: ByteSize,
    pub execution_retention: u64,
    pub artifact_files: u32,
    pub artifact_limit: ByteSize,
    pub artifacts_limit: ByteSize,
    pub artifact_retention: u64,
    pub tenant_artifacts: ByteSize,
    pub audit_code: bool,
    pub audit_retention: u64,
    pub code_limit: ByteSize,
    pub copy_limit: ByteSize,
    pub body_limit: ByteSize,
    pub body_timeout: u64,
    pub max_connections: usize,
    pub shutdown_grace: u64,
    pub languages: PathBuf,
    pub allowed_languages: Vec<String>,
    pub python_warm: bool,
    pub python_preload: Vec<String>,
    pub python_template: bool,

    pub e2b_listen: String,
    pub e2b_public_domain: String,
    pub e2b_tls_cert: PathBuf,
    pub e2b_tls_key: PathBuf,
    pub e2b_templates: BTreeMap<String, E2bTemplate>,
    pub e2b_internet: bool,
    pub e2b_max_timeout: u64,
    pub e2b_token_secret: String,

    pub bwrap: PathBuf,
    pub uid_range: String,
    pub read_only_paths: Vec<PathBuf>,

    pub docker_host: String,
    pub worker_image: String,
    pub worker_images: Vec<String>,
    pub docker_pull: DockerPull,
    pub docker_pull_timeout: u64,
    pub docker_runtime: String,
    pub docker_network: String,
    pub gpu_enabled: bool,
    pub gpu_network_enabled: bool,

    pub e2b_api_key: String,
    pub e2b_domain: String,
    pub e2b_api_url: String,
    pub e2b_sandbox_url: String,
    pub e2b_template: String,
    pub e2b_allow_internet_access: bool,
    pub e2b_secure_access: bool,
    pub e2b_door: E2bDoor,
}

/// How guests in sandboxes of an E2B server are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum E2bDoor {
    Auto,
    Port,
    Command,
    Envd,
}

/// What a template of the E2B API stands for; what it does not say is as usual.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct E2bTemplate {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<ByteSize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<ByteSize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DockerPull {
    Missing,
    Never,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Pretty,
    Json,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            prefix: "/v1/sandbox".into(),
            state_dir: default_state_dir(),
            database_url: String::new(),
            backend: "local".into(),
            log: "info".into(),
            log_format: LogFormat::Pretty,
            otlp_endpoint: String::new(),
            jwt_secret: String::new(),
            jwt_public_key: String::new(),
            jwt_algorithm: String::new(),
            jwks_url: String::new(),
            jwt_audience: String::new(),
            jwt_issuer: String::new(),
            jwt_leeway_seconds: 30,
            api_keys: false,
            hosts: Vec::new(),
            mem_limit: ByteSize::mib(512),
            cpu_limit: 1.0,
            pids_limit: 256,
            disk_limit: ByteSize::mib(1024),
            tmp_limit: ByteSize::mib(64),
            idle_timeout: 900,
            session_ttl: 0,
            max_mem_limit: ByteSize(0),
            max_cpu_limit: 0.0,
            max_pids_limit: 0,
            max_disk_limit: ByteSize(0),
            max_idle_timeout: 0,
            max_session_ttl: 0,
            max_sessions: 50,
            tenant_max_sessions: 50,
            tenant_max_paused: 100,
            pool_size: 0,
            session_runs: 4,
            session_queue: 64,
            session_contexts: 8,
            context_idle_timeout: 3600,
            context_mem_limit: ByteSize(0),
            tenant_runs: 16,
            tenant_queue: 256,
            total_runs: 64,
            total_queue: 1024,
            queue_wait_seconds: 60,
            requests_per_second: 0,
            request_burst: 50,
            timeout_sec: 30.0,
            max_timeout_sec: 3600.0,
            output_limit: ByteSize::mib(1),
            spill_limit: ByteSize::mib(64),
            execution_retention: 600,
            artifact_files: 64,
            artifact_limit: ByteSize::mib(32),
            artifacts_limit: ByteSize::mib(128),
            artifact_retention: 0,
            tenant_artifacts: ByteSize::mib(1024),
            audit_code: false,
            audit_retention: 7_776_000,
            code_limit: ByteSize::mib(1),
            copy_limit: ByteSize::mib(1024),
            body_limit: ByteSize::mib(40),
            body_timeout: 60,
            max_connections: 1024,
            shutdown_grace: 30,
            languages: PathBuf::new(),
            allowed_languages: Vec::new(),
            python_warm: true,
            python_preload: ["numpy", "pandas", "matplotlib.pyplot", "requests"]
                .map(str::to_owned)
                .into(),
            python_template: true,
            e2b_listen: String::new(),
            e2b_public_domain: String::new(),
            e2b_tls_cert: PathBuf::new(),
            e2b_tls_key: PathBuf::new(),
            e2b_templates: BTreeMap::new(),
            e2b_internet: false,
            e2b_max_timeout: 86_400,
            e2b_token_secret: String::new(),
            bwrap: "bwrap".into(),
            uid_range: "1900000000-1900065535".into(),
            read_only_paths: Vec::new(),
            docker_host: String::new(),
            worker_image: "sandboxd-worker:latest".into(),
            worker_images: Vec::new(),
            docker_pull: DockerPull::Missing,
            docker_pull_timeout: 600,
            docker_runtime: String::new(),
            docker_network: String::new(),
            gpu_enabled: false,
            gpu_network_enabled: false,
            e2b_api_key: String::new(),
            e2b_domain: "e2b.app".into(),
            e2b_api_url: String::new(),
            e2b_sandbox_url: String::new(),
            e2b_template: "base".into(),
            e2b_allow_internet_access: false,
            e2b_secure_access: true,
            e2b_door: E2bDoor::Auto,
        }
    }
}

fn default_state_dir() -> PathBuf {
    let below_home = || {
        env::var_os("XDG_STATE_HOME")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".local/state")))
            .map(|dir| dir.join("sandboxd"))
    };
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/var/lib/sandboxd")
    } else {
        below_home().unwrap_or_else(|| PathBuf::from("/var/lib/sandboxd"))
    }
}

/// A setting that is unknown, of the wrong kind, or that does not fit the others.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("failed to read the settings file `{}`", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("the settings file `{}` is not valid TOML: {problem}", path.display())]
    Toml { path: PathBuf, problem: String },
    #[error("unknown setting `{key}` in {origin}")]
    Unknown { key: String, origin: String },
    #[error("bad value for `{key}` in {origin}: {problem}")]
    Value {
        key: String,
        origin: String,
        problem: String,
    },
    #[error("bad value for `{key}`: {problem}")]
    Invalid { key: String, problem: String },
}

/// Where values come from, with the names that messages show.
struct Source {
    name: String,
    values: Dict,
}

impl Provider for Source {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.name.clone())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        Ok(Profile::Default.collect(self.values.clone()))
    }
}

/// Whether a ceiling that is set is lower than what it is a ceiling of.
fn is_below<T: PartialOrd + Default>(ceiling: T, usual: T) -> bool {
    ceiling > T::default() && ceiling < usual
}

/// The settings and where each came from.
pub struct Loaded {
    pub settings: Settings,
    figment: Figment,
}

pub fn load(options: &Options) -> Result<Loaded, SettingsError> {
    load_from(options, environment())
}

/// The settings as they are written, for what does not serve by them: whether they fit
/// each other is not looked at.
pub fn read(options: &Options) -> Result<Settings, SettingsError> {
    Ok(read_from(options, environment())?.settings)
}

fn environment() -> impl Iterator<Item = (String, String)> {
    env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

fn load_from(
    options: &Options,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, SettingsError> {
    let loaded = read_from(options, environment)?;
    loaded.settings.check()?;
    Ok(loaded)
}

fn read_from(
    options: &Options,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Loaded, SettingsError> {
    let defaults = defaults();
    let mut figment = Figment::from(Serialized::defaults(Settings::default()));
    if let Some(path) = &options.config {
        figment = figment.merge(from_file(path, &defaults)?);
    }
    for (name, text) in environment {
        let alias = ENV_ALIASES.iter().find(|(alias, _)| *alias == name);
        let key = match alias {
            Some((_, key)) => (*key).to_owned(),
            None => match name.strip_prefix(ENV_PREFIX) {
                Some(key) => key.to_ascii_lowercase(),
                None => continue,
            },
        };
        let origin = format!("environment ({name})");
        figment = figment.merge(one(&key, &text, origin, &defaults)?);
    }
    let flags = [
        ("listen", &options.listen),
        ("state_dir", &options.state_dir),
    ];
    for (key, text) in flags {
        if let Some(text) = text {
            figment = figment.merge(one(key, text, "command line".into(), &defaults)?);
        }
    }
    for pair in &options.set {
        let (key, text) = pair.split_once('=').ok_or_else(|| SettingsError::Invalid {
            key: pair.clone(),
            problem: "--set wants KEY=VALUE".into(),
        })?;
        figment = figment.merge(one(key, text, "command line".into(), &defaults)?);
    }
    let settings: Settings = figment.extract().map_err(|error| {
        let key = error.path.join(".");
        let origin = error
            .metadata
            .as_ref()
            .map_or_else(|| "the settings".to_owned(), |m| m.name.to_string());
        SettingsError::Value {
            key,
            origin,
            problem: error.kind.to_string(),
        }
    })?;
    Ok(Loaded { settings, figment })
}

fn defaults() -> Dict {
    match Value::serialize(Settings::default()) {
        Ok(Value::Dict(_, dict)) => dict,
        _ => Dict::new(),
    }
}

fn from_file(path: &Path, defaults: &Dict) -> Result<Source, SettingsError> {
    let text = fs::read_to_string(path).map_err(|source| SettingsError::File {
        path: path.to_owned(),
        source,
    })?;
    let values: Dict = toml::from_str(&text).map_err(|error| SettingsError::Toml {
        path: path.to_owned(),
        problem: error.message().to_owned(),
    })?;
    let name = format!("file {}", path.display());
    if let Some(key) = values.keys().find(|key| !defaults.contains_key(*key)) {
        return Err(SettingsError::Unknown {
            key: key.clone(),
            origin: name,
        });
    }
    Ok(Source { name, values })
}

/// One value given as text, read as the kind of value that its default is:
/// a secret of digits stays text.
fn one(key: &str, text: &str, origin: String, defaults: &Dict) -> Result<Source, SettingsError> {
    let bad = |problem: &str| SettingsError::Value {
        key: key.to_owned(),
        origin: origin.clone(),
        problem: problem.to_owned(),
    };
    let value = match defaults.get(key) {
        None => {
            return Err(SettingsError::Unknown {
                key: key.to_owned(),
                origin,
            });
        }
        Some(Value::Num(_, Num::F32(_) | Num::F64(_))) => Value::from(
            text.parse::<f64>()
                .map_err(|_| bad("a number is expected"))?,
        ),
        Some(Value::Num(..)) => Value::from(
            text.parse::<u64>()
                .map_err(|_| bad("a whole number from 0 is expected"))?,
        ),
        Some(Value::Bool(..)) => Value::from(
            text.parse::<bool>()
                .map_err(|_| bad("true or false is expected"))?,
        ),
        Some(Value::Array(..)) => Value::from(
            text.split(',')
                .map(str::trim)
                .filter(|part| !part.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        ),
        Some(Value::Dict(..)) => serde_json::from_str::<Dict>(text)
            .map(Value::from)
            .map_err(|_| bad("a JSON object is expected"))?,
        Some(_) => Value::from(text),
    };
    Ok(Source {
        name: origin,
        values: Dict::from([(key.to_owned(), value)]),
    })
}

impl Settings {
    fn check(&self) -> Result<(), SettingsError> {
        let invalid = |key: &str, problem: &str| {
            Err(SettingsError::Invalid {
                key: key.into(),
                problem: problem.into(),
            })
        };
        if !["local", "docker", "e2b"].contains(&self.backend.as_str()) {
            return invalid(
                "backend",
                "this version has the backends local, docker and e2b",
            );
        }
        if self.pool_size > self.max_sessions {
            return invalid("pool_size", "it is larger than max_sessions");
        }
        if self.gpu_enabled && self.backend != "docker" {
            return invalid("gpu_enabled", "only the backend docker has GPUs");
        }
        if self.gpu_network_enabled && !self.gpu_enabled {
            return invalid("gpu_network_enabled", "gpu_enabled is not set");
        }
        if !self.python_preload.iter().all(|module| is_module(module)) {
            return invalid("python_preload", "it has what is no name of a module");
        }
        if self.backend == "docker" && self.worker_image.is_empty() {
            return invalid("worker_image", "Docker sandboxes need an image");
        }
        if !(self.prefix.is_empty() || self.prefix.starts_with('/')) || self.prefix.ends_with('/') {
            return invalid("prefix", "it starts with `/` and does not end with one");
        }
        if !self.otlp_endpoint.is_empty() {
            if !cfg!(feature = "otlp") {
                return invalid("otlp_endpoint", "this build is without the feature `otlp`");
            }
            let rest = self.otlp_endpoint.strip_prefix("http://");
            if rest.is_none_or(|rest| rest.starts_with('/') || rest.contains(['@', '?', '#'])) {
                return invalid(
                    "otlp_endpoint",
                    "it is a collector's address such as http://127.0.0.1:4318",
                );
            }
        }
        auth::check(self)?;
        self.check_e2b_api()?;
        e2b_backend::check(self)?;
        if !(self.database_url.is_empty() || sandbox_store::is_known(&self.database_url)) {
            return invalid(
                "database_url",
                "sqlite:PATH, sqlite::memory:, postgres://... or postgresql://... is expected",
            );
        }
        for (key, value) in [
            ("timeout_sec", self.timeout_sec),
            ("max_timeout_sec", self.max_timeout_sec),
            ("cpu_limit", self.cpu_limit),
        ] {
            if !(value.is_finite() && value > 0.0 && value <= 1e6) {
                return invalid(key, "it is more than 0 and at most 1000000");
            }
        }
        if self.timeout_sec > self.max_timeout_sec {
            return invalid("timeout_sec", "it is larger than max_timeout_sec");
        }
        for (key, value) in [
            ("max_sessions", self.max_sessions),
            ("tenant_max_sessions", self.tenant_max_sessions),
            ("session_runs", self.session_runs),
            ("tenant_runs", self.tenant_runs),
            ("total_runs", self.total_runs),
            ("queue_wait_seconds", self.queue_wait_seconds as usize),
            ("request_burst", self.request_burst as usize),
            ("max_connections", self.max_connections),
            ("body_timeout", self.body_timeout as usize),
            ("pids_limit", self.pids_limit as usize),
            ("idle_timeout", self.idle_timeout as usize),
        ] {
            if value == 0 {
                return invalid(key, "it is 1 or more");
            }
        }
        if !(self.max_cpu_limit.is_finite() && (0.0..=1e6).contains(&self.max_cpu_limit)) {
            return invalid("max_cpu_limit", "it is 0 or more and at most 1000000");
        }
        for (key, below) in [
            (
                "max_mem_limit",
                is_below(self.max_mem_limit.bytes(), self.mem_limit.bytes()),
            ),
            (
                "max_disk_limit",
                is_below(self.max_disk_limit.bytes(), self.disk_limit.bytes()),
            ),
            (
                "max_pids_limit",
                is_below(self.max_pids_limit, self.pids_limit),
            ),
            (
                "max_cpu_limit",
                is_below(self.max_cpu_limit, self.cpu_limit),
            ),
            (
                "max_idle_timeout",
                is_below(self.max_idle_timeout, self.idle_timeout),
            ),
            (
                "max_session_ttl",
                is_below(self.max_session_ttl, self.session_ttl),
            ),
        ] {
            if below {
                return invalid(key, "it is smaller than what every session has");
            }
        }
        if self.mem_limit < ByteSize::mib(16) {
            return invalid("mem_limit", "a sandbox needs 16m or more");
        }
        if self.uid_range().is_none() {
            return invalid(
                "uid_range",
                "FIRST-LAST of unused user ids above 0 is expected",
            );
        }
        Ok(())
    }

    fn check_e2b_api(&self) -> Result<(), SettingsError> {
        let invalid = |key: &str, problem: &str| {
            Err(SettingsError::Invalid {
                key: key.into(),
                problem: problem.into(),
            })
        };
        if !self.e2b_listen.is_empty() && self.e2b_address().is_none() {
            return invalid("e2b_listen", "it is an address such as 127.0.0.1:8081");
        }
        let (cert, key) = (&self.e2b_tls_cert, &self.e2b_tls_key);
        if cert.as_os_str().is_empty() != key.as_os_str().is_empty() {
            return invalid(
                "e2b_tls_cert",
                "a certificate and its key go together: e2b_tls_key",
            );
        }
        if self.e2b_max_timeout == 0 {
            return invalid("e2b_max_timeout", "it is 1 or more");
        }
        if !(self.e2b_token_secret.is_empty() || self.e2b_token_secret.len() >= 32) {
            return invalid("e2b_token_secret", "it has 32 characters or more");
        }
        Ok(())
    }

    /// Where the E2B API is served; `None`: nowhere.
    pub fn e2b_address(&self) -> Option<SocketAddr> {
        self.e2b_listen.parse().ok()
    }

    /// The host's users that sandboxes run as when the service is root.
    pub fn uid_range(&self) -> Option<std::ops::RangeInclusive<u32>> {
        let (first, last) = self.uid_range.split_once('-')?;
        let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        (0 < first && first <= last && last < u32::MAX).then_some(first..=last)
    }

    /// Which database; it may have a password in it.
    pub fn database(&self) -> String {
        if self.database_url.is_empty() {
            format!("sqlite:{}", self.state_dir.join("sandboxd.db").display())
        } else {
            self.database_url.clone()
        }
    }
}

impl Loaded {
    /// Every setting, its value and its source; secrets are masked.
    pub fn report(&self) -> String {
        let values: Dict = self.figment.extract().unwrap_or_default();
        let mut lines = Vec::new();
        for (key, value) in values {
            let source = self
                .figment
                .find_metadata(&key)
                .map_or("default", |metadata| match metadata.name.as_ref() {
                    name if name.contains("Settings") => "default",
                    name => name,
                })
                .to_owned();
            let shown = if SECRETS.contains(&key.as_str()) && value.as_str() != Some("") {
                "\"********\"".to_owned()
            } else if key == "database_url" && value.as_str() != Some("") {
                let url = value.as_str().unwrap_or_default();
                Shown(&sandbox_store::shown(url).into()).to_string()
            } else {
                Shown(&value).to_string()
            };
            lines.push(format!("{key} = {shown}  # {source}\n"));
        }
        lines.concat()
    }
}

struct Shown<'a>(&'a Value);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::to_string(self.0) {
            Ok(text) => f.write_str(&text),
            Err(_) => f.write_str("?"),
        }
    }
}

/// Names with dots between them, as after Python's `import`.
fn is_module(text: &str) -> bool {
    text.split('.').all(|name| {
        let mut characters = name.chars();
        characters
            .next()
            .is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
            && characters.all(|it| it.is_ascii_alphanumeric() || it == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load_with(environment: &[(&str, &str)]) -> Result<Loaded, SettingsError> {
        let environment = environment
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        load_from(&Options::default(), environment)
    }

    #[test]
    fn the_documented_file_has_every_key_with_its_default() {
        let text = include_str!("../../../config/sandboxd.toml");
        let uncommented: String = text
            .lines()
            .map(|line| match line.strip_prefix('#') {
                Some(setting) if !setting.starts_with(' ') => setting,
                _ => line,
            })
            .collect::<Vec<_>>()
            .join("\n");
        let documented: Dict = toml::from_str(&uncommented).unwrap();
        let mut defaults = defaults();
        // Depends on who runs the service.
        defaults.insert("state_dir".into(), Value::from("/var/lib/sandboxd"));
        let show = |dict: &Dict| -> Vec<String> {
            dict.iter()
                .map(|(key, value)| format!("{key} = {}", Shown(value)))
                .collect()
        };
        assert_eq!(show(&documented), show(&defaults));
    }

    #[test]
    fn the_environment_overrides_and_is_named() {
        let loaded = load_with(&[
            ("SANDBOX_MAX_SESSIONS", "7"),
            ("SANDBOX_TYPE", "local"),
            ("SANDBOX_JWT_SECRET", "00123456789012345678901234567890"),
            ("SANDBOX_MEM_LIMIT", "1g"),
            ("DATABASE_URL", "postgres://u:hidden@h:1/d?password=hidden"),
            ("PATH", "/bin"),
        ])
        .unwrap();
        assert_eq!(loaded.settings.max_sessions, 7);
        assert_eq!(loaded.settings.mem_limit, ByteSize::mib(1024));
        assert_eq!(
            loaded.settings.jwt_secret,
            "00123456789012345678901234567890"
        );
        let report = loaded.report();
        assert!(report.contains("max_sessions = 7  # environment (SANDBOX_MAX_SESSIONS)\n"));
        assert!(report.contains("pids_limit = 256  # default\n"), "{report}");
        assert!(!report.contains("0012345"), "{report}");
        assert!(
            report.contains("database_url = \"postgres://********@h:1/d?********\""),
            "{report}"
        );
        assert!(!report.contains("hidden"), "{report}");
    }

    #[test]
    fn a_bad_setting_stops_the_start_with_its_name() {
        for (name, value, expected) in [
            (
                "SANDBOX_NO_SUCH",
                "1",
                "unknown setting `no_such` in environment (SANDBOX_NO_SUCH)",
            ),
            (
                "SANDBOX_MAX_SESSIONS",
                "many",
                "bad value for `max_sessions` in environment",
            ),
            ("SANDBOX_MAX_SESSIONS", "0", "bad value for `max_sessions`"),
            (
                "SANDBOX_MEM_LIMIT",
                "lots",
                "bad value for `mem_limit` in environment",
            ),
            ("SANDBOX_JWT_SECRET", "short", "bad value for `jwt_secret`"),
            (
                "SANDBOX_JWT_SECRET",
                "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA\n-----END PUBLIC KEY-----",
                "bad value for `jwt_secret`: this is a key in PEM",
            ),
            (
                "SANDBOX_JWT_PUBLIC_KEY",
                "-----BEGIN PUBLIC KEY-----\nx",
                "bad value for `jwt_public_key`: a public key in PEM",
            ),
            (
                "SANDBOX_JWT_PUBLIC_KEY",
                "/no/such/file",
                "bad value for `jwt_public_key`: failed to read `/no/such/file`",
            ),
            (
                "SANDBOX_JWKS_URL",
                "http://example.com/jwks",
                "bad value for `jwks_url`: https is needed",
            ),
            (
                "SANDBOX_JWT_ALGORITHM",
                "RS256",
                "bad value for `jwt_algorithm`: there is no key",
            ),
            (
                "SANDBOX_JWT_LEEWAY_SECONDS",
                "3601",
                "bad value for `jwt_leeway_seconds`",
            ),
            (
                "SANDBOX_API_KEYS",
                "maybe",
                "bad value for `api_keys` in environment",
            ),
            ("SANDBOX_LISTEN", "0.0.0.0:80", "bad value for `listen`"),
            ("SANDBOX_BACKEND", "podman", "bad value for `backend`"),
            ("SANDBOX_POOL_SIZE", "51", "bad value for `pool_size`"),
            (
                "SANDBOX_PYTHON_PRELOAD",
                "numpy,os.path;x",
                "bad value for `python_preload`",
            ),
            ("SANDBOX_GPU_ENABLED", "true", "bad value for `gpu_enabled`"),
            (
                "SANDBOX_GPU_NETWORK_ENABLED",
                "true",
                "bad value for `gpu_network_enabled`",
            ),
            (
                "SANDBOX_DOCKER_PULL",
                "always",
                "bad value for `docker_pull` in environment",
            ),
            ("SANDBOX_UID_RANGE", "0-7", "bad value for `uid_range`"),
            ("SANDBOX_TIMEOUT_SEC", "NaN", "bad value for `timeout_sec`"),
            (
                "SANDBOX_OTLP_ENDPOINT",
                "https://collector",
                "bad value for `otlp_endpoint`",
            ),
            ("SANDBOX_BACKEND", "e2b", "bad value for `e2b_api_key`"),
            (
                "SANDBOX_E2B_DOOR",
                "window",
                "bad value for `e2b_door` in environment",
            ),
            (
                "E2B_SECURE_ACCESS",
                "perhaps",
                "bad value for `e2b_secure_access` in environment (E2B_SECURE_ACCESS)",
            ),
            ("DATABASE_URL", "mysql://x", "bad value for `database_url`"),
            ("DATABASE_URL", "sqlite:", "bad value for `database_url`"),
        ] {
            let error = load_with(&[(name, value)]).err().unwrap().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
    const SECRET: &str = "00123456789012345678901234567890";
    const PUBLIC_KEY: &str = "-----BEGIN PUBLIC KEY-----\n\
        MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n\
        -----END PUBLIC KEY-----\n";

    #[test]
    fn tokens_have_one_kind_of_key_of_the_pinned_algorithm() {
        let public = ("SANDBOX_JWT_PUBLIC_KEY", PUBLIC_KEY);
        let secret = ("SANDBOX_JWT_SECRET", SECRET);
        let url = ("SANDBOX_JWKS_URL", "http://127.0.0.1:1/jwks");
        for bad in [[public, secret], [public, url], [secret, url]] {
            let error = load_with(&bad).err().unwrap().to_string();
            assert!(error.contains("only one of them is taken"), "{error}");
        }
        let pinned = |key, algorithm| load_with(&[key, ("SANDBOX_JWT_ALGORITHM", algorithm)]);
        for (key, algorithm) in [
            (public, "EdDSA"),
            (secret, "HS256"),
            (url, "RS256"),
            (url, "EdDSA"),
        ] {
            assert!(pinned(key, algorithm).is_ok(), "{algorithm}");
        }
        for (key, algorithm) in [
            (public, "RS256"),
            (public, "HS256"),
            (secret, "ES256"),
            (url, "HS256"),
            (url, "none"),
            (secret, "hs256"),
        ] {
            let error = pinned(key, algorithm).err().unwrap().to_string();
            assert!(
                error.starts_with("bad value for `jwt_algorithm`"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_e2b_server_is_named_well_and_its_key_not_shown() {
        let key = ("E2B_API_KEY", "e2b_0123456789");
        let backend = ("SANDBOX_BACKEND", "e2b");
        let loaded = load_with(&[backend, key]).unwrap();
        assert_eq!(loaded.settings.e2b_domain, "e2b.app");
        assert!(!loaded.report().contains("0123456789"));
        for (name, value, expected) in [
            ("E2B_DOMAIN", "a/b", "bad value for `e2b_domain`"),
            ("E2B_TEMPLATE", "", "bad value for `e2b_template`"),
            (
                "E2B_API_URL",
                "http://e2b.example.com",
                "bad value for `e2b_api_url`: https is needed",
            ),
            ("E2B_SANDBOX_URL", "e2b", "bad value for `e2b_sandbox_url`"),
            ("E2B_API_KEY", "a b", "bad value for `e2b_api_key`"),
        ] {
            let error = load_with(&[backend, key, (name, value)]).err().unwrap();
            assert!(error.to_string().starts_with(expected), "{error}");
            // The SDKs of E2B may have their variables beside another backend.
            assert!(load_with(&[key, (name, value)]).is_ok(), "{name}");
        }
        let own = ("E2B_API_URL", "http://127.0.0.1:8081");
        assert!(load_with(&[backend, key, own]).is_ok());
    }

    #[test]
    fn an_open_address_needs_tokens_or_keys() {
        let open = ("SANDBOX_LISTEN", "0.0.0.0:80");
        for auth in [
            ("SANDBOX_API_KEYS", "true"),
            ("SANDBOX_JWT_PUBLIC_KEY", PUBLIC_KEY),
            ("SANDBOX_JWKS_URL", "http://localhost/jwks"),
        ] {
            assert!(load_with(&[open, auth]).is_ok(), "{auth:?}");
        }
        assert!(load_with(&[open, ("SANDBOX_API_KEYS", "false")]).is_err());
    }
}
