//! What a file is, by its name and its first bytes.

/// What a file is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// image, table, report, archive or file.
    pub name: &'static str,
    pub mime_type: &'static str,
}

const fn kind(name: &'static str, mime_type: &'static str) -> Kind {
    Kind { name, mime_type }
}

const UNKNOWN: Kind = kind("file", "application/octet-stream");
const TEXT: Kind = kind("file", "text/plain");
const PNG: Kind = kind("image", "image/png");
const JPEG: Kind = kind("image", "image/jpeg");
const GIF: Kind = kind("image", "image/gif");
const WEBP: Kind = kind("image", "image/webp");
const BMP: Kind = kind("image", "image/bmp");
const TIFF: Kind = kind("image", "image/tiff");
const PDF: Kind = kind("report", "application/pdf");
const ZIP: Kind = kind("archive", "application/zip");
const GZIP: Kind = kind("archive", "application/gzip");
const BZIP2: Kind = kind("archive", "application/x-bzip2");
const XZ: Kind = kind("archive", "application/x-xz");
const ZSTD: Kind = kind("archive", "application/zstd");
const SEVEN_ZIP: Kind = kind("archive", "application/x-7z-compressed");
const PARQUET: Kind = kind("table", "application/vnd.apache.parquet");

#[rustfmt::skip]
const BY_EXTENSION: &[(&str, Kind)] = &[
    ("7z", SEVEN_ZIP),
    ("avif", kind("image", "image/avif")),
    ("bmp", BMP),
    ("bz2", BZIP2),
    ("c", kind("file", "text/x-c")),
    ("css", kind("file", "text/css")),
    ("csv", kind("table", "text/csv")),
    ("docx", kind("report", "application/vnd.openxmlformats-officedocument.wordprocessingml.document")),
    ("epub", kind("report", "application/epub+zip")),
    ("feather", kind("table", "application/vnd.apache.arrow.file")),
    ("gif", GIF),
    ("gz", GZIP),
    ("htm", kind("report", "text/html")),
    ("html", kind("report", "text/html")),
    ("ico", kind("image", "image/x-icon")),
    ("ipynb", kind("report", "application/x-ipynb+json")),
    ("jpeg", JPEG),
    ("jpg", JPEG),
    ("js", kind("file", "text/javascript")),
    ("json", kind("file", "application/json")),
    ("jsonl", kind("table", "application/jsonl")),
    ("log", TEXT),
    ("md", kind("report", "text/markdown")),
    ("mp3", kind("file", "audio/mpeg")),
    ("mp4", kind("file", "video/mp4")),
    ("ndjson", kind("table", "application/jsonl")),
    ("ods", kind("table", "application/vnd.oasis.opendocument.spreadsheet")),
    ("odt", kind("report", "application/vnd.oasis.opendocument.text")),
    ("parquet", PARQUET),
    ("pdf", PDF),
    ("png", PNG),
    ("pptx", kind("report", "application/vnd.openxmlformats-officedocument.presentationml.presentation")),
    ("py", kind("file", "text/x-python")),
    ("rtf", kind("report", "application/rtf")),
    ("sqlite", kind("file", "application/vnd.sqlite3")),
    ("svg", kind("image", "image/svg+xml")),
    ("tar", kind("archive", "application/x-tar")),
    ("tex", kind("report", "application/x-tex")),
    ("tgz", GZIP),
    ("tif", TIFF),
    ("tiff", TIFF),
    ("toml", kind("file", "application/toml")),
    ("tsv", kind("table", "text/tab-separated-values")),
    ("txt", TEXT),
    ("wasm", kind("file", "application/wasm")),
    ("wav", kind("file", "audio/wav")),
    ("webm", kind("file", "video/webm")),
    ("webp", WEBP),
    ("xls", kind("table", "application/vnd.ms-excel")),
    ("xlsx", kind("table", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")),
    ("xml", kind("file", "application/xml")),
    ("xz", XZ),
    ("yaml", kind("file", "application/yaml")),
    ("yml", kind("file", "application/yaml")),
    ("zip", ZIP),
    ("zst", ZSTD),
];

/// At an offset, for those that can be told so.
const BY_CONTENT: &[(usize, &[u8], Kind)] = &[
    (0, b"\x89PNG\r\n\x1a\n", PNG),
    (0, b"\xff\xd8\xff", JPEG),
    (0, b"GIF87a", GIF),
    (0, b"GIF89a", GIF),
    (8, b"WEBP", WEBP),
    (0, b"BM", BMP),
    (0, b"II*\0", TIFF),
    (0, b"MM\0*", TIFF),
    (0, b"%PDF-", PDF),
    (0, b"PK\x03\x04", ZIP),
    (0, b"\x1f\x8b", GZIP),
    (0, b"BZh", BZIP2),
    (0, b"\xfd7zXZ\0", XZ),
    (0, b"\x28\xb5\x2f\xfd", ZSTD),
    (0, b"7z\xbc\xaf\x27\x1c", SEVEN_ZIP),
    (0, b"PAR1", PARQUET),
];

impl Kind {
    /// By the name, unless the content is known to be something else.
    pub fn of(name: &str, head: &[u8]) -> Self {
        let named = name
            .rsplit_once('.')
            .map(|(_, extension)| extension.to_ascii_lowercase())
            .and_then(|extension| lookup(&extension));
        match named {
            // A name may promise an image and hold a page: who shows it would run it.
            Some(kind) if BY_CONTENT.iter().any(|(_, _, known)| *known == kind) => {
                match sniff(head) {
                    Some(found) if found == kind => kind,
                    Some(found) if !found.is_ambiguous() => found,
                    _ => UNKNOWN,
                }
            }
            Some(kind) => kind,
            None => match sniff(head) {
                Some(found) if !found.is_ambiguous() => found,
                _ if is_text(head) => TEXT,
                _ => UNKNOWN,
            },
        }
    }

    /// A figure can be saved as this.
    pub fn can_be_plot(self) -> bool {
        self.name == "image" || self == PDF
    }

    /// Two letters are not enough to say so.
    fn is_ambiguous(self) -> bool {
        self == BMP
    }
}

fn lookup(extension: &str) -> Option<Kind> {
    let found = BY_EXTENSION.binary_search_by(|(known, _)| (*known).cmp(extension));
    found.ok().map(|at| BY_EXTENSION[at].1)
}

fn sniff(head: &[u8]) -> Option<Kind> {
    BY_CONTENT
        .iter()
        .find(|(offset, magic, _)| {
            head.get(*offset..)
                .is_some_and(|there| there.starts_with(magic))
        })
        .map(|(_, _, kind)| *kind)
}

fn is_text(head: &[u8]) -> bool {
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // Cut inside a character.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or("\0")
        }
        Err(_) => return false,
    };
    !text.is_empty() && !text.contains(|c: char| c.is_control() && !"\t\n\r".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(BY_EXTENSION.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn a_file_is_told_by_name_and_content() {
        const PNG_HEAD: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        for (name, head, kind, mime) in [
            ("a.png", PNG_HEAD, "image", "image/png"),
            ("A.PNG", PNG_HEAD, "image", "image/png"),
            ("a.jpg", PNG_HEAD, "image", "image/png"),
            ("a", PNG_HEAD, "image", "image/png"),
            ("a.png", b"<script>", "file", "application/octet-stream"),
            ("a.png", b"", "file", "application/octet-stream"),
            ("a.svg", b"<svg", "image", "image/svg+xml"),
            ("a.csv", b"a,b", "table", "text/csv"),
            (
                "a.parquet",
                b"PAR1",
                "table",
                "application/vnd.apache.parquet",
            ),
            ("a.pdf", b"%PDF-1.7", "report", "application/pdf"),
            ("a.tar.gz", b"\x1f\x8b\x08", "archive", "application/gzip"),
            ("a.whl", b"PK\x03\x04", "archive", "application/zip"),
            ("BMW.rs", b"BMW", "file", "text/plain"),
            ("a.weird", b"\0\x01", "file", "application/octet-stream"),
            ("LICENSE", "text ä".as_bytes(), "file", "text/plain"),
            ("cut", &b"x\xc3"[..], "file", "text/plain"),
            ("a.", b"", "file", "application/octet-stream"),
            ("", b"\xff", "file", "application/octet-stream"),
        ] {
            let found = Kind::of(name, head);
            assert_eq!(
                (found.name, found.mime_type),
                (kind, mime),
                "{name} {head:?}"
            );
        }
    }
}
