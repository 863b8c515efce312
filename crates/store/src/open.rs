//! Which database a URL means.

use std::{path::Path, sync::Arc};

use crate::{PostgresStore, SqliteStore, Store, StoreError, sql::SqlStore};

/// Opens the database that a URL names and brings its tables up to date:
/// `sqlite:PATH`, `sqlite::memory:`, `postgres://...` or `postgresql://...`.
///
/// Sessions and artifacts are kept as those of `owner`, and no others are seen:
/// the name of the service whose machine has the workspaces. What SQLite kept
/// before there were owners becomes the first one's.
pub async fn open(url: &str, owner: &str) -> Result<Arc<dyn Store>, StoreError> {
    if is_postgres(url) {
        let store = PostgresStore::connect(url).await?;
        return Ok(Arc::new(store.owned_by(owner)));
    }
    let store = match sqlite_path(url) {
        Some(":memory:") => SqliteStore::in_memory().await?,
        Some(path) if !path.is_empty() => SqliteStore::open(Path::new(path)).await?,
        _ => return Err(StoreError::Url),
    };
    store.adopt(owner).await?;
    Ok(Arc::new(store.owned_by(owner)))
}

/// A database's URL as it may be shown: without user, password and parameters.
pub fn shown(url: &str) -> String {
    if !is_postgres(url) {
        return match sqlite_path(url) {
            Some(_) => url.to_owned(),
            None => "********".to_owned(),
        };
    }
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let (front, parameters) = match rest.find(['?', '#']) {
        Some(at) => (&rest[..at], "?********"),
        None => (rest, ""),
    };
    let (hidden, place) = match front.rsplit_once('@') {
        Some((_, place)) => ("********@", place),
        None => ("", front),
    };
    let server = place.split('/').next().unwrap_or_default();
    let port = server.rsplit_once(':').map_or("", |(_, port)| port);
    // A password that is not percent-encoded may have any of the separators in it.
    let is_clear = !rest[front.len()..].contains('@') && port.bytes().all(|b| b.is_ascii_digit());
    if is_clear {
        format!("{scheme}://{hidden}{place}{parameters}")
    } else {
        format!("{scheme}://********")
    }
}

/// Whether [`open`] knows what to do with a URL.
pub fn is_known(url: &str) -> bool {
    is_postgres(url) || sqlite_path(url).is_some_and(|path| !path.is_empty())
}

fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

fn sqlite_path(url: &str) -> Option<&str> {
    let path = url.strip_prefix("sqlite:")?;
    Some(path.strip_prefix("//").unwrap_or(path))
}

impl<D> SqlStore<D> {
    /// The same database as the store of another owner.
    pub fn owned_by(self, owner: &str) -> Self {
        Self {
            owner: owner.to_owned(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shown_url_has_no_secret() {
        for (url, expected) in [
            ("sqlite:/a/b.db", "sqlite:/a/b.db"),
            ("sqlite::memory:", "sqlite::memory:"),
            ("postgres://h:1/d", "postgres://h:1/d"),
            ("postgres://u:secret@h:1/d", "postgres://********@h:1/d"),
            ("postgresql://u:s@cret@h/d", "postgresql://********@h/d"),
            ("postgres://u:secret?/@h/d", "postgres://********"),
            ("postgres://h/d?password=se@cret", "postgres://********"),
            ("postgres://u:secret", "postgres://********"),
            (
                "postgres://u:se/cr@et@[::1]:5/d",
                "postgres://********@[::1]:5/d",
            ),
            (
                "postgres://h/d?user=u&password=secret",
                "postgres://h/d?********",
            ),
            ("postgres:u:secret@h", "********"),
            ("secret", "********"),
            ("mysql://u:secret@h/d", "********"),
        ] {
            assert_eq!(shown(url), expected);
        }
    }

    #[test]
    fn only_some_urls_are_known() {
        for url in [
            "sqlite:a",
            "sqlite:///a",
            "sqlite::memory:",
            "postgres://h/d",
            "postgresql://h/d",
        ] {
            assert!(is_known(url), "{url}");
        }
        for url in [
            "",
            "sqlite:",
            "sqlite://",
            "sqlite",
            "mysql://h/d",
            "/a/b.db",
            "POSTGRES://h",
        ] {
            assert!(!is_known(url), "{url}");
        }
    }

    #[tokio::test]
    async fn an_unknown_url_is_refused_with_what_is_taken() {
        for url in ["mysql://u:secret@h/d", "", "sqlite:", "secret"] {
            let error = open(url, "").await.err().unwrap().to_string();
            assert!(
                error.contains("sqlite:PATH") && error.contains("postgres://"),
                "{error}"
            );
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
