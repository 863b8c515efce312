//! What a tar may be packed in: nothing, gzip (RFC 1952) or zstd (RFC 8878).

use std::io::{self, Read, Write};

use flate2::{read::MultiGzDecoder, write::GzEncoder};
use sandbox_wire::sandbox::v1::Compression;

/// Memory that a zstd stream may ask for, as a power of two: 32 MiB.
const WINDOW_LOG: u32 = 25;

pub fn unpacked<'a>(
    compression: Compression,
    input: impl Read + 'a,
) -> io::Result<Box<dyn Read + 'a>> {
    Ok(match compression {
        Compression::COMPRESSION_NONE => Box::new(input),
        Compression::COMPRESSION_GZIP => Box::new(MultiGzDecoder::new(input)),
        Compression::COMPRESSION_ZSTD => {
            let mut decoder = zstd::stream::read::Decoder::new(input)?;
            decoder.window_log_max(WINDOW_LOG)?;
            Box::new(decoder)
        }
    })
}

/// Packs what is written to it.
pub enum Packed<W: Write> {
    Plain(W),
    Gzip(GzEncoder<W>),
    Zstd(zstd::stream::write::Encoder<'static, W>),
}

impl<W: Write> Packed<W> {
    pub fn new(compression: Compression, output: W) -> io::Result<Self> {
        Ok(match compression {
            Compression::COMPRESSION_NONE => Self::Plain(output),
            Compression::COMPRESSION_GZIP => {
                Self::Gzip(GzEncoder::new(output, flate2::Compression::fast()))
            }
            Compression::COMPRESSION_ZSTD => {
                Self::Zstd(zstd::stream::write::Encoder::new(output, 1)?)
            }
        })
    }

    /// Writes the end.
    pub fn finish(self) -> io::Result<W> {
        match self {
            Self::Plain(output) => Ok(output),
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(output) => output.write(data),
            Self::Gzip(encoder) => encoder.write(data),
            Self::Zstd(encoder) => encoder.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(output) => output.flush(),
            Self::Gzip(encoder) => encoder.flush(),
            Self::Zstd(encoder) => encoder.flush(),
        }
    }
}
