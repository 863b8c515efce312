//! Interpreters that are forked into this sandbox from one outside.
//!
//! The service has an interpreter that has imported already. The guest sends it a
//! byte, and gets a byte, with the socket of a new zygote or without.

use std::{
    fs,
    io::{self, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::net::UnixStream as StdUnixStream,
    },
    time::Duration,
};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::{
    io::{AsyncWriteExt as _, Interest},
    net::UnixStream,
    sync::Mutex,
    time::timeout,
};

use super::choice::Imports;

/// Longer than the service takes to find out that it cannot.
const LIMIT: Duration = Duration::from_secs(20);

/// The way to the service's templates.
pub(crate) struct Templates {
    promised: bool,
    /// One question at a time, so that each answer is to its question.
    stream: Mutex<Option<UnixStream>>,
}

impl Templates {
    /// `promised`: standard output leads to them.
    pub fn new(promised: bool) -> Self {
        Self {
            promised,
            stream: Mutex::new(None),
        }
    }

    /// Takes the socket from standard output, where programs would inherit it.
    pub fn take(&self) -> io::Result<()> {
        if !self.promised {
            return Ok(());
        }
        let socket = io::stdout().as_fd().try_clone_to_owned()?;
        rustix::stdio::dup2_stdout(fs::File::options().write(true).open("/dev/null")?)?;
        let socket = StdUnixStream::from(socket);
        socket.set_nonblocking(true)?;
        self.use_stream(UnixStream::from_std(socket)?);
        Ok(())
    }

    fn use_stream(&self, stream: UnixStream) {
        if let Ok(mut place) = self.stream.try_lock() {
            *place = Some(stream);
        }
    }

    /// The socket of a new zygote in this sandbox; an error where there is none to be
    /// had now.
    pub async fn ask(&self, imports: Imports) -> io::Result<StdUnixStream> {
        let mut place = self.stream.lock().await;
        // Taken out, for whoever goes away in between leaves an answer behind that
        // the next would take for its own.
        let mut stream = place.take().ok_or(io::ErrorKind::NotConnected)?;
        let (stream, answer) = timeout(LIMIT, async {
            stream.write_u8(byte(imports)).await?;
            let answer = receive(&stream).await?;
            io::Result::Ok((stream, answer))
        })
        .await??;
        *place = Some(stream);
        let socket = answer.map(StdUnixStream::from);
        socket.ok_or_else(|| io::Error::other("the service gives no interpreter"))
    }

    /// Whether there is anybody to be asked.
    pub fn is_promised(&self) -> bool {
        self.promised
    }
}

fn byte(imports: Imports) -> u8 {
    match imports {
        Imports::Few => b'b',
        Imports::All => b's',
    }
}

/// The answer; `None` is no.
async fn receive(stream: &UnixStream) -> io::Result<Option<OwnedFd>> {
    let read = || {
        let mut byte = [0];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let mut buffers = [IoSliceMut::new(&mut byte)];
        if recvmsg(stream, &mut buffers, &mut ancillary, flags)?.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut messages = ancillary.drain();
        Ok(messages.find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
            _ => None,
        }))
    };
    stream.async_io(Interest::READABLE, read).await
}

#[cfg(test)]
mod tests {
    use std::{
        io::{IoSlice, Read as _, Write as _},
        thread,
    };

    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

    use super::*;

    fn connected() -> (Templates, StdUnixStream) {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let templates = Templates::new(true);
        templates.use_stream(UnixStream::from_std(ours).unwrap());
        (templates, theirs)
    }

    fn give(service: &StdUnixStream, socket: &StdUnixStream) {
        let fds = [socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        assert!(ancillary.push(SendAncillaryMessage::ScmRights(&fds)));
        let message = [IoSlice::new(b"+")];
        sendmsg(service, &message, &mut ancillary, SendFlags::empty()).unwrap();
    }

    #[tokio::test]
    async fn an_answer_has_a_socket_or_is_no() {
        let (templates, mut service) = connected();
        let service = thread::spawn(move || {
            let mut kinds = [0; 2];
            service.read_exact(&mut kinds[..1]).unwrap();
            service.write_all(b"-").unwrap();
            service.read_exact(&mut kinds[1..]).unwrap();
            let (zygote, mut other) = StdUnixStream::pair().unwrap();
            give(&service, &zygote);
            other.write_all(b"hello").unwrap();
            kinds
        });
        assert!(templates.ask(Imports::Few).await.is_err());
        let socket = templates.ask(Imports::All).await.unwrap();
        let mut text = String::new();
        let mut socket = socket;
        assert_eq!(service.join().unwrap(), *b"bs");
        socket.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
    }

    #[tokio::test]
    async fn a_service_that_is_gone_is_an_error_each_time() {
        let (templates, service) = connected();
        drop(service);
        for _ in 0..2 {
            assert!(templates.ask(Imports::Few).await.is_err());
        }
        assert!(Templates::new(false).ask(Imports::Few).await.is_err());
    }

    /// Else the next question would get the answer of the last.
    #[tokio::test]
    async fn a_question_that_was_given_up_is_the_last() {
        let (templates, _service) = connected();
        let asked = tokio::time::timeout(Duration::from_millis(20), templates.ask(Imports::Few));
        assert!(asked.await.is_err());
        assert!(templates.ask(Imports::All).await.is_err());
    }
}
