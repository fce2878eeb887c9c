//! The body of an answer, sent as fast as the client reads.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body::{Body, Frame};

use crate::BoxError;
use crate::body::AnswerBody;

/// Sends it to its end, or until the client does not want it any more. One that fails is reset: whatever failed is
/// nothing that the client may take for its own connection's.
pub(super) async fn body(mut body: AnswerBody, mut stream: SendStream<Bytes>) {
    loop {
        let next = poll_fn(|context| next(&mut body, &mut stream, context)).await;
        let sent = match next {
            Next::Frame(frame) => match frame.into_data() {
                Ok(bytes) => {
                    let ends = body.is_end_stream();
                    if !bytes.is_empty() && !has_room(&mut stream).await {
                        return;
                    }
                    stream.send_data(bytes, ends).map(|()| ends)
                }
                Err(frame) => match frame.into_trailers() {
                    Ok(trailers) => {
                        // No more data: what was reserved for it is for others.
                        stream.reserve_capacity(0);
                        stream.send_trailers(trailers).map(|()| true)
                    }
                    Err(_) => Ok(false),
                },
            },
            Next::End => stream.send_data(Bytes::new(), true).map(|()| true),
            Next::Broken => {
                stream.send_reset(Reason::INTERNAL_ERROR);
                return;
            }
            Next::Unwanted => return,
        };
        if !matches!(sent, Ok(false)) {
            return;
        }
    }
}

enum Next {
    Frame(Frame<Bytes>),
    End,
    Broken,
    Unwanted,
}

fn next(body: &mut AnswerBody, stream: &mut SendStream<Bytes>, context: &mut Context<'_>) -> Poll<Next> {
    if stream.poll_reset(context).is_ready() {
        return Poll::Ready(Next::Unwanted);
    }
    let frame: Option<Result<_, BoxError>> = ready!(Pin::new(body).poll_frame(context));
    Poll::Ready(match frame {
        Some(Ok(frame)) => Next::Frame(frame),
        Some(Err(_)) => Next::Broken,
        None => Next::End,
    })
}

/// Waits until some of a piece may be sent. No more than a byte is reserved before it is: what is reserved for one that
/// waits is lost to the other streams of its connection. Says whether it may be sent at all.
async fn has_room(stream: &mut SendStream<Bytes>) -> bool {
    stream.reserve_capacity(1);
    poll_fn(|context| {
        if stream.poll_reset(context).is_ready() {
            return Poll::Ready(false);
        }
        while stream.capacity() == 0 {
            match ready!(stream.poll_capacity(context)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(false),
            }
        }
        Poll::Ready(true)
    })
    .await
}
