//! Long bodies: who may have them, what is on its way here, and when they go.
//!
//! A body comes in at one site, and the others are told at once: they pull it while it comes. Once its write is recorded
//! there, its message finds the body here, or waits until it is. What no write ever names goes again.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, StatusCode};
use replica::{Message, Meta};
use scope::Site;
use serde::{Deserialize, Serialize};
use serde_json::json;
use spool::{Id, Spool, Stored};
use tokio::sync::Semaphore;
use tokio::task::spawn_local;
use tokio::time::Instant;

use super::book::Book;
use super::execute::{Lacking, spooled};
use super::pull::{self, Progress};
use super::vault::Vault;
use super::{Keeper, News, Opening, copy, peers};
use crate::replicas::request::{Content, Kept};
use crate::replicas::upload::Coming;
use crate::replicas::wire;

const DIRECTORY: &str = "bodies";
const KEY: &str = "spool.key";

/// So many bodies are pulled at a time because a write needs them, and so many because one may.
const NEEDED: usize = 8;
const EARLY: usize = 8;
/// A body that came and that no write names goes after this: its client's write was refused, or its site is gone.
const LOOSE: Duration = Duration::from_hours(1);
/// So many messages wait for one body. What is dropped comes again by its sender's own timer.
const HELD: usize = 32;

/// What is known of bodies beside those of recorded writes.
pub(super) struct Bodies {
    pub(super) spool: Spool,
    /// Bodies that come in here from clients, and the sites that may have them before their writes are recorded.
    offered: BTreeMap<Id, BTreeSet<Site>>,
    pulls: BTreeMap<Id, Pull>,
    /// Here, and perhaps named by no write.
    loose: BTreeMap<Id, Loose>,
    /// Of states on their way into the service here.
    copies: BTreeMap<Meta, Vec<Id>>,
    /// States that are being fetched.
    pub(super) fetches: BTreeMap<Meta, (Site, Progress)>,
    needed: Rc<Semaphore>,
    early: Arc<Semaphore>,
}

/// A body that came from another site.
struct Loose {
    stored: Stored,
    from: Site,
    since: Instant,
}

/// A body on its way here.
struct Pull {
    meta: Option<Meta>,
    from: Site,
    progress: Progress,
    /// Messages that need it.
    held: Vec<(Site, Message, Vec<Kept>)>,
    early: bool,
    /// Of the one that a write was recorded with.
    digest: Option<[u8; 32]>,
    /// No write has it.
    withdrawn: bool,
}

/// What another site is told of a body that comes in here.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    id: String,
    length: Option<u64>,
    meta: Option<Meta>,
    /// It was offered before, and no write has it.
    withdrawn: bool,
}

/// Opens the spool in a directory. What no recorded write, nor a state on its way into the service, names is gone.
pub(super) async fn open(
    opening: &Opening,
    quota: u64,
    vault: &Vault,
    book: &Book,
) -> Result<Bodies, String> {
    let directory = opening.directory();
    let at = |why: String| format!("bodies of replicated resources, {}: {why}", directory.display());
    let copies = copy::bodies(vault).await.map_err(|error| at(error.to_string()))?;
    let states: BTreeSet<Id> = copies.values().flatten().copied().collect();
    let spool = async {
        let key = spool::Key::load_or_create(&directory.join(KEY))?;
        let spool = opening.spool(&directory.join(DIRECTORY), quota, key).await?;
        spool.retain(|id| book.needs(id) || states.contains(&id)).await?;
        Ok(spool)
    };
    let spool = spool.await.map_err(|error: spool::Error| at(error.to_string()))?;
    Ok(Bodies {
        spool,
        offered: BTreeMap::new(),
        pulls: BTreeMap::new(),
        loose: BTreeMap::new(),
        copies,
        fetches: BTreeMap::new(),
        needed: Rc::new(Semaphore::new(NEEDED)),
        early: Arc::new(Semaphore::new(EARLY)),
    })
}

impl Keeper {
    /// A client's body comes in here: the other sites are told, and pull it as it comes.
    pub(super) fn coming(&mut self, coming: Coming) {
        let Coming { id, length, meta, mut sites } = coming;
        sites.remove(&self.here);
        self.tell_of(&sites, &Offer { id: id.to_string(), length, meta, withdrawn: false });
        self.bodies.offered.insert(id, sites);
    }

    /// Whoever took a body in is done with it. It stays if its write was recorded.
    pub(super) fn let_go(&mut self, id: Id) {
        let sites = self.bodies.offered.remove(&id).unwrap_or_default();
        if !self.book.needs(id) {
            self.erase(id);
            self.tell_of(&sites, &Offer { id: id.to_string(), length: None, meta: None, withdrawn: true });
        }
    }

    fn tell_of(&self, sites: &BTreeSet<Site>, offer: &Offer) {
        let Ok(offer) = postcard::to_allocvec(offer).map(Bytes::from) else { return };
        for site in sites.iter().filter(|site| !self.down.contains(*site)) {
            let (core, site, offer) = (Rc::clone(&self.core), site.clone(), offer.clone());
            spawn_local(
                async move { peers::exchange(&core, &site, Method::POST, wire::COMING, offer).await },
            );
        }
    }

    /// Erases a body. What is left of it after a failure goes at the next start.
    pub(super) fn erase(&mut self, id: Id) {
        self.bodies.loose.remove(&id);
        let spool = self.bodies.spool.clone();
        spawn_local(async move { spool.erase(id).await });
    }

    /// Whether another site may have a body: one with a replica of the resource that it is for.
    pub(super) fn may_have(&self, from: &Site, id: &str) -> bool {
        let offered = id.parse().ok().and_then(|id: Id| self.bodies.offered.get(&id));
        let of = self.book.op_of(id).and_then(|op| self.book.op(op));
        offered.is_some_and(|sites| sites.contains(from))
            || of.is_some_and(|open| self.shares(from, &open.meta))
            || self.book.is_for(id, from)
    }

    /// Another site says that a body comes in there, and that this one will need it.
    pub(super) fn offered(&mut self, from: &Site, bytes: &[u8]) -> StatusCode {
        let Ok(Offer { id, length, meta, withdrawn }) = postcard::from_bytes(bytes) else {
            return StatusCode::BAD_REQUEST;
        };
        let Ok(id) = id.parse::<Id>() else { return StatusCode::BAD_REQUEST };
        if withdrawn {
            self.withdrawn(from, id);
            return StatusCode::NO_CONTENT;
        }
        let shared = |meta| self.machine.map(meta).is_none() || self.shares(from, meta);
        if !self.accepts(from) || !meta.as_ref().is_none_or(shared) {
            return StatusCode::FORBIDDEN;
        }
        self.pull(id, length, meta, vec![from.clone()], true);
        StatusCode::NO_CONTENT
    }

    /// No write has a body that was offered. One that is still on its way breaks off by itself.
    fn withdrawn(&mut self, from: &Site, id: Id) {
        let theirs = self.bodies.loose.get(&id).is_some_and(|loose| loose.from == *from);
        if theirs && !self.book.needs(id) {
            self.erase(id);
        } else if let Some(pull) = self.bodies.pulls.get_mut(&id).filter(|pull| pull.from == *from) {
            pull.withdrawn = true;
        }
    }

    /// The first write that a message needs and whose body is not here.
    fn lacking<'w>(&mut self, message: &Message, writes: &'w [Kept]) -> Option<&'w Kept> {
        let names = peers::bodies(message, |op| self.is_new(op) && self.book.finished(&op.id).is_none());
        writes.iter().find(|kept| {
            let wanted = names.iter().any(|replica::Body(id)| *id == kept.id);
            wanted && spooled(kept).is_some_and(|id| !self.has(id, kept))
        })
    }

    /// Whether a write's body is here. Another one of that name goes.
    fn has(&mut self, id: Id, kept: &Kept) -> bool {
        let Content::Spooled { length, digest } = &kept.content else { return true };
        if self.book.needs(id) {
            return true;
        }
        let Some(Loose { stored, .. }) = self.bodies.loose.get(&id) else { return false };
        let same = stored.len == *length && stored.sha256 == *digest;
        if !same {
            self.note(&json!({ "body": id.to_string(), "error": "it is not the one that was recorded" }));
            self.erase(id);
        }
        same
    }

    /// A message that needs a body waits for it, and gives way to the messages of other resources.
    pub(super) fn held(&mut self, from: &Site, message: &Message, writes: &[Kept]) -> bool {
        let Some(kept) = self.lacking(message, writes) else { return false };
        let (Some(id), Content::Spooled { length, digest }) = (spooled(kept), &kept.content) else {
            return false;
        };
        let lacking = Lacking { id, length: *length, digest: *digest };
        let meta = message.map().map(|map| map.meta.clone());
        let involved = message.map().into_iter().flat_map(replica::ReplicaMap::involved);
        let mut sources = vec![from.clone()];
        sources.extend(involved.filter(|site| *site != from && **site != self.here).cloned());
        self.need(lacking, meta, sources);
        if let Some(pull) = self.bodies.pulls.get_mut(&id) {
            let known = pull.held.iter().any(|(by, other, _)| by == from && other == message);
            if !known && pull.held.len() < HELD {
                pull.held.push((from.clone(), message.clone(), writes.to_vec()));
            }
        }
        true
    }

    /// A write that is recorded has lost its body: others may have it.
    pub(super) fn regain(&mut self, meta: &Meta, lacking: Lacking) {
        let mut sources = super::members(&self.machine, meta);
        sources.retain(|site| *site != self.here);
        self.need(lacking, Some(meta.clone()), sources);
    }

    fn need(&mut self, lacking: Lacking, meta: Option<Meta>, sources: Vec<Site>) {
        let Lacking { id, length, digest } = lacking;
        // What was here once is not any more.
        if self.book.needs(id) && self.bodies.spool.stored_len(id).is_none() {
            self.bodies.loose.remove(&id);
        }
        self.pull(id, Some(length), meta, sources, false);
        if let Some(pull) = self.bodies.pulls.get_mut(&id) {
            pull.digest = Some(digest);
        }
    }

    fn pull(&mut self, id: Id, length: Option<u64>, meta: Option<Meta>, sources: Vec<Site>, early: bool) {
        let known = self.bodies.pulls.contains_key(&id) || self.bodies.loose.contains_key(&id);
        let Some(from) = sources.first().cloned().filter(|_| !known && self.ending.is_none()) else { return };
        // What may not be needed at all waits for nothing.
        let place = Arc::clone(&self.bodies.early).try_acquire_owned().ok();
        if early && place.is_none() {
            return;
        }
        let place = place.filter(|_| early);
        let progress = Progress::default();
        let pull = Pull {
            meta,
            from,
            progress: progress.clone(),
            held: Vec::new(),
            early,
            digest: None,
            withdrawn: false,
        };
        self.bodies.pulls.insert(id, pull);
        let (core, news) = (Rc::clone(&self.core), self.news.clone());
        let (spool, needed) = (self.bodies.spool.clone(), Rc::clone(&self.bodies.needed));
        spawn_local(async move {
            let _early = place;
            let _needed = if early { None } else { Some(needed.acquire().await) };
            let stored = pull::body(&core, &spool, id, length, &sources, &progress).await;
            let _ = news.send(News::Pulled { id, stored });
        });
    }

    /// A body is here, or could not be had.
    pub(super) fn pulled(&mut self, id: Id, stored: Option<Stored>) {
        let Some(pull) = self.bodies.pulls.remove(&id) else { return };
        let wrong = stored.is_some_and(|stored| pull.digest.is_some_and(|digest| digest != stored.sha256));
        if wrong {
            self.note(&json!({ "body": id.to_string(), "error": "it is not the one that was recorded" }));
            self.erase(id);
        }
        if let Some(stored) = stored.filter(|_| !wrong) {
            self.replicas.counts.pulled.add(1);
            let loose = Loose { stored, from: pull.from, since: Instant::now() };
            self.bodies.loose.insert(id, loose);
            if pull.withdrawn && pull.held.is_empty() {
                self.erase(id);
            }
        } else if !pull.early {
            // Their senders try again.
            return;
        }
        for (from, message, writes) in pull.held {
            self.receive(&from, message, &writes);
        }
    }

    /// The bodies of a state that is to be given to the service here, in the place of those before.
    pub(super) fn set_copy(&mut self, meta: &Meta, bodies: Vec<Id>) -> Vec<Id> {
        let before = if bodies.is_empty() {
            self.bodies.copies.remove(meta)
        } else {
            self.bodies.copies.insert(meta.clone(), bodies)
        };
        before.into_iter().flatten().filter(|id| !self.book.needs(*id)).collect()
    }

    /// Erases what came, and what no write named.
    pub(super) fn sweep_bodies(&mut self) {
        let book = &self.book;
        self.bodies.loose.retain(|id, _| !book.needs(*id));
        let copied: BTreeSet<Id> = self.bodies.copies.values().flatten().copied().collect();
        let old = |(id, loose): (&Id, &Loose)| {
            (loose.since.elapsed() > LOOSE && !copied.contains(id)).then_some(*id)
        };
        let old: Vec<Id> = self.bodies.loose.iter().filter_map(old).collect();
        for id in old {
            self.erase(id);
        }
    }

    /// What is on its way here for a resource: from where, how much, of how much.
    pub(super) fn transfers(&self, meta: &Meta) -> Vec<(Site, u64, Option<u64>)> {
        let own = |pull: &&Pull| pull.meta.as_ref() == Some(meta);
        let pulls = self.bodies.pulls.values().filter(own).map(|pull| (&pull.from, &pull.progress));
        let fetch = self.bodies.fetches.get(meta).map(|(from, progress)| (from, progress));
        let shown =
            |(from, progress): (&Site, &Progress)| (from.clone(), progress.done.get(), progress.total.get());
        pulls.chain(fetch).map(shown).collect()
    }
}
