//! envd's calls, as section by section of its public contract, and nothing else of it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use bytes::Bytes;
use connectrpc::{
    ConnectError, ErrorCode as Connect,
    client::{CallOptions, ClientConfig, ClientTransport},
};
use guest_parts::error::{error, from_io, is_a_directory, not_regular};
use http::Uri;
use sandbox_core::ErrorCode;
use sandbox_wire::{
    filesystem::{
        EntryInfo, FileType, FilesystemClient, ListDirRequest, MakeDirRequest, MoveRequest,
        RemoveRequest, StatRequest,
    },
    process::ProcessClient,
};

use crate::{
    transport::Transport,
    words::{lies, of_path},
};

/// For calls that should take milliseconds.
pub(crate) const CALL_LIMIT: Duration = Duration::from_secs(25);
/// A tree may be large that is listed or removed.
const TREE_LIMIT: Duration = Duration::from_secs(120);
/// Largest answer: the entries of a large tree.
const MAX_MESSAGE_BYTES: usize = 48 * 1024 * 1024;
/// As many links as the kernel follows.
const MAX_LINKS: usize = 40;

/// An envd that can be called; a clone is the same one.
#[derive(Clone)]
pub struct Envd {
    pub(crate) transport: Transport,
    pub(crate) base: Uri,
    pub(crate) user: Option<String>,
    pub(crate) process: ProcessClient<Transport>,
    filesystem: FilesystemClient<Transport>,
}

/// What is at a path, behind the links there.
pub(crate) struct Found {
    pub path: PathBuf,
    /// `None` where a link leads to nothing.
    pub entry: Option<EntryInfo>,
}

impl Envd {
    /// An envd at `base`, for example `https://49983-{id}.e2b.app`.
    ///
    /// *Requires*: the transport adds what every request needs, the access token and what
    /// names the sandbox, and repeats what may be repeated.
    pub fn new<T, B, E>(transport: T, base: Uri) -> Self
    where
        T: ClientTransport<ResponseBody = B>,
        B: hyper::body::Body<Data = Bytes, Error = E> + Send + 'static,
        E: std::error::Error + Send + Sync + 'static,
    {
        let transport = Transport::new(transport);
        let config = ClientConfig::new(base.clone())
            .proto()
            .with_default_max_message_size(MAX_MESSAGE_BYTES)
            .with_default_element_memory_limit(2 * MAX_MESSAGE_BYTES);
        Self {
            process: ProcessClient::new(transport.clone(), config.clone()),
            filesystem: FilesystemClient::new(transport.clone(), config),
            transport,
            base,
            user: None,
        }
    }

    /// Acts as this user of the sandbox, and not as the one that envd takes.
    #[must_use]
    pub fn as_user(mut self, name: impl Into<String>) -> Self {
        self.user = Some(name.into());
        self
    }

    /// For a call that ends within this time.
    pub(crate) fn options(&self, limit: Duration) -> CallOptions {
        self.with_user(CallOptions::default().with_timeout(limit))
    }

    pub(crate) fn with_user(&self, options: CallOptions) -> CallOptions {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        match &self.user {
            None => options,
            // Without a password: envd asks for none.
            Some(user) => options.with_header(
                http::header::AUTHORIZATION,
                format!("Basic {}", STANDARD.encode(format!("{user}:"))),
            ),
        }
    }

    /// What is at a path; a link is one, and not what it leads to.
    pub(crate) async fn stat(&self, path: &Path, shown: &str) -> Result<EntryInfo, ConnectError> {
        let request = StatRequest {
            path: text(path)?,
            ..Default::default()
        };
        let answer = self
            .filesystem
            .stat_with_options(request, self.options(CALL_LIMIT))
            .await
            .map_err(|cause| of_path(&cause, shown))?;
        let entry = answer.into_owned().entry.into_option();
        entry.ok_or_else(|| lies("a file without an entry"))
    }

    /// The same, and nothing is no error.
    pub(crate) async fn exists(
        &self,
        path: &Path,
        shown: &str,
    ) -> Result<Option<EntryInfo>, ConnectError> {
        match self.stat(path, shown).await {
            Ok(entry) => Ok(Some(entry)),
            Err(cause) if is_not_found(&cause) => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    /// What is at a path once its links are followed.
    pub(crate) async fn find(&self, path: &Path, shown: &str) -> Result<Found, ConnectError> {
        let mut path = path.to_owned();
        for _ in 0..MAX_LINKS {
            let Some(entry) = self.exists(&path, shown).await? else {
                return Ok(Found { path, entry: None });
            };
            if !is_link(&entry) {
                return Ok(Found {
                    path,
                    entry: Some(entry),
                });
            }
            let next = link_target(&path, &entry);
            path = match next == path {
                // What envd says of a link that it cannot follow.
                true => self.read_link(&path, shown).await?,
                false => next,
            };
        }
        Err(from_io(&std::io::Error::from_raw_os_error(40), shown))
    }

    /// A regular file that is there.
    pub(crate) async fn file(
        &self,
        path: &Path,
        shown: &str,
    ) -> Result<(PathBuf, EntryInfo), ConnectError> {
        let found = self.find(path, shown).await?;
        let entry = found.entry.ok_or_else(|| not_found(shown))?;
        check_file(&found.path, &entry, shown)?;
        Ok((found.path, entry))
    }

    /// A folder that is there.
    pub(crate) async fn folder(&self, path: &Path, shown: &str) -> Result<PathBuf, ConnectError> {
        let found = self.find(path, shown).await?;
        let entry = found.entry.ok_or_else(|| not_found(shown))?;
        if !is_folder(&entry) {
            return Err(error(
                ErrorCode::NotADirectory,
                format!("`{shown}` is not a directory"),
            ));
        }
        check_place(&found.path, shown)?;
        Ok(found.path)
    }

    /// The entries of a folder and of those below it, as deep as is wanted.
    pub(crate) async fn list(
        &self,
        path: &Path,
        depth: u32,
        shown: &str,
    ) -> Result<Vec<EntryInfo>, ConnectError> {
        let request = ListDirRequest {
            path: text(path)?,
            depth,
            ..Default::default()
        };
        let answer = self
            .filesystem
            .list_dir_with_options(request, self.options(CALL_LIMIT))
            .await
            .map_err(|cause| of_path(&cause, shown))?;
        Ok(answer.into_owned().entries)
    }

    /// Makes a folder and those that it is in.
    pub(crate) async fn make_folder(&self, path: &Path, shown: &str) -> Result<(), ConnectError> {
        let request = MakeDirRequest {
            path: text(path)?,
            ..Default::default()
        };
        self.filesystem
            .make_dir_with_options(request, self.options(CALL_LIMIT))
            .await
            .map(drop)
            .map_err(|cause| of_path(&cause, shown))
    }

    /// As rename(2) does; what is there is replaced.
    pub(crate) async fn rename(
        &self,
        source: &Path,
        destination: &Path,
        shown: &str,
    ) -> Result<EntryInfo, ConnectError> {
        let request = MoveRequest {
            source: text(source)?,
            destination: text(destination)?,
            ..Default::default()
        };
        let answer = self
            .filesystem
            .r#move_with_options(request, self.options(CALL_LIMIT))
            .await
            .map_err(|cause| of_path(&cause, shown))?;
        let entry = answer.into_owned().entry.into_option();
        entry.ok_or_else(|| lies("a file without an entry"))
    }

    /// Removes whatever is there; nothing is fine.
    pub(crate) async fn remove_all(&self, path: &Path, shown: &str) -> Result<(), ConnectError> {
        let request = RemoveRequest {
            path: text(path)?,
            ..Default::default()
        };
        match self
            .filesystem
            .remove_with_options(request, self.options(TREE_LIMIT))
            .await
        {
            Err(cause) if cause.code != Connect::NotFound => Err(of_path(&cause, shown)),
            _ => Ok(()),
        }
    }
}

/// envd's messages are text.
pub(crate) fn text(path: &Path) -> Result<String, ConnectError> {
    match path.to_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(error(
            ErrorCode::InvalidPath,
            "the path is not UTF-8, which is all that this sandbox takes",
        )),
    }
}

pub(crate) fn not_found(shown: &str) -> ConnectError {
    from_io(&std::io::ErrorKind::NotFound.into(), shown)
}

pub(crate) fn is_not_found(cause: &ConnectError) -> bool {
    cause.code == Connect::NotFound
}

/// envd gives a link the type of what it leads to.
pub(crate) fn is_link(entry: &EntryInfo) -> bool {
    entry.symlink_target.is_some() || entry.r#type == FileType::FILE_TYPE_SYMLINK
}

pub(crate) fn is_folder(entry: &EntryInfo) -> bool {
    !is_link(entry) && entry.r#type == FileType::FILE_TYPE_DIRECTORY
}

pub(crate) fn is_file(entry: &EntryInfo) -> bool {
    !is_link(entry) && entry.r#type == FileType::FILE_TYPE_FILE
}

pub(crate) fn size(entry: &EntryInfo) -> u64 {
    u64::try_from(entry.size).unwrap_or(0)
}

pub(crate) fn check_file(path: &Path, entry: &EntryInfo, shown: &str) -> Result<(), ConnectError> {
    if is_folder(entry) {
        return Err(is_a_directory(shown));
    }
    if !is_file(entry) {
        return Err(not_regular(shown));
    }
    check_place(path, shown)
}

/// What is there is the kernel's, and some of it envd's own, which may be root.
pub(crate) fn check_place(path: &Path, shown: &str) -> Result<(), ConnectError> {
    match ["/proc", "/sys", "/dev"]
        .iter()
        .any(|top| path.starts_with(top))
    {
        true => Err(not_regular(shown)),
        false => Ok(()),
    }
}

fn link_target(path: &Path, entry: &EntryInfo) -> PathBuf {
    let target = entry.symlink_target.as_deref().unwrap_or_default();
    let parent = path.parent().unwrap_or(Path::new("/"));
    let mut clean = PathBuf::from("/");
    for part in parent.join(target).components() {
        match part {
            std::path::Component::Normal(name) => clean.push(name),
            std::path::Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}
