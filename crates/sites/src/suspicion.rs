//! A site that did not answer has some time to object: less, the more others it did not answer either.

use std::time::Duration;

use scope::Site;

use crate::event::{Notice, Time};
use crate::machine::Machine;
use crate::members::{Id, seconds};
use crate::snapshot::Status;
use crate::timers::Timer;

/// How many of those that hear of a suspicion check it at once, on average.
const CHECKED_BY: usize = 4;

#[derive(Debug)]
pub(crate) struct Suspicion {
    since: Time,
    until: Time,
    /// Who suspects it, the first first.
    by: Vec<Site>,
}

impl Machine {
    /// A site is suspected, by one more.
    pub(crate) fn suspect(&mut self, id: Id, by: Site) {
        let Some(member) = self.members.get(id) else { return };
        if !matches!(member.status, Status::Alive | Status::Suspect) {
            return;
        }
        let site = member.site().clone();
        let (now, enough) = (self.now, self.config.confirmations + 1);
        let first = !self.suspicions.contains_key(&id);
        let suspicion =
            self.suspicions.entry(id).or_insert(Suspicion { since: now, until: now, by: Vec::new() });
        if suspicion.by.len() >= enough || suspicion.by.contains(&by) {
            return;
        }
        suspicion.by.push(by);
        let (count, since) = (suspicion.by.len(), suspicion.since);
        let until = since + self.patience(count - 1);
        if let Some(suspicion) = self.suspicions.get_mut(&id) {
            suspicion.until = until;
        }
        self.timers.set(until.max(now), Timer::Suspicion(id));
        if first {
            if let Some(member) = self.members.get_mut(id) {
                (member.status, member.since) = (Status::Suspect, seconds(now));
            }
            self.members.settle(id, &mut self.rng);
            self.changed = true;
            self.notice(Notice::Suspected(site));
            if self.rng.below(self.members.living()) < CHECKED_BY {
                self.probe_again(id);
            }
        }
        self.news(id, false);
        self.tell_suspect(id);
    }

    /// How long it has, with so many confirmations; longer among many, where news takes longer.
    fn patience(&self, confirmations: usize) -> Duration {
        let (least, most) = (self.config.suspicion_least, self.config.suspicion_most);
        let count = |number: usize| f32::from(u16::try_from(number).unwrap_or(u16::MAX)) + 1.0;
        let share = (count(confirmations).ln() / count(self.config.confirmations).ln().max(0.1)).min(1.0);
        let patience = most.saturating_sub((most.saturating_sub(least)).mul_f32(share));
        patience * self.digits().max(4) / 4
    }

    /// Who said so last.
    pub(crate) fn suspected_by(&self, id: Id) -> &Site {
        let last = self.suspicions.get(&id).and_then(|suspicion| suspicion.by.last());
        last.unwrap_or_else(|| self.own_site())
    }

    /// Its time to object may be over.
    pub(crate) fn not_refuted(&mut self, id: Id) {
        if self.suspicions.get(&id).is_some_and(|suspicion| suspicion.until <= self.now) {
            self.first = true;
            let refuted = self.members.get(id).map_or(0, |member| member.refuted);
            self.end_life(id, refuted, Status::Dead);
            self.first = false;
        }
    }
}
