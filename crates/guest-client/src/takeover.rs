//! Taking over a guest whose service is gone: see [`sandbox_wire::takeover`].

use std::io;

use sandbox_wire::takeover::{RESUME, RESUMED, WAITING, WORD_END};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use uuid::Uuid;

/// What the signal to take over is.
pub use sandbox_wire::takeover::SIGNAL as TAKEOVER_SIGNAL;

/// Waits for a guest that was sent the signal, and agrees with it on where the
/// new connection begins.
///
/// *Requires*: the caller bounds the time, for a guest may never answer.
pub async fn take_over<S>(io: &mut S) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let word = Uuid::new_v4().simple().to_string();
    read_past(io, WAITING).await?;
    io.write_all(&[RESUME, word.as_bytes(), WORD_END].concat())
        .await?;
    io.flush().await?;
    read_past(io, &[RESUMED, word.as_bytes(), WORD_END].concat()).await
}

/// Every one of the words begins with the only line feed before its end.
async fn read_past(io: &mut (impl AsyncRead + Unpin), wanted: &[u8]) -> io::Result<()> {
    let mut matched = 0;
    while matched < wanted.len() {
        let byte = io.read_u8().await?;
        matched = match byte {
            _ if byte == wanted[matched] => matched + 1,
            _ if byte == wanted[0] => 1,
            _ => 0,
        };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;

    use super::*;

    #[tokio::test]
    async fn what_another_service_has_left_is_passed_over() {
        let (mut ours, mut theirs) = duplex(4096);
        let guest = tokio::spawn(async move {
            theirs.write_all(b"half a \n\nsandbox-guest wait").await?;
            theirs.write_all(&[b"\n", WAITING].concat()).await?;
            read_past(&mut theirs, RESUME).await?;
            let mut word = [0; 32];
            theirs.read_exact(&mut word).await?;
            read_past(&mut theirs, WORD_END).await?;
            let forged = [RESUMED, b"somebody", WORD_END].concat();
            theirs.write_all(&forged).await?;
            theirs
                .write_all(&[RESUMED, &word, WORD_END, b"new"].concat())
                .await
        });
        take_over(&mut ours).await.unwrap();
        let mut next = [0; 3];
        ours.read_exact(&mut next).await.unwrap();
        assert_eq!(&next, b"new");
        guest.await.unwrap().unwrap();
    }
}
