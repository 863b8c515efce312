//! The bubblewrap program: where it is, and whether it can do what is needed.

use std::{
    env,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use sandbox_backend::Problem;

/// Without one of these a sandbox would have a hole or not start; 0.7 has all.
const NEEDED_OPTIONS: [&str; 7] = [
    "--add-seccomp-fd",
    "--as-pid-1",
    "--cap-drop",
    "--clearenv",
    "--perms",
    "--ro-bind-data",
    "--size",
];

/// Finds the program, on PATH if it is a bare name.
pub(crate) fn find(wanted: &Path) -> Result<PathBuf, Problem> {
    let found = if wanted.components().count() > 1 {
        is_program(wanted).then(|| wanted.to_owned())
    } else {
        let path = env::var_os("PATH").unwrap_or_default();
        env::split_paths(&path)
            .filter(|dir| dir.is_absolute())
            .map(|dir| dir.join(wanted))
            .find(|program| is_program(program))
    };
    found.ok_or_else(|| {
        Problem::new(
            "bubblewrap is not installed",
            "install it: `apt-get install bubblewrap` (Debian, Ubuntu) or \
             `dnf install bubblewrap` (Fedora); or set bwrap (SANDBOX_BWRAP) to its path",
        )
    })
}

fn is_program(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// For example `bubblewrap 0.8.0`.
pub(crate) fn version(bwrap: &Path) -> Option<String> {
    output(bwrap, "--version").map(|text| text.trim().to_owned())
}

/// Looks whether the program has all options that are used.
pub(crate) fn check_options(bwrap: &Path) -> Result<(), Problem> {
    let help = output(bwrap, "--help").unwrap_or_default();
    let missing: Vec<&str> = NEEDED_OPTIONS
        .into_iter()
        .filter(|option| !help.split_whitespace().any(|word| word == *option))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Problem::new(
        format!("bubblewrap is too old: it lacks {}", missing.join(", ")),
        "install bubblewrap 0.7 or newer (Debian 12, Ubuntu 23.04 and later have it), \
         or set bwrap (SANDBOX_BWRAP) to one",
    ))
}

fn output(bwrap: &Path, option: &str) -> Option<String> {
    let output = Command::new(bwrap).arg(option).output().ok()?;
    String::from_utf8(output.stdout).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_missing_program_says_what_to_install() {
        let problem = find(Path::new("/nowhere/bwrap")).unwrap_err();
        assert!(problem.fix.contains("apt-get install bubblewrap"));
        assert!(find(Path::new("no-such-bwrap")).is_err());
    }

    #[test]
    fn an_old_program_is_told_by_the_options_it_lacks() {
        let dir = tempfile::tempdir().unwrap();
        let old = dir.path().join("bwrap");
        fs::write(
            &old,
            "#!/bin/sh\necho '  --add-seccomp-fd FD  --as-pid-1 --cap-drop CAP --clearenv'\n\
             echo '  --perms OCTAL --ro-bind-data FD DEST'\n",
        )
        .unwrap();
        fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find(&old), Ok(old.clone()));
        assert_eq!(
            check_options(&old).unwrap_err().what,
            "bubblewrap is too old: it lacks --size"
        );
    }
}
