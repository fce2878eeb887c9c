//! HTTP/2 of clients, served with `h2` itself: hyper's server cannot send interim answers.
//!
//! A connection is one task, which accepts streams and asks a silent client whether it is there (`alive`). Each stream is
//! a task of its own: it waits for the answer, and gives it up when the client does; then it sends the body (`send`).
//! What a client sends is a body (`arriving`).

mod alive;
mod arriving;
mod send;

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, SendStream};
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TE};
use http::{Request, Response, StatusCode};
use http_body::Body;
use http1guard::MOST_PER_TURN;
use link::Draining;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::body::AnswerBody;
use crate::headers;
use crate::interim::MOST_BYTES;
use crate::settings::Settings;

use alive::Alive;
pub(crate) use arriving::Arriving;

/// What a client may send before it is read: of one request, and of all on one connection.
const WINDOW_BYTES: u32 = 1 << 20;

/// What waits to be sent of one answer, at most.
const SEND_BYTES: usize = 400 << 10;

/// Streams at the same time on one connection.
const STREAMS: u32 = 256;

/// Streams that a client may have reset for its own mistakes before its connection is closed.
const MISTAKES: usize = 1024;

/// Serves one client until it goes, or is drained: then the requests in flight are answered.
pub(crate) async fn serve<IO, S, F>(stream: IO, settings: &Settings, mut draining: Draining, service: S)
where
    IO: AsyncRead + AsyncWrite + Unpin,
    S: Fn(Request<Arriving>, Voice) -> F,
    F: Future<Output = Result<Response<AnswerBody>, Infallible>> + 'static,
{
    let times = &settings.timeouts;
    let mut builder = Builder::new();
    builder
        .initial_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(u32::try_from(settings.limits.header_bytes).unwrap_or(u32::MAX))
        .max_concurrent_streams(STREAMS)
        .max_local_error_reset_streams(Some(MISTAKES))
        .max_send_buffer_size(SEND_BYTES);
    let Ok(Ok(mut connection)) = timeout(times.header, builder.handshake::<_, Bytes>(stream)).await else {
        return;
    };
    let alive = Rc::new(Alive::new());
    let mut silence = pin!(alive.silence(connection.ping_pong(), times.idle / 2, times.header));
    let (mut drained, mut silent) = (false, false);
    loop {
        tokio::select! {
            biased;
            // What is seldom comes first: a client that always says something could keep it waiting.
            () = draining.started(), if !drained => {
                drained = true;
                connection.graceful_shutdown();
            }
            () = silence.as_mut(), if !silent => {
                silent = true;
                connection.abrupt_shutdown(Reason::NO_ERROR);
            }
            accepted = connection.accept() => {
                let Some(Ok((request, respond))) = accepted else { break };
                alive.heard();
                let (request, voice) = (Arriving::of(request, &alive), Voice::new(respond));
                spawn_local(answer(service(request, voice.clone()), voice));
            }
        }
    }
}

/// Waits for an answer, and sends it. A client that resets the stream does not want it any more.
async fn answer(answer: impl Future<Output = Result<Response<AnswerBody>, Infallible>>, voice: Voice) {
    let mut waited = pin!(answer);
    let answer = poll_fn(|context| match waited.as_mut().poll(context) {
        Poll::Ready(answer) => Poll::Ready(Some(answer)),
        Poll::Pending => voice.poll_reset(context).map(|()| None),
    });
    let Some(Ok(answer)) = answer.await else {
        return voice.hush();
    };
    let (head, body) = answer.into_parts();
    let mut head = Response::from_parts(head, ());
    headers::end_of_hop(head.headers_mut());
    head.headers_mut().remove(TE);
    let ends = body.is_end_stream();
    if let Some(length) = body.size_hint().exact().filter(|_| !ends) {
        head.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| HeaderValue::from(length));
    }
    if let Some(stream) = voice.answer(head, ends).filter(|_| !ends) {
        send::body(body, stream).await;
    }
}

/// Answers on one stream: interim answers, and then the answer. Its copies are the same.
#[derive(Clone)]
pub(crate) struct Voice(Arc<Mutex<Shared>>);

/// Only one core uses it; what hears interim answers must be `Send`.
struct Shared {
    /// Until the answer.
    respond: Option<SendResponse<Bytes>>,
    /// What was said before it.
    count: usize,
    bytes: usize,
}

impl Voice {
    fn new(respond: SendResponse<Bytes>) -> Voice {
        Voice(Arc::new(Mutex::new(Shared { respond: Some(respond), count: 0, bytes: 0 })))
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an interim answer, if the answer has not begun, and within limits: a client that does not read keeps no
    /// more than that. Says whether it does.
    pub(crate) fn say(&self, status: StatusCode, fields: HeaderMap) -> bool {
        let mut shared = self.shared();
        let bytes: usize = fields.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if shared.count >= MOST_PER_TURN || shared.bytes + bytes > MOST_BYTES {
            return false;
        }
        let Some(respond) = &mut shared.respond else { return false };
        let mut head = Response::new(());
        *head.status_mut() = status;
        *head.headers_mut() = fields;
        let said = respond.send_informational(head).is_ok();
        shared.count += 1;
        shared.bytes += bytes;
        said
    }

    /// Whether the client gave the stream up, or is gone.
    fn poll_reset(&self, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.shared().respond {
            Some(respond) => respond.poll_reset(context).map(|_| ()),
            None => Poll::Pending,
        }
    }

    /// Says nothing any more: nobody listens.
    fn hush(&self) {
        self.shared().respond = None;
    }

    /// Sends the head of the answer. Nothing can be said after it.
    fn answer(&self, head: Response<()>, ends: bool) -> Option<SendStream<Bytes>> {
        let mut respond = self.shared().respond.take()?;
        let sent = respond.send_response(head, ends);
        if sent.is_err() {
            respond.send_reset(Reason::INTERNAL_ERROR);
        }
        sent.ok()
    }
}
