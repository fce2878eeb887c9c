//! A site whose records were put back has forgotten what it promised and accepted.
//!
//! It is mute in every group, also in those that it does not know any more: it neither promises, nor accepts, nor leads. It begins
//! a start whose number is above those of all it ever began, and asks each other member what it may have forgotten. Who answers ([`Testimony`]) takes
//! nothing any more that the site sent in an earlier start. Then it is as one that has these records:
//!
//! - **What it may have promised.** Whoever asked it for a promise had made that promise itself, durably; what it claimed
//!   itself and nobody promised, nobody counts. So it promises the highest of what all others have promised.
//! - **What it may have accepted.** What was committed with its vote is in the log of another member of that majority. Of all logs, the
//!   longest of those accepted in the highest ballot has all that was committed: a new leader chooses so, too.
//!
//! All others have to answer: of fewer, one might be missing whose log alone has what was committed with the vote that is
//! forgotten. What is committed meanwhile is so without this site.

use std::collections::BTreeMap;

use omnipaxos::ballot_leader_election::Ballot;
use scope::Site;
use serde::{Deserialize, Serialize};

use crate::id::GroupId;
use crate::log::{Head, Log, Slot};
use crate::orders::{Effect, Orders};
use crate::record::Record;

/// All that a member has promised and accepted in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Testimony {
    head: Head,
    slots: Vec<Slot>,
}

impl Testimony {
    pub(crate) fn of(log: &Log) -> Testimony {
        Testimony { head: log.head.clone(), slots: log.slots().to_vec() }
    }

    /// The place of the first entry that its log holds.
    #[must_use]
    pub fn first(&self) -> u64 {
        u64::try_from(self.head.first).unwrap_or(u64::MAX)
    }

    /// The index after all that the member was given.
    #[must_use]
    pub fn given(&self) -> u64 {
        u64::try_from(self.head.given).unwrap_or(u64::MAX)
    }

    /// True where nothing was ever promised or accepted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.head == Head::default() && self.slots.is_empty()
    }

    /// The entries of its log, for whoever has to send along what they name.
    #[must_use]
    pub fn entries(&self) -> Vec<Vec<u8>> {
        self.slots.iter().filter_map(|slot| slot.bytes.clone()).collect()
    }

    fn end(&self) -> usize {
        self.head.first.saturating_add(self.slots.len())
    }

    /// The site whose log has all that was committed, of all that others said: the longest of those accepted in the highest ballot.
    #[must_use]
    pub fn best(said: &BTreeMap<Site, Testimony>) -> Option<Site> {
        said.iter().max_by_key(|(_, said)| said.rank()).map(|(site, _)| site.clone())
    }

    fn rank(&self) -> (Option<Ballot>, usize, usize) {
        (self.head.accepted, self.end(), self.head.given)
    }
}

impl Orders {
    /// The records here were put back. From now on this site is mute in every group. `start` is above the numbers of all its starts,
    /// as far as anybody knows.
    pub fn distrust(&mut self, start: u64, effects: &mut Vec<Effect>) {
        self.starts = self.starts.saturating_add(1).max(start);
        self.doubt = Some(self.starts);
        self.readmitted.clear();
        let mut later = Vec::new();
        self.begin_anew(&mut later);
        let put = vec![Record::Starts(self.starts), Record::Doubt(self.starts)];
        self.end(&[], put, later, effects);
    }

    /// The number of a start has to be higher than this site knew. It said nothing yet in those groups in which it is mute.
    pub fn raise(&mut self, start: u64, effects: &mut Vec<Effect>) {
        if self.doubt.is_some() && start > self.starts {
            self.starts = start;
            let mut later = Vec::new();
            self.begin_anew(&mut later);
            self.end(&[], vec![Record::Starts(start)], later, effects);
        }
    }

    fn begin_anew(&mut self, effects: &mut Vec<Effect>) {
        let mute = self.groups.keys().filter(|id| self.is_in_doubt(id)).cloned();
        for id in mute.collect::<Vec<_>>() {
            if let Some(mut group) = self.groups.remove(&id) {
                group.refuse_all(effects);
                self.open(id, group.shared());
            }
        }
    }

    /// The start in which the records here were put back last, or 0.
    #[must_use]
    pub fn doubted_since(&self) -> u64 {
        self.doubt.unwrap_or_default()
    }

    /// True where this site is mute in a group.
    #[must_use]
    pub fn is_in_doubt(&self, group: &GroupId) -> bool {
        self.doubt.is_some() && !self.readmitted.contains_key(group)
    }

    /// The place in a group's log before which all may have been acted upon here before the records were put back.
    #[must_use]
    pub fn acted_upon(&self, group: &GroupId) -> u64 {
        self.readmitted.get(group).copied().unwrap_or_default()
    }

    /// The groups in which this site is mute, and by which start it asks to be readmitted.
    #[must_use]
    pub fn in_doubt(&self) -> Vec<(GroupId, u64)> {
        let mute = self.groups.iter().filter(|(_, group)| group.is_mute());
        mute.map(|(id, group)| (id.clone(), group.start())).collect()
    }

    /// All members' records were put back, and the operator goes on with those here.
    pub fn keep(&mut self, id: &GroupId, effects: &mut Vec<Effect>) {
        let Some(group) = self.groups.get(id).filter(|group| group.is_mute()) else { return };
        let (log, Some(doubt)) = (group.shared(), self.doubt) else { return };
        self.readmitted.insert(id.clone(), 0);
        self.open(id.clone(), log);
        let put = vec![Record::Readmitted { group: id.clone(), doubt, upto: 0 }];
        self.end(std::slice::from_ref(id), put, Vec::new(), effects);
    }

    /// Tells another member what it may have forgotten, which asks by this start. Err: this site is mute there itself. None: it is no member, or has started
    /// since.
    pub fn testify(&mut self, id: &GroupId, to: &Site, start: u64) -> Option<Result<Testimony, ()>> {
        let group = self.group(id).filter(|_| id.sites.contains(to))?;
        if group.is_mute() { Some(Err(())) } else { group.testify(to, start).map(Ok) }
    }

    /// Takes part again in a group, knowing of it what the others said. Its log is that of
    /// [`Testimony::best`]. False where it was not mute.
    pub fn readmit(
        &mut self,
        id: &GroupId,
        said: &BTreeMap<Site, Testimony>,
        effects: &mut Vec<Effect>,
    ) -> bool {
        let best = Testimony::best(said).and_then(|site| said.get(&site));
        let (Some(best), Some(doubt)) = (best, self.doubt) else { return false };
        let heads = || said.values().map(|said| &said.head);
        let head = Head {
            promise: heads().map(|head| head.promise.max(head.accepted)).max().flatten(),
            accepted: best.head.accepted,
            decided: heads().map(|head| head.decided).max().unwrap_or_default().min(best.end()),
            given: best.head.first,
            first: best.head.first,
        };
        let here = self.here.clone();
        let Some(group) = self.groups.get_mut(id).filter(|group| group.is_mute()) else { return false };
        group.readmit(&here, head, best.slots.clone());
        let upto = u64::try_from(best.end()).unwrap_or(u64::MAX);
        self.readmitted.insert(id.clone(), upto);
        let mut later = Vec::new();
        if let Some(group) = self.groups.get_mut(id) {
            group.turn(&mut later);
        }
        let put = vec![Record::Readmitted { group: id.clone(), doubt, upto }];
        self.end(std::slice::from_ref(id), put, later, effects);
        true
    }
}
