//! sandboxd: runs code that nobody should trust.

mod auth;
mod backend;
mod cli;
mod docker_gate;
mod doctor;
mod e2b;
mod e2b_backend;
mod e2b_secret;
mod e2b_tls;
mod health;
mod keys;
mod logging;
#[cfg(feature = "otlp")]
mod otlp;
mod serve;
mod settings;
mod token;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    let result = match cli.command {
        cli::Command::Serve => settings::load(&cli.options)
            .map_err(Into::into)
            .and_then(|loaded| serve::serve(loaded.settings)),
        cli::Command::Config(cli::ConfigCommand::Check) => settings::load(&cli.options)
            .map(|loaded| print!("{}", loaded.report()))
            .map_err(Into::into),
        cli::Command::Doctor => settings::load(&cli.options)
            .map_err(Into::into)
            .and_then(|loaded| doctor::doctor(&loaded.settings)),
        cli::Command::Health(wanted) => settings::load(&cli.options)
            .map_err(Into::into)
            .and_then(|loaded| health::check(&loaded.settings, &wanted)),
        cli::Command::Token(wanted) => settings::load(&cli.options)
            .map_err(Into::into)
            .and_then(|loaded| token::print(&loaded.settings, &wanted)),
        cli::Command::Keys(command) => settings::load(&cli.options)
            .map_err(Into::into)
            .and_then(|loaded| keys::run(&loaded.settings, &command)),
        cli::Command::DockerGate(wanted) => docker_gate::run(&cli.options, &wanted),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sandboxd: {error}");
            let mut source = error.source();
            while let Some(cause) = source {
                eprintln!("  because: {cause}");
                source = cause.source();
            }
            ExitCode::FAILURE
        }
    }
}
