//! W3C `traceparent`. Services that are traced drop a `tracestate` that has no valid one beside it.

use http::header::{HeaderMap, HeaderValue};

use super::error::Error;
use super::hex;
use super::names::TRACEPARENT;

/// Makes a `traceparent` unless there is a valid one.
pub(super) fn ensure(headers: &mut HeaderMap, random: &mut dyn FnMut(&mut [u8])) -> Result<(), Error> {
    let mut values = headers.get_all(TRACEPARENT).iter();
    if let (Some(only), None) = (values.next(), values.next())
        && is_valid(only.as_bytes())
    {
        return Ok(());
    }
    let value = HeaderValue::from_bytes(&fresh(random)).map_err(|_| Error::TooManyHeaders)?;
    headers.try_insert(TRACEPARENT, value).map_err(|_| Error::TooManyHeaders)?;
    Ok(())
}

/// A new one.
pub(super) fn fresh(random: &mut dyn FnMut(&mut [u8])) -> [u8; 55] {
    let mut bits = [0; 24];
    random(&mut bits);
    // Neither id may be all zeros: their last bits are ones.
    for last in [15, 23] {
        bits.get_mut(last).into_iter().for_each(|byte: &mut u8| *byte |= 1);
    }
    let mut text = *b"00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01";
    let (trace, parent) = bits.split_at(16);
    // Sampled: it is what most tracers decide by themselves for a request without a `traceparent`, and "not
    // sampled" would end the traces of every scoped request.
    hex::write(text.get_mut(3..35).unwrap_or_default(), trace);
    hex::write(text.get_mut(36..52).unwrap_or_default(), parent);
    text
}

pub(super) fn is_valid(text: &[u8]) -> bool {
    let mut fields = text.split(|byte| *byte == b'-');
    let mut field = |length| {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        fields.next().filter(|field: &&[u8]| field.len() == length && field.iter().all(is_digit))
    };
    let (Some(version), Some(trace), Some(parent), Some(_)) = (field(2), field(32), field(16), field(2))
    else {
        return false;
    };
    let some = |id: &[u8]| id.iter().any(|digit| *digit != b'0');
    // Later versions may say more behind the flags.
    version != b"ff" && some(trace) && some(parent) && (version != b"00" || fields.next().is_none())
}
