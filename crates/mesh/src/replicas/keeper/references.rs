//! Ids of other replicated resources in what is written to a service here, and in what is read of it: each site's service has its
//! own for them.

use std::borrow::Cow;
use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;

use crate::core::{Core, State};
use crate::replicas::request::{Content, Kept, Name};
use crate::replicas::rewrite::References;

/// A write names what is to be here, and is not made yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Awaited;

/// A kept write with the ids that the service here has for what it names.
pub(super) fn local<'k>(
    core: &Core,
    state: &State,
    own: &Name,
    kept: &'k Kept,
) -> Result<Cow<'k, Kept>, Awaited> {
    let Content::Inline(bytes) = &kept.content else { return Ok(Cow::Borrowed(kept)) };
    // A file may have an id in it by chance.
    let of_type = |(name, value): &(String, Vec<u8>)| {
        name.eq_ignore_ascii_case("content-type")
            && value.to_ascii_lowercase().windows(4).any(|part| part == b"json")
    };
    if !kept.headers.iter().any(of_type) {
        return Ok(Cow::Borrowed(kept));
    }
    let document = to_service(core, state, own, Bytes::copy_from_slice(bytes))?;
    if *document == **bytes {
        return Ok(Cow::Borrowed(kept));
    }
    Ok(Cow::Owned(Kept { content: Content::Inline(document.to_vec()), ..kept.clone() }))
}

/// A document as the service here can read it.
pub(super) fn to_service(core: &Core, state: &State, own: &Name, document: Bytes) -> Result<Bytes, Awaited> {
    let Some(replicas) = &core.shared.replicas else { return Ok(document) };
    if let Ok(value) = serde_json::from_slice::<Value>(&document) {
        let mut ids = BTreeSet::new();
        collect(&value, &mut ids);
        if replicas.known.is_awaited(own, &state.settings().site, &ids) {
            return Err(Awaited);
        }
    }
    let references = References::of(&replicas.known, own.service());
    Ok(match references {
        Some(references) => references.to_service(document),
        None => document,
    })
}

/// A document of the service here, as other sites can read it.
pub(super) fn to_client(core: &Core, own: &Name, document: Bytes) -> Bytes {
    let replicas = core.shared.replicas.as_ref();
    match replicas.and_then(|replicas| References::of(&replicas.known, own.service())) {
        Some(references) => references.to_client(document),
        None => document,
    }
}

/// The strings of a document that are as long as a UUID.
fn collect<'v>(value: &'v Value, ids: &mut BTreeSet<&'v str>) {
    match value {
        Value::String(text) if matches!(text.len(), 32 | 36) => {
            ids.insert(text);
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, ids)),
        Value::Object(members) => members.values().for_each(|value| collect(value, ids)),
        _ => {}
    }
}
