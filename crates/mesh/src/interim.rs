//! Interim answers (1xx) of a service, as bytes for its client: hyper's server cannot send them.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{CONTENT_LENGTH, HeaderMap, TE};
use http::{HeaderValue, StatusCode};

use crate::headers;

/// A longer interim answer is dropped.
pub(crate) const MOST_BYTES: usize = 16 << 10;

/// The head of an interim answer, without what concerned the last hop only, frames a body, or may be set by
/// peers only.
pub(crate) fn head(status: StatusCode, fields: &HeaderMap) -> Bytes {
    let mut fields = fields.clone();
    headers::end_of_hop(&mut fields);
    headers::drop_peers_only(&mut fields);
    fields.remove(CONTENT_LENGTH);
    fields.remove(TE);
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
