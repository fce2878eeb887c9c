//! What cores know of the replicated resources: written by the keeper, read for each request to a service that
//! has any.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use ids::{Index, Table, is_uuid};
use replica::Level;
use scope::Site;

use super::references::Named;
use super::request::Name;

/// Where a resource is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) level: Level,
    /// The sites with a replica.
    pub(crate) members: BTreeSet<Site>,
    /// Its name in this site's own service, where there is a replica here and the service has made it.
    pub(crate) local: Option<Name>,
    /// Whether every site's service has it under the same id.
    pub(crate) chosen: bool,
    /// Whether the replica here may be read: it is there, not behind, not diverged.
    pub(crate) readable: bool,
}

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// A replicated resource, by its name for clients.
    Replicated(Place),
    /// The name that a replica has in this site's service: no client may know it.
    Hidden,
    /// Nothing that is known here.
    Ordinary,
}

#[derive(Debug, Default)]
struct Names {
    places: HashMap<Name, Place>,
    /// Local names that are not the name for clients, each with that.
    hidden: HashMap<Name, Name>,
    /// The ids of the same, for what is rewritten.
    table: Table,
    /// What has other ids at other sites, by those for clients.
    index: Index<Name>,
    /// The paths of what belongs to users, each with how many have one there.
    owned: HashMap<Box<str>, usize>,
}

impl Names {
    fn count_owned(&mut self, path: &str, more: bool) {
        if more {
            *self.owned.entry(path.into()).or_default() += 1;
        } else if let Some(count) = self.owned.get_mut(path) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.owned.remove(path);
            }
        }
    }
}

/// What is known. Services without replicated resources cost one look at a counter.
#[derive(Debug, Default)]
pub(crate) struct Known {
    services: RwLock<BTreeMap<Arc<str>, Names>>,
    /// The bits of the services that have any.
    some: AtomicU64,
}

/// The bit of a service. Two may share one: then the names are looked at.
fn bit(service: &str) -> u64 {
    let hash = service.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    1 << (hash >> 58)
}

impl Known {
    /// Whether a service may have replicated resources. It has none: no lock was taken, and nothing made.
    pub(crate) fn may_have(&self, service: &str) -> bool {
        let some = self.some.load(Ordering::Acquire);
        some != 0 && some & bit(service) != 0
    }

    /// What a name is.
    pub(crate) fn look_up(&self, name: &Name) -> Seen {
        if !self.may_have(name.service()) {
            return Seen::Ordinary;
        }
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let Some(names) = services.get(name.service()) else { return Seen::Ordinary };
        match names.places.get(name) {
            Some(place) => Seen::Replicated(place.clone()),
            None if names.hidden.contains_key(name) => Seen::Hidden,
            None => Seen::Ordinary,
        }
    }

    /// Whether some user has a replicated resource at this path. With none it is those of any path that counts.
    pub(crate) fn is_owned(&self, service: &str, path: Option<&str>) -> bool {
        if !self.may_have(service) {
            return false;
        }
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let Some(names) = services.get(service) else { return false };
        path.map_or(!names.owned.is_empty(), |path| names.owned.contains_key(path))
    }

    /// The ids that are not for clients; nothing where there are none.
    pub(crate) fn table(&self, service: &str) -> Option<Table> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.get(service).map(|names| &names.table).filter(|table| !table.is_empty()).cloned()
    }

    /// What these texts, and this JSON, name that has another id at each site.
    pub(crate) fn named<'t>(
        &self,
        service: &str,
        texts: impl Iterator<Item = &'t String>,
        json: &Bytes,
    ) -> Vec<Named> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let Some(names) = services.get(service).filter(|names| !names.index.is_empty()) else {
            return Vec::new();
        };
        // What cannot be read is not replaced either.
        let mut found: BTreeSet<&Name> = names.index.in_json(json).unwrap_or_default().into_iter().collect();
        found.extend(texts.flat_map(|text| names.index.in_text(text)));
        let known =
            |name: &Name| Some(Named { meta: name.into(), sites: names.places.get(name)?.members.clone() });
        found.into_iter().filter_map(known).collect()
    }

    /// Whether a resource that is to be here has a name in the service here. None: none is to be here, as far as is known.
    pub(crate) fn is_made(&self, name: &Name, here: &Site) -> Option<bool> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let place = services.get(name.service())?.places.get(name);
        place.filter(|place| place.members.contains(here)).map(|place| place.local.is_some())
    }

    /// It was deleted, and what names it does so for ever: its ids go on to stand for one another. Others than UUIDs may be given
    /// again.
    pub(crate) fn keep_ids(&self, name: &Name, local: &Name) {
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(names) = services.get_mut(name.service())
            && is_uuid(local.id())
        {
            let _ = names.table.insert(name.id(), local.id());
        }
    }

    /// Sets what is known of a resource; nothing: it is no replicated resource any more.
    pub(crate) fn set(&self, name: &Name, place: Option<Place>) {
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        let names = services.entry(name.service().into()).or_default();
        let local = place.as_ref().and_then(|place| place.local.clone()).filter(|local| local != name);
        let is_there = place.is_some();
        let is_mapped = place.as_ref().is_some_and(|place| !place.chosen);
        let before = match place {
            Some(place) => names.places.insert(name.clone(), place),
            None => names.places.remove(name),
        };
        if is_there != before.is_some() && name.owner().is_some() {
            names.count_owned(name.path(), is_there);
        }
        if is_mapped != before.as_ref().is_some_and(|before| !before.chosen) {
            if is_mapped {
                names.index.insert(name.id(), name.clone());
            } else {
                names.index.remove(name.id());
            }
        }
        let before = before.and_then(|before| before.local).filter(|before| before != name);
        if before != local {
            if let Some(before) = before {
                names.hidden.remove(&before);
                names.table.remove(name.id());
            }
            if let Some(local) = local {
                // An id that is not of the form of others is found in paths only.
                let _ = names.table.insert(name.id(), local.id());
                names.hidden.insert(local, name.clone());
            }
        }
        let with_some = services.iter().filter(|(_, names)| !names.places.is_empty());
        let some = with_some.fold(0, |some, (service, _)| some | bit(service));
        self.some.store(some, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_without_replicated_resources_is_known_to_have_none() {
        let known = Known::default();
        let place = Place {
            level: Level::Eventual,
            members: BTreeSet::new(),
            local: None,
            chosen: true,
            readable: true,
        };
        let names = ["one", "two"].map(|id| Name::new("image", &format!("/images/{id}")));
        for name in &names {
            known.set(name, Some(place.clone()));
        }
        assert!(known.may_have("image") && !known.may_have("compute") && !known.may_have("network"));
        known.set(&names[0], None);
        assert!(known.may_have("image"));
        known.set(&names[1], None);
        assert!(!known.may_have("image"));
    }

    #[test]
    fn it_is_known_whether_anybody_has_something_at_a_path() {
        let known = Known::default();
        let place = Place {
            level: Level::Eventual,
            members: BTreeSet::new(),
            local: None,
            chosen: true,
            readable: true,
        };
        let names = ["a/one", "a/two"].map(|owner| Name::owned("compute", "/keys/mine", owner));
        let is = || (known.is_owned("compute", Some("/keys/mine")), known.is_owned("compute", None));
        for name in names.iter().chain(&names) {
            known.set(name, Some(place.clone()));
        }
        assert_eq!(is(), (true, true));
        assert!(!known.is_owned("compute", Some("/keys/other")));
        known.set(&names[0], None);
        assert_eq!(is(), (true, true));
        known.set(&names[1], None);
        assert_eq!(is(), (false, false));
    }
}
