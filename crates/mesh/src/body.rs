//! Bodies on their way through: streamed, never collected, with a limit on each wait.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt, Limited};
use link::Received;
use merge::Pull;
use spool::Reader;
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};

use crate::BoxError;
use crate::headers;
use crate::inflow::{Inflow, Live};
use crate::merging::Merging;
use crate::replicas::Rewritten;
use crate::replicas::copies::MarkedBody;
use crate::streams::{self, LOOK_INTERVAL, MayStream, Stalled, Streams};
use crate::upstream::PooledBody;

/// The body of an answer, and what is given back once it has ended.
pub(crate) struct AnswerBody {
    source: Source,
    /// How long the sender may pause; nothing for bodies of our own.
    pause: Option<Duration>,
    /// Made when a pause begins: a body that flows needs no timer.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Kept until the end: a place among the requests in flight.
    held: Option<Rc<dyn std::any::Any>>,
    /// Without a length, it may be kept open.
    may_stream: Option<Box<MayStream>>,
}

enum Source {
    Full(Option<Bytes>),
    Local(PooledBody<LegBody>),
    Peer(Received),
    /// From this site's disk.
    Stored(Box<Reader>),
    /// Of several sites: what was made of it so far, and the rest to come.
    Merged(Option<Bytes>, Box<Merging>),
    /// With the ids that clients know.
    Rewritten(Box<Rewritten>),
    /// For whoever merges it with other sites' lists.
    Marked(Box<MarkedBody>),
    /// What was read of a body already, and its rest.
    After(VecDeque<Result<Frame<Bytes>, BoxError>>, Box<AnswerBody>),
}

impl AnswerBody {
    pub(crate) fn full(bytes: Bytes) -> AnswerBody {
        AnswerBody {
            source: Source::Full(Some(bytes).filter(|bytes| !bytes.is_empty())),
            pause: None,
            waiting: None,
            held: None,
            may_stream: None,
        }
    }

    pub(crate) fn local(body: PooledBody<LegBody>, pause: Duration) -> AnswerBody {
        AnswerBody {
            source: Source::Local(body),
            pause: Some(pause),
            waiting: None,
            held: None,
            may_stream: None,
        }
    }

    pub(crate) fn peer(body: Received, pause: Duration) -> AnswerBody {
        AnswerBody {
            source: Source::Peer(body),
            pause: Some(pause),
            waiting: None,
            held: None,
            may_stream: None,
        }
    }

    /// What is on the disk, or still comes in.
    pub(crate) fn stored(body: Reader) -> AnswerBody {
        AnswerBody {
            source: Source::Stored(Box::new(body)),
            pause: None,
            waiting: None,
            held: None,
            may_stream: None,
        }
    }

    /// The first step of a merge that goes on.
    pub(crate) fn merged(first: Pull, rest: Merging) -> AnswerBody {
        let source = match first {
            // A short list is there as a whole, and its length can be told.
            Pull::Chunk(bytes) if rest.is_done() => Source::Full(Some(bytes)),
            Pull::Chunk(bytes) => Source::Merged(Some(bytes), Box::new(rest)),
            Pull::Pending => Source::Merged(None, Box::new(rest)),
            Pull::Done | Pull::NotAList => Source::Full(None),
        };
        AnswerBody { source, pause: None, waiting: None, held: None, may_stream: None }
    }

    /// With the ids that clients know.
    pub(crate) fn rewritten(body: Rewritten) -> AnswerBody {
        AnswerBody {
            source: Source::Rewritten(Box::new(body)),
            pause: None,
            waiting: None,
            held: None,
            may_stream: None,
        }
    }

    /// For whoever merges it with other sites' lists.
    pub(crate) fn marked(body: MarkedBody) -> AnswerBody {
        AnswerBody {
            source: Source::Marked(Box::new(body)),
            pause: None,
            waiting: None,
            held: None,
            may_stream: None,
        }
    }

    /// The same, after what was read of it already.
    pub(crate) fn after(self, read: Vec<Bytes>) -> AnswerBody {
        self.behind(read.into_iter().map(|bytes| Ok(Frame::data(bytes))).collect())
    }

    fn behind(self, read: VecDeque<Result<Frame<Bytes>, BoxError>>) -> AnswerBody {
        let source = Source::After(read, Box::new(self));
        AnswerBody { source, pause: None, waiting: None, held: None, may_stream: None }
    }

    /// The first bytes, if they have come. They come again.
    pub(crate) fn first(mut self, context: &mut Context<'_>) -> (AnswerBody, Option<Bytes>) {
        if self.is_end_stream() {
            return (self, None);
        }
        match Pin::new(&mut self).poll_frame(context) {
            Poll::Ready(Some(frame)) => {
                let bytes = frame.as_ref().ok().and_then(|frame| frame.data_ref().cloned());
                (self.behind(VecDeque::from([frame])), bytes)
            }
            Poll::Ready(None) => (AnswerBody::full(Bytes::new()), None),
            Poll::Pending => {
                // Nobody waits for it yet.
                self.waiting = None;
                (self, None)
            }
        }
    }

    /// Waits for the whole of it, or for so many bytes. They come again.
    pub(crate) async fn ahead(mut self, most: usize) -> AnswerBody {
        let (mut read, mut bytes) = (VecDeque::new(), 0);
        while bytes < most && !self.is_end_stream() {
            let next = std::future::poll_fn(|context| Pin::new(&mut self).poll_frame(context)).await;
            let Some(frame) = next else { break };
            bytes += frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            let broken = frame.is_err();
            read.push_back(frame);
            if broken {
                break;
            }
        }
        self.behind(read)
    }

    /// Waits for the whole of it, and tells it if it is at most so long and there until then. It comes again.
    pub(crate) async fn whole(mut self, most: usize, until: Instant) -> (AnswerBody, Option<Vec<u8>>) {
        let (mut read, mut bytes) = (VecDeque::new(), Vec::new());
        let mut is_whole = self.size_hint().lower() <= most as u64;
        while is_whole && !self.is_end_stream() {
            let next = std::future::poll_fn(|context| Pin::new(&mut self).poll_frame(context));
            let Ok(next) = timeout_at(until, next).await else {
                is_whole = false;
                break;
            };
            let Some(frame) = next else { break };
            if let Some(data) = frame.as_ref().ok().and_then(Frame::data_ref) {
                bytes.extend_from_slice(data);
            }
            is_whole = frame.is_ok() && bytes.len() <= most;
            read.push_back(frame);
        }
        // Whoever reads on has its own patience.
        self.waiting = None;
        (self.behind(read), is_whole.then_some(bytes))
    }

    /// Lets it pause for as long as both ends live, if it has no length. For answers on their way to a client: who reads
    /// one to its end has to know that it ends.
    pub(crate) fn may_stream(&mut self, streams: &Arc<Streams>, most: usize) {
        let is_open_ended = self.size_hint().exact().is_none() && !self.is_end_stream();
        match &mut self.source {
            Source::After(_, inner) => inner.may_stream(streams, most),
            Source::Rewritten(rewritten) => rewritten.body().may_stream(streams, most),
            Source::Local(_) | Source::Peer(_) if is_open_ended => {
                self.may_stream = Some(Box::new(MayStream::new(streams, most)));
            }
            Source::Local(_)
            | Source::Peer(_)
            | Source::Full(_)
            | Source::Stored(_)
            | Source::Merged(..)
            | Source::Marked(_) => {}
        }
    }

    /// The start of an answer without a length, up to so many bytes. They come again. `Err`: it neither ends nor goes on.
    pub(crate) async fn ends_or_goes_on(
        mut self,
        most: usize,
        until: Instant,
    ) -> Result<AnswerBody, Stalled> {
        let (mut read, mut bytes) = (VecDeque::new(), 0);
        while bytes < most && !self.is_end_stream() {
            let next = std::future::poll_fn(|context| Pin::new(&mut self).poll_frame(context));
            let Ok(next) = timeout_at(until, next).await else { return Err(Stalled) };
            let Some(frame) = next else { break };
            if frame.as_ref().is_err_and(|error| error.is::<Stalled>()) {
                return Err(Stalled);
            }
            bytes += frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
            let broken = frame.is_err();
            read.push_back(frame);
            if broken {
                break;
            }
        }
        self.waiting = None;
        Ok(self.behind(read))
    }

    /// Keeps something until the body has ended.
    pub(crate) fn hold(&mut self, held: Rc<dyn std::any::Any>) {
        if !self.is_end_stream() {
            self.held = Some(held);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let polled = match &mut this.source {
            Source::Full(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Source::Local(body) => Pin::new(body).poll_frame(context).map_err(BoxError::from),
            Source::Peer(body) => Pin::new(body).poll_frame(context).map_err(BoxError::from),
            Source::Stored(body) => Pin::new(body).poll_frame(context).map_err(BoxError::from),
            Source::Merged(first @ Some(_), _) => {
                Poll::Ready(first.take().map(|bytes| Ok(Frame::data(bytes))))
            }
            Source::Merged(None, merging) => match ready!(merging.poll(context)) {
                Ok(Pull::Chunk(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                Ok(Pull::Done) => Poll::Ready(None),
                // The head is gone: that something is missing can only be told by breaking off.
                Ok(Pull::Pending | Pull::NotAList) => {
                    Poll::Ready(Some(Err(BoxError::from("the merge went astray"))))
                }
                Err(broken) => Poll::Ready(Some(Err(BoxError::from(broken)))),
            },
            Source::Rewritten(body) => body.poll(context),
            Source::Marked(body) => body.poll(context),
            Source::After(read, body) => match read.pop_front() {
                Some(frame) => Poll::Ready(Some(frame)),
                None => Pin::new(&mut **body).poll_frame(context),
            },
        };
        match polled {
            Poll::Pending => {
                let Some(pause) = this.pause else { return Poll::Pending };
                let waiting = this.waiting.get_or_insert_with(|| Box::pin(sleep(pause)));
                loop {
                    ready!(waiting.as_mut().poll(context));
                    if !this.may_stream.as_mut().is_some_and(|may| may.stays()) {
                        break;
                    }
                    streams::look();
                    waiting.as_mut().reset(Instant::now() + LOOK_INTERVAL.min(pause));
                }
                this.held = None;
                Poll::Ready(Some(Err(Stalled.into())))
            }
            Poll::Ready(frame) => {
                this.waiting = None;
                if frame.as_ref().is_none_or(Result::is_err) {
                    this.held = None;
                }
                Poll::Ready(frame.map(|frame| frame.map(headers::for_anyone)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Full(bytes) => bytes.is_none(),
            Source::Local(body) => body.is_end_stream(),
            Source::Peer(body) => body.is_end_stream(),
            Source::Stored(body) => body.is_end_stream(),
            Source::Merged(..) => false,
            Source::Rewritten(body) => body.is_end_stream(),
            Source::Marked(body) => body.is_end_stream(),
            Source::After(read, body) => read.is_empty() && body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Source::Local(body) => body.size_hint(),
            Source::Peer(body) => body.size_hint(),
            Source::Stored(body) => body.size_hint(),
            Source::Merged(..) | Source::Rewritten(_) | Source::Marked(_) => SizeHint::default(),
            Source::After(read, body) => {
                let data = read.iter().flatten().filter_map(Frame::data_ref);
                let read: u64 = data.map(|bytes| bytes.len() as u64).sum();
                more(body.size_hint(), read)
            }
        }
    }
}

/// A body that is not long, if it comes in time.
pub(crate) async fn whole(
    body: impl Body<Data = Bytes, Error: Into<BoxError>>,
    most: usize,
    patience: Duration,
) -> Option<Bytes> {
    let collected = timeout(patience, Limited::new(body, most).collect()).await.ok()?;
    Some(collected.ok()?.to_bytes())
}

/// With so many bytes before it.
fn more(rest: SizeHint, read: u64) -> SizeHint {
    let mut hint = SizeHint::new();
    if let Some(upper) = rest.upper() {
        hint.set_upper(upper.saturating_add(read));
    }
    hint.set_lower(rest.lower().saturating_add(read));
    hint
}

/// The body of a request on its way to one site.
pub(crate) enum LegBody {
    Empty,
    Full(Bytes),
    /// Straight from the client.
    Live(Live),
    /// From the client, kept as far as it may have to be sent again.
    Taped(TapeReader),
    /// What was read of a body already, and its rest.
    After(VecDeque<Bytes>, Box<LegBody>),
}

impl LegBody {
    /// What came before, and is on the disk.
    pub(crate) fn stored(body: Reader, pause: Duration) -> LegBody {
        LegBody::Live(Live::stored(body, pause))
    }

    /// What comes from the client, if anything does.
    pub(crate) fn inflow(&self) -> Option<Rc<Inflow>> {
        match self {
            LegBody::Empty | LegBody::Full(_) => None,
            LegBody::Live(live) => Some(Rc::clone(live.inflow())),
            LegBody::Taped(reader) => Some(Rc::clone(reader.tape.borrow().live.inflow())),
            LegBody::After(_, rest) => rest.inflow(),
        }
    }
}

impl Body for LegBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            LegBody::Empty => Poll::Ready(None),
            LegBody::Full(bytes) => {
                let bytes = std::mem::take(bytes);
                Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
            }
            LegBody::Live(live) => live.poll(context),
            LegBody::Taped(reader) => reader.poll(context),
            LegBody::After(read, rest) => match read.pop_front() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                None => Pin::new(&mut **rest).poll_frame(context),
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            LegBody::Empty => true,
            LegBody::Full(bytes) => bytes.is_empty(),
            LegBody::Live(live) => live.is_end_stream(),
            LegBody::Taped(reader) => reader.is_end_stream(),
            LegBody::After(read, rest) => read.is_empty() && rest.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            LegBody::Empty => SizeHint::with_exact(0),
            LegBody::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            LegBody::Live(live) => live.size_hint(),
            LegBody::Taped(reader) => reader.tape.borrow().hint,
            LegBody::After(read, rest) => {
                let read: u64 = read.iter().map(|bytes| bytes.len() as u64).sum();
                more(rest.size_hint(), read)
            }
        }
    }
}

/// The body of a write that may have to go to a second site, if the first provably did not execute it.
/// What was read is kept, up to a limit; past it there is no second try.
pub(crate) struct Tape {
    live: Live,
    kept: Vec<Bytes>,
    kept_bytes: usize,
    limit_bytes: usize,
    /// More was read than may be kept: only who reads now can go on.
    overflown: bool,
    /// How many have begun to read: only the last may.
    readers: usize,
    ended: bool,
    hint: SizeHint,
}

impl Tape {
    pub(crate) fn new(live: Live, limit_bytes: usize) -> Rc<RefCell<Tape>> {
        let hint = live.size_hint();
        live.inflow().keep();
        Rc::new(RefCell::new(Tape {
            live,
            kept: Vec::new(),
            kept_bytes: 0,
            limit_bytes,
            overflown: false,
            ended: false,
            readers: 0,
            hint,
        }))
    }

    /// A body from the start, unless the start is gone.
    pub(crate) fn read(tape: &Rc<RefCell<Tape>>) -> Option<LegBody> {
        let mut kept = tape.borrow_mut();
        kept.readers += 1;
        let reader = TapeReader { tape: Rc::clone(tape), number: kept.readers, at: 0 };
        (!kept.overflown).then_some(LegBody::Taped(reader))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let frame = ready!(self.live.poll(context));
        match &frame {
            None => self.ended = true,
            Some(Ok(frame)) => match frame.data_ref() {
                Some(data) if !self.overflown && self.kept_bytes + data.len() <= self.limit_bytes => {
                    self.kept_bytes += data.len();
                    self.kept.push(data.clone());
                }
                // Trailers cannot be kept as data; and a body too long is not kept at all.
                _ => {
                    self.overflown = true;
                    self.kept = Vec::new();
                }
            },
            Some(Err(_)) => self.overflown = true,
        }
        Poll::Ready(frame)
    }
}

pub(crate) struct TapeReader {
    tape: Rc<RefCell<Tape>>,
    number: usize,
    /// How many of the kept pieces were handed on.
    at: usize,
}

impl TapeReader {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut tape = self.tape.borrow_mut();
        // A connection may still hold the body of a leg that is over: it must not take from the next.
        if self.number != tape.readers {
            return Poll::Ready(Some(Err("this body was sent elsewhere".into())));
        }
        if let Some(piece) = tape.kept.get(self.at) {
            self.at += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
        }
        let frame = ready!(tape.poll(context));
        self.at = tape.kept.len();
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let tape = self.tape.borrow();
        self.at >= tape.kept.len() && (tape.ended || tape.live.is_end_stream())
    }
}
