//! Where a new resource is to have replicas, and how one site tells another.

use std::collections::BTreeSet;

use http::header::HeaderValue;
use http::request::Parts;
use replica::{Level, Meta, OpId};
use scope::Site;

/// The sites of a new resource, on a leg to one of them, and its level; or the level of a read.
const REPLICAS: &str = "archipel-replicas";
const LEVEL: &str = "archipel-level";
/// The replicated resource that a leg is about, by its name for clients. A site that knows of none has nothing to do with the leg.
/// One of an earlier version passes this over, and asks its service.
const RESOURCE: &str = "archipel-resource";

/// The name of a write on a leg to a site that is to accept it: what the client is told if no answer comes.
const REQUEST: &str = "archipel-request";

/// Where a new resource is to have replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) sites: BTreeSet<Site>,
    pub(crate) level: scope::Level,
}

/// The level at which another site wants a read confirmed.
pub(crate) fn read_level(head: &Parts) -> Option<scope::Level> {
    let level = head.headers.get(LEVEL).filter(|_| !head.headers.contains_key(REPLICAS))?.to_str().ok()?;
    level_of(level)
}

/// Tells another site at which level a read is to be confirmed.
pub(super) fn write_level(head: &mut Parts, level: scope::Level) {
    head.headers.insert(LEVEL, HeaderValue::from_static(level.name()));
}

/// The replicated resource that another site says its leg is about.
pub(crate) fn read_resource(head: &Parts) -> Option<Meta> {
    let name = std::str::from_utf8(head.headers.get(RESOURCE)?.as_bytes()).ok()?;
    Some(Meta(name.into()))
}

/// Tells another site which replicated resource a leg is about.
pub(super) fn write_resource(head: &mut Parts, meta: &Meta) {
    // Names come from requests, whose paths have no control characters.
    if let Ok(value) = HeaderValue::from_bytes(meta.0.as_bytes()) {
        head.headers.insert(RESOURCE, value);
    }
}

/// The name that another site gave a write.
pub(crate) fn read_request(head: &Parts) -> Option<HeaderValue> {
    head.headers.get(REQUEST).cloned()
}

/// Tells another site the name of a write.
pub(super) fn write_request(head: &mut Parts, name: &OpId) {
    if let Ok(value) = HeaderValue::try_from(name.to_string()) {
        head.headers.insert(REQUEST, value);
    }
}

fn level_of(name: &str) -> Option<scope::Level> {
    let levels = [scope::Level::Weak, scope::Level::Eventual, scope::Level::Quorum, scope::Level::Strong];
    levels.into_iter().find(|known| known.name() == name)
}

impl Group {
    /// As another site said it.
    pub(crate) fn read(head: &Parts) -> Option<Group> {
        let text = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        let level = level_of(text(LEVEL)?)?;
        let sites = text(REPLICAS)?.split(',').map(|site| Site::new(site.trim().trim_matches('"')));
        Some(Group { sites: sites.collect::<Option<_>>()?, level })
    }

    pub(super) fn write(&self, head: &mut Parts) {
        let sites: Vec<String> = self.sites.iter().map(|site| format!("\"{site}\"")).collect();
        for (name, text) in [(REPLICAS, sites.join(", ")), (LEVEL, self.level.name().to_owned())] {
            // The names of sites are printable ASCII.
            if let Ok(value) = HeaderValue::try_from(text) {
                head.headers.insert(name, value);
            }
        }
    }

    /// As the machine knows it.
    pub(super) fn level(&self) -> Level {
        match self.level {
            scope::Level::Weak => Level::Weak,
            scope::Level::Eventual => Level::Eventual,
            scope::Level::Quorum => Level::Quorum,
            scope::Level::Strong => Level::Strong,
        }
    }
}
