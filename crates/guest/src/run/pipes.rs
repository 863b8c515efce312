//! The streams between the guest and a program.

use std::{fs, io, os::fd::OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe;

/// The program's end to write to, and ours to read from.
pub(crate) fn output_pipe() -> io::Result<(OwnedFd, pipe::Receiver)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((theirs, pipe::Receiver::from_owned_fd(ours)?))
}

/// The program's end to read from, and ours to write to.
pub(crate) fn input_pipe() -> io::Result<(OwnedFd, pipe::Sender)> {
    let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((theirs, pipe::Sender::from_owned_fd(ours)?))
}

/// Output that nobody reads.
pub(crate) fn null_output() -> io::Result<OwnedFd> {
    let null = fs::File::options().write(true).open("/dev/null")?;
    Ok(null.into())
}

/// Input that is at its end.
pub(crate) fn null_input() -> io::Result<OwnedFd> {
    Ok(fs::File::open("/dev/null")?.into())
}
