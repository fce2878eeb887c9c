//! What an answer says of its length, said in one way. hyper reads more than it writes: a length beside chunks would
//! frame the answer a second time for the client, with another end.

use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};

/// Leaves one length at most. Says whether the connection is of use after the answer; none if its body is coded in
/// a way that hyper leaves in the content.
pub(super) fn settle(headers: &mut HeaderMap, status: StatusCode, is_head: bool) -> Option<bool> {
    if headers.contains_key(TRANSFER_ENCODING) {
        let has_body = !is_head && !matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
        if has_body && !is_chunked(headers) {
            return None;
        }
        // With two framings, the service may think of another end than the one that was read.
        return Some(headers.remove(CONTENT_LENGTH).is_none());
    }
    if headers.contains_key(CONTENT_LENGTH) && !is_plain(headers) {
        match length(headers.get_all(CONTENT_LENGTH).iter().map(HeaderValue::as_bytes)) {
            Some(length) => _ = headers.insert(CONTENT_LENGTH, HeaderValue::from(length)),
            // Of an answer without a body: of others hyper has refused it.
            None => _ = headers.remove(CONTENT_LENGTH),
        }
    }
    Some(true)
}

fn is_chunked(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let first = codings.next().is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"chunked"));
    first && codings.next().is_none()
}

fn is_plain(headers: &HeaderMap) -> bool {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let first = lengths.next().is_some_and(|length| decimal(length.as_bytes()).is_some());
    first && lengths.next().is_none()
}

/// The length that these fields agree on.
fn length<'f>(fields: impl IntoIterator<Item = &'f [u8]>) -> Option<u64> {
    let mut agreed = None;
    for text in fields.into_iter().flat_map(|field| field.split(|byte| *byte == b',')) {
        let length = decimal(text.trim_ascii())?;
        if agreed.is_some_and(|agreed| agreed != length) {
            return None;
        }
        agreed = Some(length);
    }
    agreed
}

/// A number of digits alone.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}
