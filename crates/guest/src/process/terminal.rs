//! A pseudo-terminal: the guest's end of it.

use std::{io, os::fd::OwnedFd};

use rustix::{
    fs::{Mode, OFlags},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use tokio::net::unix::pipe;

pub(super) struct Terminal(OwnedFd);

/// The two directions of a terminal, and the program's end of it.
pub(super) struct TerminalEnds {
    pub write: pipe::Sender,
    pub read: pipe::Receiver,
    pub program: OwnedFd,
}

impl Terminal {
    pub fn open(cols: u16, rows: u16) -> io::Result<(Self, TerminalEnds)> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = rustix::fs::open(name, flags, Mode::empty())?;
        rustix::io::ioctl_fionbio(&ours, true)?;
        let ends = TerminalEnds {
            // A terminal is no pipe, but is read, written and polled like one.
            write: pipe::Sender::from_owned_fd_unchecked(ours.try_clone()?)?,
            read: pipe::Receiver::from_owned_fd_unchecked(ours.try_clone()?)?,
            program,
        };
        let terminal = Self(ours);
        terminal.resize(cols, rows)?;
        Ok((terminal, ends))
    }

    pub fn resize(&self, cols: u16, rows: u16) -> io::Result<()> {
        let size = Winsize {
            ws_col: cols,
            ws_row: rows,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        Ok(tcsetwinsize(&self.0, size)?)
    }
}
