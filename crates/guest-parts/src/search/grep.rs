//! Lines of one file after the other that match a pattern.

use std::{
    io::{self, Read},
    path::Path,
};

use connectrpc::ConnectError;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use sandbox_wire::sandbox::v1::{GrepRequest, GrepResponse};

use super::{
    Limit, check_glob, invalid_pattern,
    matches::{InFile, Matches},
};

const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// Linear time is not enough: a pattern can also be large once it is compiled
/// (CVE-2022-24713).
const MAX_COMPILED_BYTES: usize = 8 * 1024 * 1024;
const MAX_CONTEXT_LINES: u32 = 100;
/// Longest line, and largest file of a search across lines.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

fn matcher(request: &GrepRequest) -> Result<RegexMatcher, ConnectError> {
    if request.pattern.len() > MAX_PATTERN_BYTES {
        return Err(invalid_pattern("the pattern is longer than 64 KiB"));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(request.ignore_case)
        .multi_line(true)
        .fixed_strings(request.literal)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES);
    if !request.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&request.pattern).map_err(invalid_pattern)
}

fn searcher(request: &GrepRequest) -> Searcher {
    SearcherBuilder::new()
        .line_number(true)
        .multi_line(request.multiline)
        .before_context(request.before.min(MAX_CONTEXT_LINES) as usize)
        .after_context(request.after.min(MAX_CONTEXT_LINES) as usize)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_BYTES))
        .build()
}

/// The paths that a search is for, as in a .gitignore line.
pub fn filter(root: &Path, glob: &str) -> Result<Override, ConnectError> {
    check_glob(glob)?;
    let mut filter = OverrideBuilder::new(root);
    if !glob.is_empty() {
        filter.add(glob).map_err(invalid_pattern)?;
    }
    filter.build().map_err(invalid_pattern)
}

pub struct Grep<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    matches: Matches<'a>,
    limit: &'a Limit<'a>,
}

impl<'a> Grep<'a> {
    pub fn new(request: &'a GrepRequest, limit: &'a Limit<'a>) -> Result<Self, ConnectError> {
        Ok(Self {
            matcher: matcher(request)?,
            searcher: searcher(request),
            matches: Matches::new(request),
            limit,
        })
    }

    /// Whether nothing that may still be found would be in the answer.
    pub fn is_over(&self) -> bool {
        self.matches.is_over()
    }

    /// The answer; `is_partial` says that there is more than was searched.
    pub fn finish(self, is_partial: bool) -> GrepResponse {
        let mut answer = self.matches.answer;
        answer.timed_out = self.limit.reached() && (is_partial || answer.timed_out);
        answer.truncated |= is_partial;
        answer
    }

    pub fn search(&mut self, file: impl Read, shown: String) {
        let input = Timely {
            file,
            limit: self.limit,
        };
        let mut found = InFile::new(&mut self.matches, &self.matcher, shown);
        let result = self
            .searcher
            .search_reader(&self.matcher, input, &mut found);
        found.finish();
        let answer = &mut self.matches.answer;
        if self.limit.reached() {
            answer.timed_out = true;
            answer.truncated = true;
        } else if result.is_err() {
            // A line beyond the bound: what lies after it has not been seen.
            answer.truncated = true;
        }
    }
}

/// A file that cannot be read any further when the time is up.
struct Timely<'a, R> {
    file: R,
    limit: &'a Limit<'a>,
}

impl<R: Read> Read for Timely<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.limit.reached() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}
