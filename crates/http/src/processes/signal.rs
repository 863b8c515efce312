//! Signals by their names in POSIX.

use crate::problem::{ApiError, ApiResult};

/// By their numbers on Linux (signal(7)), from 1; none differs between x86-64 and arm64.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The number of `SIGTERM`, `term` or `15`.
pub(super) fn number(text: &str) -> ApiResult<u32> {
    let upper = text.to_ascii_uppercase();
    let name = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = match name.parse::<u32>() {
        Ok(number) => (1..=64).contains(&number).then_some(number),
        Err(_) => (1..)
            .zip(NAMES)
            .find(|(_, known)| *known == name)
            .map(|(number, _)| number),
    };
    found.ok_or_else(|| {
        ApiError::invalid("`signal` is not a name such as SIGTERM or a number from 1 to 64")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_and_a_number() {
        for (text, signal) in [("SIGTERM", 15), ("int", 2), ("9", 9), ("SIGSYS", 31)] {
            assert_eq!(number(text).unwrap(), signal, "{text}");
        }
        for bad in ["", "SIG", "0", "65", "-9", "NOPE", "4294967297"] {
            assert!(number(bad).is_err(), "{bad}");
        }
    }
}
