//! What is mounted in the sandbox.

use std::{
    ffi::OsString,
    fs,
    os::unix::ffi::OsStringExt as _,
    path::{Path, PathBuf},
};

/// Not on a disk, or not for programs to fill.
const NO_DISK: [&str; 10] = [
    "cgroup",
    "cgroup2",
    "devpts",
    "devtmpfs",
    "hugetlbfs",
    "mqueue",
    "overlay",
    "proc",
    "sysfs",
    "tmpfs",
];

/// Folders on a disk that are not read-only, the root and what lies in `but` left out.
pub(crate) fn writable(but: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let folders = table.lines().filter_map(writable_in);
    folders
        .filter(|folder| !folder.starts_with(but) && folder.is_dir())
        .collect()
}

/// The folder of a line of mountinfo, see proc_pid_mountinfo(5).
fn writable_in(line: &str) -> Option<PathBuf> {
    let (mount, system) = line.split_once(" - ")?;
    let mut fields = mount.split(' ').skip(4);
    let (folder, options) = (fields.next()?, fields.next()?);
    let kind = system.split(' ').next()?;
    let is_one = folder != "/"
        && options.split(',').any(|option| option == "rw")
        && !NO_DISK.contains(&kind);
    is_one.then(|| unescaped(folder))
}

/// Blanks and the like are written as three octal digits.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| byte == b'\\');
        let octal = digits.and_then(|it| u8::from_str_radix(str::from_utf8(it).ok()?, 8).ok());
        bytes.push(octal.unwrap_or(byte));
        rest = match octal {
            Some(_) => &after[3..],
            None => after,
        };
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_on_a_disk_that_can_be_written_are_named() {
        let of = |line| writable_in(line).map(|it| it.to_str().unwrap().to_owned());
        let volume = "304 287 254:0 /v/_data /my\\040data rw,relatime master:5 - ext4 /dev/vda rw";
        assert_eq!(of(volume), Some("/my data".to_owned()));
        for line in [
            "304 287 254:0 /v/_data /.sandbox ro,relatime master:5 - ext4 /dev/vda rw",
            "306 287 0:111 / /tmp rw,nosuid - tmpfs tmpfs rw,size=65536k",
            "287 201 0:102 / / rw,relatime - ext4 /dev/vda rw",
            "nonsense",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
    }
}
