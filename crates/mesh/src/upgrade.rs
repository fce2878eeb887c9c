//! Connections that switch protocols: after a `101`, bytes go both ways untouched.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Response, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy_bidirectional};
use tokio::time::{sleep, timeout};

use crate::body::AnswerBody;
use crate::front::opaque;
use crate::problem::Problem;

/// How long a switched connection may be silent. Shells and consoles are quiet for long; what is quiet for
/// longer is most likely one whose ends are gone.
const SILENCE: Duration = Duration::from_hours(1);

/// How long the two ends may take to switch once the answer is there.
const SWITCHING: Duration = Duration::from_mins(1);

/// A client that asked to switch, and what is held for as long as the two sides are joined.
pub(crate) struct Switch {
    client: OnUpgrade,
    held: Rc<dyn Any>,
}

impl Switch {
    pub(crate) fn new(client: OnUpgrade, held: Rc<dyn Any>) -> Switch {
        Switch { client, held }
    }
}

/// What the client is told if the service switches, and it had not asked.
pub(crate) fn unasked() -> Problem {
    let title = "The service switched protocols, and nobody had asked";
    Problem::new(StatusCode::BAD_GATEWAY, "unasked-switch", title)
}

/// If the answer switches protocols, joins both sides once it was sent.
pub(crate) fn carry_out(mut response: Response<AnswerBody>, switch: Option<Switch>) -> Response<AnswerBody> {
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let Some(Switch { client, held }) = switch else { return unasked().into_response() };
    let server = hyper::upgrade::on(&mut response);
    tokio::task::spawn_local(async move {
        let both = async { Some((client.await.ok()?, server.await.ok()?)) };
        if let Ok(Some((client, server))) = timeout(SWITCHING, both).await {
            let (client, sent) = opaque(client);
            join(client, TokioIo::new(server), &sent, SILENCE).await;
        }
        drop(held);
    });
    response
}

/// Carries bytes until both sides have ended, or neither says anything for too long.
async fn join<C, S>(client: C, mut server: S, sent: &[u8], silence: Duration)
where
    C: AsyncRead + AsyncWrite + Unpin,
    S: AsyncRead + AsyncWrite + Unpin,
{
    let moved = Rc::new(Cell::new(true));
    let mut client = Noted { stream: client, moved: Rc::clone(&moved) };
    let silent = async {
        while moved.replace(false) {
            sleep(silence).await;
        }
    };
    let carried = async {
        if server.write_all(sent).await.is_ok() {
            let _ = copy_bidirectional(&mut client, &mut server).await;
        }
    };
    tokio::select! {
        biased;
        () = carried => {}
        () = silent => {}
    }
}

/// A stream that notes when bytes go through it, whichever way.
struct Noted<S> {
    stream: S,
    moved: Rc<Cell<bool>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.moved.set(self.moved.get() || read.is_ready());
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.moved.set(self.moved.get() || written.is_ready());
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    #[tokio::test]
    async fn a_silent_tunnel_ends_and_one_that_speaks_does_not() {
        let ((mut client, near), (far, mut server)) = (tokio::io::duplex(64), tokio::io::duplex(64));
        let silence = Duration::from_millis(100);
        let talk = async {
            for _ in 0..8 {
                sleep(silence / 4).await;
                client.write_all(b"x").await.unwrap();
                assert_eq!(server.read_u8().await.unwrap(), b'x');
            }
            assert_eq!(server.read(&mut [0]).await.unwrap(), 0, "silent at last");
        };
        let all = async { tokio::join!(join(near, far, b"", silence), talk) };
        timeout(Duration::from_secs(20), all).await.unwrap();
    }
}
