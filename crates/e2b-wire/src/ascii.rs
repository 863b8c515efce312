//! JSON in ASCII alone.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// `value` in one line that ends with a line feed, all that is not ASCII escaped.
///
/// Readers of lines split them at more than a line feed: U+2028, U+0085 and others
/// would cut an object in two. And where a line is cut between two packets, no
/// character is.
pub fn to_ascii_line<T: Serialize>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut line = Vec::with_capacity(128);
    value.serialize(&mut Serializer::with_formatter(&mut line, Ascii))?;
    line.push(b'\n');
    Ok(line)
}

struct Ascii;

impl Formatter for Ascii {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(|c: char| !(' '..='\u{7e}').contains(&c)) {
            let (plain, special) = rest.split_at(at);
            CompactFormatter.write_string_fragment(writer, plain)?;
            let mut characters = special.chars();
            if let Some(character) = characters.next() {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
            rest = characters.as_str();
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_splits_lines_is_escaped() {
        let text = "a\u{2028}\u{2029}\u{85}\u{b}\u{c}\u{1c}\u{7f}é😀\n\"\\";
        let line = to_ascii_line(&text).unwrap();
        assert_eq!(
            std::str::from_utf8(&line).unwrap(),
            "\"a\\u2028\\u2029\\u0085\\u000b\\f\\u001c\\u007f\\u00e9\\ud83d\\ude00\\n\\\"\\\\\"\n"
        );
        let back: String = serde_json::from_slice(&line).unwrap();
        assert_eq!(back, text);
    }
}
