//! The matches as they are found, within the bounds of the answer.

use std::io;

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{Searcher, Sink, SinkContext, SinkContextKind, SinkMatch};
use sandbox_wire::sandbox::v1::{GrepCount, GrepMatch, GrepOutput, GrepRequest, GrepResponse};

/// A longer line is cut.
const MAX_LINE_CHARS: usize = 2000;
/// What a match or a file takes in the answer beside its text.
const OVERHEAD_BYTES: u64 = 64;
/// Most matches of one answer, whatever was asked for.
const MAX_MATCHES: usize = 100_000;

pub struct Matches<'a> {
    pub answer: GrepResponse,
    request: &'a GrepRequest,
    output: GrepOutput,
    bytes_left: u64,
    /// There is a match that the answer has no room for.
    is_over: bool,
}

impl<'a> Matches<'a> {
    pub fn new(request: &'a GrepRequest) -> Self {
        Self {
            answer: GrepResponse::default(),
            request,
            output: request.output.as_known().unwrap_or_default(),
            bytes_left: request.max_bytes,
            is_over: false,
        }
    }

    /// Whether nothing that may still be found would be in the answer.
    pub fn is_over(&self) -> bool {
        self.is_over || self.answer.timed_out
    }

    fn is_full(&self) -> bool {
        let found = match self.output {
            GrepOutput::GREP_OUTPUT_MATCHES => self.answer.matches.len(),
            _ => self.answer.files.len(),
        };
        found >= MAX_MATCHES.min(self.request.max_matches as usize)
    }

    /// Whether there is room for so much more text.
    fn take(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes as u64 + OVERHEAD_BYTES) {
            Some(left) => self.bytes_left = left,
            None => self.end(),
        }
        !self.is_over
    }

    fn end(&mut self) {
        self.answer.truncated = true;
        self.is_over = true;
    }
}

/// The matches of one file.
pub struct InFile<'a, 'b> {
    matches: &'a mut Matches<'b>,
    matcher: &'a RegexMatcher,
    path: String,
    before: Vec<String>,
    count: u64,
}

impl<'a, 'b> InFile<'a, 'b> {
    pub fn new(matches: &'a mut Matches<'b>, matcher: &'a RegexMatcher, path: String) -> Self {
        Self {
            matches,
            matcher,
            path,
            before: Vec::new(),
            count: 0,
        }
    }

    /// Takes the file into the answer where files are what was asked for.
    pub fn finish(self) {
        if self.count == 0 || self.matches.output == GrepOutput::GREP_OUTPUT_MATCHES {
            return;
        }
        if self.matches.is_full() {
            self.matches.end();
        } else if self.matches.take(self.path.len()) {
            self.matches.answer.files.push(GrepCount {
                path: self.path,
                count: self.count,
                ..Default::default()
            });
        }
    }
}

impl Sink for InFile<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        match self.matches.output {
            GrepOutput::GREP_OUTPUT_FILES => return Ok(false),
            GrepOutput::GREP_OUTPUT_COUNT => return Ok(!self.matches.is_full()),
            GrepOutput::GREP_OUTPUT_MATCHES => {}
        }
        if self.matches.is_full() {
            self.matches.end();
            return Ok(false);
        }
        let line = found.bytes();
        let first = self.matcher.find(line).ok().flatten();
        let start = first.map_or(0, |first| first.start());
        let text = shown(line);
        if !self.matches.take(self.path.len() + text.len()) {
            return Ok(false);
        }
        self.matches.answer.matches.push(GrepMatch {
            path: self.path.clone(),
            line: found.line_number().unwrap_or(0),
            column: String::from_utf8_lossy(&line[..start]).chars().count() as u64 + 1,
            text,
            before: std::mem::take(&mut self.before),
            ..Default::default()
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.matches.output != GrepOutput::GREP_OUTPUT_MATCHES {
            return Ok(true);
        }
        let line = shown(context.bytes());
        if !self.matches.take(line.len()) {
            return Ok(false);
        }
        match context.kind() {
            SinkContextKind::Before => self.before.push(line),
            _ => {
                if let Some(last) = self.matches.answer.matches.last_mut() {
                    last.after.push(line);
                }
            }
        }
        Ok(true)
    }
}

fn shown(line: &[u8]) -> String {
    // Enough for so many characters, and no more of a line of many megabytes.
    let begin = &line[..line.len().min((MAX_LINE_CHARS + 1) * 4)];
    let text = String::from_utf8_lossy(begin);
    match text.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) if !text[at..].trim_end_matches(['\r', '\n']).is_empty() => {
            format!("{}…", &text[..at])
        }
        _ => text.trim_end_matches(['\r', '\n']).to_owned(),
    }
}
