//! One run of code in a living interpreter.

use std::{
    collections::BTreeMap,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use sandbox_wire::sandbox::v1::{
    __buffa::oneof::run_response::Event, ArtifactLimits, ContextEnd, ContextLoss, Display, Ended,
    RunResponse, Stream, Termination,
};
use tokio::sync::{Notify, watch};
use uuid::Uuid;

use super::{
    channel::{Channel, NoReply, Reply},
    environment::Around,
    interpreter::{Interpreter, Process},
    usage,
};
use crate::{
    artifacts::{self, Keeper},
    cgroup, life,
    run::{EventSender, Spilling, Wanted, follow_on, started},
    state::Guest,
    supervise::control::Exit,
};

/// 128 + SIGINT: code that was interrupted.
const INTERRUPTED: i32 = 130;
/// 128 + SIGKILL.
const KILLED: i32 = 137;
/// Of what one run displays.
const MAX_DISPLAYS: usize = 2000;
const MAX_DISPLAY_BYTES: usize = 16 * 1024 * 1024;
/// Of one bundle.
const MAX_BUNDLE_BYTES: usize = 1024 * 1024;

/// What is run, and within which bounds.
pub(super) struct Wish {
    pub code: String,
    pub around: Option<Around>,
    /// What `around` sets.
    pub env: BTreeMap<String, String>,
    pub timeout: Duration,
    pub grace: Duration,
    pub output_limit: u64,
    pub live: bool,
    pub spill_limit: u64,
    pub artifacts: Option<ArtifactLimits>,
}

/// How a run ended.
struct End {
    exit: Exit,
    cut_short: Option<Termination>,
    loss: Option<ContextLoss>,
}

/// Runs it and sends what happens; gives whether the interpreter can be used again.
pub(super) async fn run(
    guest: &Arc<Guest>,
    interpreter: &mut Interpreter,
    wish: &Wish,
    created: bool,
    events: &EventSender,
    stop: &watch::Receiver<bool>,
) -> bool {
    let began_at = match wish.artifacts {
        Some(_) => Some(guest.last_change.begin().await),
        None => None,
    };
    let Interpreter {
        process,
        channel,
        stdout,
        stderr,
        display,
        is_forked,
        ..
    } = interpreter;
    let pid = process.pid;
    let began = Instant::now();
    let kills_before = cgroup::oom_kills();
    let cpu_before = usage::cpu(pid);
    let _ = events.send(Ok(started(pid))).await;
    let (ended, has_ended) = watch::channel(false);
    let over = Arc::new(Notify::new());
    let wanted = match wish.live {
        true => Wanted::All,
        false => Wanted::HeadAndTail(wish.output_limit),
    };
    let spilling = (wish.spill_limit > 0).then(|| Spilling {
        place: guest.workspace.clone(),
        run: Uuid::now_v7().to_string(),
        kept: wish.output_limit,
        limit: wish.spill_limit,
        over: Arc::clone(&over),
    });
    let follow = |which, stream: &mut super::interpreter::Stream| {
        let earlier = std::mem::take(&mut stream.earlier);
        (which, earlier, spilling.clone(), has_ended.clone())
    };
    let (out, err) = (
        follow(Stream::STREAM_STDOUT, stdout),
        follow(Stream::STREAM_STDERR, stderr),
    );
    let streams = async {
        tokio::join!(
            follow_on(
                out.0,
                &stdout.pipe,
                out.1,
                wanted,
                out.2,
                events.clone(),
                out.3
            ),
            follow_on(
                err.0,
                &stderr.pipe,
                err.1,
                wanted,
                err.2,
                events.clone(),
                err.3
            ),
        )
    };
    let keeper = Keeper::new(wish.artifacts.as_ref());
    let displaying = async {
        match display {
            Some(display) => {
                let (guest, events) = (Arc::clone(guest), events.clone());
                display
                    .follow_on(guest, keeper, events, has_ended.clone())
                    .await
            }
            None => keeper,
        }
    };
    let to_end = async {
        let end = until_end(channel, process, wish, events, &over, stop.clone()).await;
        let used = (usage::cpu(pid), usage::memory_bytes(pid).1);
        let _ = ended.send(true);
        (end, used, began.elapsed())
    };
    let ((end, used, wall), (stdout, stderr), mut keeper) =
        tokio::join!(to_end, streams, displaying);
    let mut looked = false;
    if let Some(since) = began_at {
        (keeper, looked) = artifacts::find(guest, since, keeper, events).await;
    }
    guest.last_change.run_ended(looked, &guest.workspace);
    let out_of_memory = matches!(
        (kills_before, cgroup::oom_kills()),
        (Some(before), Some(after)) if after > before
    );
    let exit_code = match end.exit.signal {
        0 => end.exit.code,
        signal => 128 + signal,
    };
    let by_itself = match end.exit.signal {
        _ if out_of_memory && exit_code == KILLED => Termination::TERMINATION_OUT_OF_MEMORY,
        0 => Termination::TERMINATION_EXITED,
        _ => Termination::TERMINATION_SIGNALED,
    };
    let too_much =
        (stdout.is_over || stderr.is_over).then_some(Termination::TERMINATION_OUTPUT_LIMIT);
    // What the process had used is known no more when it has ended; its end tells then.
    let (cpu_us, max_rss_bytes) = match end.loss {
        None => (micros(used.0.saturating_sub(cpu_before)), used.1),
        Some(_) => (
            end.exit.cpu_us.saturating_sub(micros(cpu_before)),
            end.exit.max_rss_bytes,
        ),
    };
    let message = Ended {
        exit_code,
        signal: u32::try_from(end.exit.signal).unwrap_or(0),
        termination: end.cut_short.or(too_much).unwrap_or(by_itself).into(),
        wall_us: micros(wall),
        cpu_us,
        max_rss_bytes,
        stdout_bytes: stdout.bytes,
        stderr_bytes: stderr.bytes,
        stdout_file: stdout.file.into(),
        stderr_file: stderr.file.into(),
        artifacts_omitted: keeper.omitted(),
        warm: *is_forked,
        context: Some(ContextEnd {
            created,
            loss: end.loss.unwrap_or_default().into(),
            ..Default::default()
        })
        .into(),
        ..Default::default()
    };
    let _ = events.send(Ok(response(message))).await;
    end.loss.is_none()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn response(event: impl Into<Option<Event>>) -> RunResponse {
    RunResponse {
        event: event.into(),
        ..Default::default()
    }
}

/// Runs the code until it ends or must: then it is interrupted, and its interpreter
/// killed when that does not help.
async fn until_end(
    channel: &mut Channel,
    process: &mut Process,
    wish: &Wish,
    events: &EventSender,
    over: &Notify,
    mut stop: watch::Receiver<bool>,
) -> End {
    let (hush, hushed) = watch::channel(false);
    let control = process.control();
    let mut exchange = pin!(exchange(channel, wish, events, hushed));
    let cut_short = tokio::select! {
        biased;
        reply = &mut exchange => return by_reply(reply, process).await,
        () = set(&mut stop) => return stopped(process).await,
        () = life::sleep(wish.timeout) => Termination::TERMINATION_TIMED_OUT,
        () = events.closed() => Termination::TERMINATION_CANCELLED,
        () = over.notified() => Termination::TERMINATION_OUTPUT_LIMIT,
    };
    // A reader that is slow must not keep the code from being interrupted.
    let _ = hush.send(true);
    control.interrupt().await;
    let waiting = async {
        life::sleep(wish.grace / 2).await;
        // Python drops what is raised in a destructor, an interrupt as well.
        control.interrupt().await;
        life::sleep(wish.grace / 2).await;
    };
    let end = tokio::select! {
        biased;
        reply = &mut exchange => match by_reply(reply, process).await {
            End { loss: None, .. } => End {
                exit: Exit { code: INTERRUPTED, ..Exit::default() },
                cut_short: None,
                loss: None,
            },
            lost => lost,
        },
        () = set(&mut stop) => stopped(process).await,
        () = waiting => End {
            exit: process.kill().await,
            cut_short: None,
            loss: Some(ContextLoss::CONTEXT_LOSS_KILLED),
        },
    };
    End {
        cut_short: Some(cut_short),
        ..end
    }
}

/// Waits until it is said.
async fn set(said: &mut watch::Receiver<bool>) {
    // An error means that nobody is left to say it: then the run is over.
    let _ = said.wait_for(|said| *said).await;
}

async fn by_reply(reply: Result<i32, NoReply>, process: &mut Process) -> End {
    let (exit, loss) = match reply {
        Ok(code) => {
            let exit = Exit {
                code,
                ..Exit::default()
            };
            (exit, None)
        }
        Err(why) => match process.exit_after(&why).await {
            Some(exit) => (exit, Some(ContextLoss::CONTEXT_LOSS_DIED)),
            None => {
                process.kill().await;
                (process.exit(), Some(ContextLoss::CONTEXT_LOSS_BROKEN))
            }
        },
    };
    End {
        exit,
        cut_short: None,
        loss,
    }
}

/// It was deleted or restarted under the run.
async fn stopped(process: &mut Process) -> End {
    End {
        exit: process.kill().await,
        cut_short: Some(Termination::TERMINATION_CANCELLED),
        loss: Some(ContextLoss::CONTEXT_LOSS_STOPPED),
    }
}

/// Sends code and tells what it shows; gives its exit code.
async fn exchange(
    channel: &mut Channel,
    wish: &Wish,
    events: &EventSender,
    hushed: watch::Receiver<bool>,
) -> Result<i32, NoReply> {
    let Some(around) = &wish.around else {
        return ask(channel, &wish.code, events, hushed).await;
    };
    in_silence(channel, &around.before).await?;
    let code = ask(channel, &wish.code, events, hushed).await?;
    in_silence(channel, &around.after).await?;
    Ok(code)
}

/// Code of ours, which tells the client nothing.
async fn in_silence(channel: &mut Channel, code: &str) -> Result<(), NoReply> {
    channel.ask(code).await?;
    loop {
        match channel.next().await? {
            Reply::Ready => return Err(NoReply::Nonsense),
            Reply::Done(_) => return Ok(()),
            Reply::Raised(_) | Reply::Display(_) | Reply::Result(_) => {}
        }
    }
}

async fn ask(
    channel: &mut Channel,
    code: &str,
    events: &EventSender,
    mut hushed: watch::Receiver<bool>,
) -> Result<i32, NoReply> {
    channel.ask(code).await?;
    let (mut displays, mut bytes) = (0, 0);
    loop {
        let event = match channel.next().await? {
            Reply::Ready => return Err(NoReply::Nonsense),
            Reply::Done(code) => return Ok(code),
            Reply::Raised(raised) => response(raised),
            Reply::Display(bundle) => shown(bundle, false),
            Reply::Result(bundle) => shown(bundle, true),
        };
        if let Some(Event::Display(display)) = &event.event {
            let size = display.bundle_json.len();
            displays += 1;
            bytes += size;
            if displays > MAX_DISPLAYS || bytes > MAX_DISPLAY_BYTES || size > MAX_BUNDLE_BYTES {
                continue;
            }
        }
        tokio::select! {
            biased;
            _ = events.send(Ok(event)) => {}
            () = set(&mut hushed) => {}
        }
    }
}

fn shown(bundle_json: String, is_result: bool) -> RunResponse {
    response(Display {
        bundle_json,
        is_result,
        ..Default::default()
    })
}
