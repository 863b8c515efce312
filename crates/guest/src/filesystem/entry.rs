//! What the contract says of a file.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use sandbox_wire::filesystem::{EntryInfo, FileType};

use crate::workspace::read::modified;

pub(super) fn entry_info(path: &Path) -> io::Result<EntryInfo> {
    let found = fs::symlink_metadata(path)?;
    let kind = found.file_type();
    let mode = found.permissions().mode() & 0o7777;
    let (file_type, letter) = if kind.is_dir() {
        (FileType::FILE_TYPE_DIRECTORY, 'd')
    } else if kind.is_symlink() {
        (FileType::FILE_TYPE_SYMLINK, 'L')
    } else if kind.is_file() {
        (FileType::FILE_TYPE_FILE, '-')
    } else {
        (FileType::FILE_TYPE_UNSPECIFIED, '?')
    };
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
        permissions: permissions(letter, mode),
        owner: owner(found.uid()),
        group: owner(found.gid()),
        modified_time: modified(&found).into(),
        symlink_target: kind
            .is_symlink()
            .then(|| fs::read_link(path).ok())
            .flatten()
            .map(|target| target.to_string_lossy().into_owned()),
        ..Default::default()
    })
}

fn permissions(letter: char, mode: u32) -> String {
    let bits = (0..9).rev().map(|bit| match mode & (1 << bit) {
        0 => '-',
        _ => ['x', 'w', 'r'][bit % 3],
    });
    std::iter::once(letter).chain(bits).collect()
}

/// The one user of a sandbox has a name, and all others are nobody.
fn owner(id: u32) -> String {
    match id {
        0 => "root".into(),
        id if id == rustix::process::getuid().as_raw() => "user".into(),
        65534 => "nobody".into(),
        id => id.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_read_as_in_a_listing() {
        assert_eq!(permissions('-', 0o644), "-rw-r--r--");
        assert_eq!(permissions('d', 0o751), "drwxr-x--x");
    }
}
