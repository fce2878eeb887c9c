//! What a client is told of a write that may have been executed.

use plan::Failure;
use replica::{Meta, OpId};

use super::{Dispatch, Legs};
use crate::replicas::{Name, Order};

/// What is told of a write of which nobody knows whether it was executed.
#[derive(Default)]
pub(super) struct Unknown {
    pub(super) op: Option<OpId>,
    /// It was not: it was never recorded.
    pub(super) unsent: bool,
}

impl Dispatch {
    /// What is told of a write that may have been executed, beside that: by which name to ask what became of it.
    pub(super) async fn unknown(&self, legs: &Legs, failure: Failure) -> Unknown {
        let named = legs.named.end();
        if failure != Failure::Unknown {
            return Unknown::default();
        }
        if let Some(claim) = &legs.released {
            return Unknown { op: claim.name_unknown().await, unsent: false };
        }
        let Some((op, site)) = named else {
            // The plan goes on only where what was asked before had no effect.
            let unsent = legs.each.iter().rev().find(|one| !one.reserves).is_some_and(|one| one.replicates);
            return Unknown { op: None, unsent };
        };
        if let Some(replicas) = &self.core.shared.replicas {
            let site = site.unwrap_or_else(|| self.state.settings().site.clone());
            let name = Name::new(&self.service.name, self.head.uri.path());
            let _ = replicas.orders.send(Order::Lost(op.clone(), Meta::from(&name), site));
        }
        Unknown { op: Some(op), unsent: false }
    }
}
