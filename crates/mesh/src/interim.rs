//! Interim answers (1xx) of a service, on their way to its client: hyper's servers cannot send them.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, TE};
use http::{Extensions, HeaderValue, StatusCode};
use http1guard::Aside;

use crate::headers;
use crate::http2::Voice;

/// A longer interim answer is dropped.
pub(crate) const MOST_BYTES: usize = 16 << 10;

/// Tells one client of the interim answers to its request. Its copies are the same.
#[derive(Clone)]
pub(crate) enum Speaker {
    /// A client of HTTP/1.1, or a peer's mesh: by the guard of its connection.
    Http1(http1guard::Speaker),
    Http2(Voice),
    /// A peer's mesh, on a connection that many requests share.
    Peer(link::Speaker),
}

impl Speaker {
    /// Has it told, within the limits of whoever tells.
    pub(crate) fn say(&self, status: StatusCode, fields: &HeaderMap) {
        match self {
            Speaker::Http1(speaker) => speaker.say(head(status, fields)),
            Speaker::Http2(voice) => voice.say(status, cleaned(fields)),
            Speaker::Peer(speaker) => speaker.say(status, &cleaned(fields)),
        };
    }
}

/// The time in which a request is answered: from its head to the head of its final answer.
pub(crate) enum Turn {
    Http1(http1guard::Turn),
    Http2(Voice),
    Peer(link::Speaker),
}

impl Turn {
    /// That of a request of a peer, which hears of interim answers whichever lane it took.
    pub(crate) fn of_leg(extensions: &mut Extensions) -> Option<Turn> {
        match extensions.remove::<Aside>() {
            Some(aside) => Some(Turn::Http1(aside.turn())),
            None => extensions.remove().map(Turn::Peer),
        }
    }

    pub(crate) fn speaker(&self) -> Speaker {
        match self {
            Turn::Http1(turn) => Speaker::Http1(turn.speaker().clone()),
            Turn::Http2(voice) => Speaker::Http2(voice.clone()),
            Turn::Peer(speaker) => Speaker::Peer(speaker.clone()),
        }
    }

    /// Ends it once all that was said goes out before the final answer.
    pub(crate) async fn said(self) {
        match self {
            Turn::Http1(turn) => turn.said().await,
            // It does in any case.
            Turn::Http2(_) | Turn::Peer(_) => {}
        }
    }
}

/// The fields of an interim answer, without what concerned the last hop only, frames a body, or may be set by peers
/// only.
fn cleaned(fields: &HeaderMap) -> HeaderMap {
    let mut fields = fields.clone();
    headers::end_of_hop(&mut fields);
    headers::drop_peers_only(&mut fields);
    fields.remove(CONTENT_LENGTH);
    fields.remove(TE);
    fields
}

/// The head of an interim answer, cleaned.
pub(crate) fn head(status: StatusCode, fields: &HeaderMap) -> Bytes {
    let fields = cleaned(fields);
    let mut head = BytesMut::with_capacity(64 * (fields.len() + 1));
    head.put_slice(b"HTTP/1.1 ");
    head.put_slice(status.as_str().as_bytes());
    head.put_u8(b' ');
    head.put_slice(status.canonical_reason().unwrap_or_default().as_bytes());
    head.put_slice(b"\r\n");
    for (name, value) in fields.iter().filter(|(_, value)| is_one_line(value)) {
        head.put_slice(name.as_str().as_bytes());
        head.put_slice(b": ");
        head.put_slice(value.as_bytes());
        head.put_slice(b"\r\n");
    }
    head.put_slice(b"\r\n");
    head.freeze()
}

/// hyper's parser has seen to it. But these bytes are written as they are, and here it can be seen.
fn is_one_line(value: &HeaderValue) -> bool {
    !value.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}
