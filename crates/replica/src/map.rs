//! Where a resource's replicas are: `meta → {site: local id}`. Kept at the involved sites, nowhere else.

use std::collections::BTreeSet;

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::clock::Stamp;
use crate::few::Few;
use crate::operation::{Level, LocalId, Meta};

/// Who gives a resource its meta-identifier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Naming {
    /// The service accepts a client-chosen id: this one, which is the local id at every site.
    Chosen(Meta),
    /// Ids are UUIDs: the meta-identifier is the first replica's own, and the others map it to theirs.
    FirstReplica,
    /// The meta-identifier is this one, which no service gives by itself: every site maps it to its own.
    Allocated(Meta),
}

impl Naming {
    /// The meta-identifier, where it is known before anything is made.
    #[must_use]
    pub fn known(&self) -> Option<&Meta> {
        match self {
            Naming::Chosen(meta) | Naming::Allocated(meta) => Some(meta),
            Naming::FirstReplica => None,
        }
    }
}

/// A change of where replicas are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Change {
    /// A replica at one more site, copied from one that is there.
    Extend(Site),
    /// No replica at this site any more.
    Shrink(Site),
    /// Both at once.
    Move {
        /// The site that loses its replica.
        from: Site,
        /// The site that gets one.
        to: Site,
    },
    /// The replicas become ordinary local resources, each its own. For ever.
    Detach,
}

/// Why a change cannot be made. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unchangeable {
    /// The resource was detached.
    Detached,
    /// That site has a replica already.
    AlreadyThere,
    /// That site has none.
    NotThere,
    /// It is the last: delete the resource, or detach it.
    Last,
    /// Its writes have one order, whose members are fixed.
    Ordered,
}

/// What is known of one site's replica. The later change wins, of two at once the higher site's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub(crate) struct Place {
    pub(crate) changed: (Stamp, Site),
    pub(crate) member: bool,
    pub(crate) local: Option<LocalId>,
}

/// The map of one resource. Maps that were changed apart are merged, with the same outcome everywhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct ReplicaMap {
    /// The resource.
    pub meta: Meta,
    /// Its level, fixed when it was created.
    pub level: Level,
    /// Whether each site's local id is the meta-identifier.
    pub chosen: bool,
    pub(crate) places: Few<Site, Place>,
    pub(crate) detached: bool,
}

impl ReplicaMap {
    /// The map of a new resource, made at `by`.
    #[must_use]
    pub fn new(
        meta: Meta,
        level: Level,
        chosen: bool,
        sites: &BTreeSet<Site>,
        stamp: Stamp,
        by: &Site,
    ) -> Self {
        let place = |_| Place { changed: (stamp, by.clone()), member: true, local: None };
        let places = sites.iter().map(|site| (site.clone(), place(site))).collect();
        ReplicaMap { meta, level, chosen, places, detached: false }
    }

    /// The sites with a replica. Two that removed each other's last one, apart, leave one: the site whose
    /// removal came last.
    #[must_use]
    pub fn members(&self) -> BTreeSet<&Site> {
        if self.detached {
            return BTreeSet::new();
        }
        let members: BTreeSet<_> =
            self.places.iter().filter(|(_, place)| place.member).map(|(site, _)| site).collect();
        if members.is_empty() {
            let last = self.places.iter().max_by_key(|(site, place)| (&place.changed, *site));
            return last.map(|(site, _)| site).into_iter().collect();
        }
        members
    }

    /// Every site that has, or had, a replica: each must learn of changes.
    pub fn involved(&self) -> impl Iterator<Item = &Site> {
        self.places.keys()
    }

    /// Since when a site has its replica, or has none: which change made it so.
    pub(crate) fn since(&self, site: &Site) -> Option<&(Stamp, Site)> {
        self.places.get(site).map(|place| &place.changed)
    }

    /// Whether the replicas were let go.
    #[must_use]
    pub fn is_detached(&self) -> bool {
        self.detached
    }

    /// The local id at a site, if it is known.
    #[must_use]
    pub fn local(&self, site: &Site) -> Option<LocalId> {
        if self.chosen {
            return Some(LocalId(self.meta.0.clone()));
        }
        self.places.get(site)?.local.clone()
    }

    /// A site's service gave its replica this id.
    pub fn set_local(&mut self, site: &Site, local: LocalId) {
        if let Some(place) = self.places.get_mut(site).filter(|_| !self.chosen) {
            place.local = Some(local);
        }
    }

    /// Changes where the replicas are.
    pub fn change(&mut self, change: &Change, stamp: Stamp, by: &Site) -> Result<(), Unchangeable> {
        if self.detached {
            return Err(Unchangeable::Detached);
        }
        let (add, remove) = match change {
            Change::Extend(site) => (Some(site), None),
            Change::Shrink(site) => (None, Some(site)),
            Change::Move { from, to } => (Some(to), Some(from)),
            Change::Detach => {
                self.detached = true;
                return Ok(());
            }
        };
        let members = self.members();
        if add.is_some_and(|site| members.contains(site)) {
            return Err(Unchangeable::AlreadyThere);
        }
        if remove.is_some_and(|site| !members.contains(site)) {
            return Err(Unchangeable::NotThere);
        }
        if add.is_none() && members.len() == 1 {
            return Err(Unchangeable::Last);
        }
        for (site, member) in add.map(|site| (site, true)).into_iter().chain(remove.map(|site| (site, false)))
        {
            let changed = (stamp, by.clone());
            self.places.insert(site.clone(), Place { changed, member, local: None });
        }
        Ok(())
    }

    /// What was deleted is made anew, and has its replicas at these sites, not where it had them. Not if it was let go.
    pub(crate) fn place_anew(&mut self, sites: &BTreeSet<Site>, stamp: Stamp, by: &Site) {
        let members: BTreeSet<Site> = self.members().into_iter().cloned().collect();
        for site in members.symmetric_difference(sites) {
            let place = Place { changed: (stamp, by.clone()), member: sites.contains(site), local: None };
            self.places.insert(site.clone(), place);
        }
    }

    /// Takes in what a site says. By which id its own service has its replica it knows best: that may be another than
    /// it was, where the replica was made anew. True where something was news.
    pub fn merge_from(&mut self, other: &ReplicaMap, from: &Site) -> bool {
        let before = self.clone();
        self.merge(other);
        if let (Some(ours), Some(theirs)) = (self.places.get_mut(from), other.places.get(from))
            && ours.changed == theirs.changed
            && theirs.local.is_some()
        {
            ours.local.clone_from(&theirs.local);
        }
        *self != before
    }

    /// Takes in what is known elsewhere. True where that was news.
    pub fn merge(&mut self, other: &ReplicaMap) -> bool {
        let before = self.clone();
        self.detached |= other.detached;
        for (site, theirs) in other.places.iter() {
            match self.places.get_mut(site) {
                Some(ours) if ours.changed > theirs.changed => {}
                Some(ours) if ours.changed == theirs.changed => {
                    ours.local = ours.local.take().or_else(|| theirs.local.clone());
                }
                _ => {
                    self.places.insert(site.clone(), theirs.clone());
                }
            }
        }
        *self != before
    }

    /// The same map under the name that the first replica gave.
    pub(crate) fn named(mut self, meta: Meta) -> ReplicaMap {
        self.meta = meta;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> Site {
        Site::new(name).unwrap()
    }

    fn at(wall_ms: u64) -> Stamp {
        Stamp { wall_ms, logical: 0 }
    }

    fn map(chosen: bool, sites: &[&str]) -> ReplicaMap {
        let sites = sites.iter().map(|name| site(name)).collect();
        ReplicaMap::new(Meta("42".into()), Level::Eventual, chosen, &sites, at(0), &site("A"))
    }

    fn members(map: &ReplicaMap) -> Vec<&str> {
        map.members().into_iter().map(Site::name).collect()
    }

    #[test]
    fn a_chosen_id_is_the_same_everywhere_and_others_are_mapped() {
        assert_eq!(map(true, &["A", "B"]).local(&site("B")), Some(LocalId("42".into())));
        let mut mapped = map(false, &["A", "B"]);
        assert_eq!(mapped.local(&site("B")), None);
        mapped.set_local(&site("B"), LocalId("77".into()));
        assert_eq!(mapped.local(&site("B")), Some(LocalId("77".into())));
    }

    #[test]
    fn replicas_are_added_removed_moved_and_let_go() {
        let (a, b, c) = (site("A"), site("B"), site("C"));
        let mut map = map(true, &["A"]);
        assert_eq!(map.change(&Change::Shrink(a.clone()), at(1), &a), Err(Unchangeable::Last));
        assert_eq!(map.change(&Change::Shrink(b.clone()), at(1), &a), Err(Unchangeable::NotThere));
        map.change(&Change::Extend(b.clone()), at(1), &a).unwrap();
        assert_eq!(map.change(&Change::Extend(b.clone()), at(2), &a), Err(Unchangeable::AlreadyThere));
        map.change(&Change::Move { from: b, to: c }, at(3), &a).unwrap();
        assert_eq!(members(&map), ["A", "C"]);
        map.change(&Change::Detach, at(4), &a).unwrap();
        assert_eq!(map.change(&Change::Extend(a.clone()), at(5), &a), Err(Unchangeable::Detached));
        assert!(members(&map).is_empty());
    }

    #[test]
    fn a_replica_that_left_and_came_back_has_no_id_yet() {
        let (a, b) = (site("A"), site("B"));
        let mut map = map(false, &["A", "B"]);
        map.set_local(&b, LocalId("77".into()));
        let old = map.clone();
        map.change(&Change::Shrink(b.clone()), at(1), &a).unwrap();
        map.change(&Change::Extend(b.clone()), at(2), &a).unwrap();
        map.merge(&old);
        assert_eq!(map.local(&b), None);
    }

    #[test]
    fn a_site_knows_best_by_which_id_its_service_has_its_replica() {
        let (a, b) = (site("A"), site("B"));
        let mut ours = map(false, &["A", "B"]);
        ours.set_local(&b, LocalId("77".into()));
        let (old, mut elsewhere) = (ours.clone(), ours.clone());
        // Made anew, by an id that comes before the old one in no order that means anything.
        ours.set_local(&b, LocalId("11".into()));
        assert!(!ours.merge_from(&old, &a));
        assert_eq!(ours.local(&b), Some(LocalId("11".into())));
        assert!(elsewhere.merge_from(&ours, &b));
        assert!(!elsewhere.merge(&old));
        assert_eq!(elsewhere, ours);
    }

    #[test]
    fn maps_changed_apart_merge_to_the_same_and_never_to_nothing() {
        let (a, b) = (site("A"), site("B"));
        let (mut one, mut two) = (map(true, &["A", "B"]), map(true, &["A", "B"]));
        one.change(&Change::Shrink(b.clone()), at(1), &a).unwrap();
        two.change(&Change::Shrink(a.clone()), at(2), &b).unwrap();
        let apart = one.clone();
        assert!(one.merge(&two) && two.merge(&apart));
        assert_eq!(one, two);
        assert_eq!(members(&one), ["A"]);
        assert!(!one.merge(&two));
    }
}
