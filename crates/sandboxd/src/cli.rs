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
    /// Mint a JWT for development, signed with jwt_secret
    Token(Token),
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
}

fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}
