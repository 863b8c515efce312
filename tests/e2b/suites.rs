//! The SDKs, installed once, and the cases that are run with them.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::{Mutex, PoisonError},
};

/// How many cases of a suite there were, none of which failed.
#[derive(Debug)]
pub struct Counts {
    passed: usize,
    skipped: usize,
}

impl Counts {
    /// Fails when one was left out, or when there are fewer than there once were.
    pub fn all_of(&self, cases: usize) {
        assert_eq!(self.skipped, 0, "{self:?}");
        self.at_least(cases);
    }

    pub fn at_least(&self, cases: usize) {
        assert!(self.passed >= cases, "{cases} are wanted: {self:?}");
    }
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

fn target(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The Python environment with the SDKs.
pub fn venv() -> PathBuf {
    let venv = target("e2b-venv");
    let made = Command::new(tests().join("openapi/venv.sh"))
        .arg(&venv)
        .arg(tests().join("e2b/requirements.txt"))
        .status()
        .unwrap();
    assert!(made.success());
    venv
}

/// Runs the cases in a folder of `tests/e2b` with pytest.
pub fn python(folder: &str, around: &HashMap<String, String>, more: &[&str]) -> Counts {
    let report = tempfile::NamedTempFile::new().unwrap();
    let mut command = program(&venv().join("bin/python"), around);
    command
        .args([
            "-m",
            "pytest",
            "-q",
            "--tb=short",
            "--timeout=120",
            "-n",
            "3",
        ])
        .args(["--dist", "loadfile", "--junit-xml"])
        .arg(report.path())
        .args(more)
        .current_dir(tests().join("e2b").join(folder));
    let output = command.output().unwrap();
    let xml = fs::read_to_string(report.path()).unwrap();
    let suite = xml.split_once("<testsuite ").unwrap().1;
    let count = |name: &str| -> usize {
        let rest = suite.split_once(&format!("{name}=\"")).unwrap().1;
        rest.split_once('"').unwrap().0.parse().unwrap()
    };
    let (failed, skipped) = (count("failures") + count("errors"), count("skipped"));
    assert!(output.status.success() && failed == 0, "{}", text(&output));
    Counts {
        passed: count("tests") - skipped,
        skipped,
    }
}

/// Runs the cases in a folder of `tests/e2b` with node's own test runner.
pub fn javascript(folder: &str, around: &HashMap<String, String>) -> Counts {
    let installed = node_modules();
    // Modules are looked for above the file that wants them.
    let here = tempfile::Builder::new()
        .prefix("cases-")
        .tempdir_in(&installed)
        .unwrap();
    copy_files(&tests().join("e2b").join(folder), here.path());
    let mut command = program(Path::new("node"), around);
    command
        // A timer of the SDK's outlives the error that it was for by a minute.
        .args(["--test", "--test-concurrency=3", "--test-force-exit"])
        .arg("--test-timeout=120000")
        .args(["--test-reporter=tap", "--test-reporter-destination=stdout"])
        .current_dir(here.path());
    for entry in fs::read_dir(here.path()).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().ends_with(".test.js") {
            command.arg(path);
        }
    }
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let count = |name: &str| -> usize {
        let line = said
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(&format!("# {name} ")));
        line.and_then(|count| count.parse().ok())
            .unwrap_or_else(|| panic!("no count of `{name}`: {}", text(&output)))
    };
    let bad = count("fail") + count("cancelled");
    assert!(output.status.success() && bad == 0, "{}", text(&output));
    Counts {
        passed: count("pass"),
        skipped: count("skipped"),
    }
}

/// The folder that has the SDKs from npm, as the lock file says.
fn node_modules() -> PathBuf {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let installed = target("e2b-node");
    let wanted = tests().join("e2b/javascript/package-lock.json");
    let made = installed.join("made-from");
    if fs::read(&made).ok() != Some(fs::read(&wanted).unwrap()) {
        fs::create_dir_all(&installed).unwrap();
        for name in ["package.json", "package-lock.json"] {
            fs::copy(wanted.with_file_name(name), installed.join(name)).unwrap();
        }
        let status = Command::new("npm")
            .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
            .current_dir(&installed)
            .status()
            .unwrap();
        assert!(status.success(), "`npm ci` failed");
        fs::copy(wanted, made).unwrap();
    }
    installed
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_some_and(|it| it == "js" || it == "json")
        {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

/// Has the resolver of `E2B_TEST_RESOLVER`, when that is there, in a mount namespace of its
/// own: the SDKs ask servers for names, each in its own way. Nothing of E2B's that the caller has in its environment is passed on.
fn program(program: &Path, around: &HashMap<String, String>) -> Command {
    let mut command = if around.contains_key("E2B_TEST_RESOLVER") {
        let mut command = Command::new("unshare");
        let line = "mount --bind \"$E2B_TEST_RESOLVER\" /etc/resolv.conf && exec \"$@\"";
        command
            .args(["--mount", "sh", "-c", line, "sh"])
            .arg(program);
        command
    } else {
        Command::new(program)
    };
    for (name, _) in std::env::vars() {
        if name.starts_with("E2B_") || name.to_lowercase().ends_with("_proxy") {
            command.env_remove(name);
        }
    }
    command.env("PYTHONDONTWRITEBYTECODE", "1").envs(around);
    command
}

fn text(output: &Output) -> String {
    let said = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
    said.concat()
}
