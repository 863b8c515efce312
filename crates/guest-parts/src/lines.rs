//! A page of lines out of a text of any size.

use std::io::{self, Read};

const CHUNK_BYTES: usize = 64 * 1024;

/// Lines of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub content: String,
    /// Lines in `content`, the last of which may be a part.
    pub lines: u64,
    /// Lines of the whole text.
    pub total: u64,
    /// `content` has less than was asked for.
    pub cut: bool,
}

/// What is wanted of a text.
pub struct Wanted {
    /// From 1.
    pub offset: u64,
    pub limit: u64,
    pub max_bytes: usize,
}

/// Reads all of `input`, to count and to check it, and keeps the page; none
/// when it is not text. `go_on` is asked again and again.
pub fn read_page(
    mut input: impl Read,
    wanted: &Wanted,
    go_on: impl Fn() -> bool,
) -> io::Result<Option<Page>> {
    let mut reading = Reading::default();
    let mut chunk = vec![0; CHUNK_BYTES];
    // Bytes at the chunk's begin of a character that is not complete.
    let mut held = 0;
    while go_on() {
        let filled = match input.read(&mut chunk[held..]) {
            Ok(0) if held > 0 => return Ok(None),
            Ok(0) => break,
            Ok(read) => held + read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        let text = match std::str::from_utf8(&chunk[..filled]) {
            Ok(text) => text,
            Err(end) if end.error_len().is_none() => {
                std::str::from_utf8(&chunk[..end.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return Ok(None),
        };
        if text.contains('\0') {
            return Ok(None);
        }
        for piece in text.split_inclusive('\n') {
            reading.take(piece, wanted);
        }
        let done = text.len();
        chunk.copy_within(done..filled, 0);
        held = filled - done;
    }
    Ok(Some(reading.page))
}

#[derive(Default)]
struct Reading {
    page: Page,
    /// The piece before did not end its line.
    within_line: bool,
    /// Where the line begins in the page's content.
    line_start: usize,
}

impl Reading {
    fn take(&mut self, piece: &str, wanted: &Wanted) {
        let page = &mut self.page;
        let is_new = !self.within_line;
        self.within_line = !piece.ends_with('\n');
        page.total += u64::from(is_new);
        let before = wanted.offset - 1;
        if page.cut || page.total <= before || page.total - before > wanted.limit {
            return;
        }
        if is_new {
            page.lines += 1;
            self.line_start = page.content.len();
        }
        let room = wanted.max_bytes - page.content.len();
        if piece.len() <= room {
            page.content.push_str(piece);
            return;
        }
        page.cut = true;
        if self.line_start == 0 {
            // Of a line that does not fit a part is better than nothing.
            page.content
                .push_str(&piece[..piece.floor_char_boundary(room)]);
        } else {
            page.content.truncate(self.line_start);
            page.lines -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives so many bytes at once.
    struct Slow<'a>(&'a [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let size = self.1.min(buffer.len());
            self.0.read(&mut buffer[..size])
        }
    }

    fn page(text: &[u8], offset: u64, limit: u64, max_bytes: usize) -> Option<Page> {
        let wanted = Wanted {
            offset,
            limit,
            max_bytes,
        };
        let pages: Vec<_> = [1, 2, 3, 1000]
            .map(|size| read_page(Slow(text, size), &wanted, || true).unwrap())
            .into();
        assert!(pages.iter().all(|page| *page == pages[0]), "{pages:?}");
        pages.into_iter().next().unwrap()
    }

    fn is(content: &str, lines: u64, total: u64, cut: bool) -> Option<Page> {
        Some(Page {
            content: content.to_owned(),
            lines,
            total,
            cut,
        })
    }

    #[test]
    fn a_page_is_the_same_however_the_text_arrives() {
        let text = "éa\n\nb€\r\nend".as_bytes();
        assert_eq!(page(text, 1, 9, 99), is("éa\n\nb€\r\nend", 4, 4, false));
        assert_eq!(page(text, 2, 2, 99), is("\nb€\r\n", 2, 4, false));
        assert_eq!(page(text, 4, 2, 99), is("end", 1, 4, false));
        assert_eq!(page(text, 5, 2, 99), is("", 0, 4, false));
        assert_eq!(page(text, u64::MAX, u64::MAX, 99), is("", 0, 4, false));
        assert_eq!(page(text, 1, 0, 99), is("", 0, 4, false));
        assert_eq!(page(b"", 1, 9, 99), is("", 0, 0, false));
        assert_eq!(page(b"\n", 1, 9, 99), is("\n", 1, 1, false));
    }

    #[test]
    fn what_does_not_fit_is_cut_at_a_line_or_else_at_a_character() {
        let text = "éa\n\nb€\r\nend".as_bytes();
        assert_eq!(page(text, 1, 9, 6), is("éa\n\n", 2, 4, true));
        assert_eq!(page(text, 1, 9, 4), is("éa\n", 1, 4, true));
        assert_eq!(page(text, 3, 9, 3), is("b", 1, 4, true));
        assert_eq!(page(text, 1, 9, 1), is("", 1, 4, true));
    }

    #[test]
    fn what_is_not_text_is_none() {
        for bytes in [
            &b"a\0"[..],
            b"\xff",
            b"a\xc3",
            b"\xed\xa0\x80",
            b"ok\n\xe2\x82",
        ] {
            assert_eq!(page(bytes, 1, 9, 99), None, "{bytes:?}");
        }
    }
}
