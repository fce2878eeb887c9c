//! Clients follow the pages of lists of several sites.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::sleep;

use super::{Sea, id_text};
use crate::client::{self, Asked, Sent};
use crate::isle::NAMES;
use crate::network::Network;
use crate::schedule::Walk;
use crate::trace::Trace;

/// No list of a run has so many pages.
const MOST_PAGES: usize = 400;

/// The pages of one list, followed to their end or as far as they went.
#[derive(Clone, Debug)]
pub struct Walked {
    /// Which.
    pub walk: Walk,
    /// Nothing broke, and nothing was under way.
    pub quiet: bool,
    /// There was no more, and no page lacked a site.
    pub whole: bool,
    /// The id of each item, and what made it, in the order in which they were told.
    pub told: Vec<(String, String)>,
}

/// What clients saw of lists.
pub(super) type Walks = Rc<RefCell<Vec<Walked>>>;

impl Sea {
    /// Somebody follows the pages of a list, with a pause before each, while everything else goes on.
    pub(super) fn walk(&mut self, walk: Walk) {
        let (network, trace, walks) = (self.network.clone(), self.trace.clone(), Rc::clone(&self.walks));
        let token = self.keys;
        self.asking.push(spawn_local(async move {
            let walked = follow(&network, &trace, walk, token, false).await;
            walks.borrow_mut().push(walked);
        }));
    }

    /// At the end, at every site: of all sites, and of all but the one that is asked.
    pub(super) async fn walk_at_last(&self) {
        let sites: Vec<usize> = (0..self.isles.len()).filter(|site| Some(*site) != self.void()).collect();
        for (turn, site) in sites.iter().enumerate() {
            let mut all = sites.clone();
            all.rotate_left(turn);
            let others: Vec<usize> = all.iter().copied().filter(|other| other != site).collect();
            for sites in [all, others] {
                let limit = 1 + turn * 2;
                let walk = Walk { site: *site, sites, limit, pause_ms: 0 };
                let walked = follow(&self.network, &self.trace, walk, self.keys, true).await;
                self.walks.borrow_mut().push(walked);
            }
        }
    }
}

async fn follow(network: &Network, trace: &Trace, walk: Walk, token: bool, quiet: bool) -> Walked {
    let scope: Vec<&str> = walk.sites.iter().map(|site| NAMES[*site]).collect();
    let scope = scope.join(" & ");
    let mut walked = Walked { quiet, whole: true, told: Vec::new(), walk };
    let mut path = format!("/images?limit={}", walked.walk.limit);
    for _ in 0..MOST_PAGES {
        sleep(Duration::from_millis(walked.walk.pause_ms)).await;
        let site = walked.walk.site;
        let asked = Asked {
            site,
            method: "GET",
            path: path.clone(),
            scope: scope.clone(),
            body: Sent::Nothing,
            token,
        };
        let told = client::ask(network, &asked).await;
        if told.status != 200 {
            walked.whole = false;
            return walked;
        }
        // A site that told all that it has is not asked, and not named.
        walked.whole &= told.sites.split(',').all(|site| site.contains("status=200"));
        let items = told.body.get("images").and_then(Value::as_array);
        let text = |item: &Value, field: &str| item.get(field).map(id_text).unwrap_or_default();
        walked.told.extend(items.into_iter().flatten().map(|item| (text(item, "id"), text(item, "made"))));
        let Some(next) = told.body.get("next").and_then(Value::as_str) else {
            trace.say(format!("a list of {scope} at {}: {:?}", NAMES[site], walked.told));
            return walked;
        };
        next.clone_into(&mut path);
    }
    // They do not end: what was told is told again and again.
    walked.told.extend(walked.told.clone());
    walked
}
