//! What cores know of the replicated resources: written by the keeper, read for each request to a service that
//! has any.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use ids::{Index, PlacedTable, Table, is_uuid};
use merge::Unconfirmed;
use profile::IdForm;
use replica::Level;
use scope::Site;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::declared::is_found_anywhere;
use super::forms::LearntForms;
use super::references::Named;
use super::request::Name;
use crate::Audit;

/// So many names that mean two things are remembered.
const MAX_BOTH: usize = 1000;
/// For so long after it was last seen. Whoever deletes the service's own record waits no longer.
const BOTH_AGE: Duration = Duration::from_mins(1);

/// So long after a site is known to have made a resource, lists that are merged may have been told there before: about as long as
/// a request to another site takes at most.
const LATE: Duration = Duration::from_secs(15);
/// So many are remembered, for each service.
const MAX_LATE: usize = 128;

/// Where a resource is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// The other sites that are not known yet to have made theirs, where the one here is made.
    pub(crate) unconfirmed: BTreeSet<Site>,
    /// How much of it the service here shows.
    pub(crate) shown: Shown,
    /// It was deleted, and the service here has yet to execute that.
    pub(crate) deleted: bool,
}

impl Place {
    /// True where clients find it no more, though the service here has yet to execute its deletion.
    pub(crate) fn is_gone_for_clients(&self) -> bool {
        self.deleted && self.level == Level::Eventual
    }
}

/// How much the service here shows of what it executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Shown {
    /// All of it: it does not while something is executed again.
    pub(crate) whole: bool,
    /// How often it did not any more. Counted by [`Known::set`].
    pub(crate) erasures: u32,
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

/// A [`Place`] in few bytes: most of it is the same for most resources, and once in memory.
#[derive(Debug)]
struct Shelved {
    /// Without what is beside it here.
    common: Arc<Place>,
    local: Option<Name>,
    erasures: u32,
}

impl Shelved {
    fn place(&self) -> Place {
        let shown = Shown { erasures: self.erasures, ..self.common.shown };
        Place { local: self.local.clone(), shown, ..(*self.common).clone() }
    }
}

/// So many different ones are shared at once; those of before stay with their resources.
const MAX_COMMON: usize = 1024;

#[derive(Debug, Default)]
struct Names {
    places: HashMap<Name, Shelved>,
    common: BTreeSet<Arc<Place>>,
    /// Local names that are not the name for clients.
    hidden: HashSet<Name>,
    /// The resources that have those which a service may give again: no UUIDs. What is no replicated resource has itself.
    holders: HashMap<Name, Name>,
    /// The ids of the same, for what is rewritten.
    table: Table,
    /// Those of the ids that are no UUIDs, by collections: they are replaced where they are declared only.
    scoped: Arc<BTreeMap<Name, PlacedTable>>,
    /// What has other ids at other sites, by those for clients.
    index: Index<Name>,
    /// The paths of what belongs to users, each with how many have one there.
    owned: HashMap<Box<str>, usize>,
    /// What some site is not known yet to have made.
    unconfirmed: BTreeSet<Name>,
    /// Resources that these sites are known to have made since then, the oldest first.
    lately: VecDeque<(Instant, Name, BTreeSet<Site>)>,
}

impl Names {
    fn shelve(&mut self, mut place: Place) -> Shelved {
        let (local, erasures) = (place.local.take(), std::mem::take(&mut place.shown.erasures));
        let shared = self.common.get(&place).cloned();
        let common = shared.unwrap_or_else(|| {
            if self.common.len() >= MAX_COMMON {
                self.common.clear();
            }
            let common = Arc::new(place);
            self.common.insert(Arc::clone(&common));
            common
        });
        Shelved { common, local, erasures }
    }

    /// What is `name` for clients is `local` here.
    fn map(&mut self, name: &Name, local: &Name) {
        if is_found_anywhere(name, local) {
            let _ = self.table.insert(name.id(), local.id());
        } else {
            // Any other text may be something else where it is found.
            let table = Arc::make_mut(&mut self.scoped).entry(name.with_id("")).or_default();
            let _ = table.insert(name.id(), local.id());
        }
    }

    /// These sites are known to have made it, from now on.
    fn confirm(&mut self, name: &Name, made: BTreeSet<Site>) {
        let is_old = |(since, ..): &(Instant, Name, BTreeSet<Site>)| since.elapsed() >= LATE;
        while self.lately.len() >= MAX_LATE || self.lately.front().is_some_and(is_old) {
            self.lately.pop_front();
        }
        self.lately.push_back((Instant::now(), name.clone(), made));
    }

    /// True where the service here has given this local name of a resource to another one since.
    fn is_anothers(&self, name: &Name, local: &Name) -> bool {
        self.holders.get(local).is_some_and(|holder| holder != name)
    }

    /// The service here has this resource as `local`. It gave that name before to what it has no more, if to anything: but not to
    /// what was deleted.
    fn hold(&mut self, name: &Name, local: Name) {
        if !is_uuid(local.id()) {
            let deleted = |name: &Name| self.places.get(name).is_some_and(|place| place.common.deleted);
            match self.holders.get(&local).filter(|holder| *holder != name).cloned() {
                Some(holder) if deleted(name) && !deleted(&holder) => return,
                Some(holder) => self.unmap(&holder),
                None => {}
            }
            self.holders.insert(local.clone(), name.clone());
        }
        self.map(name, &local);
        self.hidden.insert(local);
    }

    /// The service here has this resource as `local` no more.
    fn let_go(&mut self, name: &Name, local: &Name) {
        if !self.is_anothers(name, local) || self.holders.get(local) == Some(local) {
            self.holders.remove(local);
            self.hidden.remove(local);
            self.unmap(name);
        }
    }

    fn unmap(&mut self, name: &Name) {
        self.table.remove(name.id());
        let collection = name.with_id("");
        if self.scoped.contains_key(&collection)
            && let Some(table) = Arc::make_mut(&mut self.scoped).get_mut(&collection)
        {
            table.remove(name.id());
        }
    }

    /// A collection has something whose id is no UUID, whether or not the service here has made it.
    fn has_scoped(&mut self, name: &Name) {
        let collection = name.with_id("");
        if !is_uuid(name.id()) && !self.scoped.contains_key(&collection) {
            Arc::make_mut(&mut self.scoped).insert(collection, PlacedTable::new());
        }
    }

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
    /// Told whenever something is set.
    changed: Notify,
    /// Names for clients under which the service here has something of its own, too, and when that was seen.
    both: RwLock<BTreeMap<Name, Instant>>,
    /// The collections whose ids are known to be UUIDs by what they have.
    pub(super) forms: LearntForms,
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
            Some(place) => {
                let mut place = place.place();
                place.local = place.local.filter(|local| !names.is_anothers(name, local));
                Seen::Replicated(place)
            }
            None if names.hidden.contains(name) => Seen::Hidden,
            None => Seen::Ordinary,
        }
    }

    /// Of the resources of a collection, those that one of these sites is not known to have made, each with its place among
    /// the sites.
    pub(crate) fn unconfirmed(&self, collection: &Name, sites: &[Site], now: Instant) -> Unconfirmed {
        let mut found = Unconfirmed::default();
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let Some(names) = services.get(collection.service()) else { return found };
        let first = collection.with_id("");
        let source_of = |site: &Site| sites.iter().position(|other| other == site);
        let below = names.unconfirmed.range::<Name, _>(&first..).take_while(|name| name.begins_with(&first));
        for name in below.filter(|name| name.with_id("") == first) {
            let Some(place) = names.places.get(name) else { continue };
            let lacking = |(_, site): &(usize, &Site)| place.common.unconfirmed.contains(*site);
            sites.iter().enumerate().filter(lacking).for_each(|(source, _)| found.add(source, name.id()));
            if found.is_full(sites.len().saturating_sub(1)) {
                break;
            }
        }
        // A list of such a site that is merged with this one's may be of before it made them.
        let late = names.lately.iter().rev().take_while(|(since, ..)| now < *since + LATE);
        for (_, name, made) in late.filter(|(_, name, _)| name.with_id("") == first) {
            made.iter().filter_map(source_of).for_each(|source| found.add_late(source, name.id()));
        }
        found
    }

    /// Whether some site is not known yet to have made this.
    pub(crate) fn is_unconfirmed(&self, name: &Name) -> bool {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.get(name.service()).is_some_and(|names| names.unconfirmed.contains(name))
    }

    /// Where a replicated resource is.
    pub(crate) fn place(&self, name: &Name) -> Option<Place> {
        match self.look_up(name) {
            Seen::Replicated(place) => Some(place),
            Seen::Hidden | Seen::Ordinary => None,
        }
    }

    /// Waits until the service here shows all that it executed of a resource; nothing where that is not known any more.
    pub(crate) async fn until_whole(&self, name: &Name) -> Option<Place> {
        self.until(name, |place| place.shown.whole).await
    }

    /// Waits until the service here has executed the deletion of a resource that clients find no more: then its name is free.
    pub(crate) async fn until_deleted(&self, name: &Name) {
        self.until(name, |place| !place.is_gone_for_clients()).await;
    }

    /// Waits until this is so of a resource; nothing where that is not known any more.
    async fn until(&self, name: &Name, is_so: impl Fn(&Place) -> bool) -> Option<Place> {
        loop {
            let mut changed = pin!(self.changed.notified());
            // Before it is looked at: what changes after that is not missed.
            changed.as_mut().enable();
            match self.place(name) {
                Some(place) if !is_so(&place) => changed.await,
                place => return place,
            }
        }
    }

    /// The service here made something of its own by the local name of a replica.
    pub(crate) fn give_anew(&self, local: Name) {
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        let Some(names) = services.get_mut(local.service()) else { return };
        if names.hidden.remove(&local)
            && let Some(holder) = names.holders.insert(local.clone(), local)
        {
            names.unmap(&holder);
        }
    }

    /// True where the service here has given the name of a replica to another resource since: what had it is gone.
    pub(crate) fn is_anothers(&self, name: &Name, local: &Name) -> bool {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.get(name.service()).is_some_and(|names| names.is_anothers(name, local))
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

    /// The ids that are replaced in declared places only, by collections; nothing where there are none.
    pub(crate) fn scoped(&self, service: &str) -> Option<Arc<BTreeMap<Name, PlacedTable>>> {
        if !self.may_have(service) {
            return None;
        }
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        services.get(service).map(|names| &names.scoped).filter(|tables| !tables.is_empty()).cloned()
    }

    /// Notes that the service here has something of its own under a name that a replicated resource has for clients.
    pub(crate) fn note_both(&self, name: Name) {
        let other = |place: &Place| place.local.as_ref() != Some(&name);
        if !self.place(&name).is_some_and(|place| !place.chosen && other(&place)) {
            return;
        }
        let mut both = self.both.write().unwrap_or_else(PoisonError::into_inner);
        if both.len() >= MAX_BOTH {
            both.retain(|_, seen| seen.elapsed() < BOTH_AGE);
        }
        if both.len() < MAX_BOTH {
            both.insert(name, Instant::now());
        }
    }

    /// Notes an id that the service here gave in a collection, and says so once it is half way to those of replicated resources.
    pub(crate) fn note_given(&self, audit: &Audit, collection: &Name, form: &IdForm, id: &str) {
        if self.forms.given(collection, form, id) {
            audit.write(&serde_json::json!({
                "replicas": "the ids that the service gives are half way to those that replicated resources have for clients: \
                             say in the profile where their range begins (`from`), before they meet",
                "collection": collection.to_string(),
                "id": id,
            }));
        }
    }

    /// Whether that is so.
    pub(crate) fn is_both(&self, name: &Name) -> bool {
        let both = self.both.read().unwrap_or_else(PoisonError::into_inner);
        both.get(name).is_some_and(|seen| seen.elapsed() < BOTH_AGE)
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
        let known = |name: &Name| {
            Some(Named { meta: name.into(), sites: names.places.get(name)?.common.members.clone() })
        };
        found.into_iter().filter_map(known).collect()
    }

    /// Whether a resource that is to be here has a name in the service here. None: none is to be here, as far as is known.
    pub(crate) fn is_made(&self, name: &Name, here: &Site) -> Option<bool> {
        let services = self.services.read().unwrap_or_else(PoisonError::into_inner);
        let place = services.get(name.service())?.places.get(name);
        place.filter(|place| place.common.members.contains(here)).map(|place| place.local.is_some())
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
    pub(crate) fn set(&self, name: &Name, mut place: Option<Place>) {
        let mut services = self.services.write().unwrap_or_else(PoisonError::into_inner);
        let names = services.entry(name.service().into()).or_default();
        if let (Some(place), Some(before)) = (&mut place, names.places.get(name)) {
            let erased = before.common.shown.whole && !place.shown.whole;
            place.shown.erasures = before.erasures.wrapping_add(u32::from(erased));
        }
        if let (Some(place), Some(before)) = (&place, names.places.get(name)) {
            let made: BTreeSet<Site> =
                before.common.unconfirmed.difference(&place.unconfirmed).cloned().collect();
            if !made.is_empty() {
                names.confirm(name, made);
            }
        }
        let local = place.as_ref().and_then(|place| place.local.clone()).filter(|local| local != name);
        let is_there = place.is_some();
        let is_mapped = place.as_ref().is_some_and(|place| !place.chosen);
        if is_mapped {
            names.has_scoped(name);
        }
        if place.as_ref().is_some_and(|place| !place.unconfirmed.is_empty()) {
            names.unconfirmed.insert(name.clone());
        } else {
            names.unconfirmed.remove(name);
        }
        let before = match place {
            Some(place) => {
                let place = names.shelve(place);
                names.places.insert(name.clone(), place)
            }
            None => names.places.remove(name),
        };
        if is_there != before.is_some() && name.owner().is_some() {
            names.count_owned(name.path(), is_there);
        }
        if is_mapped != before.as_ref().is_some_and(|before| !before.common.chosen) {
            if is_mapped && is_uuid(name.id()) {
                names.index.insert(name.id(), name.clone());
            } else {
                names.index.remove(name.id());
            }
        }
        let before = before.and_then(|before| before.local).filter(|before| before != name);
        if before != local {
            if let Some(before) = before {
                names.let_go(name, &before);
            }
            if let Some(local) = local {
                names.hold(name, local);
            }
        }
        let with_some = services.iter().filter(|(_, names)| !names.places.is_empty());
        let some = with_some.fold(0, |some, (service, _)| some | bit(service));
        self.some.store(some, Ordering::Release);
        drop(services);
        self.changed.notify_waiters();
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
            unconfirmed: BTreeSet::new(),
            shown: Shown { whole: true, erasures: 0 },
            deleted: false,
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
    fn a_site_may_have_told_its_list_before_it_made_what_it_is_known_to_have() {
        let known = Known::default();
        let sites = ["A", "B", "C"].map(|name| Site::new(name).unwrap());
        let name = Name::new("image", "/images/one");
        let place = |unconfirmed: &[Site]| Place {
            level: Level::Eventual,
            members: sites.iter().cloned().collect(),
            local: Some(name.clone()),
            chosen: true,
            readable: true,
            unconfirmed: unconfirmed.iter().cloned().collect(),
            shown: Shown { whole: true, erasures: 0 },
            deleted: false,
        };
        let lacking = |sources: &[usize]| {
            let mut word = Unconfirmed::default();
            for source in sources {
                word.add(*source, "one");
            }
            word
        };
        let said = |later| known.unconfirmed(&name.with_id(""), &sites, Instant::now() + later);
        known.set(&name, Some(place(&sites[1..])));
        assert_eq!(said(Duration::ZERO), lacking(&[1, 2]));
        known.set(&name, Some(place(&sites[2..])));
        assert_eq!(said(Duration::ZERO), lacking(&[1, 2]), "B has it since a moment ago");
        assert_eq!(said(LATE), lacking(&[2]));
        known.set(&name, Some(place(&[])));
        assert_eq!(said(LATE), lacking(&[]));
    }

    #[test]
    fn a_number_that_is_given_again_is_the_later_resources() {
        let known = Known::default();
        let [first, second, number] =
            ["900", "901", "12"].map(|id| Name::new("rest", &format!("/posts/{id}")));
        let place = |deleted| Place {
            level: Level::Weak,
            members: BTreeSet::new(),
            local: Some(number.clone()),
            chosen: false,
            readable: true,
            unconfirmed: BTreeSet::new(),
            shown: Shown { whole: true, erasures: 0 },
            deleted,
        };
        let number_of = |name: &Name| {
            let tables = known.scoped("rest")?;
            let table = tables.get(&name.with_id(""))?;
            Some(table.find(name.id(), ids::Direction::ToService))
        };
        let is_seconds = || {
            assert_eq!(known.place(&first).and_then(|place| place.local), None);
            assert_eq!(known.place(&second).and_then(|place| place.local), Some(number.clone()));
            assert_eq!(number_of(&second), Some(ids::Found::Mapped("12".to_owned())));
            assert_eq!(known.look_up(&number), Seen::Hidden);
            assert!(known.is_anothers(&first, &number) && !known.is_anothers(&second, &number));
        };
        known.set(&first, Some(place(false)));
        known.set(&second, Some(place(false)));
        is_seconds();
        // It says the same again, and is deleted.
        known.set(&first, Some(place(true)));
        is_seconds();
        // After a restart they are read in any order.
        for name in [&first, &second] {
            known.set(name, None);
        }
        assert_eq!(known.look_up(&number), Seen::Ordinary);
        known.set(&second, Some(place(false)));
        known.set(&first, Some(place(true)));
        is_seconds();
        known.set(&first, None);
        assert_eq!(known.look_up(&number), Seen::Hidden, "the other one still has it");
        // Then the service gives it to a record of its own.
        known.give_anew(number.clone());
        assert_eq!(known.look_up(&number), Seen::Ordinary);
        assert!(
            known.is_anothers(&second, &number)
                && number_of(&second).is_none_or(|id| id == ids::Found::Unknown)
        );
        known.set(&second, None);
        assert_eq!(known.look_up(&number), Seen::Ordinary);
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
            unconfirmed: BTreeSet::new(),
            shown: Shown { whole: true, erasures: 0 },
            deleted: false,
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

    #[tokio::test]
    async fn the_name_of_what_is_deleted_is_free_once_the_service_has_executed_that() {
        let known = Known::default();
        let name = Name::new("compute", "/keys/mine");
        let place = |deleted| Place {
            level: Level::Eventual,
            members: BTreeSet::new(),
            local: None,
            chosen: true,
            readable: true,
            deleted,
            unconfirmed: BTreeSet::new(),
            shown: Shown { whole: true, erasures: 0 },
        };
        known.set(&name, Some(place(false)));
        known.until_deleted(&name).await;
        known.set(&name, Some(place(true)));
        tokio::join!(known.until_deleted(&name), async { known.set(&name, None) });
        assert!(matches!(known.look_up(&name), Seen::Ordinary));
    }

    #[tokio::test]
    async fn a_read_waits_while_something_is_executed_again_and_knows_that_it_was() {
        let known = Known::default();
        let name = Name::new("image", "/images/one");
        let place = |whole| Place {
            level: Level::Eventual,
            members: BTreeSet::new(),
            local: None,
            chosen: true,
            readable: true,
            deleted: false,
            unconfirmed: BTreeSet::new(),
            shown: Shown { whole, erasures: 0 },
        };
        known.set(&name, Some(place(true)));
        assert_eq!(known.until_whole(&name).await.unwrap().shown.erasures, 0);
        known.set(&name, Some(place(false)));
        known.set(&name, Some(place(false)));
        let (seen, ()) =
            tokio::join!(known.until_whole(&name), async { known.set(&name, Some(place(true))) });
        assert_eq!(seen.unwrap().shown.erasures, 1, "what was read before that has to be read again");
        known.set(&name, Some(place(false)));
        let (gone, ()) = tokio::join!(known.until_whole(&name), async { known.set(&name, None) });
        assert!(gone.is_none());
    }
}
