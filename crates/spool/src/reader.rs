//! Reading one body, also while it is written.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};

use crate::entry::{Entry, Live, Progress};
use crate::error::Error;
use crate::format::{self, BodyKey, HEADER, Header, SEGMENT, TAG};
use crate::metrics::Counters;

/// A body as it is read. Holds at most one segment, of 64 KiB.
pub struct Reader {
    entry: Arc<Entry>,
    live: Option<Live>,
    next: u32,
    /// Bytes of the next segment that were not asked for.
    skip: usize,
    /// Where the next byte that is given out stands in the body.
    offset: u64,
    step: Option<Step>,
    ended: bool,
}

type Step = Pin<Box<dyn Future<Output = Result<Option<(Live, Bytes)>, Error>> + Send>>;

impl Reader {
    pub(crate) fn new(entry: Arc<Entry>, from: u64) -> Result<Reader, Error> {
        match entry.end() {
            Some(Ok(len)) if from > len => return Err(Error::OutOfRange { len }),
            Some(Err(error)) => return Err(error),
            Some(Ok(_)) | None => {}
        }
        let segment = SEGMENT as u64;
        let next = u32::try_from(from / segment).map_err(|_| Error::TooLarge)?;
        let skip = usize::try_from(from % segment).map_err(|_| Error::TooLarge)?;
        Ok(Reader { entry, live: None, next, skip, offset: from, step: None, ended: false })
    }

    /// The next bytes, none at the end. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<Result<Bytes, Error>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Reader::next`].
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, Error>>> {
        while !self.ended {
            let step = self.step.get_or_insert_with(|| {
                Box::pin(read_next(Arc::clone(&self.entry), self.live.take(), self.next))
            });
            let read = ready!(step.as_mut().poll(context));
            self.step = None;
            match read {
                Ok(Some((live, mut bytes))) => {
                    self.live = Some(live);
                    self.next = self.next.saturating_add(1);
                    let skip = std::mem::take(&mut self.skip);
                    if skip > bytes.len() {
                        return self.end_past();
                    }
                    bytes.advance(skip);
                    self.offset += bytes.len() as u64;
                    if !bytes.is_empty() {
                        return Poll::Ready(Some(Ok(bytes)));
                    }
                }
                Ok(None) => return self.end_past(),
                Err(error) => return self.end_with(error),
            }
        }
        Poll::Ready(None)
    }

    /// There is no more. Of a body that was still being written, only now is it known where it ends.
    fn end_past(&mut self) -> Poll<Option<Result<Bytes, Error>>> {
        self.ended = true;
        self.live = None;
        match self.entry.end() {
            Some(Ok(len)) if self.offset > len => Poll::Ready(Some(Err(Error::OutOfRange { len }))),
            Some(_) | None => Poll::Ready(None),
        }
    }

    fn end_with(&mut self, error: Error) -> Poll<Option<Result<Bytes, Error>>> {
        self.ended = true;
        self.live = None;
        Poll::Ready(Some(Err(error)))
    }
}

/// Waits until a segment is there, and reads it. None is after the last.
async fn read_next(
    entry: Arc<Entry>,
    live: Option<Live>,
    number: u32,
) -> Result<Option<(Live, Bytes)>, Error> {
    let mut progress = entry.progress.subscribe();
    let ready = progress.wait_for(|progress| progress.end.is_some() || progress.segments > number).await;
    let Progress { segments, end } = ready.map_err(|_| Error::Abandoned)?.clone();
    let len = end.transpose()?;
    if number >= segments {
        return Ok(None);
    }
    // The last segment is written together with the end.
    let last = len.filter(|_| number + 1 == segments);
    let plain = match last {
        Some(len) => {
            usize::try_from(len - u64::from(number) * SEGMENT as u64).map_err(|_| Error::TooLarge)?
        }
        None => SEGMENT,
    };
    let ground = Arc::clone(&entry.ground);
    let work = move || {
        let live = match live.or_else(|| entry.live()) {
            Some(live) => live,
            None => open(&entry)?,
        };
        let mut segment = vec![0; plain + TAG];
        let read = live.file.read(format::position(number), &mut segment);
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => Error::Damaged("the file is too short"),
            _ => error.into(),
        })?;
        live.key.open(number, last.is_some(), &mut segment)?;
        Counters::add(&entry.ground.counters.read_bytes, segment.len() as u64);
        Ok(Some((live, Bytes::from(segment))))
    };
    let read = ground.pool.run(work).await;
    read.inspect_err(|error| {
        if matches!(error, Error::Damaged(_)) {
            Counters::add(&ground.counters.damaged, 1);
        }
    })
}

/// Opens a stored body by its name.
fn open(entry: &Entry) -> Result<Live, Error> {
    let opened = entry.ground.disk.open(&entry.id.to_string());
    let file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Missing,
        _ => error.into(),
    })?;
    let mut header = [0; HEADER];
    file.read(0, &mut header)?;
    match BodyKey::unwrap(entry.id, &entry.ground.key, header)? {
        Header::Whole(key) => Ok(Live { file, key: key.into() }),
        Header::Erased => Err(Error::Missing),
    }
}

impl Body for Reader {
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

    /// Exact, once the body's length is known.
    fn size_hint(&self) -> SizeHint {
        match self.entry.end() {
            Some(Ok(len)) => SizeHint::with_exact(len.saturating_sub(self.offset)),
            Some(Err(_)) | None => SizeHint::new(),
        }
    }
}
