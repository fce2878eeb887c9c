//! The ids that services give to what they made.

use bytes::Bytes;
use http::HeaderValue;
use profile::{IdForm, Kind};
use replica::OpId;
use serde_json::Value;

use super::execute::kind;
use crate::core::{Core, State};
use crate::replicas::request::{Kept, Name};
use crate::replicas::understand::plain;

/// The name of what was made: what the answer says at the place of its kind's id, else the address that it gives.
pub(super) fn created(
    state: &State,
    kept: &Kept,
    meta: Option<&Name>,
    location: Option<&HeaderValue>,
    body: Option<&Bytes>,
) -> Option<Name> {
    let collection = kept.path.trim_end_matches('/');
    let collection = if kept.method == "POST" {
        collection
    } else {
        collection.rsplit_once('/').map_or("", |(collection, _)| collection)
    };
    let kind = kind(state, &kept.service, &kept.kind, collection)?;
    named(state, (&kept.service, &kind.name), meta, collection, &said_id(kind, location, body)?)
}

/// The id that an answer gives to what was made.
pub(super) fn said_id(kind: &Kind, location: Option<&HeaderValue>, body: Option<&Bytes>) -> Option<String> {
    let said = body.and_then(|body| {
        let document: Value = serde_json::from_slice(body).ok()?;
        id_text(document.pointer(&kind.id)?)
    });
    let linked = || {
        let address = location?.to_str().ok()?;
        let path = address.split(['?', '#']).next()?.trim_end_matches('/');
        path.rsplit_once('/').map(|(_, id)| id.to_owned())
    };
    said.or_else(linked)
}

/// An id as a service writes it.
pub(super) fn id_text(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// The name of a resource with this id, of the kind of that name. `None`: another site's service may give the id to something
/// else, because it has not the form that the profile says, or that the resource has for clients.
pub(super) fn named(
    state: &State,
    (service, kind): (&str, &str),
    meta: Option<&Name>,
    collection: &str,
    id: &str,
) -> Option<Name> {
    let path = format!("{}/{id}", plain(collection));
    let items = state.settings().profile.kinds.items(service, &path);
    let own = items.into_iter().find(|item| item.below.is_empty() && item.kind.name == kind)?;
    let learnt = || meta.map_or(IdForm::Uuid, |meta| IdForm::of_meta(meta.id()));
    let form = own.kind.ids.clone().unwrap_or_else(learnt);
    form.fits(id).then(|| Name::new(service, own.name))
}

/// Writes down that a service gave what it made no id, or one that another site's service may give to something else.
pub(super) fn note_unnamed(core: &Core, op: &OpId) {
    core.shared.audit.write(&serde_json::json!({
        "replicas": "the answer of the service has no id of the form that the profile says for what it made: that is an ordinary resource of this site, and \
                     the operation is in doubt until you settle it",
        "operation": op.to_string(),
    }));
}
