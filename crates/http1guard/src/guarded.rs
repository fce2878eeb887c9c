//! A connection of which the reader sees only bytes that passed.
//!
//! # How a refused head is answered
//!
//! The answer must come after those to earlier requests, which the server may still be writing. Only the
//! server knows when they are complete, and there is no call to ask it. But an HTTP/1 server asks for more
//! bytes at two moments only: to learn whether the client has gone, while nothing is unread; and because it
//! wants a head. So after a violation it gets a *mark*, an empty line, which it must skip before a request
//! (RFC 9112, 2.2). With the mark unread it stops asking whether the client has gone. When it asks again, it
//! wants a head: every earlier response is complete, if perhaps in a buffer of the server's. It has to wait,
//! and before it waits it flushes. In that flush the refusal is written, and then the stream ends. A server
//! that closes without asking, after a `Connection: close` say, never wanted that head, and no refusal is
//! written. (The shutdown would be a simpler place, but hyper has none once it has refused an upgrade.)
//!
//! The same mark follows a request that asks for another protocol. If the server asks again, it has refused
//! to switch, and what follows is read as requests. If it switched, the connection is taken out with
//! [`Guarded::into_opaque`], and the mark, the only thing that can be left in the server's buffer, is dropped.
//! Until the answer to such a request is out, the server does not learn that its client has gone.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::aside::Aside;
use crate::guard::{Guard, Progress};
use crate::limits::Limits;
use crate::refusal;
use crate::violation::{Part, Violation};

const MARK: &[u8] = b"\r\n";

/// At the end, so much of what the client still sends is read and dropped. Unread bytes would make the system reset
/// the connection, and the client might lose answers that are on their way.
const MOST_DROPPED: usize = 4 << 20;

/// A connection with a [`Guard`] before its reader, which is an HTTP/1 server.
///
/// - A head passes when it is complete and good: the server never sees a byte of a bad one.
/// - A bad head is answered here (`400`, `414` or `431`) when its turn comes, and the connection ends.
/// - Bodies pass as they come. A violation inside one is an [`io::Error`] of kind `InvalidData` whose source is
///   the [`Violation`]: the service that reads the body answers, and the server closes.
///
/// The server must flush before it waits for a head. hyper does, unless `pipeline_flush` is set: leave it off.
///
/// Bytes that have not passed are kept: at most one head and what one read of the server brought. While the
/// connection is idle nothing is.
#[derive(Debug)]
pub struct Guarded<IO> {
    io: IO,
    guard: Guard,
    /// Bytes that came and were not handed on: first `passed` good ones, then those of an unfinished piece,
    /// or those after a request that may switch protocols.
    kept: BytesMut,
    passed: usize,
    /// How much of [`MARK`] is still to be handed on.
    mark: &'static [u8],
    phase: Phase,
    /// What is left to write of a refusal; `None`: its turn has not come.
    answer: Option<Bytes>,
    /// Who waits for the refusal to be written.
    reader: Option<Waker>,
    aside: Option<Aside>,
    /// What is left to write of something said aside. Once begun it is written whole, before anything else.
    saying: Bytes,
    /// Whom `aside` wakes.
    task: Option<Waker>,
    dropped: usize,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Reading,
    /// A request may switch protocols; its mark is out.
    Held,
    Refused(Violation),
}

impl<IO> Guarded<IO> {
    /// Guards a new connection.
    pub fn new(io: IO, limits: Limits) -> Guarded<IO> {
        Guarded {
            io,
            guard: Guard::new(limits),
            kept: BytesMut::new(),
            passed: 0,
            mark: &[],
            phase: Phase::Reading,
            answer: None,
            reader: None,
            aside: None,
            saying: Bytes::new(),
            task: None,
            dropped: 0,
        }
    }

    /// Writes what is said here, whenever the server has nothing to write.
    #[must_use]
    pub fn with_aside(self, aside: Aside) -> Guarded<IO> {
        Guarded { aside: Some(aside), ..self }
    }

    /// What was refused on this connection, if anything was.
    #[must_use]
    pub fn violation(&self) -> Option<Violation> {
        match self.phase {
            Phase::Refused(violation) => Some(violation),
            _ => None,
        }
    }

    /// What it guards, to be looked at.
    #[must_use]
    pub fn io(&self) -> &IO {
        &self.io
    }

    /// Whether some of a head has come, and not all of it: the time to limit, since the server is only told
    /// of whole heads.
    #[must_use]
    pub fn is_mid_head(&self) -> bool {
        matches!(self.phase, Phase::Reading)
            && self.passed == 0
            && !self.kept.is_empty()
            && self.guard.is_at_head()
    }

    /// Whether the client is likely to be still sending: a request was not read to its end, or refused.
    #[must_use]
    pub fn is_mid_request(&self) -> bool {
        self.violation().is_some() || !self.kept.is_empty() || !self.guard.is_at_head()
    }

    /// The connection itself, after an answer that switched protocols (`101`, or success for CONNECT), and the
    /// bytes that the client has already sent in the new one. Whatever the server still had in its own read
    /// buffer must be dropped: it can only be this wrapper's mark. With hyper, that is
    /// `Upgraded::downcast::<TokioIo<Guarded<IO>>>()` and its `read_buf`.
    ///
    /// The guard comes back if the last request did not ask to switch, or was not read to its end: then no
    /// answer can have switched.
    pub fn into_opaque(mut self) -> Result<(IO, Bytes), Box<Guarded<IO>>> {
        if self.passed == 0 && self.guard.opaque() {
            Ok((self.io, self.kept.freeze()))
        } else {
            Err(Box::new(self))
        }
    }

    /// Judges what was kept, and learns how much of it may pass.
    fn judge_kept(&mut self) {
        let mut kept = std::mem::take(&mut self.kept);
        self.passed = self.judge(&kept);
        if self.violation().is_some() {
            kept.truncate(self.passed);
        }
        if !kept.is_empty() {
            self.kept = kept;
        }
    }

    /// How many of `bytes` may pass. What stops them is in `phase`.
    fn judge(&mut self, bytes: &[u8]) -> usize {
        let mut passed = 0;
        loop {
            match self.guard.check(bytes.get(passed..).unwrap_or_default()) {
                Ok(Progress::Pass(here)) => passed += here,
                Ok(Progress::More) => return passed,
                Ok(Progress::Hold) => {
                    self.phase = Phase::Held;
                    self.mark = MARK;
                    return passed;
                }
                Err(violation) => {
                    self.phase = Phase::Refused(violation);
                    if violation.part == Part::Head {
                        self.mark = MARK;
                    }
                    return passed;
                }
            }
        }
    }

    /// Hands on what passed, or the mark. Returns whether there was any.
    fn hand_on(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        if self.passed > 0 {
            let here = self.passed.min(buf.remaining());
            buf.put_slice(self.kept.get(..here).unwrap_or_default());
            self.kept.advance(here);
            self.passed -= here;
            if self.kept.is_empty() {
                self.kept = BytesMut::new(); // gives its memory back
            }
            return true;
        }
        let (here, rest) = self.mark.split_at(self.mark.len().min(buf.remaining()));
        buf.put_slice(here);
        self.mark = rest;
        !here.is_empty()
    }
}

impl<IO: AsyncRead + Unpin> Guarded<IO> {
    /// Reads once, into the reader's own buffer: bytes that pass are not copied. Ready means that `buf` has
    /// something, or that the client has ended; `None`, that nothing can pass yet.
    fn poll_fill(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<Option<()>>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let fresh = buf.filled().get(before..).unwrap_or_default();
        if fresh.is_empty() {
            return Poll::Ready(Ok(Some(())));
        }
        if !self.kept.is_empty() {
            self.kept.extend_from_slice(fresh);
            buf.set_filled(before);
            self.judge_kept();
            return Poll::Ready(Ok(None));
        }
        let passed = self.judge(fresh);
        if self.violation().is_none() {
            self.kept.extend_from_slice(fresh.get(passed..).unwrap_or_default());
        }
        buf.set_filled(before + passed);
        Poll::Ready(Ok((passed > 0).then_some(())))
    }

    /// After the end of the answers: drops what the client still sends, until it ends, or has sent too much.
    pub fn poll_drop_rest(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut scratch = [0; 4096];
        while self.dropped < MOST_DROPPED {
            let mut buf = ReadBuf::new(&mut scratch);
            match ready!(Pin::new(&mut self.io).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => self.dropped += buf.filled().len(),
                _ => break,
            }
        }
        Poll::Ready(())
    }
}

impl<IO: AsyncRead + Unpin> AsyncRead for Guarded<IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while buf.remaining() > 0 && !this.hand_on(buf) {
            match this.phase {
                Phase::Reading => {
                    if ready!(this.poll_fill(cx, buf))?.is_some() {
                        return Poll::Ready(Ok(()));
                    }
                }
                Phase::Held => {
                    // The server had the mark, and wants a head: it did not switch.
                    this.guard.resume();
                    this.phase = Phase::Reading;
                    this.judge_kept();
                }
                Phase::Refused(violation) => {
                    if violation.part == Part::Body {
                        return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, violation)));
                    }
                    // The server had the mark, and wants a head: earlier responses are complete.
                    let answer = this.answer.get_or_insert_with(|| refusal::answer(violation));
                    if answer.has_remaining() {
                        this.reader = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                    // Also for a server that has no shutdown.
                    let _ = this.poll_drop_rest(cx);
                    return Poll::Ready(Ok(()));
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncWrite + Unpin> AsyncWrite for Guarded<IO> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_rest(cx))?;
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_rest(cx))?;
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_rest(cx))?;
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        ready!(self.poll_answer(cx))?;
        self.poll_aside(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

impl<IO: AsyncWrite + Unpin> Guarded<IO> {
    /// Writes the refusal, if its turn has come, and lets the reader know.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(answer) = &mut self.answer else {
            return Poll::Ready(Ok(()));
        };
        ready!(poll_whole(&mut self.io, answer, cx))?;
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
        Pin::new(&mut self.io).poll_flush(cx)
    }

    /// Writes what was said aside: the server has nothing to write.
    fn poll_aside(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(aside) = &self.aside else { return Poll::Ready(Ok(())) };
        if !self.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            aside.serve_by(cx.waker());
            self.task = Some(cx.waker().clone());
        }
        if !aside.is_busy() {
            return Poll::Ready(Ok(()));
        }
        while let Some(next) = aside.next() {
            self.saying = next;
            ready!(poll_whole(&mut self.io, &mut self.saying, cx))?;
        }
        ready!(Pin::new(&mut self.io).poll_flush(cx))?;
        aside.done();
        Poll::Ready(Ok(()))
    }

    /// Writes the rest of what was begun.
    fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        poll_whole(&mut self.io, &mut self.saying, cx)
    }
}

fn poll_whole<IO: AsyncWrite + Unpin>(
    io: &mut IO,
    bytes: &mut Bytes,
    cx: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    while bytes.has_remaining() {
        let written = ready!(Pin::new(&mut *io).poll_write(cx, bytes))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        bytes.advance(written);
    }
    Poll::Ready(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    const HEAD: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[tokio::test]
    async fn an_idle_connection_keeps_no_memory() {
        let (mut client, io) = duplex(1 << 16);
        let mut guarded = Guarded::new(io, Limits::default());
        let mut buf = [0; 8192];
        for heads in [1, 2, 50] {
            client.write_all(&HEAD.repeat(heads)).await.unwrap();
            assert_eq!(guarded.read(&mut buf).await.unwrap(), heads * HEAD.len());
            assert_eq!(guarded.kept.capacity(), 0);
        }
    }

    #[tokio::test]
    async fn a_head_that_came_in_pieces_gives_its_memory_back() {
        let (mut client, io) = duplex(1 << 16);
        let mut guarded = Guarded::new(io, Limits::default());
        let mut buf = [0; 10];
        let (mut seen, mut most) = (0, 0);
        client.write_all(HEAD).await.unwrap();
        while seen < HEAD.len() {
            seen += guarded.read(&mut buf).await.unwrap();
            most = most.max(guarded.kept.len());
        }
        assert!((1..HEAD.len()).contains(&most));
        assert_eq!(guarded.kept.capacity(), 0);
    }

    #[tokio::test]
    async fn a_head_without_end_is_refused_and_forgotten() {
        let (mut client, io) = duplex(1 << 20);
        let mut guarded = Guarded::new(io, Limits::default());
        let head = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(200_000));
        client.write_all(head.as_bytes()).await.unwrap();
        let mut buf = [0; 4096];
        let read = guarded.read(&mut buf).await.unwrap();
        assert_eq!(buf.get(..read), Some(MARK), "the server gets its mark, and nothing of the head");
        assert!(guarded.violation().is_some());
        assert_eq!(guarded.kept.capacity(), 0);
    }
}
