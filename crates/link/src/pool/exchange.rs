//! One request and its answer: what both bodies share while either is under way.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::BoxError;

/// A counted place, free again when this is dropped.
pub(super) struct Place(Rc<Cell<usize>>);

impl Place {
    /// If there are fewer than this many taken.
    pub(super) fn take(count: &Rc<Cell<usize>>, limit: usize) -> Option<Place> {
        if count.get() >= limit {
            return None;
        }
        count.set(count.get() + 1);
        Some(Place(Rc::clone(count)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Lives as long as either body does, with the places that they take.
#[derive(Default)]
pub(super) struct Exchange {
    places: RefCell<Vec<Place>>,
    abandoned: Cell<bool>,
    /// The request's own body failed: that, and nothing on the way, is what went wrong.
    body_failed: Cell<bool>,
    sender: RefCell<Option<Waker>>,
}

impl Exchange {
    pub(super) fn hold(&self, place: Place) {
        self.places.borrow_mut().push(place);
    }

    pub(super) fn body_failed(&self) -> bool {
        self.body_failed.get()
    }

    fn abandon(&self) {
        self.abandoned.set(true);
        if let Some(sender) = self.sender.take() {
            sender.wake();
        }
    }
}

/// A request's body. It fails if the answer is dropped before its end: hyper goes on sending otherwise,
/// and the stream stays open for nobody.
pub(super) struct Outgoing {
    body: Pin<Box<dyn Body<Data = Bytes, Error = BoxError>>>,
    exchange: Rc<Exchange>,
}

impl Outgoing {
    pub(super) fn new<B>(body: B, exchange: &Rc<Exchange>) -> Outgoing
    where
        B: Body<Data = Bytes> + 'static,
        B::Error: Into<BoxError>,
    {
        Outgoing { body: Box::pin(body.map_err(Into::into)), exchange: Rc::clone(exchange) }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.exchange.abandoned.get() {
            return Poll::Ready(Some(Err(Box::new(Abandoned))));
        }
        let frame = self.body.as_mut().poll_frame(context);
        match frame {
            Poll::Pending => {
                self.exchange.sender.replace(Some(context.waker().clone()));
            }
            Poll::Ready(Some(Err(_))) => self.exchange.body_failed.set(true),
            Poll::Ready(_) => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The answer was dropped before its end.
#[derive(Debug)]
struct Abandoned;

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody waits for the answer any more")
    }
}

impl std::error::Error for Abandoned {}

/// The body of a peer's answer. The request counts as in flight until this has ended or is dropped;
/// dropping it early resets the stream: at once, but where the peer has stopped to read the request's body
/// on the small lane. There, as soon as it reads on or ends its answer, since hyper looks at a body only
/// when it may send more of it.
pub struct Received {
    body: Incoming,
    exchange: Option<Rc<Exchange>>,
}

impl Received {
    pub(super) fn new(body: Incoming, exchange: Rc<Exchange>) -> Received {
        Received { body, exchange: Some(exchange) }
    }
}

impl Body for Received {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(None) = frame {
            self.exchange = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Received {
    fn drop(&mut self) {
        if let Some(exchange) = self.exchange.take()
            && !self.body.is_end_stream()
        {
            exchange.abandon();
        }
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Received").finish_non_exhaustive()
    }
}
