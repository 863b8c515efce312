//! The command line.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "sandboxd",
    version,
    about = "Runs code that nobody should trust"
)]
pub struct Cli {
    #[command(flatten)]
    pub options: Options,
    #[command(subcommand)]
    pub command: Command,
}

/// Settings from the command line; they override environment and file.
#[derive(Args, Default)]
pub struct Options {
    /// Settings file (TOML); config/sandboxd.toml documents every key
    #[arg(long, global = true, env = "SANDBOXD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address to listen on
    #[arg(long, global = true, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Where workspaces and the registry are kept
    #[arg(long, global = true, value_name = "DIR")]
    pub state_dir: Option<String>,
    /// Any other setting
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run the service
    Serve,
    /// Look at the settings
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Tell what this machine can isolate, and how to mend what it cannot
    Doctor,
    /// Ask a running service on this machine how it is; fails unless it answers 200
    Health(Health),
    /// Mint a JWT for development, signed with jwt_secret or a private key
    Token(Token),
    /// Make, list and revoke API keys; the service may run meanwhile
    #[command(subcommand)]
    Keys(KeysCommand),
    /// Stand before a Docker socket and let through only what sandboxes need
    ///
    /// Listens where --listen says: HOST:PORT, or the path of a socket. Whoever may
    /// connect there may run sandboxes.
    DockerGate(DockerGate),
}

#[derive(Args)]
pub struct DockerGate {
    /// Socket of the Docker daemon
    #[arg(long, default_value = "/var/run/docker.sock", value_name = "PATH")]
    pub upstream: PathBuf,
    /// Image that containers may be made of, `*` for any characters; without any: all
    #[arg(long, value_name = "PATTERN")]
    pub image: Vec<String>,
    /// Let images be pulled, those of --image where there are any
    #[arg(long)]
    pub allow_pull: bool,
    /// Network that containers may be on, beside none
    #[arg(long, value_name = "NAME")]
    pub allow_network: Vec<String>,
    /// Runtime that containers must name, one of these; without any: the daemon's own
    #[arg(long, value_name = "NAME")]
    pub runtime: Vec<String>,
    /// Let containers have GPUs
    #[arg(long)]
    pub allow_gpu: bool,
    /// Connections at a time; a running sandbox has one
    #[arg(long, default_value_t = 4096, value_name = "COUNT", value_parser = at_least_one)]
    pub max_connections: usize,
}

#[derive(Args)]
pub struct Health {
    /// What to ask: /healthz, or /readyz for whether sandboxes can be made
    #[arg(long, default_value = "/healthz", value_parser = crate::health::path)]
    pub path: String,
}

#[derive(Subcommand)]
pub enum KeysCommand {
    /// Make a key and print it, this once
    Create(CreateKey),
    /// List the keys, without their secrets
    List {
        /// Only those of this tenant
        #[arg(long)]
        tenant: Option<String>,
    },
    /// Revoke a key: within five seconds it opens nothing
    Revoke {
        /// Id of the key: the 16 digits after `sbx_` or `e2b_`
        id: String,
    },
}

#[derive(Args)]
pub struct CreateKey {
    /// Tenant that the key is for
    #[arg(long)]
    pub tenant: String,
    /// Open the admin routes as well
    #[arg(long)]
    pub admin: bool,
    /// Give it the form of E2B's keys, for clients that look at it
    #[arg(long)]
    pub e2b: bool,
    /// What to call it in the list
    #[arg(long, default_value = "")]
    pub name: String,
}

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Print the resolved settings and where each comes from; secrets are masked
    Check,
}

#[derive(Args)]
pub struct Token {
    /// Tenant that the token is for; several may be given
    #[arg(long, required_unless_present = "admin")]
    pub tenant: Vec<String>,
    /// Open the admin routes; without a tenant, for every tenant
    #[arg(long)]
    pub admin: bool,
    /// Subject (`sub`)
    #[arg(long, default_value = "developer")]
    pub subject: String,
    /// How long it is valid, in seconds
    #[arg(long, default_value = "3600", value_parser = seconds)]
    pub ttl: Duration,
    /// Sign with this private key (PKCS#8 in PEM: RSA, P-256 or Ed25519) instead of jwt_secret
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Name of the key in the token (`kid`)
    #[arg(long, requires = "key")]
    pub kid: Option<String>,
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("must be at least 1".into()),
        Ok(count) => Ok(count),
        Err(error) => Err(format!("{error}")),
    }
}
