//! One site after another, until one takes a request; and the words by which a site sends a request on.

use std::collections::VecDeque;

use http::Response;
use http::header::HeaderValue;
use plan::Sent;
use replica::Reply;
use scope::Site;

use super::refusals::no_replica_here;
use super::walk::Outcome;
use crate::body::AnswerBody;
use crate::leg::LegFailure;
use crate::problem::UNSENT;

/// On an answer: nothing was executed, and this site would; or no other site would do better. Only peers may set it,
/// and only peers see it.
const LEADER: &str = "archipel-leader";
/// No site has such a name.
const NOBODY: &str = "*";

/// A request is sent on so often, by whoever it came to first. Leaders change, but not all the time.
const SENT_ON: usize = 4;

/// Says on an answer who takes the write, if it was not taken here.
pub(super) fn point(response: &mut Response<AnswerBody>, reply: &Reply) {
    let whom = match reply {
        Reply::Elsewhere(site) => site.name(),
        // The leader has spoken, or there is none that a majority hears.
        Reply::NoMajority | Reply::Missing(_) => NOBODY,
        _ => return,
    };
    // The names of sites are printable ASCII.
    if let Ok(value) = HeaderValue::try_from(whom) {
        response.headers_mut().insert(LEADER, value);
    }
}

/// The sites that may take a request, and what the last one said.
pub(super) struct Trying {
    sites: VecDeque<Site>,
    /// Whether a request may be sent to a site that another one names.
    sends_on: bool,
    sent_on: usize,
    last: Outcome,
}

impl Trying {
    /// These, in this order.
    pub(super) fn new(sites: Vec<Site>, sends_on: bool) -> Trying {
        let last = Err(LegFailure::refused(no_replica_here()));
        Trying { sites: sites.into(), sends_on, sent_on: 0, last }
    }

    pub(super) fn next(&mut self) -> Option<Site> {
        self.sites.pop_front()
    }

    /// What a site said: an answer, unless it says that nothing was executed and another site may do it.
    pub(super) fn heard(&mut self, outcome: Outcome) -> Option<Outcome> {
        match outcome {
            Ok(response) if is_to_be_tried_elsewhere(&response) => {
                if let Some(leader) = response.headers().get(LEADER).cloned() {
                    let leader = leader.to_str().ok().filter(|_| self.sends_on).and_then(Site::new);
                    let Some(leader) = leader.filter(|_| self.sent_on < SENT_ON) else {
                        return Some(Ok(response));
                    };
                    self.sent_on += 1;
                    self.sites.retain(|site| *site != leader);
                    self.sites.push_front(leader);
                }
                self.last = Ok(response);
                None
            }
            Err(failure) if failure.sent == Sent::No => {
                self.last = Err(failure);
                None
            }
            outcome => Some(outcome),
        }
    }

    /// No site took it.
    pub(super) fn end(self) -> Outcome {
        self.last
    }
}

/// A mesh says that nothing was executed, for a reason of its own site.
fn is_to_be_tried_elsewhere(response: &Response<AnswerBody>) -> bool {
    response.headers().contains_key(UNSENT) && response.status().is_server_error()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Problem;

    fn site(name: &str) -> Site {
        Site::new(name).unwrap()
    }

    fn says(reply: &Reply) -> Response<AnswerBody> {
        let problem = Problem::new(http::StatusCode::SERVICE_UNAVAILABLE, "test", "Test").unsent();
        let mut response = problem.into_response();
        point(&mut response, reply);
        response
    }

    #[test]
    fn the_site_that_is_named_is_next_and_sites_that_name_each_other_come_to_an_end() {
        let mut trying = Trying::new(vec![site("A"), site("B"), site("C")], true);
        let mut tried = Vec::new();
        while let Some(next) = trying.next() {
            let other = if next == site("C") { "A" } else { "C" };
            tried.push(next);
            if trying.heard(Ok(says(&Reply::Elsewhere(site(other))))).is_some() {
                break;
            }
        }
        assert_eq!(tried, ["A", "C", "A", "C", "A"].map(site));
    }

    #[test]
    fn nobody_is_asked_after_a_leader_that_misses_a_site_and_nobody_by_a_site_that_was_asked_itself() {
        let mut trying = Trying::new(vec![site("A"), site("B")], true);
        assert!(trying.heard(Ok(says(&Reply::NotGood))).is_none());
        assert!(trying.heard(Ok(says(&Reply::Missing(site("C"))))).is_some());
        assert!(trying.heard(Ok(says(&Reply::NoMajority))).is_some());
        let mut leg = Trying::new(vec![site("A")], false);
        assert!(leg.heard(Ok(says(&Reply::Elsewhere(site("B"))))).is_some());
    }
}
