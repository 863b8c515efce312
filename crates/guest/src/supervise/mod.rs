//! Between the guest and one program: finds and ends all that it started.
//!
//! A supervisor is a child subreaper, so a process that daemonises, forks
//! twice or leaves its session still comes back to it. When the program ends
//! by itself the supervisor ends too, and what runs on in the background is
//! handed to the guest; when it is told to end the run, it stays until nothing
//! of the run is left.

pub(crate) mod control;
pub(crate) mod tree;

use std::{
    fs, io,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    mem::MaybeUninit,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use command_fds::{CommandFdExt as _, FdMapping};
use control::{Begin, Exit, Order, Report};
use nix::sys::resource::{UsageWho, getrusage};
use rustix::{
    io::Errno,
    net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg},
    process::{
        DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, kill_process,
        kill_process_group, setrlimit,
    },
};

use crate::{UserLimits, signals};

/// Between two looks at what is left of a run that is being ended.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// A run that cannot be ended in this time is left to the guest.
const KILL_LIMIT: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Run {
    /// All that the program started is being ended.
    ending: AtomicBool,
    /// The program ended by itself; what it left in the background is free.
    over: AtomicBool,
}

/// Waits for a program and runs it to its end. Standard input is the guest's end of
/// control; all else comes over it.
pub(crate) fn supervise() -> io::Result<()> {
    // It may wait for long, beside programs of the same user.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::setsid()?;
    let mut control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((begin, streams)) = wait_for_begin(&mut control)? else {
        return Ok(());
    };
    let spawned = prepare(&begin, &streams).and_then(|()| {
        // Its own file in /proc is root's while it is not dumpable.
        rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
        // When memory runs out the program goes first, not its supervisor.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        let spawned = spawn(&begin, &streams);
        let _ = fs::write("/proc/self/oom_score_adj", "0");
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        spawned
    });
    drop(streams);
    let pid = match spawned {
        Ok(pid) => pid,
        Err(error) => {
            let errno = match error.kind() {
                // A NUL byte, which is found before the system is asked.
                io::ErrorKind::InvalidInput => Errno::INVAL.raw_os_error(),
                _ => error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
            };
            return report(&mut control, &Report::Failed { errno });
        }
    };
    // The guest's end of control is to be known to the other thread alone.
    let null = fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    report(
        &mut control,
        &Report::Started {
            pid: pid.as_raw_nonzero().get(),
        },
    )?;

    let run = Arc::new(Run::default());
    let orders = control.try_clone()?;
    let obeying = Arc::clone(&run);
    thread::Builder::new()
        .stack_size(64 * 1024)
        .spawn(move || obey(orders, pid, &obeying))?;
    wait_for(pid, &run, &mut control)
}

/// The program's standard input, output and error output, and what it has from the
/// third descriptor on.
struct Streams {
    standard: [OwnedFd; 3],
    more: Vec<OwnedFd>,
}

impl Streams {
    fn new(mut fds: Vec<OwnedFd>) -> Option<Self> {
        let more = fds.split_off(fds.len().min(3));
        Some(Self {
            standard: fds.try_into().ok()?,
            more,
        })
    }
}

/// The three streams and a channel, which has two.
pub(crate) const MAX_FDS: usize = 5;

/// `None` when the guest is gone, or needs this one no more.
fn wait_for_begin(control: &mut UnixStream) -> io::Result<Option<(Begin, Streams)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut length = [0; 4];
    let received = recvmsg(
        &*control,
        &mut [io::IoSliceMut::new(&mut length)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let streams = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Streams::new(fds.collect()),
        _ => None,
    });
    let streams = streams.ok_or_else(|| io::Error::other("no streams came"))?;
    let mut text = vec![0; usize::try_from(u32::from_le_bytes(length)).unwrap_or(0)];
    control.read_exact(&mut text)?;
    Ok(Some((serde_json::from_slice(&text)?, streams)))
}

/// Makes this process what the program shall begin in.
fn prepare(begin: &Begin, streams: &Streams) -> io::Result<()> {
    if begin.terminal {
        rustix::process::ioctl_tiocsctty(&streams.standard[1])?;
        signals::pass_over_the_keyboards()?;
    }
    std::env::set_current_dir(&begin.cwd)?;
    limit(begin.limits)
}

fn limit(limits: UserLimits) -> io::Result<()> {
    for (resource, value) in [
        (Resource::Core, Some(0)),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Nproc, limits.nproc),
        (Resource::Data, limits.data_bytes),
    ] {
        if let Some(value) = value {
            let limit = Rlimit {
                current: Some(value),
                maximum: Some(value),
            };
            match setrlimit(resource, limit) {
                // The guest has lowered it meanwhile, below what is wanted.
                Err(Errno::PERM) => {}
                set => set?,
            }
        }
    }
    Ok(())
}

fn spawn(begin: &Begin, streams: &Streams) -> io::Result<Pid> {
    let [stdin, stdout, stderr] = &streams.standard;
    let [program, arguments @ ..] = &begin.argv[..] else {
        return Err(Errno::NOENT.into());
    };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .envs(&begin.env)
        .stdin(Stdio::from(stdin.try_clone()?))
        .stdout(Stdio::from(stdout.try_clone()?))
        .stderr(Stdio::from(stderr.try_clone()?));
    if !begin.terminal {
        command.process_group(0);
    }
    if !streams.more.is_empty() {
        let mappings = streams.more.iter().zip(3..).map(|(fd, child_fd)| {
            Ok(FdMapping {
                parent_fd: fd.try_clone()?,
                child_fd,
            })
        });
        command
            .fd_mappings(mappings.collect::<io::Result<_>>()?)
            .map_err(io::Error::other)?;
    }
    let child = command.spawn()?;
    i32::try_from(child.id())
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(|| io::Error::other("a pid out of range"))
}

fn report(control: &mut UnixStream, report: &Report) -> io::Result<()> {
    let mut line = serde_json::to_vec(report)?;
    line.push(b'\n');
    control.write_all(&line)
}

/// Reaps until the program has ended or, when the run is being ended, until
/// nothing of it is left; then reports how the program ended.
fn wait_for(program: Pid, run: &Run, control: &mut UnixStream) -> io::Result<()> {
    let mut exit = None;
    loop {
        let (pid, status) = match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some(child)) => child,
            Ok(None) | Err(Errno::INTR) => continue,
            Err(Errno::CHILD) => break,
            Err(error) => return Err(error.into()),
        };
        if pid == program && exit.is_none() {
            exit = Some(exit_of(status)?);
            // Before the report, for the guest lets go of us when it has it.
            let ending = run.ending.load(Ordering::SeqCst);
            run.over.store(!ending, Ordering::SeqCst);
            if !ending {
                break;
            }
        }
    }
    report(control, &Report::Ended(exit.unwrap_or_default()))
}

fn exit_of(status: WaitStatus) -> io::Result<Exit> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(io::Error::from)?;
    let cpu = usage.user_time() + usage.system_time();
    let micros = cpu.tv_sec() * 1_000_000 + cpu.tv_usec();
    Ok(Exit {
        code: status.exit_status().unwrap_or(-1),
        signal: status.terminating_signal().unwrap_or(0),
        cpu_us: u64::try_from(micros).unwrap_or(0),
        max_rss_bytes: u64::try_from(usage.max_rss()).unwrap_or(0) * 1024,
    })
}

fn obey(orders: UnixStream, program: Pid, run: &Run) {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    for line in BufReader::new(orders).lines() {
        let order = match line.map(|line| serde_json::from_str(&line)) {
            Ok(Ok(order)) => order,
            _ => break,
        };
        match order {
            Order::Signal { number } => {
                if let Some(signal) = Signal::from_named_raw(number) {
                    let _ = kill_process(program, signal);
                }
            }
            Order::Interrupt => {
                let _ = kill_process_group(program, Signal::INT);
            }
            Order::Terminate { grace_ms } => {
                run.ending.store(true, Ordering::SeqCst);
                let until = Instant::now() + Duration::from_millis(grace_ms);
                tree::signal_descendants(me, Signal::TERM);
                while Instant::now() < until && !tree::descendants(me).is_empty() {
                    thread::sleep(LOOK_AGAIN);
                }
                kill_all(me);
            }
            Order::Kill => {
                run.ending.store(true, Ordering::SeqCst);
                kill_all(me);
            }
        }
    }
    if run.over.load(Ordering::SeqCst) {
        return;
    }
    // The guest is gone or speaks nonsense: nothing of the run may stay.
    run.ending.store(true, Ordering::SeqCst);
    kill_all(me);
}

/// Kills until the reaping thread finds nothing left and ends this process: a
/// look at /proc can miss who is being handed on from a parent that dies.
fn kill_all(me: i32) {
    let until = Instant::now() + KILL_LIMIT;
    while Instant::now() < until {
        tree::signal_descendants(me, Signal::KILL);
        thread::sleep(LOOK_AGAIN);
    }
}
