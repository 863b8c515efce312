//! Putting a whole file in place at once: nobody sees half of it.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::Write as _,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use connectrpc::ConnectError;

use super::open::{check_dir, check_file, target};
use crate::error::from_io;

pub(super) const DEFAULT_MODE: u32 = 0o644;
const FRESH: &str = ".write-";

/// Whether a file with this name is one that is being written.
pub(crate) fn is_fresh(name: &[u8]) -> bool {
    let number = name.strip_prefix(FRESH.as_bytes());
    number.is_some_and(|it| it.len() == 16 && it.iter().all(u8::is_ascii_hexdigit))
}

/// A file that is being written beside the place it is for; it is removed
/// unless it gets there.
pub(crate) struct Replacement {
    file: File,
    fresh: PathBuf,
    target: PathBuf,
    /// Permissions of the file that is there already.
    mode_before: Option<u32>,
    in_place: bool,
    shown: String,
}

impl Replacement {
    pub fn create(path: &Path, shown: &str) -> Result<Self, ConnectError> {
        let fail = |cause| from_io(&cause, shown);
        let before = fs::metadata(path).ok();
        if let Some(before) = &before {
            check_file(before, shown)?;
        }
        let target = target(path).map_err(fail)?;
        let parent = target.parent().unwrap_or(Path::new("/"));
        check_dir(parent, shown)?;
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| from_io(&errno.into(), shown))?;
        let fresh = parent.join(format!("{FRESH}{:016x}", u64::from_ne_bytes(random)));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)
            .map_err(fail)?;
        Ok(Self {
            file,
            fresh,
            target,
            mode_before: before.map(|before| before.permissions().mode() & 0o777),
            in_place: false,
            shown: shown.to_owned(),
        })
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn replaces(&self) -> bool {
        self.mode_before.is_some()
    }

    pub fn write(&mut self, data: &[u8]) -> Result<(), ConnectError> {
        self.file
            .write_all(data)
            .map_err(|cause| from_io(&cause, &self.shown))
    }

    /// The mode 0 is that of the file that was there.
    pub fn put(mut self, mode: u32) -> Result<(), ConnectError> {
        let mode = match mode & 0o777 {
            0 => self.mode_before.unwrap_or(DEFAULT_MODE),
            mode => mode,
        };
        self.file
            .set_permissions(Permissions::from_mode(mode))
            .and_then(|()| fs::rename(&self.fresh, &self.target))
            .map_err(|cause| from_io(&cause, &self.shown))?;
        self.in_place = true;
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.in_place {
            let _ = fs::remove_file(&self.fresh);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_get_into_place_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "old").unwrap();
        let mut fresh = Replacement::create(&file, "f").unwrap();
        fresh.write(b"half").unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        drop(fresh);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert_eq!(fs::read(&file).unwrap(), b"old");
        // A folder that took its place meanwhile is not replaced.
        let fresh = Replacement::create(&file, "f").unwrap();
        fs::remove_file(&file).unwrap();
        fs::create_dir(&file).unwrap();
        assert!(fresh.put(0).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
