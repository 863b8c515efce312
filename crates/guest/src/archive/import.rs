//! An archive into the workspace: all of it, or nothing.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::{self, Read},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use connectrpc::{ConnectError, InboundStream};
use futures::StreamExt as _;
use guest_parts::archive::{
    pipe::{self, Input},
    unpack::{self, Stage, broken},
};
use rustix::fs::OFlags;
use sandbox_core::ErrorCode;
use sandbox_wire::sandbox::v1::{
    __buffa::oneof::import_request::Part, ImportRequest, ImportResponse, ImportStart,
};
use tokio::sync::oneshot;
use uuid::Uuid;

use super::merge::merge;
use crate::{
    error::{error, from_io},
    own_folder, path,
    state::Guest,
    workspace::remove::remove_all,
};

const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) async fn import(
    guest: Arc<Guest>,
    mut messages: InboundStream<ImportRequest>,
) -> Result<ImportResponse, ConnectError> {
    let first = next(&mut messages).await?;
    let Some(Part::Start(start)) = first else {
        return Err(error(
            ErrorCode::InvalidRequest,
            "the first message is no start",
        ));
    };
    let (sender, input) = pipe::input();
    let (tell, told) = oneshot::channel();
    guest.archives.clone().start(move || {
        let _ = tell.send(unpack(&guest.workspace, &start, input));
    })?;
    loop {
        let chunk = match next(&mut messages).await? {
            Some(Part::Data(data)) => Some(data),
            Some(Part::End(_)) => None,
            Some(Part::Start(_)) => {
                return Err(error(ErrorCode::InvalidRequest, "a second start"));
            }
            // Without the end the thread learns that nobody waits any more.
            None => return Err(broken(&io::ErrorKind::ConnectionAborted.into())),
        };
        let is_last = chunk.is_none();
        // When it reads no more, `told` has what it has to say.
        if sender.send(chunk).await.is_err() || is_last {
            break;
        }
    }
    told.await
        .unwrap_or_else(|_| Err(error(ErrorCode::Internal, "the archive's thread is gone")))
}

async fn next(messages: &mut InboundStream<ImportRequest>) -> Result<Option<Part>, ConnectError> {
    match messages.next().await {
        None => Ok(None),
        Some(Err(error)) => Err(error),
        Some(Ok(message)) => match message.to_owned_message().part {
            Some(part) => Ok(Some(part)),
            None => Err(error(ErrorCode::InvalidRequest, "a message without a part")),
        },
    }
}

/// Where an archive is unpacked; gone with all that is left in it.
struct Staging(PathBuf);

impl Staging {
    fn make(workspace: &Path) -> io::Result<Self> {
        let name = format!("import-{}", Uuid::new_v4().simple());
        own_folder::make(workspace, &[&name])?;
        let staging = Self(workspace.join(own_folder::NAME).join(name));
        fs::create_dir(staging.unpacked())?;
        fs::create_dir(staging.replaced())?;
        Ok(staging)
    }

    fn unpacked(&self) -> PathBuf {
        self.0.join("new")
    }

    fn replaced(&self) -> PathBuf {
        self.0.join("replaced")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = remove_all(&self.0, || true);
    }
}

fn unpack(
    workspace: &Path,
    start: &ImportStart,
    mut input: Input,
) -> Result<ImportResponse, ConnectError> {
    let into = path::in_workspace(workspace, &start.path)?;
    if into.starts_with(workspace.join(own_folder::NAME)) {
        return Err(error(
            ErrorCode::InvalidPath,
            "the path is in the service's own folder",
        ));
    }
    let mut staging = Staging::make(workspace).map_err(|cause| from_io(&cause, "the workspace"))?;
    let (plan, done) = unpack::unpack(start, into == workspace, &mut input, &mut staging)?;
    merge(
        workspace,
        &plan,
        &staging.unpacked(),
        &staging.replaced(),
        &into,
    )?;
    Ok(done)
}

impl Staging {
    /// Where a file is made, with the folders that it is in and without what was there.
    fn place(&self, path: &Path) -> io::Result<PathBuf> {
        let place = self.unpacked().join(path);
        match fs::remove_file(&place) {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent)?;
        }
        Ok(place)
    }
}

impl Stage for Staging {
    fn folder(&mut self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(self.unpacked().join(path))
    }

    fn file(&mut self, path: &Path, mode: u32, _: u64, content: &mut dyn Read) -> io::Result<u64> {
        write(content, &self.place(path)?, mode)
    }

    fn same_file(&mut self, path: &Path, earlier: &Path) -> io::Result<()> {
        fs::hard_link(self.unpacked().join(earlier), self.place(path)?)
    }
}

fn write(content: &mut dyn Read, place: &Path, mode: u32) -> io::Result<u64> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits() as i32)
        .open(place)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut written = 0;
    loop {
        let read = content.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        io::Write::write_all(&mut file, &buffer[..read])?;
        written += read as u64;
    }
    file.set_permissions(Permissions::from_mode(mode))?;
    Ok(written)
}
