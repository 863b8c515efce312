//! Paths as callers write them.

use std::path::{Component, Path, PathBuf};

use connectrpc::ConnectError;
use sandbox_core::ErrorCode;

use crate::error::error;

/// The name under which programs know the workspace.
const WORKSPACE: &str = "/workspace";
const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;

fn invalid(message: &str) -> ConnectError {
    error(ErrorCode::InvalidPath, message)
}

fn check(path: &str) -> Result<(), ConnectError> {
    if path.is_empty() {
        return Err(invalid("the path is empty"));
    }
    if path.contains('\0') {
        return Err(invalid("the path has a NUL byte"));
    }
    if path.len() > MAX_PATH_BYTES || path.split('/').any(|name| name.len() > MAX_NAME_BYTES) {
        return Err(invalid(
            "the path is longer than 4096 bytes, or a name in it than 255",
        ));
    }
    Ok(())
}

/// `path` with neither `.` nor `..` nor a slash at its end, which would follow a
/// link; none when it leaves where it starts. Links are not looked at.
fn clean(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                if !clean.pop() {
                    return None;
                }
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(clean)
}

/// A path relative to the workspace; empty is the workspace itself.
fn relative(path: &str) -> Result<PathBuf, ConnectError> {
    check(path)?;
    let path = Path::new(path);
    let below = match path.strip_prefix(WORKSPACE) {
        Ok(below) => below,
        Err(_) if path.is_absolute() => {
            return Err(invalid("the path is outside the workspace"));
        }
        Err(_) => path,
    };
    clean(below).ok_or_else(|| invalid("the path leaves the workspace"))
}

/// The file that a path in the workspace names.
pub fn in_workspace(workspace: &Path, path: &str) -> Result<PathBuf, ConnectError> {
    Ok(workspace.join(relative(path)?))
}

/// The file that a path anywhere in the sandbox names; `~` and a relative path
/// start at the workspace.
pub fn in_sandbox(workspace: &Path, path: &str) -> Result<PathBuf, ConnectError> {
    check(path)?;
    let path = match path.strip_prefix('~') {
        Some(below) if below.is_empty() || below.starts_with('/') => {
            workspace.join(below.trim_start_matches('/'))
        }
        _ => workspace.join(path),
    };
    let below = clean(&path).ok_or_else(|| invalid("the path leaves the sandbox"))?;
    Ok(Path::new("/").join(below))
}

/// A path as answers show it: relative to the workspace.
pub fn shown(workspace: &Path, path: &Path) -> String {
    match path
        .strip_prefix(workspace)
        .unwrap_or(path)
        .to_string_lossy()
    {
        shown if shown.is_empty() => ".".to_owned(),
        shown => shown.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_in_the_workspace_or_is_refused() {
        for (path, clean) in [
            ("a", "a"),
            ("./a//b/.", "a/b"),
            ("a/../b", "b"),
            ("/workspace/a", "a"),
            ("/workspace", ""),
            (".", ""),
            ("-rf", "-rf"),
            ("a\nb", "a\nb"),
            ("workspace", "workspace"),
        ] {
            assert_eq!(relative(path).unwrap(), Path::new(clean), "{path:?}");
        }
        let long_name = "n".repeat(256);
        let long = "a/".repeat(2500);
        for path in [
            "",
            "..",
            "a/../..",
            "/",
            "/etc/passwd",
            "/workspace/../etc",
            "/workspacex",
            "a\0",
            &long_name,
            &long,
        ] {
            assert!(relative(path).is_err(), "{path:.20?}");
        }
    }

    #[test]
    fn home_is_the_workspace() {
        let at = |path| in_sandbox(Path::new("/w"), path).unwrap();
        assert_eq!(at("~"), Path::new("/w"));
        assert_eq!(at("~/a"), Path::new("/w/a"));
        assert_eq!(at("a"), Path::new("/w/a"));
        assert_eq!(at("~a"), Path::new("/w/~a"));
        assert_eq!(at("/tmp/a"), Path::new("/tmp/a"));
        assert_eq!(at("/tmp/../a//link/."), Path::new("/a/link"));
        assert!(in_sandbox(Path::new("/w"), "../..").is_err());
    }
}
