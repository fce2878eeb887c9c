//! One of those who take a body that comes once.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::error::Error;
use crate::reader::Reader;
use crate::window::{Next, Shared};

/// Gets every byte that a [`crate::Fanout`] is given, or an error: from memory while it keeps up, else from the disk.
pub struct Consumer {
    shared: Arc<Shared>,
    number: usize,
    reader: Option<Box<Reader>>,
    /// Read from the disk, but not to be given out yet.
    read: Bytes,
    ended: bool,
}

impl Consumer {
    pub(crate) fn new(shared: Arc<Shared>, number: usize) -> Consumer {
        Consumer { shared, number, reader: None, read: Bytes::new(), ended: false }
    }

    /// The next bytes, none at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Consumer::next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.ended {
            return Poll::Ready(None);
        }
        if self.reader.is_none() {
            match ready!(self.shared.poll_leg(self.number, context)) {
                Next::Piece(piece) => return Poll::Ready(Some(Ok(piece))),
                Next::End => return self.end(None),
                Next::Failed(error) => return self.end(Some(error)),
                Next::Moved(reader) => self.reader = Some(reader),
            }
        }
        self.poll_disk(context)
    }

    fn poll_disk(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        if self.read.is_empty() {
            let Some(reader) = &mut self.reader else { return self.end(None) };
            match ready!(reader.poll_next(context)) {
                Some(Ok(bytes)) => self.read = bytes,
                Some(Err(error)) => return self.fail(&error),
                None => return self.end(None),
            }
        }
        match ready!(self.shared.poll_allowed(self.number, self.read.len(), context)) {
            Ok(given) => Poll::Ready(Some(Ok(self.read.split_to(given)))),
            Err(error) => self.end(Some(error)),
        }
    }

    /// The disk failed this consumer; or all of the body did, which then counts.
    fn fail(&mut self, error: &Error) -> Poll<Option<Result<Bytes, Error>>> {
        let failed = self.shared.state().failed();
        self.end(Some(failed.unwrap_or_else(|| Error::Lagging { cause: error.to_string() })))
    }

    fn end(&mut self, error: Option<Error>) -> Poll<Option<Result<Bytes, Error>>> {
        self.ended = true;
        self.reader = None;
        self.read = Bytes::new();
        self.shared.leave(self.number);
        Poll::Ready(error.map(Err))
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.shared.leave(self.number);
    }
}

impl Body for Consumer {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        self.poll_next(context).map(|next| next.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    /// Exact, where the body's length was said.
    fn size_hint(&self) -> SizeHint {
        match self.shared.state().rest(self.number) {
            Some(rest) => SizeHint::with_exact(rest),
            None => SizeHint::new(),
        }
    }
}
