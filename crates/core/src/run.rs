//! One program run to its end.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use bytes::Bytes;
use serde::Serialize;

use crate::{ContextEnd, InContext, Raised};

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
    /// Run before the program, within the same time; empty for none. In it and in
    /// `argv`, `{out}` is a path for what it makes, which is removed after the run.
    pub compile: Vec<String>,
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
    /// All output is wanted as it comes, not only what is kept of it.
    pub live: bool,
    /// A stream larger than `output_limit` is kept in a file of the sandbox, and one
    /// larger than this ends the run. 0: neither.
    pub spill_limit: u64,
    /// `None`: files that the run made are not looked for.
    pub artifacts: Option<ArtifactLimits>,
    /// The program is Python: its figures and `display()` are shown.
    pub python_display: bool,
    /// It is not a program of its own: an interpreter that stays alive runs the script.
    pub context: Option<InContext>,
}

/// What is kept of the files that a run made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArtifactLimits {
    pub max_files: u32,
    pub max_file_bytes: u64,
    pub max_total_bytes: u64,
}

/// A file, figure or table that a run made, and the copy that is kept of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// A UUID of version 7.
    pub id: String,
    /// For people, for example `plot.png`.
    pub name: String,
    /// Where the program put it, relative to the workspace.
    pub path: String,
    /// Where the copy is, relative to the workspace.
    pub stored_path: String,
    /// `plot`, `image`, `table`, `report`, `archive` or `file`.
    pub kind: String,
    pub mime_type: String,
    pub size_bytes: u64,
    /// In hex.
    pub sha256: String,
    /// Of a table: JSON with its schema, preview rows and further formats.
    pub table: Option<String>,
}

/// A stream that was larger than what is kept of it, whole in a file of the sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OutputFile {
    /// Relative to the workspace.
    pub path: String,
    pub size_bytes: u64,
    /// In hex.
    pub sha256: String,
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
    /// It printed more than is kept even in a file.
    OutputLimit,
    Cancelled,
    /// The sandbox ended under it.
    SandboxLost,
}

impl Termination {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::TimedOut => "timed_out",
            Self::OutOfMemory => "out_of_memory",
            Self::OutputLimit => "output_limit",
            Self::Cancelled => "cancelled",
            Self::SandboxLost => "sandbox_lost",
        }
    }
}

/// The step of a run in which it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The program was not started: the compiler failed, or its time was up.
    Compile,
    #[default]
    Run,
}

/// What is kept of a stream: its head, its tail, and how much there was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// How much was left out between the two.
    omitted: u64,
    head_limit: usize,
    tail_limit: usize,
}

impl Default for Captured {
    fn default() -> Self {
        Self::within(u64::MAX)
    }
}

impl Captured {
    /// Keeps this many bytes: the first half and the last one.
    pub fn within(limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self {
            head: Vec::new(),
            tail: VecDeque::new(),
            omitted: 0,
            head_limit: limit - limit / 2,
            tail_limit: limit / 2,
        }
    }

    /// Adds output that came after `omitted_before` bytes that were dropped.
    pub fn push(&mut self, data: &[u8], omitted_before: u64) {
        if omitted_before > 0 {
            // What is known only by its size parts head and tail.
            self.omitted += omitted_before + self.tail.len() as u64;
            self.tail.clear();
            self.head_limit = self.head.len();
        }
        let room = self.head_limit.saturating_sub(self.head.len());
        let (head, rest) = data.split_at(room.min(data.len()));
        self.head.extend_from_slice(head);
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_limit);
        if over > 0 {
            let old = over.min(self.tail.len());
            self.tail.drain(..old);
            self.omitted += over as u64;
        }
        self.tail
            .extend(&rest[rest.len().saturating_sub(self.tail_limit)..]);
    }

    pub fn is_empty(&self) -> bool {
        self.total_bytes() == 0
    }

    /// The stream's full size.
    pub fn total_bytes(&self) -> u64 {
        self.head.len() as u64 + self.omitted + self.tail.len() as u64
    }

    /// How much of it is kept.
    pub fn kept_bytes(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    pub fn truncated(&self) -> bool {
        self.omitted > 0
    }

    /// The stream as text: what is not UTF-8 becomes U+FFFD, and a line tells
    /// how much was left out.
    pub fn to_text(&self) -> String {
        let mut bytes = self.head.clone();
        if self.omitted == 0 {
            bytes.extend(&self.tail);
            return String::from_utf8_lossy(&bytes).into_owned();
        }
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        format!(
            "{}\n[... {} bytes omitted ...]\n{}",
            String::from_utf8_lossy(&bytes),
            self.omitted,
            String::from_utf8_lossy(&tail)
        )
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
    pub phase: Phase,
    pub duration: Duration,
    /// Of the program and the children it waited for.
    pub cpu: Duration,
    /// Largest resident size of one process of the run.
    pub peak_memory_bytes: u64,
    /// The whole stream, where not all of it is kept above.
    pub stdout_file: Option<OutputFile>,
    pub stderr_file: Option<OutputFile>,
    pub artifacts: Vec<Artifact>,
    /// Files that the run made and that are beyond the limits.
    pub artifacts_omitted: u32,
    /// It was forked from an interpreter that had started before; of a run in a context,
    /// its interpreter was.
    pub warm: bool,
    /// What ended code in a context.
    pub raised: Option<Raised>,
    /// Of a run in a context.
    pub context: Option<ContextEnd>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_stream_shows_head_marker_and_tail() {
        let mut captured = Captured::within(100);
        captured.push(b"head", 0);
        assert!(!captured.truncated());
        captured.push(b"tail", 7);
        assert!(captured.truncated());
        assert_eq!(captured.to_text(), "head\n[... 7 bytes omitted ...]\ntail");
        assert_eq!(captured.total_bytes(), 15);
    }

    #[test]
    fn of_what_comes_whole_the_first_and_last_half_are_kept() {
        let mut captured = Captured::within(6);
        for piece in [&b"abcd"[..], b"efghij", b"klm"] {
            captured.push(piece, 0);
        }
        assert_eq!(captured.to_text(), "abc\n[... 7 bytes omitted ...]\nklm");
        assert_eq!(captured.total_bytes(), 13);
        let mut fits = Captured::within(6);
        fits.push(b"abcdef", 0);
        assert_eq!(
            (fits.to_text().as_str(), fits.truncated()),
            ("abcdef", false)
        );
    }

    #[test]
    fn bytes_that_are_not_text_are_replaced() {
        let mut captured = Captured::default();
        captured.push(b"a\xff\xc3", 0);
        captured.push(b"\xa4b", 0);
        assert_eq!(captured.to_text(), "a\u{fffd}äb");
    }
}
