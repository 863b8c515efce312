//! One program run to its end.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use serde::Serialize;

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments; with a script, each `{file}` becomes its path.
    pub argv: Vec<String>,
    pub script: Option<Script>,
}

/// Source code that is put in a file for the time of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// For example `main.py`.
    pub file_name: String,
    pub source: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRequest {
    pub program: Program,
    pub env: BTreeMap<String, String>,
    /// Relative to the workspace, which is the default.
    pub cwd: Option<String>,
    pub stdin: Bytes,
    pub timeout: Duration,
    /// Bytes kept of each stream.
    pub output_limit: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Termination {
    Exited,
    Signaled,
    TimedOut,
    OutOfMemory,
    Cancelled,
}

impl Termination {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What is kept of a stream: its head, its tail, and how much there was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    bytes: Vec<u8>,
    /// Where in `bytes` something was left out, and how much.
    cut: Option<(usize, u64)>,
    /// The stream's full size.
    pub total_bytes: u64,
}

impl Captured {
    /// Adds output that came after `omitted_before` bytes that were dropped.
    pub fn push(&mut self, data: &[u8], omitted_before: u64) {
        if omitted_before > 0 {
            let (at, already) = self.cut.unwrap_or((self.bytes.len(), 0));
            self.cut = Some((at, already + omitted_before));
        }
        self.bytes.extend_from_slice(data);
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    pub fn truncated(&self) -> bool {
        self.cut.is_some()
    }

    /// The stream as text: what is not UTF-8 becomes U+FFFD, and a line tells
    /// how much was left out.
    pub fn to_text(&self) -> String {
        match self.cut {
            None => String::from_utf8_lossy(&self.bytes).into_owned(),
            Some((at, omitted)) => {
                let (head, tail) = self.bytes.split_at(at);
                format!(
                    "{}\n[... {omitted} bytes omitted ...]\n{}",
                    String::from_utf8_lossy(head),
                    String::from_utf8_lossy(tail)
                )
            }
        }
    }
}

/// How a run ended and what it printed.
#[derive(Clone, Debug, PartialEq)]
pub struct RunOutcome {
    pub stdout: Captured,
    pub stderr: Captured,
    /// 128+N for a signal N, 124 for a timeout.
    pub exit_code: i32,
    pub signal: Option<u32>,
    pub termination: Termination,
    pub duration: Duration,
    /// Of the program and the children it waited for.
    pub cpu: Duration,
    /// Largest resident size of one process of the run.
    pub peak_memory_bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_stream_shows_head_marker_and_tail() {
        let mut captured = Captured::default();
        captured.push(b"head", 0);
        assert!(!captured.truncated());
        captured.push(b"tail", 7);
        assert!(captured.truncated());
        assert_eq!(captured.to_text(), "head\n[... 7 bytes omitted ...]\ntail");
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        let mut captured = Captured::default();
        captured.push(b"a\xff\xc3", 0);
        captured.push(b"\xa4b", 0);
        assert_eq!(captured.to_text(), "a\u{fffd}äb");
    }
}
