//! An order: the way into one sandbox.

use std::{
    fs::File,
    io::{self, IoSlice},
    mem::MaybeUninit,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg},
    pipe::{PipeFlags, pipe_with},
};
use tokio::{
    io::{AsyncReadExt as _, Interest},
    net::{UnixStream, unix::pipe::Receiver},
    time::timeout,
};

use crate::{
    error::{Context as _, Failure, Result},
    rootfs::{SANDBOX_UID, WORKSPACE},
};

/// From the order to a process that serves.
const LIMIT: Duration = Duration::from_secs(5);
const MAX_FDS: usize = 16;
const MAX_ANSWER: u64 = 512;
const TAKEN: &[u8; 6] = b"taken ";
const JOINED: &[u8] = b"joined";

/// Why there is no zygote.
pub(super) enum NotJoined {
    /// The template takes no orders, of whatever sandbox.
    Template,
    /// It failed, or the sandbox lets it take too long.
    Order(Failure),
}

impl From<Failure> for NotJoined {
    fn from(failure: Failure) -> Self {
        Self::Order(failure)
    }
}

/// A living sandbox.
pub(crate) struct Target {
    /// Its PID 1, whose namespaces are entered.
    pub init: OwnedFd,
    /// The host user that it runs as.
    pub user: u32,
    /// Files to write `0` to, to join its cgroups.
    pub groups: Vec<File>,
}

/// Sends the order, and waits until the zygote serves or it is known why not.
pub(super) async fn send(
    control: &UnixStream,
    target: &Target,
    serve: OwnedFd,
) -> Result<(), NotJoined> {
    let (answer, status) =
        pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).context(|| "no pipe".into())?;
    rustix::io::ioctl_fionbio(&status, false).context(|| "no pipe".into())?;
    let mut fds = vec![status.as_fd(), target.init.as_fd(), serve.as_fd()];
    fds.extend(target.groups.iter().map(|group| group.as_fd()));
    let mut order = target.user.to_ne_bytes().to_vec();
    order.extend(SANDBOX_UID.to_ne_bytes());
    order.extend(WORKSPACE.as_bytes());
    let sent = timeout(LIMIT, send_with(control, &order, &fds)).await;
    drop(fds);
    sent.map_err(|_| NotJoined::Template)?
        .context(|| "the template is gone".into())?;
    // Their other copies are the joiner's: with its end the pipe ends too.
    drop((status, serve));
    let mut answer = Receiver::from_owned_fd(answer)
        .context(|| "no pipe".into())?
        .take(MAX_ANSWER);
    let mut taken = [0; TAKEN.len()];
    match timeout(LIMIT, answer.read_exact(&mut taken)).await {
        Ok(Ok(_)) if taken == *TAKEN => {}
        Ok(_) => return Err(Failure::new("the fork ended with its order").into()),
        Err(_) => return Err(NotJoined::Template),
    }
    let mut text = Vec::new();
    timeout(LIMIT, answer.read_to_end(&mut text))
        .await
        .map_err(|_| Failure::new("the fork does not enter the sandbox in time"))?
        .context(|| "failed to hear of the fork".into())?;
    match text == JOINED {
        true => Ok(()),
        false => Err(Failure::new(format!(
            "the fork did not enter the sandbox: `{}`",
            String::from_utf8_lossy(&text)
        ))
        .into()),
    }
}

/// Sends one message with descriptors.
pub(super) async fn send_with(
    socket: &UnixStream,
    message: &[u8],
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("too many descriptors"));
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(sendmsg(
            socket,
            &[IoSlice::new(message)],
            &mut ancillary,
            flags,
        )?)
    };
    match socket.async_io(Interest::WRITABLE, send).await? {
        sent if sent == message.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
