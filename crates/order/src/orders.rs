//! A site with all its groups: events in, effects out.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;

use crate::group::{Group, Waiting};
use crate::id::GroupId;
use crate::log::{Head, Log, Shared, Slot};
use crate::message::Message;
use crate::record::{Key, Record};

/// The caller's name for something that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What an operator may set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// Ticks of one round of heartbeats, before it is known how long a message takes there and back.
    pub election: u32,
    /// The same, where messages take no time.
    pub shortest: u32,
    /// A member is gone after so many ticks of silence, and nothing waits longer for a place in the order.
    pub patience: u32,
    /// A log that holds so many entries takes no more. It holds what not every member was given.
    pub limit: usize,
}

impl Default for Settings {
    /// With five ticks a second: rounds of 0.6 s, so that another leads within 2 s of a leader's last word, and of up to 3 s where
    /// messages take long; 3 s before somebody is gone.
    fn default() -> Settings {
        Settings { election: 5, shortest: 3, patience: 15, limit: 100_000 }
    }
}

/// Who has to be there for an entry to be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// A majority of the members.
    Majority,
    /// All of them.
    All,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// An entry is to be ordered: [`Effect::Committed`] with this ticket, or [`Effect::Refused`]. After a
    /// place was given to it, neither may come for as long as there is no majority.
    Propose {
        /// Who waits.
        ticket: Ticket,
        /// In which group.
        group: GroupId,
        /// The entry.
        bytes: Vec<u8>,
        /// Who has to be there.
        needs: Needs,
    },
    /// How far has everybody come? [`Effect::Confirmed`], or [`Effect::Refused`].
    Confirm {
        /// Who waits.
        ticket: Ticket,
        /// In which group.
        group: GroupId,
    },
    /// A message came.
    Received {
        /// From whom; the link knows by the certificate.
        from: Site,
        /// What.
        message: Message,
    },
    /// Time goes on, evenly.
    Tick,
    /// This site, if it leads the group, is to have another lead it.
    HandOver {
        /// Which group.
        group: GroupId,
        /// That one.
        to: Site,
    },
}

/// Why an entry was not ordered, and never will be; or a read not confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No majority of the group is heard.
    NoMajority,
    /// This member is not heard, and all are needed.
    Missing(Site),
    /// That site leads: it is to be proposed there.
    Elsewhere(Site),
    /// The leader changed, and another entry was committed in its place.
    Overtaken,
    /// The log is full: a member is away for too long.
    Full,
    /// This site is not in the group, or alone in it.
    NotInGroup,
    /// The records of this site were put back, and it was not readmitted.
    InDoubt,
}

/// What is to be done, in this order. **What follows an [`Effect::Persist`] is done only once that is
/// durable**; each call gives at most one, first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Make these durable, all or none, together with what is made of the [`Effect::Committed`] of this call.
    Persist {
        /// Records, each in the place of the one with its key.
        put: Vec<Record>,
        /// Records that are no longer needed.
        remove: Vec<Key>,
    },
    /// Send a message. It may be lost, doubled or late.
    Send {
        /// To whom.
        to: Site,
        /// What.
        message: Message,
    },
    /// The next entry in the order.
    Committed {
        /// Of which group.
        group: GroupId,
        /// Its place. Marks have places too, so that not every number comes.
        index: u64,
        /// The entry.
        bytes: Vec<u8>,
        /// Who proposed it here, since the last start.
        ticket: Option<Ticket>,
    },
    /// All that was committed anywhere when this was asked for has a lower index, and was given here.
    Confirmed {
        /// Who waits.
        ticket: Ticket,
        /// The index.
        upto: u64,
    },
    /// It was not ordered, and never will be.
    Refused {
        /// Who waits.
        ticket: Ticket,
        /// Why.
        why: Refusal,
    },
    /// Another site leads, as far as is known here.
    Leader {
        /// Which group.
        group: GroupId,
        /// Who, if anybody. This site only once it was given all that was committed before.
        leader: Option<Site>,
    },
}

/// All groups of one site. Two are equal where they would go on alike after a restart.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Orders {
    pub(crate) here: Site,
    settings: Settings,
    pub(crate) starts: u64,
    pub(crate) groups: BTreeMap<GroupId, Group>,
    /// The records were put back, and are in doubt since this start.
    pub(crate) doubt: Option<u64>,
    /// The groups in which this site takes part all the same, and up to where their logs may have been acted upon before.
    pub(crate) readmitted: BTreeMap<GroupId, u64>,
}

impl Orders {
    /// A site with what it recorded before: nothing, the first time. Then [`Orders::start`].
    #[must_use]
    pub fn restore(here: Site, settings: Settings, records: impl IntoIterator<Item = Record>) -> Orders {
        let (mut starts, mut doubt, mut back) = (0_u64, None, Vec::new());
        let mut logs = BTreeMap::<GroupId, (Head, BTreeMap<usize, Slot>)>::new();
        for record in records {
            match record {
                Record::Starts(count) => starts = count,
                Record::Doubt(start) => doubt = Some(start),
                Record::Readmitted { group, doubt, upto } => back.push((group, doubt, upto)),
                Record::Head(group, head) => logs.entry(group).or_default().0 = head,
                Record::Slot(group, index, slot) => {
                    let index = usize::try_from(index).unwrap_or(usize::MAX);
                    logs.entry(group).or_default().1.insert(index, slot);
                }
            }
        }
        starts = starts.saturating_add(1);
        let back = back.into_iter().filter(|(_, since, _)| doubt == Some(*since));
        let readmitted = back.map(|(group, _, upto)| (group, upto)).collect();
        let groups = BTreeMap::new();
        let mut orders = Orders { here, settings, starts, groups, doubt, readmitted };
        for (id, (head, slots)) in logs {
            orders.open(id, Shared::new(Log::restore(head, slots)));
        }
        orders
    }

    /// A group at this site, if it is in it: without a voice where what it has recorded of it is in doubt.
    pub(crate) fn open(&mut self, id: GroupId, log: Shared) {
        let mute = self.is_in_doubt(&id);
        if let Some(group) = Group::new(&self.here, id.clone(), self.starts, self.settings, log) {
            self.groups.insert(id, if mute { group.muted() } else { group });
        }
    }

    /// Takes up where it stopped.
    pub fn start(&mut self, effects: &mut Vec<Effect>) {
        let mut later = Vec::new();
        self.groups.values_mut().for_each(|group| group.turn(&mut later));
        let ids: Vec<_> = self.groups.keys().cloned().collect();
        self.end(&ids, vec![Record::Starts(self.starts)], later, effects);
    }

    /// Something happened.
    pub fn on(&mut self, event: Event, effects: &mut Vec<Effect>) {
        let mut later = Vec::new();
        let mut ids = Vec::new();
        match event {
            Event::Propose { ticket, group, bytes, needs } => match self.group(&group) {
                Some(found) => {
                    found.propose(Waiting { ticket, bytes, needs, ticks: 0 });
                    found.turn(&mut later);
                    ids.push(group);
                }
                None => later.push(Effect::Refused { ticket, why: Refusal::NotInGroup }),
            },
            Event::Confirm { ticket, group } => match self.group(&group) {
                Some(found) => {
                    found.confirm(ticket, &mut later);
                    found.turn(&mut later);
                    ids.push(group);
                }
                None => later.push(Effect::Refused { ticket, why: Refusal::NotInGroup }),
            },
            Event::Received { from, message } => {
                if message.group.sites.contains(&from)
                    && let Some(group) = self.group(&message.group)
                {
                    group.receive(&from, &message, &mut later);
                    ids.push(message.group);
                }
            }
            Event::HandOver { group, to } => {
                if let Some(found) = self.groups.get_mut(&group) {
                    found.hand_over(&to, &mut later);
                    found.turn(&mut later);
                    ids.push(group);
                }
            }
            Event::Tick => {
                self.groups.values_mut().for_each(|group| group.tick(&mut later));
                ids.extend(self.groups.keys().cloned());
            }
        }
        self.end(&ids, Vec::new(), later, effects);
    }

    /// The group, made where it is not there yet.
    pub(crate) fn group(&mut self, id: &GroupId) -> Option<&mut Group> {
        if !self.groups.contains_key(id) {
            self.open(id.clone(), Shared::default());
        }
        self.groups.get_mut(id)
    }

    /// First what has to be durable, then the rest.
    pub(crate) fn end(
        &self,
        ids: &[GroupId],
        put: Vec<Record>,
        later: Vec<Effect>,
        effects: &mut Vec<Effect>,
    ) {
        let (mut put, mut remove) = (put, Vec::new());
        for group in ids.iter().filter_map(|id| self.groups.get(id)) {
            group.changes(&mut put, &mut remove);
        }
        if !put.is_empty() || !remove.is_empty() {
            effects.push(Effect::Persist { put, remove });
        }
        effects.extend(later);
    }

    /// Who leads a group, as far as is known here; this site only where it can order now.
    #[must_use]
    pub fn leader(&self, group: &GroupId) -> Option<Site> {
        self.groups.get(group)?.leader()
    }

    /// Whether this site leads a group, and was given all that was committed before it did.
    #[must_use]
    pub fn leads(&self, group: &GroupId) -> bool {
        self.groups.get(group).is_some_and(Group::leads)
    }

    /// The members of a group that were not heard of late.
    #[must_use]
    pub fn missing(&self, group: &GroupId) -> BTreeSet<Site> {
        self.groups.get(group).map(Group::missing).unwrap_or_default()
    }

    /// Whether a member of a group does not answer.
    #[must_use]
    pub fn has_lost(&self, group: &GroupId, site: &Site) -> bool {
        self.groups.get(group).is_some_and(|group| group.has_lost(site))
    }

    /// The index after all that this site was given.
    #[must_use]
    pub fn given(&self, group: &GroupId) -> u64 {
        self.groups.get(group).map(Group::given).unwrap_or_default()
    }

    /// The index after all that every member is known to have been given, durably.
    #[must_use]
    pub fn given_to_all(&self, group: &GroupId) -> u64 {
        self.groups.get(group).map(Group::given_to_all).unwrap_or_default()
    }

    /// The groups that this site is in.
    pub fn groups(&self) -> impl Iterator<Item = &GroupId> {
        self.groups.keys()
    }

    /// How many entries the log of a group holds.
    #[must_use]
    pub fn kept(&self, group: &GroupId) -> usize {
        self.groups.get(group).map(Group::kept).unwrap_or_default()
    }
}
