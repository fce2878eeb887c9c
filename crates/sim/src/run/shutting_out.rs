//! A site is shut out for good, and an operator takes its replicas away.

use archipel::members::Order;
use mesh::replication::{Change, Condition, Handle, Refused, Resource};
use serde_json::Value;
use tokio::time::Instant;

use super::{Evidence, Sea};
use crate::isle::{NAMES, site};
use crate::revocation::knows;
use crate::schedule::{Act, ZONES, zone_members};

impl Sea {
    /// An operator orders it at a site that runs: at this one, if it does.
    pub(super) async fn revoke(&mut self, by: usize, site: usize) {
        let sites = self.isles.len();
        for by in (0..sites).map(|turn| (by + turn) % sites).filter(|by| *by != site) {
            let order = Order::Revoke { statement: self.voided[site].clone(), force: true };
            let before = Instant::now();
            if let Some(done) = self.isles[by].obey(order).await {
                self.trace.say(format!("{}: {} is revoked: {done:?}", NAMES[by], NAMES[site]));
                self.isles[site].outline.void.set(true);
                self.shut.borrow_mut().site.get_or_insert((site, before));
                return;
            }
        }
    }

    /// The site that is shut out.
    pub(super) fn void(&self) -> Option<usize> {
        self.shut.borrow().site.map(|(site, _)| site)
    }

    /// A site's replica of this is taken away if the site is shut out. Where what it wrote was refused by all that are left, there is
    /// no good replica to copy: the operator says that the one which lacks least goes on without. Why that is not so yet, if so.
    pub(super) async fn shrink(&self, index: usize, handle: &Handle, resource: &Resource) -> Option<String> {
        let void = site(self.void()?);
        let name = &resource.name;
        if resource.replicas.iter().any(|replica| replica.site == void) {
            let done = handle.change(name, Change::Shrink(void)).await;
            self.trace.say(format!("{}: the operator shrinks {name}: {done:?}", NAMES[index]));
            return Some(format!("{name} was at a site that is shut out"));
        }
        // What is deleted is absent, as it should be.
        let gone = resource.deleted && resource.condition == Condition::Absent;
        if gone || !self.is_stuck(resource).await? {
            return None;
        }
        let done = match self.least(name).await {
            Some((lacks, least)) if least == index => {
                let before = self.given_up.borrow_mut().insert(name.clone(), lacks);
                if before == Some(lacks) { self.let_go(name).await } else { handle.mended(name).await }
            }
            // The others are given its state.
            Some(_) => return None,
            // Nobody has made it, and nobody will.
            None => self.let_go(name).await,
        };
        self.trace
            .say(format!("{}: the operator gives up what was refused of {name}: {done:?}", NAMES[index]));
        Some(format!("{name} was refused by all"))
    }

    /// It was not made, or is to be deleted, by the word of the site that is shut out alone: each site has its own then, which
    /// the operator deletes there.
    async fn let_go(&self, name: &str) -> Result<(), Refused> {
        let mut done = Ok(());
        for isle in self.isles.iter().filter(|isle| Some(isle.index) != self.void()) {
            let Some(handle) = isle.with_mesh(mesh::Mesh::replication).flatten() else { continue };
            let Ok(theirs) = handle.resource(name).await else { continue };
            let own = theirs.replicas.iter().find(|replica| replica.site == site(isle.index));
            if let Some(id) = own.and_then(|own| own.local.as_deref()?.rsplit('/').next()) {
                isle.app.erase(id);
            }
            done = done.and(handle.change(name, Change::Detach).await);
        }
        done
    }

    /// Whether no replica that is left can be used, nor copied.
    async fn is_stuck(&self, resource: &Resource) -> Option<bool> {
        for replica in &resource.replicas {
            let other = NAMES.iter().position(|name| *name == replica.site.name())?;
            let handle = self.isles[other].with_mesh(mesh::Mesh::replication).flatten()?;
            let condition = handle.resource(&resource.name).await.map(|theirs| theirs.condition);
            if !matches!(condition, Err(_) | Ok(Condition::Diverged(403) | Condition::Absent)) {
                return Some(false);
            }
        }
        Some(!resource.replicas.is_empty())
    }

    /// How much the replica lacks that lacks least of those that were made, and where it is.
    async fn least(&self, name: &str) -> Option<(usize, usize)> {
        let mut least = None;
        for isle in self.isles.iter().filter(|isle| Some(isle.index) != self.void()) {
            let handle = isle.with_mesh(mesh::Mesh::replication).flatten()?;
            let Ok(theirs) = handle.resource(name).await else { continue };
            let own = theirs.replicas.iter().find(|replica| replica.site == site(isle.index));
            let Some(own) = own.filter(|own| own.local.is_some()) else { continue };
            if theirs.condition == Condition::Diverged(403) {
                least = least.into_iter().chain([(own.pending, isle.index)]).min();
            }
        }
        least
    }

    /// The sites that do not know of it.
    pub(super) fn unaware(&self) -> Vec<usize> {
        let Some(void) = self.void() else { return Vec::new() };
        let others = self.isles.iter().filter(|isle| isle.index != void);
        others.filter(|isle| !knows(&isle.outline, void)).map(|isle| isle.index).collect()
    }

    /// A replica that it has, by the word of another site.
    pub(super) async fn still_there(&self) -> Option<String> {
        let void = self.void()?;
        for isle in self.isles.iter().filter(|isle| isle.index != void) {
            let handle = isle.with_mesh(mesh::Mesh::replication).flatten()?;
            let all = handle.resources().await.unwrap_or_default();
            let has =
                |resource: &&Resource| resource.replicas.iter().any(|replica| replica.site == site(void));
            if let Some(resource) = all.iter().find(has) {
                return Some(format!("at {}: {resource:?}", NAMES[isle.index]));
            }
        }
        None
    }

    /// What is promised of the sites that are left is not promised of the one that is shut out, nor of what it acknowledged.
    pub(super) fn leave_out(&self, evidence: &mut Evidence) {
        let Some(void) = self.void() else { return };
        let sites = evidence.images.len();
        let replicated = |made: &Value| {
            let create = |record: &&super::Record| matches!(record.ask.act, Act::Create { .. });
            evidence.records.iter().filter(create).any(|record| *made == format!("w{}", record.ask.number))
        };
        let of_replicas = |image: &serde_json::Map<String, Value>| image.get("made").is_some_and(replicated);
        let mut images = std::mem::take(&mut evidence.images[void]);
        images.retain(|_, image| !of_replicas(image));
        evidence.images[void] = images;
        for record in &mut evidence.records {
            let took = record.was_taken_by(void);
            // Of a site without a replica: who took it is not known here.
            let elsewhere = record.ask.act.writes() && !record.members.contains(&record.ask.site);
            if record.unsure {
                let made = Value::from(format!("w{}", record.ask.number));
                let has = |site: &usize| {
                    evidence.images[*site].values().any(|image| image.get("made") == Some(&made))
                };
                let there: Vec<usize> = (0..sites).filter(has).collect();
                let left = |zone| -> Vec<usize> {
                    zone_members(zone, sites).into_iter().filter(|site| *site != void).collect()
                };
                record.members = (0..ZONES).map(left).find(|left| *left == there).unwrap_or_default();
            }
            if !matches!(record.ask.act, Act::Forward { .. }) {
                record.lost |= record.ask.site == void || took || elsewhere;
                record.members.retain(|site| *site != void);
            }
        }
        // Nobody settles there what is in doubt.
        (evidence.bodies[void], evidence.in_flight[void]) = (Vec::new(), 0);
    }
}
