//! What envd tells of a program's end, and why one did not start.

use connectrpc::{ConnectError, ErrorCode as Connect};
use guest_parts::error::error;
use sandbox_core::ErrorCode;
use sandbox_wire::process::process_event::EndEvent;

use crate::words::{attached, of_call};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exit {
    pub code: i32,
    pub signal: i32,
}

/// What is said of a program whose end nobody saw.
pub(super) const KILLED: Exit = Exit {
    code: -1,
    signal: 9,
};

/// What a wait status is called: by Go, and by our guest where Go has other words.
const SIGNALS: [(&str, i32); 15] = [
    ("hangup", 1),
    ("interrupt", 2),
    ("quit", 3),
    ("illegal instruction", 4),
    ("trace/breakpoint trap", 5),
    ("aborted", 6),
    ("bus error", 7),
    ("floating point exception", 8),
    ("killed", 9),
    ("user defined signal 1", 10),
    ("segmentation fault", 11),
    ("user defined signal 2", 12),
    ("broken pipe", 13),
    ("alarm clock", 14),
    ("terminated", 15),
];

pub(super) fn exit(end: &EndEvent) -> Exit {
    let named = end.status.strip_prefix("signal: ").map(|name| {
        let name = name.trim_end_matches(" (core dumped)").trim();
        let known = SIGNALS.iter().find(|(known, _)| *known == name);
        let number = || {
            let number = name.strip_prefix("signal ").unwrap_or(name);
            number.parse().ok().filter(|it| (1..=64).contains(it))
        };
        known.map(|(_, signal)| *signal).or_else(number)
    });
    match named {
        // An end by a signal that has no name is an end by a signal.
        Some(signal) => Exit {
            code: -1,
            signal: signal.unwrap_or(9),
        },
        None if !end.exited && end.exit_code < 0 => KILLED,
        None => Exit {
            code: end.exit_code.clamp(0, 255),
            signal: 0,
        },
    }
}

/// Why a program could not be started.
pub(crate) fn start_error(cause: &ConnectError, program: &str) -> ConnectError {
    let not_installed = || {
        error(
            ErrorCode::NotInstalled,
            format!("`{program}` is not installed in the sandbox"),
        )
    };
    match attached(cause) {
        Some(ErrorCode::NotInstalled | ErrorCode::NotFound) => return not_installed(),
        Some(ErrorCode::PermissionDenied) => return not_executable(program),
        Some(ErrorCode::InvalidPath) => {
            return error(
                ErrorCode::InvalidPath,
                "the working directory does not exist",
            );
        }
        Some(code @ (ErrorCode::InvalidRequest | ErrorCode::SandboxExhausted)) => {
            return error(code, format!("`{program}` could not be started"));
        }
        _ => {}
    }
    let words = cause.message.as_deref().unwrap_or_default().to_lowercase();
    let ends = |with: &[&str]| with.iter().any(|it| words.trim_end().ends_with(it));
    match cause.code {
        Connect::NotFound => not_installed(),
        Connect::InvalidArgument if words.starts_with("cwd ") => error(
            ErrorCode::InvalidPath,
            "the working directory does not exist",
        ),
        Connect::InvalidArgument
            if ends(&[
                "executable file not found in $path",
                "no such file or directory",
            ]) =>
        {
            not_installed()
        }
        Connect::InvalidArgument if ends(&["permission denied"]) => not_executable(program),
        Connect::InvalidArgument if ends(&["argument list too long"]) => error(
            ErrorCode::InvalidRequest,
            "arguments and environment are too long for one program",
        ),
        Connect::InvalidArgument if ends(&["invalid argument"]) => error(
            ErrorCode::InvalidRequest,
            "an argument or a variable has a NUL byte",
        ),
        Connect::InvalidArgument | Connect::Internal
            if ends(&["resource temporarily unavailable", "cannot allocate memory"]) =>
        {
            error(
                ErrorCode::SandboxExhausted,
                "the sandbox has no memory or process left to start a program",
            )
        }
        _ => of_call(cause),
    }
}

fn not_executable(program: &str) -> ConnectError {
    error(
        ErrorCode::PermissionDenied,
        format!("`{program}` may not be executed"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_read_in_everybodys_words() {
        let end = |exit_code, exited, status: &str| {
            let end = exit(&EndEvent {
                exit_code,
                exited,
                status: status.to_owned(),
                ..Default::default()
            });
            (end.code, end.signal)
        };
        assert_eq!(end(0, true, "exit status 0"), (0, 0));
        assert_eq!(end(3, true, "exit status 3"), (3, 0));
        assert_eq!(end(-1, false, "signal: killed"), (-1, 9));
        assert_eq!(
            end(-1, false, "signal: segmentation fault (core dumped)"),
            (-1, 11)
        );
        assert_eq!(end(-1, false, "signal: 31"), (-1, 31));
        assert_eq!(end(-1, false, "signal: signal 34"), (-1, 34));
        assert_eq!(end(-1, false, "signal: 99999"), (-1, 9));
        assert_eq!(end(-1, false, ""), (-1, 9));
        assert_eq!(end(70_000, true, "exit status 70000"), (255, 0));
    }

    #[test]
    fn why_a_program_did_not_start_has_a_stable_code() {
        for (words, wanted) in [
            ("cwd '/none' does not exist", ErrorCode::InvalidPath),
            (
                "error starting process 'x': fork/exec /x: no such file or directory",
                ErrorCode::NotInstalled,
            ),
            (
                "error starting process 'x': exec: \"x\": executable file not found in $PATH",
                ErrorCode::NotInstalled,
            ),
            (
                "error starting process 'x': fork/exec /x: permission denied",
                ErrorCode::PermissionDenied,
            ),
            (
                "error starting process 'x': fork/exec /bin/sh: argument list too long",
                ErrorCode::InvalidRequest,
            ),
        ] {
            let found = start_error(&ConnectError::invalid_argument(words), "x");
            assert_eq!(attached(&found), Some(wanted), "{words}");
        }
    }
}
