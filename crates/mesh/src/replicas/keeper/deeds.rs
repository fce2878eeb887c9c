//! What the machine wants done, done.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use replica::{
    Authority, Doubt, Effect, Event, Execution, Level, LocalId, Meta, OpId, Operation, Outcome, Stage, Timer,
};
use scope::Site;
use serde_json::json;
use spool::Id;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::copy::{self, Copied};
use super::execute::{self, Job};
use super::fetch::Fetch;
use super::install::{self, Unfinished};
use super::probe;
use super::pull::Progress;
use super::shapes::Shape;
use super::vault::{Change, Table};
use super::{Deed, Keeper, News, peers};
use crate::identity::may_bring;
use crate::replicas::Held;
use crate::replicas::request::Name;

/// Before a replica that could not be removed is removed again.
const RELEASE_AGAIN: Duration = Duration::from_secs(30);

impl Keeper {
    pub(super) fn carry_out(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Effect(effect) => self.effect(*effect),
                Deed::Tell(reply, told) => drop(reply.send(told)),
                Deed::Done(reply, done) => drop(reply.send(done)),
                Deed::Begun(reply) => drop(reply.send(true)),
                Deed::Allocated(range, end) => self.allocated(range, end),
                Deed::Settled(reply) => drop(reply.send(Ok(()))),
                // It may be the body of another write by now: one that came again.
                Deed::Erase(id) if self.book.needs(id) => {}
                Deed::Erase(id) => self.erase(id),
                Deed::Completed(finished) => self.tell_completed(&finished),
                Deed::Place(place) => {
                    if let Err(error) = place.tell() {
                        let error = error.to_string();
                        self.note(
                            &json!({ "replicas": "the place of the store is not recorded", "error": error }),
                        );
                    }
                }
            }
        }
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Answer { ticket, op, reply } => self.answer(ticket, op, reply),
            Effect::Execute { operation, execution, local, authority } => {
                self.execute(operation, execution, local, authority);
            }
            Effect::Probe { operation, execution, local } => self.probe(operation, execution, local),
            Effect::ProbeMade { resource, op } => self.probe_made(resource, op),
            Effect::InDoubt { resource, op } => {
                self.replicas.counts.doubted.add(1);
                self.note(&json!({ "in doubt": op.to_string(), "resource": *resource.0 }));
            }
            Effect::Diverged { resource, op, status } => {
                self.replicas.counts.diverged.add(1);
                self.note(&json!({ "diverged": *resource.0, "op": op.to_string(), "status": status }));
            }
            Effect::Send { to, message } => {
                if let Some(messages) = self.outboxes.add(&to, message) {
                    self.send(to, messages);
                }
            }
            Effect::Read { ticket, .. } => self.may_read(ticket),
            Effect::Wake { timer, after_ms } => self.wake(timer, after_ms),
            // What it would have to be given is not taken from this site: the next turn asks another.
            Effect::CopyState { resource, from } if !self.accepts(&from) => {
                let _ = self.news.send(News::Fetched { resource, copied: None });
            }
            Effect::CopyState { resource, from } => {
                let (core, news) = (Rc::clone(&self.core), self.news.clone());
                let (spool, progress) = (self.bodies.spool.clone(), Progress::default());
                self.bodies.fetches.insert(resource.clone(), (from.clone(), progress.clone()));
                spawn_local(async move {
                    let fetch = Fetch { core, spool, from, meta: resource.clone(), progress };
                    let copied = fetch.run().await.map(Box::new);
                    let _ = news.send(News::Fetched { resource, copied });
                });
            }
            Effect::Install { resource, local, made } => self.install(resource, local, made),
            Effect::Make { resource, op } => self.make(resource, op),
            Effect::Release { resource, keep, .. } => {
                if !keep {
                    self.release(resource);
                }
            }
            Effect::Digest { resource, local } => self.digest(resource, &Name::from(&local)),
            Effect::Compared { ticket, sites, .. } => self.compared(ticket, sites),
            Effect::Differs { resource, sites } => {
                self.replicas.counts.differing.add(1);
                let sites: Vec<&str> = sites.keys().map(Site::name).collect();
                self.note(&json!({ "replicas differ": *resource.0, "sites": sites }));
            }
            Effect::Skewed { site, ahead_ms } => {
                self.note(&json!({ "clock ahead": site.name(), "ms": ahead_ms }));
            }
            // These were taken down before.
            Effect::Persist { .. } | Effect::Erase(_) | Effect::Finished { .. } => {}
        }
    }

    fn job(
        &mut self,
        operation: Operation,
        execution: Execution,
        local: Option<LocalId>,
        authority: Authority,
    ) -> Job {
        let map = self.machine.map(&operation.resource);
        let chosen = map.as_ref().is_some_and(|map| map.chosen);
        let level = map.map_or(Level::Eventual, |map| map.level);
        let sender = match authority {
            Authority::Sender => self.clients.sender(&execution.op),
            Authority::Site | Authority::Unproven => None,
        };
        let (core, vault) = (Rc::clone(&self.core), self.vault.clone());
        let spool = self.bodies.spool.clone();
        let waits = Rc::clone(&self.waits);
        let doubted = self.machine.is_doubted(&operation.resource);
        Job {
            core,
            vault,
            spool,
            operation,
            execution,
            local,
            authority,
            chosen,
            doubted,
            level,
            waits,
            sender,
        }
    }

    fn execute(
        &mut self,
        operation: Operation,
        execution: Execution,
        local: Option<LocalId>,
        authority: Authority,
    ) {
        self.busy += 1;
        let (news, resource) = (self.news.clone(), operation.resource.clone());
        let job = self.job(operation, execution.clone(), local, authority);
        // Nothing is begun at the end: that it was not is known now, and would not be later.
        let lost = authority == Authority::Sender && job.sender.is_none();
        if self.ending.is_some() || lost {
            let outcome = Outcome::NotExecuted;
            let said = Box::new(outcome.into());
            let _ = news.send(News::Executed { resource, execution, said });
            return;
        }
        let places = Rc::clone(&self.places);
        spawn_local(async move {
            // It is never closed.
            let place = places.acquire().await;
            let said = Box::new(job.execute().await);
            drop(place);
            let _ = news.send(News::Executed { resource, execution, said });
        });
    }

    /// A service answered, or did not.
    pub(super) fn executed(&mut self, resource: &Meta, execution: Execution, said: execute::Said) {
        let resource = self.machine.current_name(resource, &execution.op);
        let execute::Said { outcome, response, lacking, held } = said;
        if let Some(lacking) = lacking {
            self.regain(&resource, *lacking);
        }
        match &outcome {
            Outcome::Done { status, .. } => {
                self.doubted.remove(&resource);
                self.replicas.counts.executed.add(1);
                self.book.answered(&execution.op, *status);
            }
            Outcome::Begun { status } => self.book.answered(&execution.op, *status),
            Outcome::Refused { status } => {
                self.replicas.counts.refused.add(1);
                self.book.answered(&execution.op, *status);
            }
            Outcome::Unknown => {
                self.replicas.counts.doubted.add(1);
                self.doubted.insert(resource.clone(), Instant::now());
            }
            Outcome::NotExecuted => {}
        }
        self.clients.responded(&execution.op, response);
        self.held.remove(&resource);
        if let Some(held) = held {
            self.held.insert(resource.clone(), (execution.op.clone(), held));
        }
        self.event(Event::Executed { resource, execution, outcome });
    }

    /// Why the service here has not executed what waits for it next, where that is known.
    pub(super) fn held_back(&self, meta: &Meta) -> Option<(&OpId, Held)> {
        let (op, held) = self.held.get(meta)?;
        let running = self.machine.status(meta)?.running?;
        let waits = running.execution.op == *op && running.stage != Stage::InDoubt;
        waits.then_some((op, *held))
    }

    fn probe(&mut self, operation: Operation, execution: Execution, local: Option<LocalId>) {
        let (news, places) = (self.news.clone(), Rc::clone(&self.places));
        let (resource, op): (Meta, OpId) = (operation.resource.clone(), execution.op.clone());
        let limit = self.response_limit(&resource);
        self.held.insert(resource.clone(), (op.clone(), Held::Probing));
        let job = self.job(operation, execution, local, Authority::Site);
        spawn_local(async move {
            let (executed, local) = probe::probe(&places, limit, || job.look_for_effect()).await;
            let _ = news.send(News::Probed { resource, op, executed, local });
        });
    }

    /// The same, of a copy.
    fn probe_made(&mut self, resource: Meta, op: OpId) {
        let (news, places) = (self.news.clone(), Rc::clone(&self.places));
        let (core, vault) = (Rc::clone(&self.core), self.vault.clone());
        let limit = self.response_limit(&resource);
        spawn_local(async move {
            let look = || probe::look_for_copy(Rc::clone(&core), vault.clone(), resource.clone(), op.clone());
            let (executed, local) = probe::probe(&places, limit, look).await;
            let _ = news.send(News::Probed { resource, op, executed, local });
        });
    }

    /// A service told what became of something, or did not.
    pub(super) fn probed(
        &mut self,
        resource: &Meta,
        op: OpId,
        executed: Option<bool>,
        local: Option<LocalId>,
    ) {
        let resource = self.machine.current_name(resource, &op);
        if let Some(executed) = executed {
            self.doubted.remove(&resource);
            self.replicas.counts.probed.add(1);
            self.note(&json!({ "found": op.to_string(), "resource": *resource.0, "executed": executed }));
        }
        self.held.remove(&resource);
        for waiting in self.probing.remove(&op).into_iter().flatten() {
            let _ = waiting.send(Ok(executed));
        }
        self.event(Event::Probed { resource, op, executed, local });
    }

    /// Since when no attempt at what is in doubt was begun, and how long a service may take for one. What was begun before this
    /// process is over since that began.
    fn response_limit(&self, resource: &Meta) -> (Instant, Duration) {
        let since = self.doubted.get(resource).copied().unwrap_or(self.opened);
        (since, self.core.state().settings().timeouts.response)
    }

    fn send(&self, to: Site, messages: Vec<replica::Message>) {
        let (core, vault, news) = (Rc::clone(&self.core), self.vault.clone(), self.news.clone());
        spawn_local(async move {
            let ended = peers::send(core, vault, to.clone(), messages).await;
            let _ = news.send(News::Sent(to, ended));
        });
    }

    pub(super) fn send_next(&mut self, to: &Site) {
        if let Some(messages) = self.outboxes.next(to) {
            self.send(to.clone(), messages);
        }
    }

    /// Sites that wait for the same do not all come back at the same moment.
    fn wake(&mut self, timer: Timer, after_ms: u64) {
        let mut random = [0; 1];
        self.core.random(&mut random);
        let [random] = random;
        let after_ms = after_ms.saturating_mul(800 + u64::from(random) * 400 / 255) / 1000;
        let (news, fired) = (self.news.clone(), timer.clone());
        let waiting = spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(after_ms)).await;
            let _ = news.send(News::Fired(fired));
        });
        if let Some(before) = self.timers.insert(timer, waiting.abort_handle()) {
            before.abort();
        }
    }

    /// The state of another replica came, or did not.
    pub(super) fn fetched(&mut self, resource: Meta, copied: Option<Box<Copied>>) {
        let from = self.bodies.fetches.remove(&resource).map(|(from, _)| from);
        let state = self.core.state();
        let credible = |copied: &Copied| {
            let may_bring =
                |who| from.as_ref().is_some_and(|from| may_bring(state.settings(), from, Some(who)));
            copied.snapshot.ops.iter().all(|op| may_bring(&op.on_behalf_of))
        };
        let Some(copied) = copied else { return self.event(Event::CopyFailed { resource }) };
        if !credible(&copied) {
            self.erase_later(copied.spooled());
            return self.event(Event::CopyFailed { resource });
        }
        let (map, snapshot) = (copied.map.clone(), copied.snapshot.clone());
        let mut effects = Vec::new();
        self.machine.on(super::now_ms(), Event::Fetched { map, snapshot }, &mut effects);
        let taken = effects.iter().any(|effect| matches!(effect, Effect::Install { .. }));
        let changes = taken.then(|| Change::put(Table::Copy, resource.0.as_bytes(), &*copied));
        let old = if taken { self.set_copy(&resource, copied.spooled()) } else { copied.spooled() };
        self.take(effects, &[], &std::collections::BTreeSet::new(), changes.into_iter().collect());
        self.erase_later(old);
    }

    fn install(&mut self, resource: Meta, local: Option<LocalId>, whole: bool) {
        self.busy += 1;
        let (core, vault, news) = (Rc::clone(&self.core), self.vault.clone(), self.news.clone());
        let own = self.book.own_shape(&resource, local.as_ref());
        let (spool, waits) = (self.bodies.spool.clone(), Rc::clone(&self.waits));
        let made = self.machine.is_in_service(&resource);
        let known = Arc::clone(&self.replicas.known);
        spawn_local(async move {
            let (meta, asked) = (resource.clone(), local.clone());
            let own_local = |local: &LocalId| !known.is_anothers(&Name::from(&meta), &Name::from(local));
            let local = local.filter(own_local);
            let given = install::Given { meta, local, own, made, whole, waits };
            let _ = news.send(match install::install(core, vault, spool, given).await {
                Ok((local, copied)) => {
                    News::Installed { resource, installed: Some((local, Box::new(copied))) }
                }
                Err(Unfinished::Failed) => News::Installed { resource, installed: None },
                Err(Unfinished::ToMake { doubt, shape }) => {
                    News::ToMake { resource, local: asked, doubt, shape }
                }
            });
        });
    }

    /// The service has to make what it is given. How that is addressed is known from now on: it may have to be removed.
    pub(super) fn has_to_make(&mut self, resource: Meta, local: Option<LocalId>, doubt: Doubt, shape: Shape) {
        let mut changes = Vec::new();
        if self.book.shape(&resource).is_none() {
            self.book.set_shape(&resource, shape, &mut changes);
        }
        self.event_with(Event::ToMake { resource, local, doubt }, &[], changes);
    }

    fn make(&mut self, resource: Meta, op: OpId) {
        self.busy += 1;
        let (core, vault, news) = (Rc::clone(&self.core), self.vault.clone(), self.news.clone());
        // Nothing is begun at the end: that it was not is known now, and would not be later.
        if self.ending.is_some() {
            let _ = news.send(News::Made { resource, op, outcome: Outcome::NotExecuted });
            return;
        }
        let (spool, places) = (self.bodies.spool.clone(), Rc::clone(&self.places));
        spawn_local(async move {
            let place = places.acquire().await;
            let outcome = install::make(core, vault, spool, resource.clone(), op.clone()).await;
            drop(place);
            let _ = news.send(News::Made { resource, op, outcome });
        });
    }

    pub(super) fn installed(&mut self, resource: Meta, installed: Option<(Option<LocalId>, Box<Copied>)>) {
        let Some((local, copied)) = installed else { return self.event(Event::CopyFailed { resource }) };
        self.replicas.counts.copied.add(1);
        let mut changes = vec![Change::remove(Table::Copy, resource.0.as_bytes())];
        // Of what was never there nobody knows more than that.
        if copied.shape != Shape::default() {
            let shape = Shape { local: local.clone(), ..copied.shape.clone() };
            self.book.set_shape(&resource, shape, &mut changes);
        }
        self.event_with(Event::Installed { resource: resource.clone(), local }, &copied.writes, changes);
        let old = self.set_copy(&resource, Vec::new());
        self.erase_later(old);
    }

    /// Bodies that no record will name once what was recorded so far is durable.
    fn erase_later(&mut self, bodies: Vec<Id>) {
        for id in bodies {
            self.afterwards(Deed::Erase(id));
        }
    }

    /// Reads what the service here has, for a comparison.
    fn digest(&self, resource: Meta, local: &Name) {
        let (core, news, places) = (Rc::clone(&self.core), self.news.clone(), Rc::clone(&self.places));
        let shape = self.book.shape(&resource);
        let local = local.clone();
        spawn_local(async move {
            let content = match shape {
                Some(shape) => {
                    let _place = places.acquire().await;
                    copy::digest(&core, &shape, &local).await
                }
                None => replica::Content::Unread,
            };
            let _ = news.send(News::Digested { resource, content });
        });
    }

    /// What has to be removed from the service, also if this process ends before it is.
    pub(super) fn note_release(&mut self, effect: &Effect, changes: &mut Vec<Change>) {
        if let Effect::Release { resource, local, keep: false } = effect {
            self.book.note_release(resource, local.as_ref(), changes);
        }
    }

    pub(super) fn release(&self, resource: Meta) {
        let Some(shape) = self.book.released(&resource).cloned() else { return };
        let Some(local) = shape.local.as_ref().map(Name::from) else { return };
        let (core, news) = (Rc::clone(&self.core), self.news.clone());
        spawn_local(async move {
            let gone = copy::release(core, shape, local).await;
            if !gone {
                tokio::time::sleep(RELEASE_AGAIN).await;
            }
            let _ = news.send(News::Released { resource, gone });
        });
    }

    pub(super) fn released(&mut self, resource: &Meta, gone: bool) {
        // It may have come back, under the same name: then it stays.
        let back =
            self.machine.map(resource).is_some_and(|map| map.chosen && map.members().contains(&self.here));
        if gone || back {
            let mut changes = Vec::new();
            self.book.is_released(resource, &mut changes);
            let now = self.journal.add(super::Call { changes, deeds: Vec::new() });
            self.carry_out(now);
        } else {
            self.release(resource.clone());
        }
    }
}
