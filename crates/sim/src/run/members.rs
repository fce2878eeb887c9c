//! What operators order of the membership in a run, and whether the sites know each other at its end.

use std::collections::BTreeSet;
use std::time::Duration;

use archipel::members::Order;
use scope::Site;
use tokio::time::{Instant, sleep};

use super::Sea;
use crate::isle::{Isle, link_address, site};
use crate::membership;
use crate::network::Stop;

/// How long the sites may take to know each other, after they have had time to agree on all else.
const MEETING: Duration = Duration::from_secs(20);

/// After this time, what one site was told is known to all.
const HEARD: Duration = Duration::from_secs(2);

impl Sea {
    /// A site goes on as another version: at once, if it runs.
    pub(super) async fn upgrade(&mut self, site: usize, version: u16) {
        let isle = &mut self.isles[site];
        isle.version = version;
        if isle.view().is_some() {
            isle.crash(Stop::Process);
            isle.start().await;
        }
    }

    /// A site that said goodbye joins again, by the link of another.
    pub(super) async fn bring_back(&self, site: usize) {
        let others = (0..self.isles.len()).filter(|other| *other != site && Some(*other) != self.void());
        let by = others.min().unwrap_or_default();
        self.isles[site].order(Order::Join(vec![link_address(by)])).await;
        let outline = &self.isles[site].outline;
        outline.left.set(None);
        outline.back.set(Some(Instant::now()));
    }

    /// Whoever is still kept unused somewhere is used again, as an operator there says.
    pub(super) async fn end_quarantines(&self) {
        for isle in &self.isles {
            let view = isle.view();
            let seen = view.as_ref().and_then(|view| view.heard()).into_iter().flat_map(sites::Snapshot::all);
            let shunned = seen.filter(|seen| seen.quarantined).map(|seen| seen.record.site.clone());
            let shunned: BTreeSet<Site> = shunned.filter(|shunned| *shunned != site(isle.index)).collect();
            for site in &shunned {
                isle.order(Order::Quarantine { site: site.to_string(), on: false }).await;
            }
            // Others hear of it before they are asked to say the same.
            sleep(if shunned.is_empty() { Duration::ZERO } else { HEARD }).await;
        }
        for outline in self.isles.iter().map(|isle| &isle.outline) {
            if outline.shunned.replace(false) {
                outline.back.set(Some(Instant::now()));
            }
        }
    }

    /// Why the sites do not know each other, if so, and do not come to know each other either.
    pub(super) async fn disagreement(&self) -> Option<String> {
        let until = Instant::now() + MEETING;
        loop {
            let views: Vec<_> = self.isles.iter().map(Isle::view).collect();
            let why = membership::disagreement(&views, self.void());
            if why.is_none() || Instant::now() > until {
                return why;
            }
            sleep(Duration::from_secs(1)).await;
        }
    }
}
