//! Bodies on the thin path: read on one side, framed anew, written on the other.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use http::StatusCode;
use http1guard::{Body, Chunks, Limits, Piece};
use outside::net::keep_alive;
use tokio::io::Interest;
use tokio::net::tcp::{ReadHalf, WriteHalf};

use super::answer::Framing;
use super::buffers::{Buffer, Buffers, LARGE_BYTES};
use super::chunks::{AnswerChunks, Broken};
use super::pipes::{MOVED_BYTES, Pipe, Pipes};
use super::wire::{LAST_CHUNK, fill, put_chunk, write, write_both};
use crate::alarm::Alarm;
use crate::inflow::Fault;
use crate::streams::{OpenStream, Streams};

/// A body up to this is copied behind its head: that takes less than to write from two places.
const PIECE_BYTES: usize = 2 << 10;

/// What both directions of one request know of each other.
pub(super) struct Flow {
    /// When something of the request was last sent on.
    pub(super) moved: Cell<Instant>,
    /// The answer has begun.
    pub(super) answered: Cell<bool>,
}

/// Why a request's body did not arrive.
pub(super) enum Stopped {
    /// For what the client sent, or did not send.
    Client(Fault),
    /// The service takes no more; it may still answer.
    Service,
}

/// The body of a request on its way to the service.
pub(super) struct Upload<'a> {
    pub(super) from: ReadHalf<'a>,
    pub(super) to: WriteHalf<'a>,
    /// What was read of the client's and not sent on.
    pub(super) buffer: &'a mut Buffer,
    pub(super) body: Body,
    pub(super) limits: Limits,
    /// How long each pause may be.
    pub(super) pause: Duration,
    pub(super) alarm: Rc<Alarm>,
    pub(super) flow: &'a Flow,
}

impl Upload<'_> {
    pub(super) async fn run(mut self, buffers: &Rc<Buffers>) -> Result<(), Stopped> {
        match self.body {
            Body::None => Ok(()),
            Body::Length(length) => self.length(buffers, length).await,
            Body::Chunked => self.chunks(buffers).await,
        }
    }

    async fn length(&mut self, buffers: &Rc<Buffers>, mut left: u64) -> Result<(), Stopped> {
        // For as long as all that fits in is of this body: what comes after it is for the connection's own.
        let mut large = None;
        while left > 0 {
            if self.buffer.is_empty()
                && left >= MOVED_BYTES
                && let Some(pipe) = Pipes::lend(buffers)
            {
                return self.moved(pipe, left).await;
            }
            let buffer = match &mut large {
                _ if !self.buffer.is_empty() || left < LARGE_BYTES as u64 => &mut *self.buffer,
                Some(large) => large,
                none => none.insert(buffers.large()),
            };
            if buffer.is_empty() {
                read(&mut self.from, buffer, &self.alarm, self.pause).await?;
            }
            let here = buffer.unread().len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = buffer.unread().get(..here).unwrap_or_default();
            send(&mut self.to, piece, &self.alarm, self.pause, self.flow).await?;
            buffer.take(here);
            left -= here as u64;
        }
        Ok(())
    }

    /// The rest of a long body.
    async fn moved(&mut self, mut pipe: Pipe, mut left: u64) -> Result<(), Stopped> {
        while left > 0 {
            self.alarm.set(self.pause);
            let filled = pipe.fill(self.from.as_ref(), left, &self.alarm).await;
            left -= came(filled, self.pause)?;
            while !pipe.is_empty() {
                self.alarm.set(self.pause);
                let drained = pipe.drain(self.to.as_ref(), &self.alarm).await;
                went(drained, self.flow)?;
            }
        }
        Ok(())
    }

    async fn chunks(&mut self, buffers: &Rc<Buffers>) -> Result<(), Stopped> {
        let mut chunks = Chunks::new(self.limits);
        let mut out = buffers.text();
        loop {
            let step = step(|bytes| chunks.read(bytes), self.buffer, &mut out);
            let sent = send(&mut self.to, &out, &self.alarm, self.pause, self.flow).await;
            out.clear();
            match step {
                Ok(true) => return sent,
                Ok(false) => sent?,
                Err(violation) => {
                    let status = StatusCode::from_u16(violation.status()).unwrap_or(StatusCode::BAD_REQUEST);
                    return Err(Stopped::Client(Fault { status, detail: violation.to_string() }));
                }
            }
            if self.buffer.is_full() {
                // No line of a chunked body is as long.
                return Err(Stopped::Service);
            }
            read(&mut self.from, self.buffer, &self.alarm, self.pause).await?;
        }
    }
}

/// Reads more of the client's.
async fn read(
    from: &mut ReadHalf<'_>,
    buffer: &mut Buffer,
    alarm: &Alarm,
    pause: Duration,
) -> Result<(), Stopped> {
    alarm.set(pause);
    came(fill(from, buffer, alarm).await, pause).map(drop)
}

/// How much came of the client's, which is never nothing.
fn came(read: io::Result<usize>, pause: Duration) -> Result<u64, Stopped> {
    let (status, detail) = match read {
        Ok(count @ 1..) => return Ok(count as u64),
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            (StatusCode::REQUEST_TIMEOUT, format!("nothing came for {}", scope::print_duration(pause)))
        }
        Ok(0) | Err(_) => {
            (StatusCode::BAD_REQUEST, "the connection was closed before the body was complete".to_owned())
        }
    };
    Err(Stopped::Client(Fault { status, detail }))
}

/// Sends a piece on.
async fn send(
    to: &mut WriteHalf<'_>,
    mut piece: &[u8],
    alarm: &Alarm,
    pause: Duration,
    flow: &Flow,
) -> Result<(), Stopped> {
    while !piece.is_empty() {
        alarm.set(pause);
        let written = went(write(to, piece, alarm).await, flow)?;
        piece = piece.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// How much went to the service. Before the answer, who waits for that limits the time; after, each pause is limited.
fn went(written: io::Result<usize>, flow: &Flow) -> Result<usize, Stopped> {
    match written {
        Ok(written @ 1..) => {
            flow.moved.set(Instant::now());
            Ok(written)
        }
        Err(error) if error.kind() == io::ErrorKind::TimedOut && !flow.answered.get() => Ok(0),
        _ => Err(Stopped::Service),
    }
}

/// Frames what came of a chunked body anew. Whether it has ended.
fn step<E>(
    mut read: impl FnMut(&[u8]) -> Result<Piece, E>,
    buffer: &mut Buffer,
    out: &mut Vec<u8>,
) -> Result<bool, E> {
    loop {
        match read(buffer.unread())? {
            Piece::More => return Ok(false),
            Piece::Frame(here) => buffer.take(here),
            Piece::Data(here) => {
                put_chunk(out, buffer.unread().get(..here).unwrap_or_default());
                buffer.take(here);
            }
            Piece::End(here) => {
                buffer.take(here);
                out.extend_from_slice(LAST_CHUNK);
                return Ok(true);
            }
        }
    }
}

/// The body of an answer on its way to the client.
pub(super) struct Download<'d, 'a> {
    pub(super) from: &'d mut ReadHalf<'a>,
    pub(super) to: &'d mut WriteHalf<'a>,
    /// What was read of the service's and not sent on.
    pub(super) buffer: Buffer,
    /// How long each pause may be.
    pub(super) pause: Duration,
    /// More trailers are no answer's.
    pub(super) most_trailers: usize,
    pub(super) alarm: &'d Alarm,
    /// Without a length, it may be kept open: where that is counted, and how many may be.
    pub(super) streams: (&'d Arc<Streams>, usize),
    pub(super) open: Option<OpenStream>,
}

impl Download<'_, '_> {
    /// Sends the head in `out` and the body. Whether nothing came after it.
    pub(super) async fn run(mut self, out: &mut Vec<u8>, framing: Framing) -> io::Result<bool> {
        match framing {
            Framing::None => self.flush(out, b"").await?,
            Framing::Length(length) => self.length(out, length).await?,
            // Boxed: what most requests do not need takes no room of theirs.
            Framing::Chunked => Box::pin(self.chunks(out)).await?,
            Framing::Close => Box::pin(self.rest(out)).await?,
        }
        Ok(self.buffer.is_empty())
    }

    async fn length(&mut self, out: &mut Vec<u8>, mut left: u64) -> io::Result<()> {
        let here = self.buffer.unread().len() as u64;
        if self.buffer.is_filled() && (here + 1..here + MOVED_BYTES).contains(&left) {
            Box::pin(self.more_at_once(left)).await?;
        }
        loop {
            let here = self.buffer.unread().len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = self.buffer.unread().get(..here).unwrap_or_default();
            if piece.len() <= PIECE_BYTES && !out.is_empty() {
                out.extend_from_slice(piece);
                self.flush(out, b"").await?;
            } else {
                write_both(self.to, out, piece, self.alarm, self.pause).await?;
                out.clear();
            }
            let filled = self.buffer.is_filled();
            self.buffer.take(here);
            left -= here as u64;
            if left == 0 {
                return Ok(());
            }
            if left >= MOVED_BYTES
                && let Some(pipe) = self.buffer.pipe()
            {
                return Box::pin(self.moved(pipe, left)).await;
            }
            self.buffer.grow(left, filled);
            self.read().await?;
        }
    }

    /// The rest of a long body.
    async fn moved(&mut self, mut pipe: Pipe, mut left: u64) -> io::Result<()> {
        while left > 0 {
            self.alarm.set(self.pause);
            left -= match pipe.fill(self.from.as_ref(), left, self.alarm).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => count as u64,
            };
            while !pipe.is_empty() {
                self.alarm.set(self.pause);
                pipe.drain(self.to.as_ref(), self.alarm).await?;
            }
        }
        Ok(())
    }

    async fn chunks(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut chunks = AnswerChunks::new(self.most_trailers);
        loop {
            let filled = self.buffer.is_filled();
            let ended = step(|bytes| chunks.read(bytes), &mut self.buffer, out);
            self.flush(out, b"").await?;
            if ended.map_err(|Broken| io::Error::from(io::ErrorKind::InvalidData))? {
                return Ok(());
            }
            self.buffer.grow(u64::MAX, filled);
            self.read_on().await?;
        }
    }

    async fn rest(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let filled = self.buffer.is_filled();
            if !self.buffer.is_empty() {
                put_chunk(out, self.buffer.unread());
                self.buffer.take(self.buffer.unread().len());
            }
            self.flush(out, b"").await?;
            self.buffer.grow(u64::MAX, filled);
            match self.read_on().await {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(error),
            }
        }
        self.flush(out, LAST_CHUNK).await
    }

    /// Reads on in an answer without a length. One that its service keeps open lives as long as both ends do.
    async fn read_on(&mut self) -> io::Result<()> {
        if self.open.is_none() {
            match self.read().await {
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                read => return read,
            }
        }
        Box::pin(self.stay_open()).await
    }

    async fn stay_open(&mut self) -> io::Result<()> {
        if self.open.is_none() {
            let (streams, most) = self.streams;
            self.open = Some(streams.open(most).ok_or(io::ErrorKind::TimedOut)?);
            keep_alive(self.from.as_ref());
            keep_alive(self.to.as_ref());
        }
        self.alarm.set_at(None);
        tokio::select! {
            biased;
            count = fill(self.from, &mut self.buffer, self.alarm) => match count? {
                0 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => Ok(()),
            },
            gone = self.to.as_ref().ready(Interest::ERROR) => {
                Err(gone.err().unwrap_or_else(|| io::ErrorKind::ConnectionReset.into()))
            }
        }
    }

    async fn flush(&mut self, out: &mut Vec<u8>, after: &[u8]) -> io::Result<()> {
        write_both(self.to, out, after, self.alarm, self.pause).await?;
        out.clear();
        Ok(())
    }

    /// The start of a body came with its head, and what follows is there, most often: both are sent on together.
    async fn more_at_once(&mut self, left: u64) -> io::Result<()> {
        self.buffer.grow(left, true);
        let more = poll_fn(|context| match self.buffer.poll_fill(self.from, context) {
            Poll::Ready(read) => Poll::Ready(read.map(drop)),
            Poll::Pending => Poll::Ready(Ok(())),
        });
        more.await
    }

    async fn read(&mut self) -> io::Result<()> {
        self.alarm.set(self.pause);
        match fill(self.from, &mut self.buffer, self.alarm).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

type Uploading<'a> = Pin<Box<dyn Future<Output = Result<(), Stopped>> + 'a>>;

/// A request's body while it is on its way.
pub(super) struct Sending<'a> {
    upload: Option<Uploading<'a>>,
    /// All of it has arrived.
    pub(super) whole: bool,
}

impl<'a> Sending<'a> {
    pub(super) fn nothing() -> Sending<'a> {
        Sending { upload: None, whole: true }
    }

    /// It cannot go on.
    pub(super) fn broken() -> Sending<'a> {
        Sending { upload: None, whole: false }
    }

    pub(super) fn new(upload: impl Future<Output = Result<(), Stopped>> + 'a) -> Sending<'a> {
        Sending { upload: Some(Box::pin(upload)), whole: false }
    }

    /// Waits for something else while the body goes on; or for the client's fault, if that comes first.
    pub(super) async fn alongside<T>(
        &mut self,
        mut other: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T, Fault> {
        if self.upload.is_none() {
            return Ok(other.await);
        }
        poll_fn(|context| {
            if let Some(upload) = &mut self.upload
                && let Poll::Ready(ended) = upload.as_mut().poll(context)
            {
                self.upload = None;
                match ended {
                    Ok(()) => self.whole = true,
                    Err(Stopped::Service) => {}
                    Err(Stopped::Client(fault)) => return Poll::Ready(Err(fault)),
                }
            }
            other.as_mut().poll(context).map(Ok)
        })
        .await
    }

    /// Waits for its end, or for something else.
    pub(super) async fn end_unless<T>(&mut self, other: impl Future<Output = T>) {
        if let Some(upload) = self.upload.take() {
            tokio::select! {
                ended = upload => self.whole = ended.is_ok(),
                _ = other => {}
            }
        }
    }
}
