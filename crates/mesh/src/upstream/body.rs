//! The body of an answer, which gives its connection back at its end.

use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::connect::Connection;
use super::slot::InFlight;

/// The body of an answer. Dropped before its end, it closes its connection: that is cheaper than to read
/// what nobody wants, and tells the service.
pub struct PooledBody<B: 'static> {
    body: Incoming,
    lease: Option<Lease<B>>,
    /// The connection is of use after it.
    keep: bool,
}

struct Lease<B> {
    connection: Connection<B>,
    in_flight: InFlight<B>,
}

impl<B: 'static> PooledBody<B> {
    pub(super) fn new(body: Incoming, connection: Connection<B>, in_flight: InFlight<B>, keep: bool) -> Self {
        let mut pooled = PooledBody { body, lease: Some(Lease { connection, in_flight }), keep };
        if pooled.body.is_end_stream() {
            pooled.release();
        }
        pooled
    }

    fn release(&mut self) {
        if let Some(Lease { connection, in_flight }) = self.lease.take().filter(|_| self.keep) {
            Rc::clone(in_flight.slot()).put_back(connection);
        }
    }
}

impl<B: 'static> Body for PooledBody<B> {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        match &polled {
            Poll::Ready(None) => self.release(),
            Poll::Ready(Some(Ok(_))) if self.body.is_end_stream() => self.release(),
            Poll::Ready(Some(Err(_))) => self.lease = None,
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: 'static> fmt::Debug for PooledBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PooledBody").field("body", &self.body).finish_non_exhaustive()
    }
}
