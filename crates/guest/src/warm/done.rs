//! The runs that were forked, and how it is known that they have ended.
//!
//! A program's last act is to say that it is done: nobody has to wait until the
//! kernel has taken it apart. Whoever says so is killed, so that saying it is no more
//! than ending. All other ends are told by the zygote, whose children they are.

use std::{
    collections::HashMap,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::fd::OwnedFd,
    os::linux::net::SocketAddrExt as _,
    os::unix::net::{SocketAddr, UnixDatagram as StdUnixDatagram},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use rustix::{
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt},
    process::{Pid, PidfdFlags, Signal, pidfd_open, test_kill_process},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    net::UnixDatagram,
    sync::oneshot,
};
use uuid::Uuid;

use super::{
    forked::{self, Forked},
    zygote::{Run, Zygote},
};
use crate::{
    life,
    run::{Control, KILLED, Running},
    supervise::control::Exit,
};

/// Between two looks at a run that nobody tells about.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a zygote may take to tell of an end that was seen, and again when it was let
/// go on: together less than what waits for the end of a context (contexts/interpreter.rs).
const TELL_LIMIT: Duration = Duration::from_millis(400);
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
    /// Tells two of one number apart.
    mark: u64,
    kind: Kind,
    ended: oneshot::Sender<Exit>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Run,
    /// The interpreter of a context: it may live for long, and its end is seen without
    /// its zygote, whatever programs have done to that.
    Context,
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
            let kind = match run.candidate.is_context {
                true => self.watch(pid, mark),
                false => Kind::Run,
            };
            if kind == Kind::Run {
                zygote.run_begins();
            }
            let forking = Forking {
                zygote: Arc::clone(zygote),
                mark,
                kind,
                ended,
            };
            self.running().insert(pid, forking);
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
        run.zygote.child_ended(pid);
        if run.kind == Kind::Run {
            run.zygote.run_ended();
        }
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

    /// Has the end of a child seen by the kernel's word; it is there until then.
    #[expect(
        deprecated,
        reason = "sound for a descriptor that is owned; what is in its place is not safe code"
    )]
    fn watch(&self, pid: i32, mark: u64) -> Kind {
        let opened = Pid::from_raw(pid).map(|it| pidfd_open(it, PidfdFlags::NONBLOCK));
        let Some(Ok(Ok(pidfd))) = opened.map(|it| it.map(AsyncFd::new)) else {
            // It is looked for as a run is.
            return Kind::Run;
        };
        tokio::spawn(self.clone().until_ended(pid, mark, pidfd));
        Kind::Context
    }

    async fn until_ended(self, pid: i32, mark: u64, pidfd: AsyncFd<OwnedFd>) {
        let _ = pidfd.readable().await;
        let zygote = || {
            let running = self.running();
            let run = running.get(&pid).filter(|run| run.mark == mark)?;
            Some(Arc::clone(&run.zygote))
        };
        // It knows more, unless somebody has stopped it.
        for _ in 0..2 {
            match zygote() {
                None => return,
                Some(zygote) if !zygote.is_alive() => break,
                Some(zygote) => forked::send(zygote.pid(), Signal::CONT),
            }
            life::sleep(TELL_LIMIT).await;
        }
        if zygote().is_some() {
            self.ended(pid, KILLED);
        }
    }

    /// Nobody will tell how the children of this zygote end.
    pub fn parent_is_gone(&self, zygote: i32) {
        let running = self.running();
        let left = running
            .iter()
            .filter(|(_, run)| run.zygote.pid() == zygote && run.kind == Kind::Run);
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
