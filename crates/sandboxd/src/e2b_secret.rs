//! The secret that the tokens of sandboxes are made from.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use crate::settings::Settings;

const FILE: &str = "e2b-token-secret";
/// Of the file: 32 random bytes in hex.
const CHARS: usize = 64;

/// The secret of the settings, or the one that is kept in the state directory.
pub fn token_secret(settings: &Settings) -> Result<Vec<u8>, String> {
    if !settings.e2b_token_secret.is_empty() {
        return Ok(settings.e2b_token_secret.clone().into_bytes());
    }
    let path = settings.state_dir.join(FILE);
    let failed = |error: io::Error| format!("failed to keep `{}`: {error}", path.display());
    match fs::read(&path) {
        Ok(secret) if secret.len() == CHARS => Ok(secret),
        Ok(_) => Err(format!("`{}` has no secret in it", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path).map_err(failed),
        Err(error) => Err(failed(error)),
    }
}

fn make(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = [0; CHARS / 2];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let secret: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    // Never half a secret, whenever the machine stops.
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(secret.as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    Ok(secret.into_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_secret_stays_and_is_nobody_elses() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = Settings {
            state_dir: folder.path().to_owned(),
            ..Settings::default()
        };
        let secret = token_secret(&settings).unwrap();
        assert_eq!(secret.len(), CHARS);
        assert_eq!(token_secret(&settings).unwrap(), secret);
        let path = folder.path().join(FILE);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert!(token_secret(&settings).is_err());
        settings.e2b_token_secret = "x".repeat(32);
        assert_eq!(token_secret(&settings).unwrap(), b"x".repeat(32));
    }
}
