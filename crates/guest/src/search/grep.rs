//! Lines that match a pattern.

use std::{
    fs::{self, OpenOptions},
    io,
    path::Path,
};

use connectrpc::ConnectError;
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{GrepCount, GrepMatch, GrepOutput, GrepRequest, GrepResponse};

use super::{Limit, walk};
use crate::{
    error::{error, from_io},
    path,
    workspace::open::open,
};

const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// Linear time is not enough: a pattern can also be large once it is compiled
/// (CVE-2022-24713).
const MAX_COMPILED_BYTES: usize = 8 * 1024 * 1024;
const MAX_CONTEXT_LINES: u32 = 100;
/// A longer line is cut.
const MAX_LINE_CHARS: usize = 2000;
/// Of one file, before the searcher gives it up.
const MAX_LINE_HEAP_BYTES: usize = 16 * 1024 * 1024;

fn invalid(cause: impl ToString) -> ConnectError {
    error(ErrorCode::InvalidPattern, cause.to_string())
}

pub(super) fn grep(
    workspace: &Path,
    request: &GrepRequest,
    limit: &Limit,
) -> Result<GrepResponse, ConnectError> {
    let root = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &root);
    fs::metadata(&root).map_err(|cause| from_io(&cause, &shown))?;
    let mut grep = Grep {
        matcher: matcher(request)?,
        answer: GrepResponse::default(),
        request,
        limit,
        bytes_left: request.max_bytes,
    };
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .multi_line(request.multiline)
        .before_context(request.before.min(MAX_CONTEXT_LINES) as usize)
        .after_context(request.after.min(MAX_CONTEXT_LINES) as usize)
        .binary_detection(BinaryDetection::quit(0))
        .heap_limit(Some(MAX_LINE_HEAP_BYTES))
        .build();
    let filter = filter(&root, request)?;
    for entry in walk(&root, request.hidden, request.no_ignore)
        .overrides(filter)
        .build()
        .flatten()
    {
        if limit.reached() {
            grep.answer.truncated = true;
            grep.answer.timed_out = true;
        }
        if grep.answer.truncated {
            break;
        }
        if entry.file_type().is_none_or(|kind| kind.is_file()) {
            grep.search(&mut searcher, workspace, entry.path());
        }
    }
    Ok(grep.answer)
}

fn matcher(request: &GrepRequest) -> Result<RegexMatcher, ConnectError> {
    if request.pattern.len() > MAX_PATTERN_BYTES {
        return Err(invalid("the pattern is longer than 64 KiB"));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(request.ignore_case)
        .multi_line(true)
        .dot_matches_new_line(false)
        .fixed_strings(request.literal)
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES);
    if !request.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&request.pattern).map_err(invalid)
}

fn filter(root: &Path, request: &GrepRequest) -> Result<Override, ConnectError> {
    let mut filter = OverrideBuilder::new(root);
    if !request.glob.is_empty() {
        filter.add(&request.glob).map_err(invalid)?;
    }
    filter.build().map_err(invalid)
}

struct Grep<'a> {
    matcher: RegexMatcher,
    answer: GrepResponse,
    request: &'a GrepRequest,
    limit: &'a Limit,
    bytes_left: u64,
}

impl Grep<'_> {
    fn search(&mut self, searcher: &mut Searcher, workspace: &Path, file: &Path) {
        let shown = path::shown(workspace, file);
        // What cannot be read, or is no file any more, holds no match.
        let Ok((open, _)) = open(file, OpenOptions::new().read(true), &shown) else {
            return;
        };
        let matcher = self.matcher.clone();
        let mut found = InFile {
            grep: self,
            path: shown,
            before: Vec::new(),
            count: 0,
        };
        let _ = searcher.search_file(&matcher, &open, &mut found);
        let (path, count) = (found.path, found.count);
        if count > 0
            && self.request.output != GrepOutput::GREP_OUTPUT_MATCHES
            && self.take(path.len())
        {
            self.answer.files.push(GrepCount {
                path,
                count,
                ..Default::default()
            });
        }
    }

    /// Whether there is room for so much more text.
    fn take(&mut self, bytes: usize) -> bool {
        match self.bytes_left.checked_sub(bytes as u64 + 64) {
            Some(left) => {
                self.bytes_left = left;
                true
            }
            None => {
                self.answer.truncated = true;
                false
            }
        }
    }

    fn is_full(&self) -> bool {
        let found = match self.request.output.as_known() {
            Some(GrepOutput::GREP_OUTPUT_FILES | GrepOutput::GREP_OUTPUT_COUNT) => {
                self.answer.files.len()
            }
            _ => self.answer.matches.len(),
        };
        found >= self.request.max_matches as usize
    }
}

struct InFile<'a, 'b> {
    grep: &'a mut Grep<'b>,
    path: String,
    before: Vec<String>,
    count: u64,
}

fn text(line: &[u8]) -> String {
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line.to_owned(),
    }
}

impl Sink for InFile<'_, '_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let grep = &mut *self.grep;
        if grep.limit.reached() {
            grep.answer.truncated = true;
            grep.answer.timed_out = true;
            return Ok(false);
        }
        self.count += 1;
        match grep.request.output.as_known() {
            Some(GrepOutput::GREP_OUTPUT_FILES) => {
                grep.answer.truncated |= grep.is_full();
                self.count = u64::from(!grep.answer.truncated);
                return Ok(false);
            }
            Some(GrepOutput::GREP_OUTPUT_COUNT) => {
                if grep.is_full() {
                    grep.answer.truncated = true;
                    self.count = 0;
                }
                return Ok(!grep.answer.truncated);
            }
            _ => {}
        }
        if grep.is_full() {
            grep.answer.truncated = true;
            return Ok(false);
        }
        let line = found.bytes();
        let start = grep
            .matcher
            .find(line)
            .ok()
            .flatten()
            .map_or(0, |at| at.start());
        let column = String::from_utf8_lossy(&line[..start]).chars().count() as u64 + 1;
        let shown = text(line);
        let before = std::mem::take(&mut self.before);
        let size = self.path.len() + shown.len() + before.iter().map(String::len).sum::<usize>();
        if !grep.take(size) {
            return Ok(false);
        }
        grep.answer.matches.push(GrepMatch {
            path: self.path.clone(),
            line: found.line_number().unwrap_or(0),
            column,
            text: shown,
            before,
            ..Default::default()
        });
        Ok(true)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.grep.request.output != GrepOutput::GREP_OUTPUT_MATCHES {
            return Ok(true);
        }
        let line = text(context.bytes());
        if !self.grep.take(line.len()) {
            return Ok(false);
        }
        match context.kind() {
            SinkContextKind::Before => self.before.push(line),
            _ => {
                if let Some(last) = self.grep.answer.matches.last_mut() {
                    last.after.push(line);
                }
            }
        }
        Ok(true)
    }
}
