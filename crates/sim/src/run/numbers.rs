//! The resources to which the numbers of each service lead at the end.

use super::Sea;
use crate::client::{self, Asked, Sent};
use crate::isle::NAMES;
use crate::schedule::{Act, Schedule, What};

/// The requests that make images with replicas.
pub(super) fn replicated(schedule: &Schedule) -> Vec<String> {
    let creates = schedule.steps.iter().filter_map(|step| match &step.what {
        What::Ask(ask) if matches!(ask.act, Act::Create { .. }) => Some(format!("w{}", ask.number)),
        _ => None,
    });
    creates.collect()
}

impl Sea {
    /// Asks each site for all that its service has, by the service's own numbers: what leads to a replica, or to another image
    /// than the service has by that number.
    pub(super) async fn follow_numbers(&self) -> Option<String> {
        if !self.counts {
            return None;
        }
        for isle in self.isles.iter().filter(|isle| Some(isle.index) != self.void()) {
            // Where old records were put back, a replica that no other site had heard of is the service's own.
            let forgot = self.forgot.contains(&isle.index);
            for (id, image) in isle.app.images() {
                let asked = Asked {
                    site: isle.index,
                    method: "GET",
                    path: format!("/images/{id}"),
                    scope: String::new(),
                    body: Sent::Nothing,
                    token: self.keys,
                };
                let told = client::ask(&self.network, &asked).await;
                let (made, told_of) = (image.get("made"), told.body.get("made"));
                let is_replica = made
                    .and_then(|made| made.as_str())
                    .is_some_and(|made| self.replicated.iter().any(|own| own == made));
                let itself = told.status == 200 && told_of == made;
                let hidden = is_replica && told.status == 404;
                let right = if is_replica { hidden || (forgot && itself) } else { itself };
                if !right {
                    let name = NAMES[isle.index];
                    return Some(format!(
                        "{id} is {made:?} at {name}, and was answered {} with {told_of:?}",
                        told.status
                    ));
                }
            }
        }
        None
    }
}
