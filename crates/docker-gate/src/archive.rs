//! Archives that are unpacked into volumes, by the daemon, as root.
//!
//! The daemon would take compressed ones too (it starts programs for some), and
//! links, devices, set-user-id bits and extended attributes in them. Plain files and
//! folders are all that is needed, so the archive is written anew with only these:
//! each header is ours, and only the files' bytes are those that came.

use std::io;

use bytes::Bytes;
use tar::{Archive, EntryType, Header};

use crate::{
    call::{FOLDERS, Folder},
    refusal::{Refusal, Result, quoted},
};

const BLOCK: usize = 512;
/// What fits into a header with the `./` that we put in front.
const MAX_PATH: usize = 97;
/// Root, and the user of sandboxes.
const OWNERS: [u64; 2] = [0, 65532];
const SPECIAL_BITS: u32 = 0o7000;
const RIGHTS: u32 = 0o777;

/// The archive as it is sent on, in pieces that share the bytes of the one that came.
pub fn check(folder: Folder, archive: &Bytes) -> Result<Vec<Bytes>> {
    let mut pieces = Vec::new();
    let mut reader = Archive::new(archive.as_ref());
    let damaged =
        |_: io::Error| Refusal::malformed("the archive is not a tar archive, or is damaged");
    for entry in reader.entries().map_err(damaged)? {
        let entry = entry.map_err(damaged)?;
        let header = entry.header();
        let kind = header.entry_type();
        if !matches!(kind, EntryType::Regular | EntryType::Directory) {
            return Err(Refusal::forbidden(format!(
                "the archive has something else than files and folders: {kind:?}"
            )));
        }
        let path = entry.path_bytes();
        let path = path_in(folder, &path, kind)?;
        let mode = header.mode().map_err(damaged)?;
        let owner = |field: [u8; 8], read: io::Result<u64>| match read {
            // Not written at all: root, to the daemon too.
            Err(_) if field.iter().all(|byte| [0, b' '].contains(byte)) => Ok(0),
            read => read.map_err(damaged),
        };
        let user = owner(header.as_old().uid, header.uid())?;
        let group = owner(header.as_old().gid, header.gid())?;
        if mode & SPECIAL_BITS != 0 || ![user, group].iter().all(|id| OWNERS.contains(id)) {
            return Err(Refusal::forbidden(format!(
                "the archive gives {} a mode or an owner that is not permitted",
                quoted(&path)
            )));
        }
        let size = match kind {
            EntryType::Directory => 0,
            _ => usize::try_from(entry.size()).unwrap_or(usize::MAX),
        };
        let start = usize::try_from(entry.raw_file_position()).unwrap_or(usize::MAX);
        let end = start.checked_add(size).filter(|end| *end <= archive.len());
        let Some(end) = end else {
            return Err(Refusal::malformed(
                "the archive ends in the middle of a file",
            ));
        };

        let mut ours = Header::new_ustar();
        ours.set_entry_type(kind);
        // The writer's own way would leave out the beginning.
        ours.as_old_mut().name[..path.len()].copy_from_slice(path.as_bytes());
        ours.set_mode(mode & RIGHTS);
        ours.set_uid(user);
        ours.set_gid(group);
        ours.set_size(size as u64);
        ours.set_cksum();
        pieces.push(Bytes::copy_from_slice(ours.as_bytes()));
        if size > 0 {
            pieces.push(archive.slice(start..end));
            let rest = size.next_multiple_of(BLOCK) - size;
            pieces.push(Bytes::from_static(&[0; BLOCK]).slice(..rest));
        }
    }
    pieces.push(Bytes::from_static(&[0; 2 * BLOCK]));
    Ok(pieces)
}

/// A path below the folder, which is one of a volume. It begins with `./`: a name
/// at the very beginning could look like that of a compressed file.
fn path_in(folder: Folder, path: &[u8], kind: EntryType) -> Result<String> {
    let bad = || {
        Refusal::forbidden(format!(
            "the archive has a name that is not permitted: {}",
            quoted(&String::from_utf8_lossy(path))
        ))
    };
    let text = str::from_utf8(path).map_err(|_| bad())?;
    let text = text.strip_prefix("./").unwrap_or(text);
    let text = match kind {
        EntryType::Directory => text.strip_suffix('/').unwrap_or(text),
        _ => text,
    };
    let plain = |part: &str| {
        let allowed = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        !matches!(part, "" | "." | "..") && part.bytes().all(allowed)
    };
    // The folder itself.
    let is_top = matches!(text, "" | ".") && folder != Folder::Root && kind == EntryType::Directory;
    if is_top {
        return Ok("./".into());
    }
    if text.len() > MAX_PATH || !text.split('/').all(plain) {
        return Err(bad());
    }
    let first = text.split('/').next().unwrap_or_default();
    let in_volume = FOLDERS.iter().any(|folder| folder[1..] == *first);
    if folder == Folder::Root && !(in_volume && (first != text || kind == EntryType::Directory)) {
        return Err(bad());
    }
    Ok(format!("./{text}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    struct Entry<'a> {
        path: &'a str,
        kind: EntryType,
        mode: u32,
        owner: u64,
        data: &'a [u8],
    }

    const FILE: Entry<'_> = Entry {
        path: "guest",
        kind: EntryType::Regular,
        mode: 0o755,
        owner: 0,
        data: b"#!/bin/sh\n",
    };

    fn archive(entries: &[Entry<'_>]) -> Bytes {
        let mut builder = tar::Builder::new(Vec::new());
        for entry in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(entry.kind);
            // Beyond what the writer would permit.
            header.as_old_mut().name[..entry.path.len()].copy_from_slice(entry.path.as_bytes());
            header.set_mode(entry.mode);
            header.set_uid(entry.owner);
            header.set_gid(entry.owner);
            header.set_size(entry.data.len() as u64);
            if entry.kind.is_symlink() || entry.kind.is_hard_link() {
                header.as_old_mut().linkname[..4].copy_from_slice(b"/etc");
            }
            header.set_cksum();
            builder.append(&header, entry.data).unwrap();
        }
        builder.into_inner().unwrap().into()
    }

    /// Path, mode, owner, content.
    type Sent = (String, u32, u64, Vec<u8>);

    fn sent(folder: Folder, archive: &Bytes) -> Result<Vec<Sent>> {
        let all = check(folder, archive)?.concat();
        let mut reader = Archive::new(all.as_slice());
        Ok(reader
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut data = Vec::new();
                entry.read_to_end(&mut data).unwrap();
                let path = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
                let header = entry.header();
                (path, header.mode().unwrap(), header.uid().unwrap(), data)
            })
            .collect())
    }

    #[test]
    fn files_and_folders_arrive_as_they_are() {
        let big = vec![7; 1000];
        let archive = archive(&[
            FILE,
            Entry {
                path: "a/",
                kind: EntryType::Directory,
                owner: 65532,
                data: b"",
                ..FILE
            },
            Entry {
                path: "./a/b",
                data: &big,
                mode: 0o100_644,
                ..FILE
            },
            Entry {
                path: "empty",
                data: b"",
                ..FILE
            },
        ]);
        assert_eq!(
            sent(Folder::Sandbox, &archive).unwrap(),
            [
                ("./guest".into(), 0o755, 0, FILE.data.to_vec()),
                ("./a".into(), 0o755, 65532, vec![]),
                ("./a/b".into(), 0o644, 0, big),
                ("./empty".into(), 0o755, 0, vec![]),
            ]
        );
        assert_eq!(
            check(Folder::Sandbox, &archive).unwrap().concat().len() % BLOCK,
            0
        );
    }

    #[test]
    fn who_is_not_named_is_root() {
        let mut header = Header::new_gnu();
        header.set_mode(0o755);
        header.set_size(1);
        let mut builder = tar::Builder::new(Vec::new());
        builder
            .append_data(&mut header, "guest", &b"x"[..])
            .unwrap();
        let archive = builder.into_inner().unwrap().into();
        assert_eq!(sent(Folder::Sandbox, &archive).unwrap()[0].2, 0);
    }

    #[test]
    fn at_the_root_only_volumes_are_written() {
        let folder = |path| {
            archive(&[Entry {
                path,
                kind: EntryType::Directory,
                owner: 65532,
                data: b"",
                ..FILE
            }])
        };
        assert_eq!(
            sent(Folder::Root, &folder("workspace")).unwrap()[0].0,
            "./workspace"
        );
        assert!(check(Folder::Workspace, &folder("./")).is_ok());
        for path in ["etc", "none", "./", ".", "workspacex"] {
            assert!(check(Folder::Root, &folder(path)).is_err(), "{path}");
        }
        for path in ["none", "etc/passwd", "workspace"] {
            let file = archive(&[Entry { path, ..FILE }]);
            assert!(check(Folder::Root, &file).is_err(), "{path}");
        }
        assert!(
            check(
                Folder::Root,
                &archive(&[Entry {
                    path: ".sandbox/guest",
                    ..FILE
                }])
            )
            .is_ok()
        );
    }

    #[test]
    fn an_archive_holds_nothing_that_only_root_may_make() {
        for kind in [
            EntryType::Symlink,
            EntryType::Link,
            EntryType::Block,
            EntryType::Char,
            EntryType::Fifo,
            EntryType::Continuous,
            EntryType::GNUSparse,
        ] {
            let archive = archive(&[Entry {
                kind,
                data: b"",
                ..FILE
            }]);
            assert!(check(Folder::Sandbox, &archive).is_err(), "{kind:?}");
        }
        for mode in [0o4755, 0o2755, 0o1755] {
            assert!(check(Folder::Sandbox, &archive(&[Entry { mode, ..FILE }])).is_err());
        }
        assert!(
            check(
                Folder::Sandbox,
                &archive(&[Entry {
                    owner: 1000,
                    ..FILE
                }])
            )
            .is_err()
        );
    }

    #[test]
    fn a_name_in_an_archive_leads_nowhere_else() {
        for path in [
            "../x",
            "a/../../x",
            "/etc/passwd",
            "a//b",
            "a/./b",
            "a b",
            "",
            "a/",
            "ä",
        ] {
            let archive = archive(&[Entry { path, ..FILE }]);
            assert!(check(Folder::Sandbox, &archive).is_err(), "{path}");
        }
    }

    #[test]
    fn what_is_compressed_or_damaged_is_refused() {
        for bytes in [
            &b"\x1f\x8b\x08\x00aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"[..],
            b"BZh91AY&SY",
            b"\xfd7zXZ\x00",
            b"\x28\xb5\x2f\xfd",
        ] {
            let mut bytes = bytes.to_vec();
            bytes.resize(2048, 1);
            assert!(check(Folder::Sandbox, &bytes.into()).is_err());
        }
        // A tar archive whose first name is that of a compressed file stays one.
        let odd = archive(&[Entry {
            path: "BZh91AY",
            ..FILE
        }]);
        assert!(check(Folder::Sandbox, &odd).unwrap()[0].starts_with(b"./BZh"));
        let whole = archive(&[FILE]);
        assert!(check(Folder::Sandbox, &whole.slice(..BLOCK + 4)).is_err());
    }

    #[test]
    fn extended_attributes_are_not_sent_on() {
        let mut builder = tar::Builder::new(Vec::new());
        builder
            .append_pax_extensions([("SCHILY.xattr.security.capability", &b"x"[..])])
            .unwrap();
        let mut header = Header::new_ustar();
        header.set_path("guest").unwrap();
        header.set_mode(0o755);
        header.set_uid(0);
        header.set_gid(0);
        header.set_size(1);
        header.set_cksum();
        builder.append(&header, &b"x"[..]).unwrap();
        let archive: Bytes = builder.into_inner().unwrap().into();
        let all = check(Folder::Sandbox, &archive).unwrap().concat();
        assert!(!all.windows(5).any(|window| window == b"xattr"));
    }
}
