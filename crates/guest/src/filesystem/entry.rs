//! What the contract says of a file.

use std::{
    fs::{self, Metadata},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::fs::FileType as OsFileType;
use sandbox_wire::filesystem::{EntryInfo, FileType};

use super::metadata;
use crate::{users, workspace::read::modified};

pub(super) fn entry_info(path: &Path) -> io::Result<EntryInfo> {
    let found = fs::symlink_metadata(path)?;
    let is_link = found.file_type().is_symlink();
    // Of a link the contract tells kind and mode of what it leads to.
    let behind = match is_link {
        true => fs::metadata(path).ok(),
        false => Some(found.clone()),
    };
    let (file_type, mode) = behind.map_or((FileType::FILE_TYPE_UNSPECIFIED, 0), |behind| {
        (file_type(&behind), behind.permissions().mode() & 0o777)
    });
    let target = is_link.then(|| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()));
    Ok(EntryInfo {
        name: path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        r#type: file_type.into(),
        path: path.to_string_lossy().into_owned(),
        size: i64::try_from(found.len()).unwrap_or(i64::MAX),
        mode,
        permissions: permissions(found.permissions().mode()),
        owner: owner(found.uid()),
        group: owner(found.gid()),
        modified_time: modified(&found).into(),
        symlink_target: target.map(|target| target.to_string_lossy().into_owned()),
        metadata: metadata::read(path).into_iter().collect(),
        ..Default::default()
    })
}

fn file_type(found: &Metadata) -> FileType {
    if found.is_dir() {
        FileType::FILE_TYPE_DIRECTORY
    } else if found.is_file() {
        FileType::FILE_TYPE_FILE
    } else {
        FileType::FILE_TYPE_UNSPECIFIED
    }
}

/// In the letters of Go's `fs.FileMode`, which are the contract's.
fn permissions(mode: u32) -> String {
    let kind = match OsFileType::from_raw_mode(mode) {
        OsFileType::Directory => "d",
        OsFileType::Symlink => "L",
        OsFileType::BlockDevice => "D",
        OsFileType::CharacterDevice => "Dc",
        OsFileType::Fifo => "p",
        OsFileType::Socket => "S",
        _ => "",
    };
    let mut letters = kind.to_owned();
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if mode & bit != 0 {
            // What a device is comes after what its file may do.
            let at = letters.find('c').unwrap_or(letters.len());
            letters.insert(if letter == 't' { letters.len() } else { at }, letter);
        }
    }
    if letters.is_empty() {
        letters.push('-');
    }
    letters.extend((0..9).rev().map(|bit| match mode & (1 << bit) {
        0 => '-',
        _ => ['x', 'w', 'r'][bit % 3],
    }));
    letters
}

/// The one user of a sandbox has a name, and all others are nobody.
fn owner(id: u32) -> String {
    match id {
        0 => "root".into(),
        id if id == rustix::process::getuid().as_raw() => users::own_name().into(),
        65534 => "nobody".into(),
        id => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_as_in_a_listing() {
        for (mode, shown) in [
            (0o100_644, "-rw-r--r--"),
            (0o040_751, "drwxr-x--x"),
            (0o041_777, "dtrwxrwxrwx"),
            (0o042_755, "dgrwxr-xr-x"),
            (0o104_755, "urwxr-xr-x"),
            (0o120_777, "Lrwxrwxrwx"),
            (0o010_600, "prw-------"),
            (0o020_666, "Dcrw-rw-rw-"),
        ] {
            assert_eq!(permissions(mode), shown);
        }
    }
}
