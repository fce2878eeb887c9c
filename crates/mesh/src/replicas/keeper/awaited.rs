//! What a write names is made first: its execution waits for that, and nothing else does.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::{Method, StatusCode};
use replica::Meta;
use scope::Site;

use super::peers;
use crate::core::{Core, State};
use crate::replicas::references::Named;
use crate::replicas::request::Name;
use crate::replicas::wire;

/// What waits here for what.
#[derive(Default)]
pub(super) struct Waits(RefCell<BTreeMap<Meta, BTreeSet<Meta>>>);

impl Waits {
    /// Takes down what a resource waits for, and gives it back without what waits for the resource in turn: of those that name
    /// one another, one has to be first.
    fn enter(&self, own: &Meta, mut awaited: BTreeSet<Meta>) -> BTreeSet<Meta> {
        let mut waits = self.0.borrow_mut();
        waits.remove(own);
        awaited.retain(|other| !leads_to(&waits, other, own));
        if !awaited.is_empty() {
            waits.insert(own.clone(), awaited.clone());
        }
        awaited
    }
}

fn leads_to(waits: &BTreeMap<Meta, BTreeSet<Meta>>, from: &Meta, to: &Meta) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(meta) = next.pop() {
        if meta == to {
            return true;
        }
        if seen.insert(meta) {
            next.extend(waits.get(meta).into_iter().flatten());
        }
    }
    false
}

/// Whether the service here can be given what names these, said by this site.
pub(super) async fn are_made(
    core: &Core,
    state: &State,
    waits: &Waits,
    own: &Meta,
    (names, by): (&[Named], &Site),
) -> bool {
    let mut awaited = BTreeSet::new();
    for named in names.iter().filter(|named| named.meta != *own) {
        if is_awaited(core, state, named, by).await {
            awaited.insert(named.meta.clone());
        }
    }
    waits.enter(own, awaited).is_empty()
}

async fn is_awaited(core: &Core, state: &State, named: &Named, by: &Site) -> bool {
    let (Some(replicas), here) = (&core.shared.replicas, &state.settings().site) else { return false };
    match replicas.known.is_made(&Name::from(&named.meta), here) {
        Some(made) => !made,
        None => by != here && named.sites.contains(here) && is_to_come(core, state, named, by).await,
    }
}

/// Nothing is known here of a resource that was to be here. Whether it is still to come says the site that knew it, or if that
/// is no more, another that was to have it. It may have been deleted since, or taken from here.
async fn is_to_come(core: &Core, state: &State, named: &Named, by: &Site) -> bool {
    let (members, here) = (state.sites.members(), &state.settings().site);
    let others = named.sites.iter().filter(|site| *site != here && members.contains(site));
    let asked: Vec<&Site> = if members.contains(by) { vec![by] } else { others.collect() };
    for site in asked {
        // Whoever asks has one of few places: it is not kept for as long as a site is away.
        if !peers::is_up(state, site) {
            return true;
        }
        let name = Bytes::copy_from_slice(named.meta.0.as_bytes());
        let answer = peers::exchange(core, site, Method::POST, wire::THERE, name).await;
        // One that does not say so may know better later.
        if answer.is_none_or(|(status, _)| status != StatusCode::NOT_FOUND) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_those_that_wait_for_one_another_one_goes_on() {
        let meta = |name: &str| Meta(name.into());
        let set = |names: &[&str]| names.iter().map(|name| meta(name)).collect::<BTreeSet<_>>();
        let waits = Waits::default();
        assert_eq!(waits.enter(&meta("a"), set(&["b", "x"])), set(&["b", "x"]));
        assert_eq!(waits.enter(&meta("b"), set(&["c"])), set(&["c"]));
        assert_eq!(waits.enter(&meta("c"), set(&["a"])), set(&[]));
        assert_eq!(waits.enter(&meta("c"), set(&["a", "y"])), set(&["y"]));
        // What goes on waits no more.
        assert_eq!(waits.enter(&meta("a"), set(&[])), set(&[]));
        assert_eq!(waits.enter(&meta("c"), set(&["a"])), set(&["a"]));
    }
}
