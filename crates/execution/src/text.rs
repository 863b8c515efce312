//! Bytes that come in pieces, as text.

/// Turns pieces into text; a character that is torn between two comes whole
/// with the second, and what is not UTF-8 becomes U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character: three bytes at most.
    torn: Vec<u8>,
}

impl Decoder {
    pub fn push(&mut self, data: &[u8]) -> String {
        let joined;
        let bytes = if self.torn.is_empty() {
            data
        } else {
            self.torn.extend_from_slice(data);
            joined = std::mem::take(&mut self.torn);
            &joined
        };
        let whole = bytes.len() - torn_at_end(bytes);
        self.torn = bytes[whole..].to_vec();
        String::from_utf8_lossy(&bytes[..whole]).into_owned()
    }

    /// What is left when nothing more comes.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.torn)).into_owned()
    }
}

/// How many bytes at the end begin a character that is not complete.
fn torn_at_end(bytes: &[u8]) -> usize {
    let last = &bytes[bytes.len().saturating_sub(3)..];
    (1..=last.len())
        .find(|back| {
            matches!(
                std::str::from_utf8(&last[last.len() - back..]),
                Err(error) if error.valid_up_to() == 0 && error.error_len().is_none()
            )
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_character_comes_whole() {
        let text = "aä€😀z";
        for size in 1..text.len() {
            let mut decoder = Decoder::default();
            let mut got: String = text
                .as_bytes()
                .chunks(size)
                .map(|piece| decoder.push(piece))
                .collect();
            got += &decoder.finish();
            assert_eq!(got, text, "in pieces of {size}");
        }
    }

    #[test]
    fn what_is_no_text_is_replaced_and_never_held_back_for_long() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.push(b"a\xff"), "a\u{fffd}");
        assert_eq!(decoder.push(b"\xf0\x9f"), "");
        assert_eq!(decoder.push(b"b"), "\u{fffd}b");
        assert_eq!(decoder.push(b"\xc3"), "");
        assert_eq!(decoder.finish(), "\u{fffd}");
    }
}
