//! Headers that are lists of `name=value` members: `tracestate` and `baggage`.
//!
//! Members of others are never read, and stay as they are and in their order.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::error::Error;
use super::percent;

/// Takes out the members of these names for which `take` says so, each given without the properties that
/// follow a `;`.
pub(super) fn take(
    headers: &mut HeaderMap,
    list: &HeaderName,
    names: &[&str],
    mut take: impl FnMut(&[u8]) -> bool,
) {
    let mut taken = false;
    let mut left = Vec::new();
    for value in headers.get_all(list) {
        let mut kept = Vec::new();
        let mut whole = true;
        for member in split(value) {
            let ours = read(member, names).is_some_and(&mut take);
            if ours {
                whole = false;
            } else {
                kept.push(member);
            }
        }
        taken |= !whole;
        if whole {
            left.push(value.clone());
        } else if kept.iter().any(|member| !member.trim_ascii().is_empty()) {
            // Parts of a header's value make a header's value.
            left.extend(HeaderValue::from_bytes(&kept.join(&b',')));
        }
    }
    if taken {
        headers.remove(list);
        for value in left {
            headers.append(list.clone(), value);
        }
    }
}

/// Puts members in front, and keeps up to `most` of those behind them. One header is left: many readers see
/// only the first.
pub(super) fn put_first(
    headers: &mut HeaderMap,
    list: &HeaderName,
    first: &HeaderValue,
    most: usize,
) -> Result<(), Error> {
    let others = headers.get_all(list).iter().flat_map(split);
    let others = others.filter(|member| !member.trim_ascii().is_empty());
    let mut all = first.as_bytes().to_vec();
    for member in others.take(most) {
        all.push(b',');
        all.extend_from_slice(member);
    }
    let value = HeaderValue::try_from(all).map_err(|_| Error::TooManyHeaders)?;
    headers.try_insert(list.clone(), value).map_err(|_| Error::TooManyHeaders)?;
    Ok(())
}

/// How many bytes a list has.
pub(super) fn length(headers: &HeaderMap, list: &HeaderName) -> usize {
    headers.get_all(list).iter().map(|value| value.len() + 1).sum()
}

/// Neither list has quoted strings: a comma always ends a member.
fn split(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',')
}

/// The value of a member that has one of these names.
///
/// The name counts as what it stands for, since some libraries decode names and hand on what they read.
fn read<'m>(member: &'m [u8], names: &[&str]) -> Option<&'m [u8]> {
    let at = member.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (member.get(..at)?, member.get(at + 1..)?);
    let decoded = percent::decode_form(name).ok()?;
    names.contains(&decoded.trim()).then_some(())?;
    Some(value.split(|byte| *byte == b';').next()?.trim_ascii())
}
