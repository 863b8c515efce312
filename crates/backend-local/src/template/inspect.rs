//! Whether a template is fit to be forked, asked of the kernel.
//!
//! All that is forked has what the template has: memory that is shared rather than
//! copied, an open file or a right would join sandboxes that must not meet.

use std::{fs, path::Path};

use rustix::process::getpid;

use crate::error::{Context as _, Failure, Result};

/// CAP_SETUID and CAP_SETGID.
const RIGHTS: u64 = 1 << 7 | 1 << 6;

pub(super) fn inspect(pid: i32) -> Result<()> {
    let process = Path::new("/proc").join(pid.to_string());
    let read = |name: &str| {
        fs::read_to_string(process.join(name)).context(|| format!("failed to read its {name}"))
    };
    if let Some(mapping) = shared(&read("maps")?) {
        return Err(Failure::new(format!(
            "its forks would share memory: `{mapping}`"
        )));
    }
    if let Some(right) = excess(&read("status")?) {
        return Err(Failure::new(format!("it has more rights: `{right}`")));
    }
    let own = fs::read_link(process.join("ns/mnt")).context(|| "failed to read its ns".into())?;
    let ours = format!("/proc/{}/ns/mnt", getpid().as_raw_nonzero());
    if fs::read_link(ours).context(|| "failed to read our ns".into())? == own {
        return Err(Failure::new("it sees the host's files"));
    }
    Ok(())
}

/// The first mapping that stays one memory after a fork and can be written to.
pub(super) fn shared(maps: &str) -> Option<&str> {
    maps.lines().find(|line| {
        let rights = line.split(' ').nth(1).unwrap_or("rwxs");
        rights.contains('w') && rights.contains('s')
    })
}

/// The first line with a right that a template does not need.
fn excess(status: &str) -> Option<&str> {
    status.lines().find(|line| match line.split_once(":\t") {
        Some(("CapEff" | "CapPrm" | "CapInh" | "CapAmb", set)) => {
            !u64::from_str_radix(set, 16).is_ok_and(|set| set & !RIGHTS == 0)
        }
        Some(("NoNewPrivs", set)) => set != "1",
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_forks_would_share_is_found() {
        let private = "55e0-55e1 rw-p 00000000 fe:00 1 /usr/bin/python3\n\
                       7ff4-7ff5 r--s 00000000 fe:00 2 /usr/lib/gconv-modules.cache\n";
        assert_eq!(shared(private), None);
        let both = "7f00-7f01 rw-s 00000000 00:01 3 /memfd:libffi (deleted)";
        assert_eq!(shared(&format!("{private}{both}\n")), Some(both));
        assert!(shared("nonsense").is_some());
    }

    #[test]
    fn rights_that_are_not_needed_are_found() {
        let fine = "CapInh:\t00000000000000c0\nCapEff:\t00000000000000c0\nNoNewPrivs:\t1\n";
        assert_eq!(excess(fine), None);
        assert!(excess("CapEff:\t00000000002000c0").is_some());
        assert!(excess("CapPrm:\tx").is_some());
        assert!(excess("NoNewPrivs:\t0").is_some());
    }
}
