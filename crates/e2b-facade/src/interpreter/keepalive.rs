//! Lines that show that a run lives while it says nothing.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use e2b_wire::{interpreter::Line, to_ascii_line};
use futures::Stream;
use tokio::time::{Instant, Sleep, sleep};

const INTERVAL: Duration = Duration::from_secs(5);

/// The lines of a run as bytes, with a line every so often where there is none.
pub(super) struct KeptAlive<S> {
    lines: S,
    silence: Pin<Box<Sleep>>,
}

impl<S> KeptAlive<S> {
    pub(super) fn new(lines: S) -> Self {
        Self {
            lines,
            silence: Box::pin(sleep(INTERVAL)),
        }
    }
}

impl<S: Stream<Item = io::Result<Line>> + Unpin> Stream for KeptAlive<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let line = match Pin::new(&mut self.lines).poll_next(context) {
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(Ok(line))) => line,
            Poll::Ready(Some(Err(broken))) => return Poll::Ready(Some(Err(broken))),
            Poll::Pending => {
                ready!(self.silence.as_mut().poll(context));
                Line::Keepalive
            }
        };
        let next = Instant::now() + INTERVAL;
        self.silence.as_mut().reset(next);
        Poll::Ready(Some(Ok(bytes(&line))))
    }
}

fn bytes(line: &Line) -> Bytes {
    // Text and JSON values alone: nothing in it fails.
    to_ascii_line(line).unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use futures::{StreamExt as _, stream};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_run_that_says_nothing_shows_that_it_lives() {
        let slow = stream::once(async {
            sleep(Duration::from_secs(12)).await;
            Ok(Line::EndOfExecution)
        });
        let lines: Vec<_> = KeptAlive::new(Box::pin(slow)).collect().await;
        let lines: Vec<_> = lines.into_iter().map(|line| line.unwrap()).collect();
        assert_eq!(
            lines,
            [
                "{\"type\":\"keepalive\"}\n",
                "{\"type\":\"keepalive\"}\n",
                "{\"type\":\"end_of_execution\"}\n"
            ]
        );
    }
}
