//! What the guest and the program that keeps an interpreter say to each other.
//!
//! ```text
//! guest   -> program:  <number> <bytes>\n<code>
//! program -> guest:    <number> <kind> <bytes>\n<payload>     ready, display, result, error, done
//! ```
//!
//! Code can write there too, so a reply is input from a stranger: it is bounded, and
//! one that is out of place ends the interpreter.

use std::{collections::BTreeMap, io};

use sandbox_wire::sandbox::v1::Raised;
use serde::Deserialize;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::pipe,
};

/// Of the line before a payload.
const MAX_HEAD_BYTES: u64 = 64;
const MAX_PAYLOAD_BYTES: usize = 2 * 1024 * 1024;
/// Of the name and of the value of an exception, and of its traceback.
const MAX_NAME_BYTES: usize = 200;
const MAX_TEXT_BYTES: usize = 64 * 1024;

/// The guest's side.
pub(super) struct Channel {
    requests: pipe::Sender,
    replies: BufReader<pipe::Receiver>,
    number: u64,
}

/// What a program tells.
#[derive(Debug, PartialEq)]
pub(super) enum Reply {
    /// It waits for code.
    Ready,
    /// A JSON object of MIME type to text.
    Display(String),
    /// The same, of the last expression's value.
    Result(String),
    Raised(Raised),
    /// The code has ended with this exit code.
    Done(i32),
}

/// Why there is no reply.
#[derive(Debug)]
pub(super) enum NoReply {
    /// The other end is closed.
    Closed,
    /// What came is none.
    Nonsense,
}

impl From<io::Error> for NoReply {
    fn from(_: io::Error) -> Self {
        Self::Closed
    }
}

impl Channel {
    pub fn new(requests: pipe::Sender, replies: pipe::Receiver) -> Self {
        Self {
            requests,
            replies: BufReader::new(replies),
            number: 0,
        }
    }

    /// Sends code; what comes back from now on is about it.
    pub async fn ask(&mut self, code: &str) -> Result<(), NoReply> {
        self.number += 1;
        let mut message = format!("{} {}\n", self.number, code.len()).into_bytes();
        message.extend_from_slice(code.as_bytes());
        Ok(self.requests.write_all(&message).await?)
    }

    /// The next reply. When it is not waited for to the end, the channel is of no more use.
    pub async fn next(&mut self) -> Result<Reply, NoReply> {
        let mut head = Vec::new();
        let read = (&mut self.replies)
            .take(MAX_HEAD_BYTES)
            .read_until(b'\n', &mut head)
            .await?;
        if read == 0 {
            return Err(NoReply::Closed);
        }
        let (number, kind, size) = parse_head(&head).ok_or(NoReply::Nonsense)?;
        if size > MAX_PAYLOAD_BYTES {
            return Err(NoReply::Nonsense);
        }
        let mut payload = vec![0; size];
        self.replies.read_exact(&mut payload).await?;
        let reply = parse(kind, &payload).ok_or(NoReply::Nonsense)?;
        // What a thread of earlier code displays comes with the number of then.
        let is_expected = match reply {
            Reply::Display(_) => number <= self.number,
            _ => number == self.number,
        };
        is_expected.then_some(reply).ok_or(NoReply::Nonsense)
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Ready,
    Display,
    Result,
    Error,
    Done,
}

fn parse_head(head: &[u8]) -> Option<(u64, Kind, usize)> {
    let line = std::str::from_utf8(head).ok()?.strip_suffix('\n')?;
    let mut words = line.split(' ');
    let number = words.next()?.parse().ok()?;
    let kind = match words.next()? {
        "ready" => Kind::Ready,
        "display" => Kind::Display,
        "result" => Kind::Result,
        "error" => Kind::Error,
        "done" => Kind::Done,
        _ => return None,
    };
    let size = words.next()?.parse().ok()?;
    words.next().is_none().then_some((number, kind, size))
}

fn parse(kind: Kind, payload: &[u8]) -> Option<Reply> {
    Some(match kind {
        Kind::Ready => Reply::Ready,
        Kind::Display => Reply::Display(bundle(payload)?),
        Kind::Result => Reply::Result(bundle(payload)?),
        Kind::Error => Reply::Raised(raised(payload)?),
        Kind::Done => {
            let code: i32 = std::str::from_utf8(payload).ok()?.parse().ok()?;
            Reply::Done(code.clamp(0, 255))
        }
    })
}

fn bundle(payload: &[u8]) -> Option<String> {
    let bundle: BTreeMap<String, String> = serde_json::from_slice(payload).ok()?;
    serde_json::to_string(&bundle).ok()
}

fn raised(payload: &[u8]) -> Option<Raised> {
    #[derive(Deserialize)]
    struct Told {
        name: String,
        value: String,
        traceback: String,
    }
    let told: Told = serde_json::from_slice(payload).ok()?;
    Some(Raised {
        name: cut(told.name, MAX_NAME_BYTES),
        value: cut(told.value, MAX_TEXT_BYTES),
        traceback: cut(told.traceback, MAX_TEXT_BYTES),
        ..Default::default()
    })
}

/// Keeps the beginning and the end.
fn cut(text: String, limit: usize) -> String {
    if text.len() <= limit {
        return text;
    }
    let head = &text[..text.floor_char_boundary(limit / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - limit / 2)..];
    format!("{head}\n[...]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{input_pipe, output_pipe};

    #[test]
    fn a_head_is_three_words() {
        assert_eq!(parse_head(b"7 done 1\n"), Some((7, Kind::Done, 1)));
        for bad in [
            &b""[..],
            b"7 done 1",
            b"7 done\n",
            b"7 done 1 2\n",
            b"-7 done 1\n",
            b"7 other 1\n",
            b"7 done -1\n",
            b"\xff done 1\n",
        ] {
            assert_eq!(parse_head(bad), None, "{bad:?}");
        }
    }

    #[tokio::test]
    async fn a_reply_to_another_question_is_none() {
        let (_theirs, requests) = input_pipe().unwrap();
        let (theirs, replies) = output_pipe().unwrap();
        let mut channel = Channel::new(requests, replies);
        let say = |text: &str| rustix::io::write(&theirs, text.as_bytes()).unwrap();
        channel.ask("1").await.unwrap();
        channel.ask("2").await.unwrap();
        say("1 display 20\n{\"text/plain\":\"old\"}");
        say("2 result 18\n{\"text/plain\":\"2\"}");
        say("2 error 40\n{\"name\":\"E\",\"value\":\"v\",\"traceback\":\"t\"}");
        say("2 done 1\n0");
        let mut replies = Vec::new();
        for _ in 0..4 {
            replies.push(channel.next().await.unwrap());
        }
        let raised = Raised {
            name: "E".into(),
            value: "v".into(),
            traceback: "t".into(),
            ..Default::default()
        };
        assert_eq!(
            replies,
            [
                Reply::Display(r#"{"text/plain":"old"}"#.into()),
                Reply::Result(r#"{"text/plain":"2"}"#.into()),
                Reply::Raised(raised),
                Reply::Done(0)
            ]
        );
        for bad in [
            "1 done 1\n0",
            "3 done 1\n0",
            "2 done 99999999\n",
            "2 result 4\nnull",
            "no line at all, and one that is longer than any line may be; it goes on and on",
        ] {
            let (theirs, replies) = output_pipe().unwrap();
            channel.replies = BufReader::new(replies);
            rustix::io::write(&theirs, bad.as_bytes()).unwrap();
            assert!(
                matches!(channel.next().await, Err(NoReply::Nonsense)),
                "{bad}"
            );
        }
        drop(theirs);
        let (theirs, replies) = output_pipe().unwrap();
        channel.replies = BufReader::new(replies);
        drop(theirs);
        assert!(matches!(channel.next().await, Err(NoReply::Closed)));
    }
}
