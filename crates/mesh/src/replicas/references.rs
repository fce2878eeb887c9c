//! Other replicated resources that a write, or a state, names.
//!
//! Both travel with the ids that clients know, and each site's service has its own for the same resources: those are put in
//! when it executes the write, by the rewriter of ordinary requests. Only what is of the same service is replaced. Services ask
//! one another through Archipel, as clients do, and so by the ids of clients.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::Uri;
use ids::{Direction, Found, Refused, Rewriter, Table, is_uuid};
use replica::Meta;
use scope::Site;
use serde::{Deserialize, Serialize};

use super::Known;
use super::request::{Content, Kept, Name};
use super::rewrite::is_json;
use super::understand::plain;

/// One of them, as the site knows it that took the write or gives the state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) meta: Meta,
    /// Where its replicas are.
    pub(crate) sites: BTreeSet<Site>,
}

/// What a write names beside its own resource. `data`: its body is a part of its resource, in which nothing is an id.
pub(crate) fn of(known: &Known, kept: &Kept, data: bool) -> Vec<Named> {
    let texts = [Some(&kept.path), Some(&kept.below), kept.query.as_ref()];
    let json = match &kept.content {
        Content::Inline(bytes) if !data && is_json(kept.content_type()) => Bytes::copy_from_slice(bytes),
        Content::Inline(_) | Content::Spooled { .. } => Bytes::new(),
    };
    let mut names = known.named(&kept.service, texts.into_iter().flatten(), &json);
    let own = plain(kept.path.trim_end_matches('/'));
    names.retain(|named| !own.ends_with(Name::from(&named.meta).path()));
    names
}

/// A JSON text with the ids of the other side in it. One that cannot be read, or that names what is hidden, stays as it is: the
/// service says what it thinks of it.
pub(crate) fn replaced(table: &Table, json: Bytes, direction: Direction) -> Bytes {
    whole(table, json.clone(), direction).unwrap_or(json)
}

/// The same, or why not.
pub(crate) fn whole(table: &Table, json: Bytes, direction: Direction) -> Result<Bytes, Refused> {
    if table.is_empty() {
        return Ok(json);
    }
    let mut rewriter = Rewriter::new(table.clone(), direction);
    let mut chunks: Vec<Bytes> = Vec::new();
    rewriter.push(json, &mut chunks)?;
    rewriter.finish(&mut chunks)?;
    Ok(chunks.concat().into())
}

/// An address with the ids of the service here. In its path only UUIDs: what is written to is among them by the service's own
/// id already, and another form may be that, too.
pub(crate) fn addressed(table: &Table, path: &str, query: Option<&str>) -> Option<Uri> {
    let local = |segment: &str| match table.find(segment, Direction::ToService) {
        Found::Mapped(local) if is_uuid(segment) => spelled_as(segment, local),
        Found::Mapped(_) | Found::Hidden | Found::Unknown => segment.to_owned(),
    };
    let path = path.split('/').map(local).collect::<Vec<_>>().join("/");
    let query = query.map(|query| table.rewrite(query, Direction::ToService).unwrap_or(query.into()));
    match query {
        Some(query) => format!("{path}?{query}").try_into().ok(),
        None => path.try_into().ok(),
    }
}

/// A UUID, with hyphens only if the other has them.
fn spelled_as(other: &str, uuid: String) -> String {
    if other.contains('-') { uuid } else { uuid.replace('-', "") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_ids_of_the_service_here_beside_its_own() {
        let (meta, local) = ("6e8d6d6a-0f4b-4d9e-9d3c-3f2b8f3a1c11", "b1946ac9-2492-4d23-a47c-235b4d2611b8");
        let mut table = Table::new();
        table.insert(meta, local).unwrap();
        let at = |path: &str, query: &str| addressed(&table, path, Some(query)).unwrap().to_string();
        let own = "0c5a8b3e-1f2d-4e6a-9b7c-1d2e3f4a5b6c";
        let is = at(&format!("/v2/networks/{meta}/ports/{own}"), &format!("of={meta}&x=1"));
        assert_eq!(is, format!("/v2/networks/{local}/ports/{own}?of={local}&x=1"));
        let (plain, local_plain) = (meta.replace('-', ""), local.replace('-', ""));
        assert_eq!(at(&format!("/{plain}/x"), ""), format!("/{local_plain}/x?"));
        // What it has here already stays.
        assert_eq!(at(&format!("/networks/{local}"), "a"), format!("/networks/{local}?a"));
    }
}
