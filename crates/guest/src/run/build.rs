//! The step that makes a program of a script, before the program runs.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use super::{Start, null_input};

/// Stands for the path of what the step makes.
const OUT: &str = "{out}";
/// What a shell says of a command that it did not find.
pub(super) const NOT_FOUND: i32 = 127;

/// How a script is compiled, and where to.
pub(crate) struct Build {
    argv: Vec<String>,
    dir: BuildDir,
}

impl Build {
    /// Makes the directory below `tmp`, and names it in `argv` and in the program's own.
    pub fn prepare(tmp: &Path, argv: Vec<String>, program: &mut [String]) -> io::Result<Self> {
        let mut build = Self {
            argv,
            dir: BuildDir::create(tmp)?,
        };
        let out = build.dir.0.join("main").to_string_lossy().into_owned();
        for word in build.argv.iter_mut().chain(program) {
            if word == OUT {
                word.clone_from(&out);
            }
        }
        Ok(build)
    }

    /// What to start before `program`: the input is the program's alone, and
    /// what a compiler says is no output of it.
    pub(super) fn start(&self, program: &Start) -> io::Result<Start> {
        Ok(Start {
            argv: self.argv.clone(),
            env: program.env.clone(),
            cwd: program.cwd.clone(),
            stdin: null_input()?,
            stdout: program.stderr.try_clone()?,
            stderr: program.stderr.try_clone()?,
            terminal: false,
        })
    }

    /// Removes what it made, and whatever else the program has put beside it.
    pub(super) async fn remove(self) {
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    pub(super) fn program(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }
}

/// Removed with all that is in it when dropped.
struct BuildDir(PathBuf);

impl BuildDir {
    fn create(tmp: &Path) -> io::Result<Self> {
        let mut random = [0; 6];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
        let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let path = tmp.join(format!(".build-{random}"));
        // Fails where something of that name exists, links too.
        fs::DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for BuildDir {
    fn drop(&mut self) {
        // The program may have removed it; std's walk follows no links.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_names_one_private_place_in_both_steps_and_leaves_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let mut program: Vec<String> = words(&["{out}", "x{out}"]);
        let build = Build::prepare(tmp.path(), words(&["cc", "{out}"]), &mut program).unwrap();
        assert_eq!(build.argv[1], program[0]);
        assert_eq!(program[1], "x{out}");
        assert!(program[0].starts_with(tmp.path().to_str().unwrap()));
        fs::create_dir(build.dir.0.join("more")).unwrap();
        std::os::unix::fs::symlink("/", build.dir.0.join("link")).unwrap();
        drop(build);
        assert_eq!(fs::read_dir(tmp.path()).unwrap().count(), 0);
    }
}
