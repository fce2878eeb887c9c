//! What a client sends, or sent: handed on as it comes, with a limit on its pauses, and given up once nobody takes it.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use http_body::{Body, Frame, SizeHint};
use http1guard::Violation;
use spool::Reader;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

use crate::BoxError;
use crate::headers;
use crate::http2::Arriving;
use crate::problem::Problem;

/// How long a body waits for the service's `100 Continue`. Many services never send one, and RFC 9110 (10.1.1)
/// lets nobody wait for ever; curl waits as long.
const CONTINUE_WAIT: Duration = Duration::from_secs(1);

/// The body of a client's request, shared by who sends it on and who waits for the answer.
///
/// A connection whose other side stopped reading does not look at its body any more: to be free of such a
/// request, the body is taken from it.
pub(crate) struct Inflow {
    body: RefCell<Option<Flow>>,
    hint: SizeHint,
    ended: Cell<bool>,
    /// When a piece was last taken.
    moved: Cell<Instant>,
    fault: RefCell<Option<Fault>>,
    /// Another site may want it from the start.
    kept: Cell<bool>,
}

/// The body of a request, from whichever server read its head.
pub(crate) enum Incoming {
    /// It has none.
    Nothing,
    Http1(hyper::body::Incoming),
    Http2(Arriving),
}

impl From<Arriving> for Incoming {
    fn from(body: Arriving) -> Incoming {
        Incoming::Http2(body)
    }
}

impl From<hyper::body::Incoming> for Incoming {
    fn from(body: hyper::body::Incoming) -> Incoming {
        Incoming::Http1(body)
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &mut *self {
            Incoming::Nothing => Poll::Ready(None),
            Incoming::Http1(body) => Pin::new(body).poll_frame(context).map_err(BoxError::from),
            Incoming::Http2(body) => Pin::new(body).poll_frame(context).map_err(BoxError::from),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Incoming::Nothing => true,
            Incoming::Http1(body) => body.is_end_stream(),
            Incoming::Http2(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Incoming::Nothing => SizeHint::with_exact(0),
            Incoming::Http1(body) => body.size_hint(),
            Incoming::Http2(body) => body.size_hint(),
        }
    }
}

/// Where it comes from.
enum Flow {
    Client(Incoming),
    /// It came before, and is on the disk.
    Stored(Box<Reader>),
}

impl Flow {
    fn size_hint(&self) -> SizeHint {
        match self {
            Flow::Client(body) => body.size_hint(),
            Flow::Stored(body) => body.size_hint(),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Flow::Client(body) => body.is_end_stream(),
            Flow::Stored(body) => body.is_end_stream(),
        }
    }
}

/// Why a request's body did not end as it should: the client's fault, whatever the service says.
pub(crate) struct Fault {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
}

impl Fault {
    /// What to tell the client.
    pub(crate) fn into_problem(self) -> Problem {
        let (kind, title) = match self.status {
            StatusCode::REQUEST_TIMEOUT => ("body-stopped", "The body of the request stopped coming"),
            _ => ("bad-body", "The body of the request cannot be read"),
        };
        Problem::new(self.status, kind, title).detail(self.detail)
    }
}

impl Inflow {
    /// When so much time has passed without a piece.
    pub(crate) fn deadline(&self, limit: Duration) -> Instant {
        self.moved.get() + limit
    }

    pub(crate) fn keep(&self) {
        self.kept.set(true);
    }

    /// Nobody will take the rest: the client's connection is closed once it has its answer.
    pub(crate) fn give_up(&self) {
        if !self.kept.get() {
            self.body.take();
        }
    }

    /// What to tell a client whose body failed.
    pub(crate) fn problem(&self) -> Option<Problem> {
        self.fault.take().map(Fault::into_problem)
    }

    /// An answer is there, and the request may go on: for as long as it moves.
    pub(crate) fn watch(self: &Rc<Inflow>, pause: Duration) {
        if self.ended.get() || self.body.borrow().is_none() {
            return;
        }
        let inflow = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            while let Some(deadline) =
                inflow.upgrade().filter(|inflow| !inflow.ended.get()).map(|i| i.deadline(pause))
            {
                if deadline <= Instant::now() {
                    inflow.upgrade().inspect(|inflow| inflow.give_up());
                    return;
                }
                sleep_until(deadline).await;
            }
        });
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let mut body = self.body.borrow_mut();
        let Some(flow) = body.as_mut() else {
            return Poll::Ready(Some(Err("the request was given up".into())));
        };
        let frame = match flow {
            Flow::Client(incoming) => match ready!(Pin::new(incoming).poll_frame(context)) {
                Some(Err(error)) => {
                    self.fail(of(&*error));
                    Some(Err(error))
                }
                Some(Ok(frame)) => Some(Ok(headers::for_anyone(frame))),
                None => None,
            },
            Flow::Stored(reader) => ready!(Pin::new(reader).poll_frame(context)).map(|read| Ok(read?)),
        };
        self.moved.set(Instant::now());
        self.ended.set(frame.is_none() || flow.is_end_stream());
        Poll::Ready(frame)
    }

    fn fail(&self, fault: Fault) {
        self.fault.replace(Some(fault));
    }
}

/// What the guard says, or that the client went.
fn of(error: &(dyn Error + 'static)) -> Fault {
    let violation = error
        .source()
        .and_then(|source| source.downcast_ref::<io::Error>())
        .and_then(io::Error::get_ref)
        .and_then(|inner| inner.downcast_ref::<Violation>());
    match violation {
        Some(violation) => Fault {
            status: StatusCode::from_u16(violation.status()).unwrap_or(StatusCode::BAD_REQUEST),
            detail: violation.to_string(),
        },
        None => Fault { status: StatusCode::BAD_REQUEST, detail: error.to_string() },
    }
}

/// What the client sends, with a limit on its pauses.
pub(crate) struct Live {
    inflow: Rc<Inflow>,
    pause: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Nothing is read, and so the client not told to go on, before this is done.
    gate: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Live {
    pub(crate) fn new(body: impl Into<Incoming>, pause: Duration) -> Live {
        Live::of(Flow::Client(body.into()), pause)
    }

    /// What came before.
    pub(crate) fn stored(body: Reader, pause: Duration) -> Live {
        Live::of(Flow::Stored(Box::new(body)), pause)
    }

    fn of(body: Flow, pause: Duration) -> Live {
        let inflow = Inflow {
            hint: body.size_hint(),
            ended: Cell::new(body.is_end_stream()),
            body: RefCell::new(Some(body)),
            moved: Cell::new(Instant::now()),
            fault: RefCell::default(),
            kept: Cell::new(false),
        };
        Live { inflow: Rc::new(inflow), pause, waiting: None, gate: None }
    }

    pub(crate) fn inflow(&self) -> &Rc<Inflow> {
        &self.inflow
    }

    /// Waits for the service's word before the first piece is read, but not for ever.
    pub(crate) fn wait_for_word(&mut self) -> Arc<Notify> {
        let word = Arc::new(Notify::new());
        let heard = Arc::clone(&word);
        self.gate = Some(Box::pin(async move {
            let _ = timeout(CONTINUE_WAIT, heard.notified()).await;
        }));
        word
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.inflow.ended.get()
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match &*self.inflow.body.borrow() {
            Some(body) => body.size_hint(),
            None => self.inflow.hint,
        }
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(gate) = &mut self.gate {
            ready!(gate.as_mut().poll(context));
            self.gate = None;
        }
        let frame = self.inflow.poll(context);
        if frame.is_ready() {
            self.waiting = None;
            return frame;
        }
        let pause = self.pause;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(pause)));
        ready!(waiting.as_mut().poll(context));
        let detail = format!("nothing came for {}", scope::print_duration(pause));
        self.inflow.fail(Fault { status: StatusCode::REQUEST_TIMEOUT, detail });
        Poll::Ready(Some(Err("the request stopped coming".into())))
    }
}

/// Who sent it on is done with it, whoever else still knows of it.
impl Drop for Live {
    fn drop(&mut self) {
        self.inflow.body.take();
    }
}
