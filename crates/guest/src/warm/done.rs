//! The runs that were forked, and how it is known that they have ended.
//!
//! A program's last act is to say that it is done: nobody has to wait until the
//! kernel has taken it apart. Whoever says so is killed, so that saying it is no more
//! than ending. All other ends are told by the zygote, whose children they are.

use std::{
    collections::HashMap,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::linux::net::SocketAddrExt as _,
    os::unix::net::{SocketAddr, UnixDatagram as StdUnixDatagram},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt},
    process::{Pid, test_kill_process},
};
use tokio::{io::Interest, net::UnixDatagram, sync::oneshot};
use uuid::Uuid;

use super::{
    forked::{self, Forked},
    zygote::{Run, Zygote},
};
use crate::{
    run::{Control, KILLED, Running},
    supervise::control::Exit,
};

/// Between two looks at a run that nobody tells about.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Messages that are read at a time, when they say nothing.
const NONSENSE: usize = 64;

/// A clone knows the same runs.
#[derive(Clone)]
pub(crate) struct Runs(Arc<Shared>);

struct Shared {
    name: String,
    running: Mutex<HashMap<i32, Forking>>,
}

struct Forking {
    /// As long as it runs, its zygote is there to tell of its end.
    zygote: Arc<Zygote>,
    ended: oneshot::Sender<Exit>,
}

impl Runs {
    pub fn listen() -> io::Result<Self> {
        let name = format!("sandbox-{}", Uuid::new_v4());
        let socket = StdUnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        socket.set_nonblocking(true)?;
        // The kernel says who has sent what.
        sockopt::set_socket_passcred(&socket, true)?;
        let socket = UnixDatagram::from_std(socket)?;
        let runs = Self(Arc::new(Shared {
            name,
            running: Mutex::default(),
        }));
        let listening = runs.clone();
        tokio::spawn(async move {
            while let Ok((pid, code)) = socket.async_io(Interest::READABLE, || read(&socket)).await
            {
                listening.is_done(pid, code);
            }
        });
        Ok(runs)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<i32, Forking>> {
        self.0
            .running
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run in a child of the zygote.
    pub async fn begin(&self, zygote: &Arc<Zygote>, run: Run<'_>) -> Option<Running> {
        let mark = forked::next_mark();
        let mut end = None;
        let begun = zygote.begin(&run, mark, &self.0.name, |pid| {
            let (ended, exit) = oneshot::channel();
            let zygote = Arc::clone(zygote);
            self.running().insert(pid, Forking { zygote, ended });
            end = Some(exit);
        });
        let pid = begun.await?;
        Some(Running {
            pid,
            control: Control::Forked(Forked {
                pid,
                mark,
                zygote: zygote.pid(),
            }),
            exit: end?,
        })
    }

    /// The zygote says how a child has ended.
    pub fn ended(&self, pid: i32, exit: Exit) {
        let Some(run) = self.running().remove(&pid) else {
            return;
        };
        run.zygote.run_ended(pid);
        let _ = run.ended.send(exit);
    }

    fn is_done(&self, pid: i32, code: i32) {
        if !self.running().contains_key(&pid) {
            return;
        }
        let exit = forked::exit(pid, code);
        forked::kill(pid);
        self.ended(pid, exit);
    }

    /// Nobody will tell how the children of this zygote end.
    pub fn parent_is_gone(&self, zygote: i32) {
        let running = self.running();
        let left = running.iter().filter(|(_, run)| run.zygote.pid() == zygote);
        for pid in left.map(|(pid, _)| *pid) {
            let runs = self.clone();
            tokio::spawn(async move {
                // A number is not given anew as long as it is a zombie, or lives.
                while Pid::from_raw(pid).is_some_and(|it| test_kill_process(it).is_ok()) {
                    tokio::time::sleep(LOOK_AGAIN).await;
                }
                runs.ended(pid, KILLED);
            });
        }
    }
}

/// Who is done, and with which exit code.
fn read(socket: &UnixDatagram) -> io::Result<(i32, i32)> {
    for _ in 0..NONSENSE {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut text = [0; 16];
        let received = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut text)],
            &mut ancillary,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        )?;
        let sender = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid),
            _ => None,
        });
        let text = str::from_utf8(&text[..received.bytes.min(16)]);
        let code = text.ok().and_then(|text| text.parse().ok());
        // Anybody in the sandbox may send anything.
        if let (Some(sender), Some(code)) = (sender, code) {
            return Ok((sender.as_raw_nonzero().get(), code));
        }
    }
    // As if nothing of it had come: others have their turn.
    Ok((0, 0))
}
