//! The body of a client's request, at the pace of whoever reads it.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http::Request;
use http::header::CONTENT_LENGTH;
use http_body::{Body, Frame, SizeHint};

use super::alive::Alive;

/// What comes on one stream. A client that resets it has not sent it all: that is an error, whatever its reason.
pub(crate) struct Arriving {
    stream: RecvStream,
    /// Only trailers are left.
    data_ended: bool,
    /// As the request says; `h2` holds it to its word.
    left: Option<u64>,
    alive: Rc<Alive>,
}

impl Arriving {
    pub(super) fn of(request: Request<RecvStream>, alive: &Rc<Alive>) -> Request<Arriving> {
        let length = request.headers().get(CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        request.map(|stream| Arriving { stream, data_ended: false, left: length, alive: Rc::clone(alive) })
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let this = &mut *self;
        if !this.data_ended {
            match ready!(this.stream.poll_data(context)) {
                Some(Ok(bytes)) => {
                    this.alive.heard();
                    this.left = this.left.map(|left| left.saturating_sub(bytes.len() as u64));
                    // It is read: the client may send as much again.
                    let released = this.stream.flow_control().release_capacity(bytes.len());
                    return Poll::Ready(Some(released.map(|()| Frame::data(bytes))));
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => this.data_ended = true,
            }
        }
        let trailers = ready!(this.stream.poll_trailers(context));
        Poll::Ready(trailers.map(|trailers| trailers.map(Frame::trailers)).transpose())
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.left {
            Some(left) => SizeHint::with_exact(left),
            None if self.is_end_stream() => SizeHint::with_exact(0),
            None => SizeHint::default(),
        }
    }
}
