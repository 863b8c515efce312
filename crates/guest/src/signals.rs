//! Signals as every program expects to find them.

use std::{
    fs, io,
    sync::{Arc, atomic::AtomicBool},
};

use signal_hook::consts::{FORBIDDEN, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTSTP};

/// Undoes what `nohup`, or a shell's `&`, has left of a start: an ignored signal stays
/// ignored in all that is started, so that no interrupt would reach a program.
///
/// `SIGPIPE` is Rust's own, which it takes back for each child.
pub(crate) fn ignore_none() -> io::Result<()> {
    let ignored = ignored()?;
    // Not those of the C library's own, 32 and 33 (signal(7)).
    let signals = (1..32).chain(34..=64).filter(|signal| {
        let is_ignored = ignored & 1 << (signal - 1) != 0;
        is_ignored && *signal != SIGPIPE && !FORBIDDEN.contains(signal)
    });
    pass_over(signals)
}

/// A terminal sends these to whoever holds it.
pub(crate) fn pass_over_the_keyboards() -> io::Result<()> {
    pass_over([SIGHUP, SIGINT, SIGQUIT, SIGTSTP])
}

/// Handles them by nothing. What is started has them at their defaults, for handlers
/// do not outlive exec.
fn pass_over(signals: impl IntoIterator<Item = i32>) -> io::Result<()> {
    let nothing = Arc::new(AtomicBool::new(false));
    for signal in signals {
        signal_hook::flag::register(signal, Arc::clone(&nothing))?;
    }
    Ok(())
}

/// A bit for each, the first of which is signal 1 (proc_pid_status(5), `SigIgn`).
fn ignored() -> io::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let bits = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.ok_or_else(|| io::Error::other("/proc/self/status has no SigIgn"))
}
