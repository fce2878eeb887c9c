//! A read from several sites on the thin path: the walk of the other path, between a head that was read here and an answer
//! that is written here.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, TRAILER};
use http::response::Parts;
use http::{Request, StatusCode, Uri};
use http_body::{Body as _, Frame};
use http1guard::{Body, Head};
use hyper::ext::ReasonPhrase;
use outside::net::keep_alive;
use scope::Plan;
use tokio::net::tcp::WriteHalf;

use super::answer::Framing;
use super::exchange::{Teller, Then};
use super::request::{method, split_line};
use super::wire::{CHUNKED, LAST_CHUNK, put_chunk, put_fields, put_length, put_status, write_both};
use crate::BoxError;
use crate::body::AnswerBody;
use crate::handle;
use crate::inflow::Incoming;
use crate::streams;
use crate::upstream::decimal;

/// Whether the walk asks several sites for this plan, none of which tells of interim answers.
pub(super) fn is_for_several(plan: &Plan) -> bool {
    !matches!(plan, Plan::Site(_))
}

/// The request as the walk takes it; none if it is not a plain `GET`.
pub(super) fn request(bytes: &[u8], head: &Head) -> Option<Request<Incoming>> {
    if method(bytes, head) != b"GET" || head.body != Body::None {
        return None;
    }
    // One copy, of which all that is in the head are parts.
    let copy = Bytes::copy_from_slice(bytes.get(..head.len)?);
    let lines = copy.get(head.fields..)?.split_inclusive(|byte| *byte == b'\n').filter_map(split_line);
    let mut request = Request::new(Incoming::Nothing);
    *request.uri_mut() = Uri::from_maybe_shared(copy.slice(head.target.clone())).ok()?;
    let mut fields = HeaderMap::with_capacity(16);
    for (name, value) in lines {
        let value = HeaderValue::from_maybe_shared(copy.slice_ref(value)).ok()?;
        fields.try_append(HeaderName::from_bytes(name).ok()?, value).ok()?;
    }
    *request.headers_mut() = fields;
    Some(request)
}

/// Has it answered, and writes the answer.
pub(super) async fn carry_out(
    teller: &Teller<'_>,
    to: &mut WriteHalf<'_>,
    request: Request<Incoming>,
) -> Then {
    let seat = teller.seat;
    let (core, entry) = (Rc::clone(&seat.core), Rc::clone(&seat.entry));
    let Ok(response) = handle::handle(core, entry, seat.address, None, request, None).await;
    let (mut head, body) = response.into_parts();
    let framing = framing(&mut head, &body);
    let mut out = seat.core.buffers.text();
    // The service's own words, which hyper keeps and its server writes.
    let reason = head.extensions.get::<ReasonPhrase>().map(ReasonPhrase::as_bytes);
    put_status(&mut out, head.status, reason);
    put_fields(&mut out, &head.headers);
    match framing {
        Framing::Length(length) => put_length(&mut out, length),
        Framing::Chunked | Framing::Close => out.extend_from_slice(CHUNKED),
        Framing::None => {}
    }
    let last = teller.ends(&mut out);
    match (Telling { teller, to, out: &mut out }).body(body, framing).await {
        Ok(()) if !last => Then::Next(std::time::Instant::now()),
        Ok(()) | Err(_) => Then::Close,
    }
}

/// How the body is framed, as the other path does it. What says so is taken off.
fn framing(head: &mut Parts, body: &AnswerBody) -> Framing {
    let told = head.headers.get(CONTENT_LENGTH).and_then(|length| decimal(length.as_bytes()));
    let length = match head.status {
        StatusCode::NO_CONTENT => {
            head.headers.remove(CONTENT_LENGTH);
            return Framing::None;
        }
        // What the answer to another request would have.
        StatusCode::NOT_MODIFIED => return Framing::None,
        _ => told.or(body.size_hint().exact()),
    };
    head.headers.remove(CONTENT_LENGTH);
    if let Some(length) = length {
        head.headers.remove(TRAILER);
        return Framing::Length(length);
    }
    Framing::Chunked
}

/// An answer on its way to the client.
struct Telling<'t, 'a> {
    teller: &'t Teller<'t>,
    to: &'t mut WriteHalf<'a>,
    /// Its head, until it is written.
    out: &'t mut Vec<u8>,
}

impl Telling<'_, '_> {
    async fn body(mut self, mut body: AnswerBody, framing: Framing) -> io::Result<()> {
        let mut left = match framing {
            Framing::None => 0,
            Framing::Length(length) => length,
            Framing::Chunked | Framing::Close => u64::MAX,
        };
        while left > 0 {
            let Some(frame) = self.next(&mut body).await? else { break };
            // A client that did not ask for trailers gets none.
            let Ok(data) = frame.into_data() else { continue };
            if data.is_empty() {
                continue;
            }
            if let Framing::Length(_) = framing {
                let here = data.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                left -= here as u64;
                self.flush(data.get(..here).unwrap_or_default()).await?;
            } else {
                put_chunk(self.out, &data);
                let ends = body.is_end_stream();
                self.flush(if ends { LAST_CHUNK } else { b"" }).await?;
                if ends {
                    return Ok(());
                }
            }
        }
        match framing {
            Framing::None | Framing::Length(0) => self.flush(b"").await,
            Framing::Length(_) if left > 0 => Err(io::ErrorKind::UnexpectedEof.into()),
            Framing::Length(_) => Ok(()),
            Framing::Chunked | Framing::Close => self.flush(LAST_CHUNK).await,
        }
    }

    /// More of the body. What is to be written does not wait for it.
    async fn next(&mut self, body: &mut AnswerBody) -> io::Result<Option<Frame<Bytes>>> {
        let mut next = poll_fn(|context| Poll::Ready(Pin::new(&mut *body).poll_frame(context))).await;
        if next.is_pending() {
            self.flush(b"").await?;
            next = Poll::Ready(self.awaited(body).await?);
        }
        match next {
            Poll::Ready(next) => next.transpose().map_err(io::Error::other),
            Poll::Pending => Ok(None),
        }
    }

    /// The next of a body that is waited for; an error if the client of a stream is gone meanwhile.
    async fn awaited(&mut self, body: &mut AnswerBody) -> io::Result<Option<Result<Frame<Bytes>, BoxError>>> {
        let (to, mut looks) = (self.to.as_ref(), streams::looks());
        poll_fn(|context| {
            let next = Pin::new(&mut *body).poll_frame(context);
            let now = streams::looks();
            if next.is_pending() && std::mem::replace(&mut looks, now) != now {
                keep_alive(to);
                if let Some(fault) = to.take_error().ok().flatten() {
                    return Poll::Ready(Err(fault));
                }
            }
            next.map(Ok)
        })
        .await
    }

    /// Writes what there is, and this.
    async fn flush(&mut self, after: &[u8]) -> io::Result<()> {
        let pause = self.teller.seat.core.state().settings().timeouts.body_idle;
        write_both(self.to, self.out, after, self.teller.alarm, pause).await?;
        self.out.clear();
        Ok(())
    }
}
