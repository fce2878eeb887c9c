//! Which names are reserved at this site, and which claims of this site's own requests are not over. Pure: what is to be
//! durable is told as changes.
//!
//! A claim is recorded at the entry site before any site is asked, and ends when every site has released the name. So a
//! site that has a name reserved for a claim that the entry site does not know any more may release it, unless its
//! service was asked for the write and gave no answer: then the entry site has lost its records.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;
use serde::{Deserialize, Serialize};

use super::vault::{Change, Table, Vault};
use crate::carry::Sender;
use crate::replicas::admin::{self, ReservationState};
use crate::reservations::{Holder, Reply};

/// So many names are reserved here for the claims of one entry site.
const MAX_NAMES_PER_SITE: usize = 10_000;
/// So many claims of one client are not over.
const MAX_CLAIMS_PER_SENDER: usize = 100;

/// How far the write of a claim is at a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Stage {
    /// Nothing of it came.
    Held,
    /// Nothing of it came, and what comes is refused.
    Fenced,
    /// The service may have been asked.
    Begun,
    /// The service answered, or never saw it.
    Known,
}

/// A name that is reserved here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Reservation {
    holder: Holder,
    since_ms: u64,
    stage: Stage,
}

/// A claim of a request that entered here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ClaimRecord {
    name: String,
    /// Where the name may be reserved.
    sites: BTreeSet<Site>,
    since_ms: u64,
}

/// How far a claim is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Progress {
    /// Its request is under way.
    Open,
    /// What became of the write is not known. The sites that have said what they know, and whether one is in doubt.
    InDoubt { cleared: BTreeSet<Site>, doubted: bool },
    /// It is: the names are released.
    Known,
}

struct Claim {
    record: ClaimRecord,
    progress: Progress,
    sender: Option<Sender>,
}

/// What a site is to be asked about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Inquire,
    Release,
}

/// See above.
#[derive(Default)]
pub(super) struct Reservations {
    held: BTreeMap<String, Reservation>,
    /// Writes that the service here is asked for now.
    running: BTreeSet<Holder>,
    claims: BTreeMap<u128, Claim>,
}

impl Reservations {
    /// What is on the disk. The outcome of every claim that was not over is in doubt.
    pub(super) async fn read(vault: &Vault) -> Result<Reservations, store::Error> {
        let mut own = Reservations::default();
        let corrupt = |what: &str| store::Error::Corrupt(format!("the key of a {what} cannot be read"));
        for (key, reservation) in vault.all::<Reservation>(Table::Reservation).await? {
            let name = String::from_utf8(key).map_err(|_| corrupt("reservation"))?;
            own.held.insert(name, reservation);
        }
        for (key, record) in vault.all::<ClaimRecord>(Table::Claim).await? {
            let number = key.try_into().map(u128::from_be_bytes).map_err(|_| corrupt("claim"))?;
            own.claims.insert(number, Claim { record, progress: Progress::in_doubt(), sender: None });
        }
        Ok(own)
    }

    /// Reserves a name for a claim, unless it is reserved for another.
    pub(super) fn reserve(
        &mut self,
        name: &str,
        holder: &Holder,
        now_ms: u64,
        changes: &mut Vec<Change>,
    ) -> Reply {
        match self.held.get(name) {
            Some(own) if own.holder == *holder && own.stage == Stage::Held => Reply::Held,
            Some(_) => Reply::Taken,
            None if self.is_full(&holder.site) => Reply::Full,
            None => {
                let reservation =
                    Reservation { holder: holder.clone(), since_ms: now_ms, stage: Stage::Held };
                changes.push(Change::put(Table::Reservation, name, &reservation));
                self.held.insert(name.to_owned(), reservation);
                Reply::Held
            }
        }
    }

    fn is_full(&self, site: &Site) -> bool {
        let own = |own: &&Reservation| own.holder.site == *site;
        // Most often there are not so many of all sites together.
        self.held.len() >= MAX_NAMES_PER_SITE && self.held.values().filter(own).count() >= MAX_NAMES_PER_SITE
    }

    /// Says what became of a claim's write here. What has not begun does not begin any more.
    pub(super) fn inquire(&mut self, name: &str, holder: &Holder, changes: &mut Vec<Change>) -> Reply {
        let Some(stage) = self.stage(name, holder) else { return Reply::NotBegun };
        match stage {
            Stage::Held => {
                self.set_stage(name, Stage::Fenced, changes);
                Reply::NotBegun
            }
            Stage::Fenced => Reply::NotBegun,
            Stage::Known => Reply::Known,
            Stage::Begun if self.running.contains(holder) => Reply::Running,
            Stage::Begun => Reply::InDoubt,
        }
    }

    /// Releases a name, if it is reserved for this claim.
    pub(super) fn release(&mut self, name: &str, holder: &Holder, changes: &mut Vec<Change>) -> Reply {
        if self.stage(name, holder).is_some() {
            self.held.remove(name);
            changes.push(Change::remove(Table::Reservation, name));
        }
        Reply::Released
    }

    /// The write of a claim came: whether it may go to the service.
    pub(super) fn begin_writing(&mut self, name: &str, holder: &Holder, changes: &mut Vec<Change>) -> bool {
        let may = self.stage(name, holder) == Some(Stage::Held);
        if may {
            self.set_stage(name, Stage::Begun, changes);
            self.running.insert(holder.clone());
        }
        may
    }

    /// It is over, and whether its outcome is known.
    pub(super) fn end_writing(
        &mut self,
        name: &str,
        holder: &Holder,
        known: bool,
        changes: &mut Vec<Change>,
    ) {
        self.running.remove(holder);
        if known && self.stage(name, holder) == Some(Stage::Begun) {
            self.set_stage(name, Stage::Known, changes);
        }
    }

    /// What is named so was found at this site's service: the write in doubt was executed.
    pub(super) fn found(&mut self, name: &str, holder: &Holder, changes: &mut Vec<Change>) {
        if !self.running.contains(holder) && self.stage(name, holder) == Some(Stage::Begun) {
            self.set_stage(name, Stage::Known, changes);
        }
    }

    fn stage(&self, name: &str, holder: &Holder) -> Option<Stage> {
        self.held.get(name).filter(|own| own.holder == *holder).map(|own| own.stage)
    }

    fn set_stage(&mut self, name: &str, stage: Stage, changes: &mut Vec<Change>) {
        if let Some(own) = self.held.get_mut(name) {
            own.stage = stage;
            changes.push(Change::put(Table::Reservation, name, own));
        }
    }

    /// Records that a request claims a name at more sites. Whether its client may.
    pub(super) fn claim(
        &mut self,
        number: u128,
        name: &str,
        sites: Vec<Site>,
        sender: Sender,
        now_ms: u64,
        changes: &mut Vec<Change>,
    ) -> bool {
        if let Some(own) = self.claims.get_mut(&number) {
            own.record.sites.extend(sites);
            changes.push(Change::put(Table::Claim, number.to_be_bytes(), &own.record));
            return true;
        }
        if self.claims.values().filter(|own| own.sender == Some(sender)).count() >= MAX_CLAIMS_PER_SENDER {
            return false;
        }
        let record =
            ClaimRecord { name: name.to_owned(), sites: sites.into_iter().collect(), since_ms: now_ms };
        changes.push(Change::put(Table::Claim, number.to_be_bytes(), &record));
        self.claims.insert(number, Claim { record, progress: Progress::Open, sender: Some(sender) });
        true
    }

    /// A claim's request is over. Nothing changes where its outcome was known before.
    pub(super) fn end_claim(&mut self, number: u128, known: bool) {
        if let Some(own) = self.claims.get_mut(&number)
            && (known || own.progress == Progress::Open)
        {
            own.progress = if known { Progress::Known } else { Progress::in_doubt() };
        }
    }

    /// The claims whose requests are over.
    pub(super) fn ended(&self) -> Vec<u128> {
        let ended = |(_, own): &(&u128, &Claim)| own.progress != Progress::Open;
        self.claims.iter().filter(ended).map(|(number, _)| *number).collect()
    }

    /// What is to be asked next about a claim, and of which sites.
    pub(super) fn next_step(&self, number: u128) -> Option<(String, Step, Vec<Site>)> {
        let Claim { record, progress, .. } = self.claims.get(&number)?;
        let (step, cleared) = match progress {
            Progress::Open => return None,
            Progress::InDoubt { cleared, .. } => (Step::Inquire, Some(cleared)),
            Progress::Known => (Step::Release, None),
        };
        let asked = |site: &&Site| cleared.is_none_or(|cleared| !cleared.contains(*site));
        Some((record.name.clone(), step, record.sites.iter().filter(asked).cloned().collect()))
    }

    /// A site said so about a claim. Whether the claim is over.
    pub(super) fn heard(
        &mut self,
        number: u128,
        site: &Site,
        reply: &Reply,
        changes: &mut Vec<Change>,
    ) -> bool {
        let Some(own) = self.claims.get_mut(&number) else { return true };
        match (&mut own.progress, reply) {
            (Progress::InDoubt { cleared, .. }, Reply::NotBegun | Reply::Known) => {
                cleared.insert(site.clone());
                if cleared.is_superset(&own.record.sites) {
                    own.progress = Progress::Known;
                }
                false
            }
            (Progress::InDoubt { doubted, .. }, Reply::InDoubt) => {
                *doubted = true;
                false
            }
            (Progress::Known, Reply::Released) => {
                own.record.sites.remove(site);
                let over = own.record.sites.is_empty();
                if over {
                    self.claims.remove(&number);
                    changes.push(Change::remove(Table::Claim, number.to_be_bytes()));
                }
                over
            }
            _ => false,
        }
    }

    /// Where the name of a claim may be reserved.
    pub(super) fn sites_of(&self, number: u128) -> Vec<Site> {
        let claim = self.claims.get(&number);
        claim.map(|own| own.record.sites.iter().cloned().collect()).unwrap_or_default()
    }

    /// Whether it is not known what became of a claim's write at a site.
    pub(super) fn is_doubted(&self, number: u128, site: &Site) -> bool {
        let claim = self.claims.get(&number).filter(|own| own.record.sites.contains(site));
        claim.is_some_and(|own| match &own.progress {
            Progress::Open => true,
            Progress::InDoubt { cleared, .. } => !cleared.contains(site),
            Progress::Known => false,
        })
    }

    /// Of these claims of this site, those that are not over.
    pub(super) fn open_among(&self, numbers: &[u128]) -> Vec<u128> {
        numbers.iter().copied().filter(|number| self.claims.contains_key(number)).collect()
    }

    /// The claims that names are reserved for here, by their entry sites.
    pub(super) fn holders(&self) -> BTreeMap<Site, Vec<u128>> {
        let mut holders = BTreeMap::<Site, Vec<u128>>::new();
        for own in self.held.values() {
            holders.entry(own.holder.site.clone()).or_default().push(own.holder.number);
        }
        holders
    }

    /// An entry site knows only these, of the claims that it was asked about. The others are over, but for a write whose
    /// outcome nobody here knows.
    pub(super) fn open_at(&mut self, entry: &Site, asked: &[u128], open: &[u128], changes: &mut Vec<Change>) {
        let over = |own: &Reservation| {
            let Holder { site, number } = &own.holder;
            site == entry && asked.contains(number) && !open.contains(number) && own.stage != Stage::Begun
        };
        self.held.retain(|name, own| {
            let over = over(own);
            if over {
                changes.push(Change::remove(Table::Reservation, name.as_bytes()));
            }
            !over
        });
    }

    /// An administrator says that what is named so is reserved no more. Whether it was, or was claimed here.
    pub(super) fn clear(&mut self, name: &str, changes: &mut Vec<Change>) -> bool {
        let held = self.held.remove(name).is_some();
        if held {
            changes.push(Change::remove(Table::Reservation, name));
        }
        let mut claimed = false;
        for own in self.claims.values_mut().filter(|own| own.record.name == name) {
            own.progress = Progress::Known;
            claimed = true;
        }
        held || claimed
    }

    /// What an administrator sees: the names that are reserved here, and this site's own claims.
    pub(super) fn shown(&self, here: &Site) -> Vec<admin::Reservation> {
        let held = self.held.iter().map(|(name, own)| admin::Reservation {
            name: name.clone(),
            holder: own.holder.to_string(),
            sites: vec![here.clone()],
            since_ms: own.since_ms,
            state: match own.stage {
                Stage::Held | Stage::Fenced | Stage::Known => ReservationState::Held,
                Stage::Begun if self.running.contains(&own.holder) => ReservationState::Executing,
                Stage::Begun => ReservationState::InDoubt,
            },
        });
        let claims = self.claims.iter().map(|(number, own)| admin::Reservation {
            name: own.record.name.clone(),
            holder: Holder { site: here.clone(), number: *number }.to_string(),
            sites: own.record.sites.iter().cloned().collect(),
            since_ms: own.record.since_ms,
            state: match own.progress {
                Progress::Open => ReservationState::Executing,
                Progress::InDoubt { doubted: true, .. } => ReservationState::InDoubt,
                Progress::InDoubt { doubted: false, .. } => ReservationState::Inquiring,
                Progress::Known => ReservationState::Releasing,
            },
        });
        claims.chain(held).collect()
    }
}

impl Progress {
    fn in_doubt() -> Progress {
        Progress::InDoubt { cleared: BTreeSet::new(), doubted: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "image:/images/x";

    fn site(name: &str) -> Site {
        Site::new(name).unwrap()
    }

    fn holder(name: &str, number: u128) -> Holder {
        Holder { site: site(name), number }
    }

    fn claimed(number: u128, sites: &[&str]) -> Reservations {
        let mut own = Reservations::default();
        let sites = sites.iter().map(|name| site(name)).collect();
        let sender = Sender::numbered(1);
        assert!(own.claim(number, NAME, sites, sender, 1, &mut Vec::new()));
        own
    }

    #[test]
    fn a_name_is_one_claims_until_that_releases_it() {
        let (mut own, mut changes) = (Reservations::default(), Vec::new());
        let [one, other] = [holder("A", 1), holder("B", 1)];
        assert_eq!(own.reserve(NAME, &one, 1, &mut changes), Reply::Held);
        assert_eq!(own.reserve(NAME, &one, 2, &mut changes), Reply::Held, "asked again");
        assert_eq!(own.reserve(NAME, &other, 2, &mut changes), Reply::Taken);
        assert_eq!(changes.len(), 1);
        own.release(NAME, &other, &mut changes);
        assert_eq!(own.reserve(NAME, &other, 2, &mut changes), Reply::Taken, "it had nothing to release");
        own.release(NAME, &one, &mut changes);
        assert_eq!(own.reserve(NAME, &other, 3, &mut changes), Reply::Held);
    }

    #[test]
    fn what_was_asked_after_does_not_begin_any_more() {
        let (mut own, mut changes) = (Reservations::default(), Vec::new());
        let one = holder("A", 1);
        own.reserve(NAME, &one, 1, &mut changes);
        assert_eq!(own.inquire(NAME, &one, &mut changes), Reply::NotBegun);
        assert!(!own.begin_writing(NAME, &one, &mut changes), "its leg comes too late");
        assert_eq!(own.reserve(NAME, &holder("B", 2), 2, &mut changes), Reply::Taken, "it is still held");
    }

    #[test]
    fn a_write_without_an_answer_is_in_doubt_until_it_is_found() {
        let (mut own, mut changes) = (Reservations::default(), Vec::new());
        let one = holder("A", 1);
        own.reserve(NAME, &one, 1, &mut changes);
        assert!(own.begin_writing(NAME, &one, &mut changes));
        assert!(!own.begin_writing(NAME, &one, &mut changes), "once");
        assert_eq!(own.inquire(NAME, &one, &mut changes), Reply::Running);
        own.found(NAME, &one, &mut changes);
        assert_eq!(own.inquire(NAME, &one, &mut changes), Reply::Running, "an older one may be there");
        own.end_writing(NAME, &one, false, &mut changes);
        assert_eq!(own.inquire(NAME, &one, &mut changes), Reply::InDoubt);
        own.open_at(&site("A"), &[1], &[], &mut changes);
        assert_eq!(own.inquire(NAME, &one, &mut changes), Reply::InDoubt, "nobody knows more of it");
        own.found(NAME, &one, &mut changes);
        assert_eq!(own.inquire(NAME, &one, &mut changes), Reply::Known);
        own.open_at(&site("A"), &[1], &[], &mut changes);
        assert!(own.holders().is_empty(), "its entry site does not know it any more");
    }

    #[test]
    fn a_claim_in_doubt_ends_only_when_every_site_has_said_what_it_knows() {
        let mut own = claimed(7, &["A", "B"]);
        let mut changes = Vec::new();
        assert_eq!(own.next_step(7), None, "its request is under way");
        own.end_claim(7, false);
        let step = |own: &Reservations| own.next_step(7).map(|(_, step, sites)| (step, sites));
        assert_eq!(step(&own), Some((Step::Inquire, vec![site("A"), site("B")])));
        assert!(!own.heard(7, &site("A"), &Reply::NotBegun, &mut changes));
        for reply in [Reply::Running, Reply::InDoubt] {
            assert!(!own.heard(7, &site("B"), &reply, &mut changes));
            assert_eq!(step(&own), Some((Step::Inquire, vec![site("B")])));
        }
        assert!(!own.heard(7, &site("B"), &Reply::Known, &mut changes));
        assert_eq!(step(&own), Some((Step::Release, vec![site("A"), site("B")])));
        assert!(!own.heard(7, &site("B"), &Reply::Released, &mut changes));
        assert_eq!(own.open_among(&[7, 8]), [7]);
        assert!(own.heard(7, &site("A"), &Reply::Released, &mut changes));
        assert!(own.open_among(&[7]).is_empty());
    }

    #[test]
    fn an_operator_ends_a_doubt() {
        let mut own = claimed(7, &["A", "B"]);
        own.end_claim(7, false);
        own.heard(7, &site("A"), &Reply::InDoubt, &mut Vec::new());
        assert!(own.clear(NAME, &mut Vec::new()));
        assert!(!own.clear("image:/images/y", &mut Vec::new()));
        assert_eq!(own.next_step(7).map(|(_, step, _)| step), Some(Step::Release));
    }

    #[test]
    fn nobody_reserves_more_than_may_be() {
        let mut own = Reservations::default();
        let sender = Sender::numbered(1);
        for number in 0..MAX_CLAIMS_PER_SENDER as u128 {
            assert!(own.claim(number, NAME, vec![site("A")], sender, 1, &mut Vec::new()));
        }
        assert!(!own.claim(1_000, NAME, vec![site("A")], sender, 1, &mut Vec::new()));
        assert!(own.claim(1, NAME, vec![site("B")], sender, 1, &mut Vec::new()), "one that there is");
        for number in 0..MAX_NAMES_PER_SITE {
            let name = format!("image:/{number}");
            assert_eq!(own.reserve(&name, &holder("A", 1), 1, &mut Vec::new()), Reply::Held);
        }
        assert_eq!(own.reserve(NAME, &holder("A", 1), 1, &mut Vec::new()), Reply::Full);
        assert_eq!(own.reserve(NAME, &holder("B", 1), 1, &mut Vec::new()), Reply::Held);
    }
}
