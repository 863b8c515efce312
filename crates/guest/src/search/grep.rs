//! Lines that match a pattern.

use std::{
    fs::{self, File, OpenOptions},
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
    walk::{Choice, Walk},
};
use crate::{
    error::from_io,
    path,
    workspace::open::{check_dir, open},
};

const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// Linear time is not enough: a pattern can also be large once it is compiled
/// (CVE-2022-24713).
const MAX_COMPILED_BYTES: usize = 8 * 1024 * 1024;
const MAX_CONTEXT_LINES: u32 = 100;
/// Longest line, and largest file of a search across lines.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

pub(super) fn grep(
    workspace: &Path,
    request: &GrepRequest,
    limit: &Limit<'_>,
) -> Result<GrepResponse, ConnectError> {
    let root = path::in_workspace(workspace, &request.path)?;
    let shown = path::shown(workspace, &root);
    let filter = filter(&root, &request.glob)?;
    let mut grep = Grep {
        matcher: matcher(request)?,
        searcher: searcher(request),
        matches: Matches::new(request),
        limit,
    };
    let found = fs::metadata(&root).map_err(|cause| from_io(&cause, &shown))?;
    if !found.is_dir() {
        // A file that is named is searched, whatever the filters say.
        let (file, found) = open(&root, OpenOptions::new().read(true), &shown)?;
        grep.search(&file, found.len(), shown);
        return Ok(grep.matches.answer);
    }
    check_dir(&root, &shown)?;
    let choice = Choice {
        hidden: request.hidden,
        no_ignore: request.no_ignore,
        filter,
    };
    let mut walk = Walk::new(workspace, root, choice, limit);
    for found in walk.by_ref().filter(|found| found.kind.is_file()) {
        let shown = path::shown(workspace, &found.path);
        // What cannot be read, or is no file any more, holds no match.
        if let Ok((file, found)) = open(&found.path, OpenOptions::new().read(true), &shown) {
            grep.search(&file, found.len(), shown);
        }
        if grep.matches.is_over() {
            break;
        }
    }
    let mut answer = grep.matches.answer;
    answer.timed_out = limit.reached() && (walk.is_partial() || answer.timed_out);
    answer.truncated |= walk.is_partial();
    Ok(answer)
}

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

fn filter(root: &Path, glob: &str) -> Result<Override, ConnectError> {
    check_glob(glob)?;
    let mut filter = OverrideBuilder::new(root);
    if !glob.is_empty() {
        filter.add(glob).map_err(invalid_pattern)?;
    }
    filter.build().map_err(invalid_pattern)
}

struct Grep<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    matches: Matches<'a>,
    limit: &'a Limit<'a>,
}

impl Grep<'_> {
    fn search(&mut self, file: &File, size: u64, shown: String) {
        let input = Timely {
            // Not what is added meanwhile: a file may grow as fast as it is read.
            file: file.take(size),
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
struct Timely<'a> {
    file: io::Take<&'a File>,
    limit: &'a Limit<'a>,
}

impl Read for Timely<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.limit.reached() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}
