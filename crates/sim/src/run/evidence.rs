//! What a run leaves behind, for the invariants.

use std::collections::BTreeMap;

use mesh::replication::ReplicaState;
use serde_json::Value;
use tokio::time::Instant;

use super::{Record, Sea, Walked};
use crate::app::{Done, Images};
use crate::membership::Watched;
use crate::revocation::Shut;
use crate::schedule::{Dues, ZONES, zone_members};
use crate::versions::{Heard, Talk};

/// All that is known at the end of a run.
pub struct Evidence {
    /// What clients did.
    pub records: Vec<Record>,
    /// What each service has at the end.
    pub images: Vec<Images>,
    /// The names that clients chose, at each service.
    pub names: Vec<Vec<String>>,
    /// What each service executed.
    pub ledgers: Vec<Vec<Done>>,
    /// Ids of images for clients, by the number of the request that made them.
    pub ids: BTreeMap<usize, String>,
    /// Why the sites were not done in time, if they were not.
    pub unquiet: Option<String>,
    /// Requests in flight at each site at the end; all have been answered.
    pub in_flight: Vec<usize>,
    /// Bytes of writes that each site still keeps for others.
    pub kept_bytes: Vec<u64>,
    /// The files in each site's spool.
    pub bodies: Vec<Vec<String>>,
    /// What some service was given as a file, and nobody sent as one.
    pub damaged: Option<String>,
    /// What a site showed as deleted, and its service still had.
    pub hasty: Option<String>,
    /// What a site showed as good, and was not.
    pub misled: Option<String>,
    /// What a site shows as good at the end, and no service has.
    pub ghosts: Option<String>,
    /// Some site was given an old copy of its records.
    pub restored: bool,
    /// Such sites, whose services kept what they had.
    pub forgot: Vec<usize>,
    /// Why the sites do not know each other at the end, if so.
    pub disagreement: Option<String>,
    /// What was seen of their knowledge of each other while they ran.
    pub watched: Watched,
    /// What sites of several versions asked each other, where there were several.
    pub talk: Option<Talk>,
    /// What was seen of a site that is shut out.
    pub shut: Shut,
    /// One that is shut out, and was let in.
    pub let_in: Option<String>,
    /// Sites that do not know of it at the end.
    pub unaware: Vec<usize>,
    /// What each site shows of the replicas of images: the site that says it, what made the image, the site of the replica,
    /// and its state.
    pub shown: Vec<(usize, usize, usize, ReplicaState)>,
    /// What clients saw of lists in pages.
    pub walks: Vec<Walked>,
    /// The ids of images that were given one more site.
    pub moved: Vec<String>,
    /// A replica that it still has, as another site says.
    pub still_there: Option<String>,
    /// Requests that have to be answered in time.
    pub dues: Dues,
    /// Writes that sites show as refused, by their operations: where, and with which status.
    pub refusals: BTreeMap<String, (usize, u16)>,
    /// What waited for somebody to do something about it, and did not say so.
    pub unexplained: Vec<String>,
    /// Services name what they make by counting.
    pub counts: bool,
    /// A number of a service that led to something else.
    pub mistaken: Option<String>,
}

impl Sea {
    /// See there.
    pub(super) async fn evidence(&self, unquiet: Option<String>, kept_bytes: Vec<u64>) -> Evidence {
        let (disagreement, still_there) = (self.disagreement().await, self.still_there().await);
        let shown = self.shown().await;
        let refusals = self.all_refusals().await;
        let images: Vec<Images> = self.isles.iter().map(|isle| isle.app.images()).collect();
        let mut records = self.records.borrow().clone();
        self.extend_records(&mut records).await;
        for record in records.iter_mut().filter(|record| record.unsure) {
            // It is where one of its meanings says, or nowhere.
            let made = Value::from(format!("w{}", record.ask.number));
            let there = |site: &usize| images[*site].values().any(|image| image.get("made") == Some(&made));
            let there: Vec<usize> = (0..images.len()).filter(there).collect();
            let meanings = (0..ZONES).map(|zone| zone_members(zone, images.len()));
            record.members = meanings.into_iter().find(|members| *members == there).unwrap_or_default();
        }
        for record in &mut records {
            let lost = |(site, since, until): &(usize, Instant, Instant)| {
                (record.ask.site == *site || record.was_taken_by(*site))
                    && record.told.to >= *since
                    && record.told.from <= *until
            };
            // Of a site without a replica: who took it is not known here.
            let elsewhere = !record.members.contains(&record.ask.site) && !self.restored.is_empty();
            // What a site does not know to be replicated is an ordinary resource of its service.
            let ordinary = |(site, since, _): &(usize, Instant, Instant)| {
                record.ask.site == *site && record.told.sites.is_empty() && record.told.to >= *since
            };
            record.lost = self.restored.iter().any(|own| lost(own) || ordinary(own)) || elsewhere;
        }
        records.sort_by_key(|record| (record.told.from, record.ask.number, record.ask.site));
        let mistaken = self.follow_numbers().await;
        let mut evidence = Evidence {
            records,
            images,
            names: self.isles.iter().map(|isle| isle.app.names()).collect(),
            ledgers: self.isles.iter().map(|isle| isle.app.ledger()).collect(),
            ids: self.ids.borrow().clone(),
            unquiet,
            in_flight: self
                .isles
                .iter()
                .map(|isle| isle.with_mesh(mesh::Mesh::in_flight).unwrap_or(0))
                .collect(),
            kept_bytes,
            bodies: self.isles.iter().map(|isle| isle.platter.names()).collect(),
            damaged: self.isles.iter().find_map(|isle| isle.app.damaged()),
            hasty: self.hasty.borrow().clone(),
            misled: self.misled.borrow().clone(),
            ghosts: self.ghosts.borrow().clone(),
            restored: !self.restored.is_empty(),
            forgot: self.forgot.clone(),
            disagreement,
            watched: self.watched.borrow().clone(),
            talk: self.heard.as_ref().map(Heard::all),
            shut: self.shut.borrow().clone(),
            let_in: self.let_in.first(),
            unaware: self.unaware(),
            still_there,
            dues: self.dues.clone(),
            shown,
            walks: self.walks.borrow().clone(),
            moved: self.moved(),
            refusals,
            unexplained: self.unexplained.clone(),
            counts: self.counts,
            mistaken,
        };
        self.leave_out(&mut evidence);
        evidence
    }
}
