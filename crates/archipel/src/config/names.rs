//! Zones and default scopes, against the sites that the file knows.

use std::collections::BTreeMap;
use std::time::Duration;

use scope::{Atlas, Code as Rule, Diagnostic, Dialect, Known, Location, Scope, Site, View};

use super::Peer;
use super::fault::Code;
use super::table::{Entry, Table};

/// The sites, without zones: this one first, the peers in the order of their names.
pub(super) fn atlas(
    site: &Site,
    labels: &BTreeMap<String, String>,
    services: &[&str],
    peers: &BTreeMap<Site, Peer>,
) -> Atlas {
    const HERE: usize = 0;
    let members = std::iter::once(site).chain(peers.keys()).cloned();
    let mut atlas = Atlas::new(members).expect("this site is there");
    atlas.set_services(HERE, services.iter().copied());
    for (label, value) in labels {
        atlas.set_label(HERE, label, value);
    }
    for (name, peer) in peers {
        // A peer that has this site's name is a fault, noted where it is read.
        let Some(position) = atlas.find(name.name()).filter(|position| *position != HERE) else { continue };
        match &peer.services {
            Some(own) => atlas.set_services(position, own.iter().map(String::as_str)),
            None => atlas.set_services(position, services.iter().copied()),
        }
        for (label, value) in &peer.labels {
            atlas.set_label(position, label, value);
        }
        if let Some(rtt) = peer.rtt {
            atlas.set_rtt(HERE, position, rtt);
        }
    }
    atlas
}

/// Reads `[zones]`. They are added to the sites, if these are known; else only their grammar is checked.
/// `all_known`: no sites but these will ever be there.
pub(super) fn zones(
    table: Table<'_>,
    mut atlas: Option<&mut Atlas>,
    dialect: &Dialect,
    all_known: bool,
) -> BTreeMap<String, String> {
    let mut zones = BTreeMap::new();
    let entries = table.entries();
    for entry in &entries {
        let text = entry.string();
        zones.extend(text.map(|text| (entry.name.to_string(), text.to_owned())));
        match (atlas.as_deref_mut(), text) {
            (Some(atlas), text) => define(entry, text, atlas, dialect),
            (None, Some(text)) => note_fault_of(entry, dialect.location(text)),
            (None, None) => {}
        }
    }
    // Only now: a zone may name one that is defined after it.
    if let Some(atlas) = atlas.filter(|_| all_known) {
        for entry in &entries {
            if let Some(Ok(location)) = zones.get(&*entry.name).map(|text| dialect.location(text)) {
                note_unknown_names(entry, &location, atlas);
            }
        }
    }
    zones
}

/// Adds a zone. Without a text, which was noted, it is added all the same.
fn define(entry: &Entry<'_>, text: Option<&str>, atlas: &mut Atlas, dialect: &Dialect) {
    let name = &*entry.name;
    if Site::new(name).is_none() {
        let message = format!("`{}` cannot be a zone's name", name.escape_debug());
        entry.note_key(Code::Name, message, super::read::NAMES);
        return;
    }
    if atlas.find(name).is_some() {
        let message = format!("the zone `{name}` has the name of a site");
        entry.note_key(Code::Conflict, message, "a scope could not tell them apart");
        return;
    }
    note_fault_of(entry, text.map_or(Ok(()), |text| atlas.define_zone(name, text, dialect)));
    if atlas.zone(name).is_none() {
        // One fault is enough: whoever names this zone is not at fault too.
        note_fault_of(entry, atlas.define_zone(name, "here", dialect));
    }
}

fn note_fault_of<T>(entry: &Entry<'_>, read: Result<T, Diagnostic>) {
    if let Err(diagnostic) = read {
        entry.note_scope(diagnostic);
    }
}

/// Notes each name in a zone that is neither a site nor a zone.
fn note_unknown_names(entry: &Entry<'_>, location: &Location, atlas: &Atlas) {
    let zones = atlas.known(Known::Zones);
    let known = atlas.members().iter().map(Site::name).chain(zones.iter().copied());
    location.names(&mut |name, span| {
        if atlas.find(name).is_none() && atlas.zone(name).is_none() {
            entry.note_unknown("site or zone", name, entry.within(span.range()), known.clone());
        }
    });
}

/// Reads a default scope, and plans every service by it: the requests that `service` causes follow it too.
pub(super) fn scope(
    entry: &Entry<'_>,
    service: &str,
    services: &[&str],
    atlas: Option<&Atlas>,
    dialect: &Dialect,
) -> Option<Scope> {
    let scope = match dialect.scope(entry.string()?) {
        Ok(scope) if scope.is_empty() => {
            entry.note(Code::Value, "is an empty scope", "leave it out to have none");
            return None;
        }
        Ok(scope) => scope,
        Err(diagnostic) => {
            entry.note_scope(diagnostic);
            return None;
        }
    };
    let others = services.iter().copied().filter(|other| *other != service);
    for service in std::iter::once(service).chain(others) {
        if let Err(fault) = atlas.map_or(Ok(()), |atlas| plan(&scope, service, atlas, dialect)) {
            match fault {
                Unplanned::Scope(diagnostic) => entry.note_scope(diagnostic),
                Unplanned::NotOffered(site) => {
                    let message = format!("sends `{service}` to `{site}`, which does not offer it");
                    entry.note(Code::Value, message, format!("see `peers.{site}.services`"));
                }
            }
            return None;
        }
    }
    Some(scope)
}

enum Unplanned {
    Scope(Diagnostic),
    NotOffered(Site),
}

fn plan(scope: &Scope, service: &str, atlas: &Atlas, dialect: &Dialect) -> Result<(), Unplanned> {
    let planned = match dialect.plan(scope, service, atlas) {
        // Distances are measured later. What has no site even if every site is near is at fault.
        Err(diagnostic) if diagnostic.code() == Rule::NoSite => {
            dialect.plan(scope, service, &with_all_near(atlas.clone()))
        }
        planned => planned,
    };
    match planned {
        Ok(plan) => {
            let sites = plan.map(|plan| plan.sites()).unwrap_or_default();
            let offers = |site: &Site| atlas.find(site.name()).is_some_and(|at| atlas.offers(at, service));
            sites
                .into_iter()
                .find(|site| !offers(site))
                .map_or(Ok(()), |site| Err(Unplanned::NotOffered(site)))
        }
        // Metrics are measured, never configured: they are not known yet.
        Err(diagnostic) if diagnostic.code() == Rule::UnknownMetric => Ok(()),
        Err(diagnostic) => Err(Unplanned::Scope(diagnostic)),
    }
}

/// The same, with every distance that is unknown as short as it can be.
fn with_all_near(mut atlas: Atlas) -> Atlas {
    let count = atlas.members().len();
    for (from, to) in (0..count).flat_map(|from| (from + 1..count).map(move |to| (from, to))) {
        if atlas.rtt(from, to).is_none() {
            atlas.set_rtt(from, to, Duration::ZERO);
        }
    }
    atlas
}
