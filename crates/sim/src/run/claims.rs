//! Names that are still reserved when everything is mended, and the operator who clears what only an operator can.

use mesh::replication::{Handle, ReservationState};

use super::Sea;
use crate::isle::{Isle, NAMES};

impl Sea {
    /// What is still reserved at a site. Where a service gave no answer, and what it was asked for is not there, it will not
    /// come any more: by now every service has done what it was asked for.
    pub(super) async fn clear_reservations(&self, isle: &Isle, handle: &Handle) -> Vec<String> {
        let name = NAMES[isle.index];
        let mut why = Vec::new();
        for reservation in handle.reservations().await.unwrap_or_default() {
            why.push(format!("at {name}: {reservation:?}"));
            let entered = reservation.holder.starts_with(&format!("{name}/"));
            if reservation.state != ReservationState::InDoubt || !entered {
                continue;
            }
            self.trace.say(format!("the operator clears {} at {name}", reservation.name));
            if let Err(error) = handle.clear_reservation(&reservation.name).await {
                why.push(format!("cannot be cleared at {name}: {error}"));
            }
        }
        why
    }
}
