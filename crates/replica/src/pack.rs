//! A resource that rests, in few bytes, and back.
//!
//! Sites, runs of sites and people are numbered: most resources name the same. What other sites said is left out where
//! it follows from the rest, as it does of all that every site has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use scope::Site;

use crate::clock::Stamp;
use crate::compare::Comparing;
use crate::entry::{Entry, Peer};
use crate::epoch::Epoch;
use crate::few::Few;
use crate::map::{Place, ReplicaMap};
use crate::operation::{Body, Class, Doubt, Field, Level, LocalId, Meta, OpId, Operation, Who};
use crate::record::Condition;
use crate::resource::{Local, Progress, Resource};
use crate::version::Version;

/// So many different sites, runs or people are numbered. What names another is not packed, or names it in full.
const MAX_WORDS: usize = 1 << 16;

/// Values by their numbers.
#[derive(Clone, Debug)]
struct Numbered<T> {
    numbers: BTreeMap<T, u64>,
    values: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Numbered<T> {
        Numbered { numbers: BTreeMap::new(), values: Vec::new() }
    }
}

impl<T: Ord + Clone> Numbered<T> {
    fn number(&mut self, value: &T) -> Option<u64> {
        if let Some(number) = self.numbers.get(value) {
            return Some(*number);
        }
        let number = u64::try_from(self.values.len()).ok()?;
        if self.values.len() >= MAX_WORDS {
            return None;
        }
        self.values.push(value.clone());
        self.numbers.insert(value.clone(), number);
        Some(number)
    }

    fn value(&self, number: u64) -> Option<T> {
        self.values.get(usize::try_from(number).ok()?).cloned()
    }
}

/// On whose behalf, without the moment.
type Person = (Site, Arc<str>, Option<Arc<str>>, Vec<Arc<str>>);

/// What packed resources name by numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Words {
    sites: Numbered<Site>,
    runs: Numbered<(Site, Epoch)>,
    people: Numbered<Person>,
}

/// Packs and opens, at a site in one of its runs.
pub(crate) struct Packer<'p> {
    pub here: &'p Site,
    pub epoch: Epoch,
}

const TOLD: u64 = 1;
const CHOSEN: u64 = 2;
const DETACHED: u64 = 4;

/// What is known of another site.
const SILENT: u64 = 0;
const EQUAL: u64 = 1;
const OTHER: u64 = 2;

impl Packer<'_> {
    /// None: it does not rest.
    pub(crate) fn pack(&self, words: &mut Words, meta: &Meta, entry: &Entry) -> Option<Box<[u8]>> {
        let told = match &entry.told {
            None => 0,
            Some(told) if *told == entry.confirmation(self.epoch) => TOLD,
            Some(_) => return None,
        };
        if !rests(entry, self.here) || entry.map.meta != *meta {
            return None;
        }
        let mut out = Out { bytes: Vec::with_capacity(256), words };
        let (map, progress) = (&entry.map, &entry.resource.progress);
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = told | flag(map.chosen, CHOSEN) | flag(map.detached, DETACHED);
        out.number(flags | level_number(map.level) << 3 | level_number(progress.level) << 5);
        out.places(map)?;
        out.version(&progress.known)?;
        out.version(&progress.floor)?;
        out.local(&progress.local)?;
        out.count(entry.resource.ops.len());
        for op in entry.resource.ops.values() {
            out.operation(meta, op)?;
        }
        let others = entry.others(self.here);
        if entry.peers.keys().any(|site| !others.contains(site)) {
            return None;
        }
        for site in &others {
            out.peer(entry, site)?;
        }
        Some(out.bytes.into_boxed_slice())
    }

    /// Opens what was packed with these words. None: it was not.
    pub(crate) fn open(&self, words: &Words, meta: &Meta, bytes: &[u8]) -> Option<Entry> {
        let mut from = In { bytes, words };
        let flags = from.number()?;
        let (map_level, level) = (level((flags >> 3) & 3), level((flags >> 5) & 3));
        let map = ReplicaMap {
            meta: meta.clone(),
            level: map_level,
            chosen: flags & CHOSEN != 0,
            detached: flags & DETACHED != 0,
            places: from.places(meta)?,
        };
        let (known, floor) = (from.version()?, from.version()?);
        let local = from.local()?;
        let mut ops = Few::default();
        for _ in 0..from.number()? {
            let op = from.operation(meta)?;
            ops.insert(op.id.clone(), op);
        }
        let fresh = BTreeSet::new();
        let progress = Progress { level, known: known.clone(), done: known, floor, fresh, local };
        let mut entry = Entry::new(map, Resource::restore(progress, ops));
        for site in entry.others(self.here) {
            let peer = from.peer(&entry, &site)?;
            entry.peers.insert(site, peer);
        }
        if flags & TOLD != 0 {
            entry.told = Some(entry.confirmation(self.epoch));
        }
        Some(entry)
    }
}

/// Whether nothing goes on about it here.
fn rests(entry: &Entry, here: &Site) -> bool {
    let Entry { map, resource, running, condition, installing, stalled, fetching, copies, comparing, .. } =
        entry;
    running.is_none()
        && *condition == Condition::Good
        && installing.is_none()
        && !stalled
        && !fetching
        && *copies == 0
        && *comparing == Comparing::default()
        && map.members().contains(here)
        && resource.rests()
}

fn level_number(level: Level) -> u64 {
    match level {
        Level::Weak => 0,
        Level::Eventual => 1,
        Level::Quorum => 2,
        Level::Strong => 3,
    }
}

fn level(number: u64) -> Level {
    match number {
        0 => Level::Weak,
        1 => Level::Eventual,
        2 => Level::Quorum,
        _ => Level::Strong,
    }
}

/// Writes.
struct Out<'o> {
    bytes: Vec<u8>,
    words: &'o mut Words,
}

impl Out<'_> {
    /// Seven bits a byte, the lowest first.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            let [low, ..] = number.to_le_bytes();
            self.bytes.push(low | 0x80);
            number >>= 7;
        }
        let [last, ..] = number.to_le_bytes();
        self.bytes.push(last);
    }

    fn count(&mut self, count: usize) {
        self.number(u64::try_from(count).unwrap_or(u64::MAX));
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn texts<'t>(&mut self, texts: impl ExactSizeIterator<Item = &'t Arc<str>>) {
        self.count(texts.len());
        for text in texts {
            self.text(text);
        }
    }

    fn site(&mut self, site: &Site) -> Option<()> {
        let number = self.words.sites.number(site)?;
        self.number(number);
        Some(())
    }

    fn stamp(&mut self, stamp: Stamp) {
        self.number(stamp.wall_ms);
        self.number(u64::from(stamp.logical));
    }

    fn run(&mut self, run: &(Site, Epoch), counter: u64) -> Option<()> {
        let number = self.words.runs.number(run)?;
        self.number(number);
        self.number(counter);
        Some(())
    }

    fn op_id(&mut self, id: &OpId) -> Option<()> {
        self.run(&(id.site.clone(), id.epoch), id.counter)
    }

    fn version(&mut self, version: &Version) -> Option<()> {
        self.count(version.runs().count());
        version.runs().try_for_each(|(run, counter)| self.run(run, counter))
    }

    fn places(&mut self, map: &ReplicaMap) -> Option<()> {
        self.count(map.places.len());
        for (site, place) in map.places.iter() {
            self.site(site)?;
            self.stamp(place.changed.0);
            self.site(&place.changed.1)?;
            let member = u64::from(place.member);
            match &place.local {
                None => self.number(member),
                Some(local) if local.0 == map.meta.0 => self.number(member | 2),
                Some(local) => {
                    self.number(member | 4);
                    self.text(&local.0);
                }
            }
        }
        Some(())
    }

    fn local(&mut self, local: &Local) -> Option<()> {
        self.number(u64::from(local.base.is_some()));
        if let Some(base) = &local.base {
            self.op_id(base)?;
        }
        self.count(local.adds.len());
        local.adds.iter().try_for_each(|add| self.op_id(add))?;
        self.count(local.fields.len());
        for (field, op) in &local.fields {
            self.text(field);
            self.op_id(op)?;
        }
        Some(())
    }

    fn operation(&mut self, meta: &Meta, op: &Operation) -> Option<()> {
        let Operation { id, resource, class, doubt, seen, stamp, on_behalf_of, body } = op;
        if resource != meta {
            return None;
        }
        self.op_id(id)?;
        self.class(class);
        self.number(match doubt {
            Doubt::Repeat => 0,
            Doubt::Probe => 1,
            Doubt::Ask => 2,
        });
        self.version(seen)?;
        self.stamp(*stamp);
        self.who(on_behalf_of)?;
        self.number(u64::from(body.is_some()));
        if let Some(Body(body)) = body {
            self.text(body);
        }
        Some(())
    }

    fn class(&mut self, class: &Class) {
        match class {
            Class::Create => self.number(0),
            Class::Replace => self.number(1),
            Class::Delete => self.number(2),
            Class::Add => self.number(3),
            Class::Action { idempotent } => self.number(if *idempotent { 5 } else { 4 }),
            Class::Patch(fields) => {
                self.number(6);
                self.texts(fields.iter());
            }
        }
    }

    fn who(&mut self, who: &Who) -> Option<()> {
        let Who { site, user, project, roles, time_ms } = who;
        let person = (site.clone(), user.clone(), project.clone(), roles.clone());
        if let Some(number) = self.words.people.number(&person) {
            self.number(number.saturating_add(1));
        } else {
            self.number(0);
            self.site(site)?;
            self.text(user);
            self.texts(project.iter());
            self.texts(roles.iter());
        }
        self.number(*time_ms);
        Some(())
    }

    fn peer(&mut self, entry: &Entry, site: &Site) -> Option<()> {
        let Some(peer) = entry.peers.get(site).filter(|peer| **peer != Peer::default()) else {
            self.number(SILENT);
            return Some(());
        };
        if *peer == equal(entry, site) {
            self.number(EQUAL);
            return Some(());
        }
        let Peer { has, said, map, since, in_flight } = peer;
        let same = map.as_ref() == Some(&entry.map);
        if !in_flight.is_empty() || map.is_some() && !same {
            return None;
        }
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        self.number(OTHER | flag(same, 4) | flag(said.is_some(), 8) | flag(since.is_some(), 16));
        self.version(has)?;
        if let Some((known, done)) = said {
            self.version(known)?;
            self.version(done)?;
        }
        if let Some((stamp, by)) = since {
            self.stamp(*stamp);
            self.site(by)?;
        }
        Some(())
    }
}

/// What is known of a site that has all that is known here.
fn equal(entry: &Entry, site: &Site) -> Peer {
    let known = &entry.resource.progress.known;
    Peer {
        has: known.clone(),
        said: Some((known.clone(), known.clone())),
        map: Some(entry.map.clone()),
        since: entry.map.since(site).cloned(),
        in_flight: BTreeSet::new(),
    }
}

/// Reads.
struct In<'i> {
    bytes: &'i [u8],
    words: &'i Words,
}

impl In<'_> {
    fn number(&mut self) -> Option<u64> {
        let (mut number, mut shift) = (0_u64, 0_u32);
        loop {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            number |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte < 0x80 {
                return Some(number);
            }
            shift = shift.checked_add(7)?;
        }
    }

    fn text(&mut self) -> Option<Arc<str>> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.bytes.split_at_checked(length)?;
        self.bytes = rest;
        std::str::from_utf8(text).ok().map(Arc::from)
    }

    fn texts<T: FromIterator<Arc<str>>>(&mut self) -> Option<T> {
        let count = self.number()?;
        (0..count).map(|_| self.text()).collect()
    }

    fn site(&mut self) -> Option<Site> {
        let number = self.number()?;
        self.words.sites.value(number)
    }

    fn stamp(&mut self) -> Option<Stamp> {
        Some(Stamp { wall_ms: self.number()?, logical: u32::try_from(self.number()?).ok()? })
    }

    fn run(&mut self) -> Option<((Site, Epoch), u64)> {
        let number = self.number()?;
        Some((self.words.runs.value(number)?, self.number()?))
    }

    fn op_id(&mut self) -> Option<OpId> {
        let ((site, epoch), counter) = self.run()?;
        Some(OpId { site, epoch, counter })
    }

    fn version(&mut self) -> Option<Version> {
        let count = self.number()?;
        (0..count).map(|_| self.run()).collect::<Option<Vec<_>>>().map(Version::of_runs)
    }

    fn places(&mut self, meta: &Meta) -> Option<Few<Site, Place>> {
        let mut places = Few::default();
        for _ in 0..self.number()? {
            let site = self.site()?;
            let changed = (self.stamp()?, self.site()?);
            let flags = self.number()?;
            let local = match flags & 6 {
                0 => None,
                2 => Some(LocalId(meta.0.clone())),
                _ => Some(LocalId(self.text()?)),
            };
            places.insert(site, Place { changed, member: flags & 1 != 0, local });
        }
        Some(places)
    }

    fn local(&mut self) -> Option<Local> {
        let base = if self.number()? == 1 { Some(self.op_id()?) } else { None };
        let mut local = Local { base, ..Local::default() };
        for _ in 0..self.number()? {
            local.adds.insert(self.op_id()?);
        }
        for _ in 0..self.number()? {
            let field: Field = self.text()?;
            local.fields.insert(field, self.op_id()?);
        }
        Some(local)
    }

    fn operation(&mut self, meta: &Meta) -> Option<Operation> {
        let (id, class) = (self.op_id()?, self.class()?);
        let doubt = match self.number()? {
            0 => Doubt::Repeat,
            1 => Doubt::Probe,
            _ => Doubt::Ask,
        };
        let (seen, stamp, on_behalf_of) = (self.version()?, self.stamp()?, self.who()?);
        let body = if self.number()? == 1 { Some(Body(self.text()?)) } else { None };
        Some(Operation { id, resource: meta.clone(), class, doubt, seen, stamp, on_behalf_of, body })
    }

    fn class(&mut self) -> Option<Class> {
        Some(match self.number()? {
            0 => Class::Create,
            1 => Class::Replace,
            2 => Class::Delete,
            3 => Class::Add,
            4 => Class::Action { idempotent: false },
            5 => Class::Action { idempotent: true },
            _ => Class::Patch(self.texts()?),
        })
    }

    fn who(&mut self) -> Option<Who> {
        let number = self.number()?.checked_sub(1);
        let (site, user, project, roles) = if let Some(number) = number {
            self.words.people.value(number)?
        } else {
            let (site, user) = (self.site()?, self.text()?);
            (site, user, self.texts::<Vec<_>>()?.pop(), self.texts()?)
        };
        Some(Who { site, user, project, roles, time_ms: self.number()? })
    }

    fn peer(&mut self, entry: &Entry, site: &Site) -> Option<Peer> {
        let flags = self.number()?;
        match flags & 3 {
            SILENT => return Some(Peer::default()),
            EQUAL => return Some(equal(entry, site)),
            _ => {}
        }
        let has = self.version()?;
        let said = if flags & 8 != 0 { Some((self.version()?, self.version()?)) } else { None };
        let map = (flags & 4 != 0).then(|| entry.map.clone());
        let since = if flags & 16 != 0 { Some((self.stamp()?, self.site()?)) } else { None };
        Some(Peer { has, said, map, since, in_flight: BTreeSet::new() })
    }
}
