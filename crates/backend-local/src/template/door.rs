//! Where a guest asks for a warm interpreter.
//!
//! It sends the byte of a kind, and gets a byte back, with the socket of the zygote
//! or without. Programs cannot reach the guest's descriptor; if one could, it would
//! get zygotes in its own sandbox, a few at a time.

use std::{
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use sandbox_core::chain;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    sync::watch,
    time::sleep,
};

use super::{Target, Templates, order::send_with};
use crate::{
    cgroup::Group,
    error::{Context as _, Failure, Result},
    process::Parent,
};

/// Zygotes that may be asked for at once, and how soon there may be one more.
const BURST: u32 = 8;
const ONE_MORE: Duration = Duration::from_secs(2);

const GIVEN: u8 = b'+';
const REFUSED: u8 = b'-';

/// The service's side of it, for one sandbox.
pub(crate) struct Door {
    stream: UnixStream,
    templates: Arc<Templates>,
    bwrap: Arc<Parent>,
    group: Arc<Group>,
    user: u32,
}

impl Door {
    pub fn new(
        stream: StdUnixStream,
        templates: Arc<Templates>,
        bwrap: Arc<Parent>,
        group: Arc<Group>,
        user: u32,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: UnixStream::from_std(stream)?,
            templates,
            bwrap,
            group,
            user,
        })
    }

    /// Answers until the sandbox has ended.
    pub async fn serve(mut self, mut ended: watch::Receiver<bool>) {
        tokio::select! {
            // An error means that the sandbox's owner is gone.
            _ = ended.wait_for(|ended| *ended) => {}
            result = self.answer() => {
                if let Err(error) = result {
                    tracing::debug!(%error, "a guest asks for no more interpreters");
                }
            }
        }
    }

    async fn answer(&mut self) -> io::Result<()> {
        let mut left = BURST;
        let mut since = Instant::now();
        loop {
            let kind = match self.stream.read_u8().await {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                kind => kind?,
            };
            let more = since.elapsed().as_millis() / ONE_MORE.as_millis();
            if more > 0 {
                left = BURST.min(left.saturating_add(u32::try_from(more).unwrap_or(BURST)));
                since = Instant::now();
            }
            if left == 0 {
                sleep(ONE_MORE.saturating_sub(since.elapsed())).await;
                (left, since) = (1, Instant::now());
            }
            left -= 1;
            match self.fork(kind).await {
                Ok(zygote) => send_with(&self.stream, &[GIVEN], &[zygote.as_fd()]).await?,
                Err(failure) => {
                    tracing::debug!("a sandbox starts Python by itself: {}", chain(&failure));
                    self.stream.write_u8(REFUSED).await?;
                }
            }
        }
    }

    async fn fork(&self, kind: u8) -> Result<OwnedFd> {
        let (guests, zygotes) = socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )
        .context(|| "failed to make a socket".into())?;
        let (_, init) = self
            .bwrap
            .child()
            .context(|| "failed to find the sandbox".into())?
            .ok_or_else(|| Failure::new("the sandbox has ended"))?;
        let target = Target {
            init,
            user: self.user,
            groups: self.group.join_files()?,
        };
        self.templates.fork(kind, &target, zygotes).await?;
        Ok(guests)
    }
}
