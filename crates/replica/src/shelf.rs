//! The resources of a site: one that rests is kept packed, whatever is in flight as it is.
//!
//! A resource rests while nothing is executed, copied or compared here. What there is to know of it then are a few
//! versions, most of them equal, and texts that many resources share: some hundred bytes instead of some thousand. It
//! is opened when something happens to it, and packed again at the end of that call. Nothing is lost by that, and
//! nothing can be told from outside.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::ops::RangeFrom;

use scope::Site;

use crate::entry::{Entry, Peer};
use crate::epoch::Epoch;
use crate::operation::Meta;
use crate::pack::{Packer, Words};

/// All resources with a replica here, without those whose writes have one order.
#[derive(Clone, Debug)]
pub(crate) struct Shelf {
    here: Site,
    /// The run that confirmations are of.
    epoch: Epoch,
    open: BTreeMap<Meta, Entry>,
    resting: BTreeMap<Meta, Box<[u8]>>,
    words: Words,
    /// Operations of what rests.
    resting_ops: usize,
    /// Opened, or put in, by the call at hand.
    opened: BTreeSet<Meta>,
}

impl Shelf {
    pub(crate) fn new(here: Site) -> Shelf {
        Shelf {
            here,
            epoch: Epoch::default(),
            open: BTreeMap::new(),
            resting: BTreeMap::new(),
            words: Words::default(),
            resting_ops: 0,
            opened: BTreeSet::new(),
        }
    }

    /// From now on confirmations are of this run; none was told yet.
    pub(crate) fn set_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    fn packer(&self) -> Packer<'_> {
        Packer { here: &self.here, epoch: self.epoch }
    }

    fn opened(&self, meta: &Meta, packed: &[u8]) -> Entry {
        self.packer().open(&self.words, meta, packed).expect("it was packed here")
    }

    pub(crate) fn contains_key(&self, meta: &Meta) -> bool {
        self.open.contains_key(meta) || self.resting.contains_key(meta)
    }

    pub(crate) fn get(&self, meta: &Meta) -> Option<Cow<'_, Entry>> {
        let open = self.open.get(meta).map(Cow::Borrowed);
        open.or_else(|| self.resting.get(meta).map(|packed| Cow::Owned(self.opened(meta, packed))))
    }

    /// The same of one in flight; nothing of one that rests.
    pub(crate) fn get_open(&self, meta: &Meta) -> Option<&Entry> {
        self.open.get(meta)
    }

    pub(crate) fn get_mut(&mut self, meta: &Meta) -> Option<&mut Entry> {
        if let Some(packed) = self.resting.remove(meta) {
            let entry = self.opened(meta, &packed);
            self.resting_ops = self.resting_ops.saturating_sub(entry.resource.ops.len());
            self.open.insert(meta.clone(), entry);
        }
        let entry = self.open.get_mut(meta)?;
        if !self.opened.contains(meta) {
            self.opened.insert(meta.clone());
        }
        Some(entry)
    }

    pub(crate) fn insert(&mut self, meta: Meta, entry: Entry) {
        self.remove(&meta);
        self.opened.insert(meta.clone());
        self.open.insert(meta, entry);
    }

    pub(crate) fn remove(&mut self, meta: &Meta) -> Option<Entry> {
        self.get_mut(meta)?;
        self.open.remove(meta)
    }

    /// Packs what rests of all that was opened.
    pub(crate) fn settle(&mut self) {
        for meta in std::mem::take(&mut self.opened) {
            let Some(entry) = self.open.get(&meta) else { continue };
            let packer = Packer { here: &self.here, epoch: self.epoch };
            if let Some(packed) = packer.pack(&mut self.words, &meta, entry) {
                debug_assert!(self.is_kept_by(&meta, &packed), "{meta:?} is not what was packed");
                self.resting_ops = self.resting_ops.saturating_add(entry.resource.ops.len());
                self.open.remove(&meta);
                self.resting.insert(meta, packed);
            }
        }
    }

    /// Whether an open resource is what is in these bytes. Of a site that said nothing there is nothing.
    fn is_kept_by(&self, meta: &Meta, packed: &[u8]) -> bool {
        let said = |entry: &mut Entry| entry.peers.retain(|_, peer| *peer != Peer::default());
        let (Some(mut before), mut after) = (self.open.get(meta).cloned(), self.opened(meta, packed)) else {
            return false;
        };
        said(&mut before);
        said(&mut after);
        before == after
    }

    /// Every resource, in the order of their names.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &Meta> {
        let (mut open, mut resting) = (self.open.keys().peekable(), self.resting.keys().peekable());
        std::iter::from_fn(move || match (open.peek(), resting.peek()) {
            (Some(one), Some(other)) if other < one => resting.next(),
            (Some(_), _) => open.next(),
            (None, _) => resting.next(),
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Meta, Cow<'_, Entry>)> {
        self.keys().filter_map(|meta| Some((meta, self.get(meta)?)))
    }

    /// Those in flight.
    pub(crate) fn open(&self) -> impl Iterator<Item = (&Meta, &Entry)> {
        self.open.iter()
    }

    pub(crate) fn open_from(&self, names: RangeFrom<Meta>) -> impl Iterator<Item = (&Meta, &Entry)> {
        self.open.range(names)
    }

    /// The names of those that are in flight, or that other sites may lack something of; and of those of which every site had
    /// all, each with the other sites that have, or had, a part in it.
    pub(crate) fn by_state(&self) -> (BTreeSet<Meta>, BTreeMap<Site, Vec<Meta>>) {
        let mut of_site = BTreeMap::<Site, Vec<Meta>>::new();
        let mut under_way: BTreeSet<Meta> = self.open.keys().cloned().collect();
        for (meta, packed) in &self.resting {
            let entry = self.opened(meta, packed);
            if entry.resource.ops.values().any(|op| op.body.is_some()) {
                under_way.insert(meta.clone());
                continue;
            }
            for site in entry.others(&self.here) {
                of_site.entry(site).or_default().push(meta.clone());
            }
        }
        (under_way, of_site)
    }

    /// How many operations are kept.
    pub(crate) fn kept(&self) -> usize {
        let open = self.open.values().map(|entry| entry.resource.ops.len());
        open.fold(self.resting_ops, usize::saturating_add)
    }

    /// What a site said counts no more. Gives the resources that it said something of.
    pub(crate) fn forget_peer(&mut self, site: &Site) -> Vec<Meta> {
        let mut metas = Vec::new();
        for meta in self.keys().cloned().collect::<Vec<_>>() {
            let heard = self.get(&meta).is_some_and(|entry| entry.peers.contains_key(site));
            if let Some(entry) = self.get_mut(&meta).filter(|_| heard) {
                entry.peers.insert(site.clone(), Peer::default());
                metas.push(meta);
                // One at a time: what was opened for this alone is packed again.
                self.settle();
            }
        }
        metas
    }
}

/// How something is kept makes no difference.
impl PartialEq for Shelf {
    fn eq(&self, other: &Shelf) -> bool {
        self.epoch == other.epoch && self.here == other.here && self.iter().eq(other.iter())
    }
}

impl Eq for Shelf {}

impl Hash for Shelf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for (meta, entry) in self.iter() {
            (meta, &*entry).hash(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::clock::Stamp;
    use crate::map::ReplicaMap;
    use crate::operation::{Body, Class, Doubt, Level, LocalId, OpId, Operation, Who};
    use crate::record::{Running, Stage};
    use crate::resource::{Execution, How, Resource};
    use crate::version::Version;

    fn site(name: &str) -> Site {
        Site::new(name).unwrap()
    }

    fn meta(number: u64) -> Meta {
        Meta(format!("image:/images/00000000-0000-4000-8000-{number:012x}").into())
    }

    /// What A made, and B has as well.
    fn made(number: u64) -> Entry {
        let (a, b, meta) = (site("A"), site("B"), meta(number));
        let stamp = Stamp { wall_ms: 1_800_000_000_000 + number, logical: 0 };
        let sites: BTreeSet<Site> = [a.clone(), b.clone()].into();
        let mut map = ReplicaMap::new(meta.clone(), Level::Eventual, false, &sites, stamp, &a);
        map.set_local(&a, LocalId(meta.0.clone()));
        map.set_local(&b, LocalId(meta.0.replace("0000-4", "1111-4").into()));
        let id = OpId { site: a.clone(), epoch: Epoch { number: 1, draw: u64::MAX }, counter: number };
        let roles = vec!["member".into(), "reader".into()];
        let who = Who {
            site: a,
            user: "alice".into(),
            project: Some("demo".into()),
            roles,
            time_ms: stamp.wall_ms,
        };
        let mut resource = Resource::new(Level::Eventual);
        resource.accept(Operation {
            id: id.clone(),
            resource: meta,
            class: Class::Create,
            doubt: Doubt::Ask,
            seen: Version::default(),
            stamp,
            on_behalf_of: who,
            body: Some(Body("b".repeat(32).into())),
        });
        resource.executed(&Execution { op: id, how: How::Create });
        resource.prune(|_| true);
        let (known, since) = (resource.progress.known.clone(), map.since(&b).cloned());
        let said = Some((known.clone(), known.clone()));
        let peer = Peer { has: known, said, map: Some(map.clone()), since, in_flight: BTreeSet::new() };
        let mut entry = Entry::new(map, resource);
        entry.peers.insert(b, peer);
        entry.told = Some(entry.confirmation(Epoch::default()));
        entry
    }

    #[test]
    fn what_rests_is_in_few_bytes_and_what_is_in_flight_is_not_packed() {
        let mut shelf = Shelf::new(site("A"));
        for number in 1..=100 {
            shelf.insert(meta(number), made(number));
            shelf.settle();
        }
        assert_eq!((shelf.open.len(), shelf.resting.len(), shelf.kept()), (0, 100, 100));
        let bytes: usize = shelf.resting.values().map(|packed| packed.len()).sum();
        assert!(bytes < 100 * 128, "{bytes}");
        let execution =
            Execution { op: made(7).resource.ops.keys().next().unwrap().clone(), how: How::Create };
        let running = Running { execution, stage: Stage::Waiting, doubted: false, attempts: 1 };
        shelf.get_mut(&meta(7)).unwrap().running = Some(running);
        shelf.get_mut(&meta(8)).unwrap();
        shelf.settle();
        assert_eq!(shelf.open().map(|(meta, _)| meta).collect::<Vec<_>>(), [&meta(7)]);
        assert_eq!(shelf.kept(), 100);
        assert!(shelf.keys().is_sorted() && shelf.keys().count() == 100);
        assert_eq!(shelf.get(&meta(9)).unwrap().into_owned(), made(9));
    }

    #[test]
    fn what_a_site_said_is_forgotten_of_what_rests_too() {
        let mut shelf = Shelf::new(site("A"));
        shelf.insert(meta(1), made(1));
        shelf.settle();
        assert!(shelf.forget_peer(&site("C")).is_empty());
        assert_eq!(shelf.forget_peer(&site("B")), [meta(1)]);
        assert_eq!(shelf.resting.len(), 1);
        assert_eq!(shelf.get(&meta(1)).unwrap().peers.get(&site("B")), Some(&Peer::default()));
    }
}
