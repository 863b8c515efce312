//! The guest's program, carried in the service.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use sha2::{Digest, Sha256};

/// The static program that every sandbox starts with.
pub static GUEST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/sandbox-guest"));

/// What warm Python interpreters are forked from, and the files beside it, by name: the
/// guest starts it by itself, or a backend starts one for many sandboxes.
pub static PYTHON_ZYGOTE: &str = include_str!("../../guest/src/warm/zygote.py");
pub static PYTHON_FILES: [(&str, &str); 4] = [
    ("ahead.py", include_str!("../../guest/src/warm/ahead.py")),
    (
        "install.py",
        include_str!("../../guest/src/display/install.py"),
    ),
    (
        "display.py",
        include_str!("../../guest/src/display/display.py"),
    ),
    (
        "context.py",
        include_str!("../../guest/src/contexts/programs/context.py"),
    ),
];

/// Puts the guest under `dir`, in a folder named by its SHA-256, and gives its path.
///
/// A file that is there already is used only if it is what it should be.
pub fn materialise(dir: &Path) -> io::Result<PathBuf> {
    let digest = hex(&Sha256::digest(GUEST));
    let folder = dir.join(&digest);
    let path = folder.join("sandbox-guest");
    if is_intact(&path, &digest) {
        return Ok(path);
    }
    fs::create_dir_all(&folder)?;
    // Set outright, whatever the umask: a sandbox's user must reach the file.
    for open in [dir, &folder] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o755))?;
    }
    // Renamed into place, for another process may be starting it right now.
    let fresh = folder.join(format!(".new-{}", std::process::id()));
    let _ = fs::remove_file(&fresh);
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&fresh)?;
    file.write_all(GUEST)?;
    file.set_permissions(fs::Permissions::from_mode(0o555))?;
    drop(file);
    fs::rename(&fresh, &path)?;
    Ok(path)
}

fn is_intact(path: &Path, digest: &str) -> bool {
    let Ok(mut file) = fs::File::open(path) else {
        return false;
    };
    let mut content = Vec::with_capacity(GUEST.len());
    file.read_to_end(&mut content).is_ok() && hex(&Sha256::digest(&content)) == digest
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_was_tampered_with_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = materialise(dir.path()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), GUEST);
        fs::remove_file(&path).unwrap();
        fs::write(&path, b"#!/bin/sh").unwrap();
        assert_eq!(materialise(dir.path()).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), GUEST);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o555);
    }

    #[test]
    fn the_guest_is_static() {
        assert!(GUEST.starts_with(b"\x7fELF\x02\x01"));
        // elf(5): where the program headers are, how large, and how many.
        let number = |at: usize, size: usize| {
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&GUEST[at..at + size]);
            u64::from_le_bytes(bytes) as usize
        };
        let (first, size, count) = (number(32, 8), number(54, 2), number(56, 2));
        let interpreter = 3;
        assert!((0..count).all(|n| number(first + n * size, 4) != interpreter));
    }
}
