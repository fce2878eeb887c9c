//! Reserved names: what cores and other sites ask of them, and the claims whose outcome has to be found out.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use scope::Site;
use serde_json::json;
use tokio::sync::oneshot;
use tokio::task::{JoinSet, spawn_local};
use tokio::time::Instant;

use super::execute::look;
use super::journal::Call;
use super::reservations::Step;
use super::vault::Change;
use super::{Deed, Keeper, News, now_ms, peers};
use crate::carry::Sender;
use crate::core::Core;
use crate::replicas::request::Name;
use crate::replicas::wire::{self, Told};
use crate::reservations::{Holder, Question, Reply, encode};

/// The pauses between two rounds of questions about a claim, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// The questions that are under way.
#[derive(Default)]
pub(super) struct Inquiries(BTreeMap<u128, Inquiry>);

/// Of one claim.
#[derive(Default)]
struct Inquiry {
    asking: bool,
    /// Not before.
    next: Option<Instant>,
    pause: Option<Duration>,
    /// Who waits until every site has released the name.
    waits: Option<oneshot::Sender<()>>,
}

impl Keeper {
    /// Makes changes durable, then does this.
    fn reserve_durably(&mut self, changes: Vec<Change>, deed: Option<Deed>) {
        let now = self.journal.add(Call { changes, deeds: deed.into_iter().collect() });
        self.carry_out(now);
    }

    /// Answers what another site asks, or a core of this one.
    pub(super) fn asked_of_name(&mut self, from: &Site, question: &[u8], reply: oneshot::Sender<Told>) {
        let Ok(question) = postcard::from_bytes::<Question>(question) else {
            return drop(reply.send((StatusCode::BAD_REQUEST, Bytes::new())));
        };
        let mut changes = Vec::new();
        let said = self.answer_of_name(from, question, &mut changes);
        let said = postcard::to_allocvec(&said).map_or_else(
            |_| (StatusCode::INTERNAL_SERVER_ERROR, Bytes::new()),
            |said| (StatusCode::OK, Bytes::from(said)),
        );
        self.reserve_durably(changes, Some(Deed::Tell(reply, said)));
    }

    fn answer_of_name(&mut self, from: &Site, question: Question, changes: &mut Vec<Change>) -> Reply {
        // A site speaks for its own claims only.
        let holder = |number| Holder { site: from.clone(), number };
        match question {
            Question::Reserve { name, number } => {
                let said = self.reservations.reserve(&name, &holder(number), now_ms(), changes);
                let counts = &self.replicas.counts;
                let count =
                    if said == Reply::Held { &counts.reserved } else { &counts.reservation_conflicts };
                count.add(1);
                said
            }
            Question::Inquire { name, number } => {
                let holder = holder(number);
                let said = self.reservations.inquire(&name, &holder, changes);
                if said == Reply::InDoubt {
                    self.look_for(name, holder);
                }
                said
            }
            Question::Release { name, number } => self.reservations.release(&name, &holder(number), changes),
            Question::AreOpen { numbers } => Reply::Open(self.reservations.open_among(&numbers)),
        }
    }

    /// Looks whether what a write in doubt was to make is there. That it is not there proves nothing: a service may still
    /// be at it.
    fn look_for(&self, name: String, holder: Holder) {
        let (core, news) = (Rc::clone(&self.core), self.news.clone());
        let Some((service, path)) =
            name.split_once(':').map(|(service, path)| (service.to_owned(), path.to_owned()))
        else {
            return;
        };
        spawn_local(async move {
            let found = look(&core, &core.state(), &Name::new(&service, &path), &path).await;
            if found.is_some_and(|(status, _)| (200..300).contains(&status)) {
                let _ = news.send(News::FoundNamed { name, holder });
            }
        });
    }

    pub(super) fn found_named(&mut self, name: &str, holder: &Holder) {
        let mut changes = Vec::new();
        self.reservations.found(name, holder, &mut changes);
        self.reserve_durably(changes, None);
    }

    /// A request that entered here claims a name.
    pub(super) fn claim(
        &mut self,
        number: u128,
        name: &str,
        sites: Vec<Site>,
        sender: Sender,
        reply: oneshot::Sender<bool>,
    ) {
        // Nothing can be recorded: who waits is told so.
        if self.fault.is_some() || self.ending.is_some() {
            return drop(reply);
        }
        let mut changes = Vec::new();
        if self.reservations.claim(number, name, sites, sender, now_ms(), &mut changes) {
            self.reserve_durably(changes, Some(Deed::Begun(reply)));
        } else {
            let _ = reply.send(false);
        }
    }

    pub(super) fn end_claim(&mut self, number: u128, known: bool, reply: Option<oneshot::Sender<()>>) {
        if !known {
            self.replicas.counts.reservations_doubted.add(1);
        }
        self.reservations.end_claim(number, known);
        self.inquiries.0.entry(number).or_default().waits = reply;
        self.settle_claim(number);
    }

    pub(super) fn begin_writing(&mut self, name: &str, holder: &Holder, reply: oneshot::Sender<bool>) {
        let mut changes = Vec::new();
        let ready = self.fault.is_none() && self.ending.is_none();
        if ready && self.reservations.begin_writing(name, holder, &mut changes) {
            self.reserve_durably(changes, Some(Deed::Begun(reply)));
        } else {
            let _ = reply.send(false);
        }
    }

    pub(super) fn end_writing(&mut self, name: &str, holder: &Holder, known: bool) {
        let mut changes = Vec::new();
        self.reservations.end_writing(name, holder, known, &mut changes);
        self.reserve_durably(changes, None);
    }

    /// Asks on, about every claim whose request is over.
    pub(super) fn settle_claims(&mut self) {
        for number in self.reservations.ended() {
            self.settle_claim(number);
        }
    }

    /// Asks the sites of a claim what became of its write, or tells them to release the name.
    fn settle_claim(&mut self, number: u128) {
        let Some((name, step, sites)) = self.reservations.next_step(number) else {
            self.inquiries.0.remove(&number);
            return;
        };
        let inquiry = self.inquiries.0.entry(number).or_default();
        if inquiry.asking || inquiry.next.is_some_and(|next| next > Instant::now()) {
            return;
        }
        inquiry.asking = true;
        let question = match step {
            Step::Inquire => Question::Inquire { name, number },
            Step::Release => Question::Release { name, number },
        };
        let mut said = Vec::new();
        if sites.contains(&self.here) {
            let (here, mut changes) = (self.here.clone(), Vec::new());
            let own = self.answer_of_name(&here, question.clone(), &mut changes);
            self.reserve_durably(changes, None);
            said.push((here, Some(own)));
        }
        let others: Vec<Site> = sites.into_iter().filter(|site| *site != self.here).collect();
        let (core, news) = (Rc::clone(&self.core), self.news.clone());
        spawn_local(async move {
            said.extend(ask_all(&core, others, &question).await);
            let _ = news.send(News::OfClaim { number, said });
        });
    }

    pub(super) fn heard_of_claim(&mut self, number: u128, said: Vec<(Site, Option<Reply>)>) {
        let before = self.reservations.next_step(number);
        let (mut changes, mut over) = (Vec::new(), false);
        for (site, reply) in said {
            if let Some(reply) = reply {
                over = self.reservations.heard(number, &site, &reply, &mut changes);
            }
        }
        self.reserve_durably(changes, None);
        let inquiry = self.inquiries.0.entry(number).or_default();
        inquiry.asking = false;
        if over {
            let waits = self.inquiries.0.remove(&number).and_then(|inquiry| inquiry.waits);
            let _ = waits.map(|waits| waits.send(()));
            return;
        }
        // What is known now is told at once; who has not answered is asked again later.
        let is_known = |next: &Option<(String, Step, Vec<Site>)>| {
            next.as_ref().is_some_and(|(_, step, _)| *step == Step::Release)
        };
        let after = self.reservations.next_step(number);
        if is_known(&after) && !is_known(&before) {
            (inquiry.next, inquiry.pause) = (None, None);
        } else {
            let pause = inquiry.pause.map_or(FIRST_PAUSE, |pause| (pause * 2).min(LONGEST_PAUSE));
            (inquiry.next, inquiry.pause) = (Some(Instant::now() + pause), Some(pause));
        }
        self.settle_claim(number);
    }

    /// Asks entry sites which of the claims that names are reserved for here are not over: an end that a site was not told
    /// of, because its question came later than the end, is learnt so.
    pub(super) fn ask_for_open_claims(&mut self) {
        for (entry, asked) in self.reservations.holders() {
            if entry == self.here {
                let open = self.reservations.open_among(&asked);
                self.heard_open_claims(&entry, &asked, &open);
                continue;
            }
            let (core, news) = (Rc::clone(&self.core), self.news.clone());
            spawn_local(async move {
                let question = Question::AreOpen { numbers: asked.clone() };
                if let Some(Reply::Open(open)) = ask(&core, &entry, &question).await {
                    let _ = news.send(News::OpenClaims { entry, asked, open });
                }
            });
        }
    }

    pub(super) fn heard_open_claims(&mut self, entry: &Site, asked: &[u128], open: &[u128]) {
        let mut changes = Vec::new();
        self.reservations.open_at(entry, asked, open, &mut changes);
        self.reserve_durably(changes, None);
    }

    /// An administrator says that the outcome is known.
    pub(super) fn clear_reservation(&mut self, name: &str, reply: oneshot::Sender<bool>) {
        let mut changes = Vec::new();
        let cleared = self.reservations.clear(name, &mut changes);
        if cleared {
            self.note(&json!({ "reservation cleared": name }));
        }
        self.reserve_durably(changes, Some(Deed::Done(reply, cleared)));
        self.settle_claims();
    }
}

/// Asks every one of these sites.
async fn ask_all(core: &Rc<Core>, sites: Vec<Site>, question: &Question) -> Vec<(Site, Option<Reply>)> {
    let mut asking = JoinSet::new();
    for site in sites {
        let (core, question) = (Rc::clone(core), question.clone());
        asking.spawn_local(async move {
            let reply = ask(&core, &site, &question).await;
            (site, reply)
        });
    }
    let mut said = Vec::new();
    while let Some(told) = asking.join_next().await {
        said.extend(told.ok());
    }
    said
}

async fn ask(core: &Core, site: &Site, question: &Question) -> Option<Reply> {
    let (status, body) =
        peers::exchange(core, site, Method::POST, wire::RESERVATIONS, encode(question)).await?;
    match (status, question) {
        (StatusCode::OK, _) => postcard::from_bytes(&body).ok(),
        // It keeps no records, and so no name. What it may have kept before, it asks about itself once it does again.
        (StatusCode::NOT_FOUND | StatusCode::BAD_REQUEST, Question::Release { .. }) => Some(Reply::Released),
        _ => None,
    }
}
