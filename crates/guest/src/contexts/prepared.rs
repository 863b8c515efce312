//! An interpreter that has all it needs but a process, and the two ways to one.

use std::{path::PathBuf, sync::Arc};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;

use super::{
    channel::Channel,
    driver::Driver,
    interpreter::{Interpreter, Maker, Spec, Stream},
    run::Wish,
};
use crate::{
    display::{self, Display},
    error::error,
    run::{Extra, Running, Start, Starter, input_pipe, null_input, output_pipe},
    state::Guest,
    warm::{Candidate, Warm},
};

const FILE: &str = "{file}";

pub(super) struct Prepared {
    driver: Driver,
    start: Start,
    extra: Extra,
    /// Where the programs that keep interpreters are, and the one for this.
    programs: PathBuf,
    program: String,
    ends: Ends,
}

/// The guest's own.
pub(super) struct Ends {
    pub channel: Channel,
    pub stdout: Stream,
    pub stderr: Stream,
    pub display: Option<Display>,
}

impl Prepared {
    pub async fn new(guest: &Arc<Guest>, spec: &Spec) -> Result<Self, ConnectError> {
        let programs = programs(guest).await.map_err(no_room)?;
        // A context that cannot display is a context all the same.
        let display = match spec.driver == Driver::Python && spec.artifacts {
            true => Display::prepare(guest).ok(),
            false => None,
        };
        let program = programs.join(spec.driver.file_name());
        let program = program.to_string_lossy().into_owned();
        let argv = spec.argv.iter().map(|word| match word.as_str() {
            FILE => program.clone(),
            word => word.to_owned(),
        });
        let (stdout, from_stdout) = output_pipe().map_err(no_room)?;
        let (stderr, from_stderr) = output_pipe().map_err(no_room)?;
        let (asked, requests) = input_pipe().map_err(no_room)?;
        let (answered, replies) = output_pipe().map_err(no_room)?;
        Ok(Self {
            driver: spec.driver,
            start: Start {
                argv: argv.collect(),
                env: guest.env(),
                cwd: guest.workspace.clone(),
                stdin: null_input().map_err(no_room)?,
                stdout,
                stderr,
                terminal: false,
            },
            extra: Extra {
                fds: vec![asked, answered],
                data_bytes: spec.data_bytes,
            },
            programs,
            program,
            ends: Ends {
                channel: Channel::new(requests, replies),
                stdout: Stream::new(from_stdout),
                stderr: Stream::new(from_stderr),
                display,
            },
        })
    }

    /// What it could be forked from, if anything.
    pub fn candidate(&self, maker: &Maker, first: Option<&Wish>) -> Option<(Warm, Candidate)> {
        let warm = maker.warm.as_ref()?;
        if self.driver != Driver::Python {
            return None;
        }
        let none = Default::default();
        let first = first.map_or(("", &none), |wish| (&*wish.code, &wish.env));
        let candidate = warm.context(&self.start.argv, &self.program, first, &self.extra)?;
        Some((warm.clone(), candidate))
    }

    /// Gives itself back when there is nothing that suits.
    pub async fn fork(self, warm: &Warm, candidate: &Candidate) -> Result<Interpreter, Box<Self>> {
        let folder = self.ends.folder();
        let forked = warm.fork(candidate, &self.start, &self.extra, &folder);
        match forked.await {
            Some(running) => Ok(Interpreter::new(running, self.ends, true)),
            None => Err(Box::new(self)),
        }
    }

    pub async fn start(mut self, starter: &Starter) -> Result<Interpreter, ConnectError> {
        if self.driver == Driver::Python {
            let folder = self.ends.folder();
            display::tell(&mut self.start.env, &self.programs, &folder);
        }
        let running: Running = starter.start_with(self.start, self.extra).await?;
        Ok(Interpreter::new(running, self.ends, false))
    }
}

impl Ends {
    fn folder(&self) -> String {
        let display = self.display.as_ref();
        display.map(Display::folder).unwrap_or_default()
    }
}

async fn programs(guest: &Arc<Guest>) -> std::io::Result<PathBuf> {
    let guest = Arc::clone(guest);
    tokio::task::spawn_blocking(move || guest.context_programs.path())
        .await
        .map_err(std::io::Error::other)?
}

fn no_room(cause: std::io::Error) -> ConnectError {
    error(
        ErrorCode::SandboxExhausted,
        format!("the sandbox has no room for a context: {cause}"),
    )
}
