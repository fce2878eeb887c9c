//! What is kept over a restart: all that other sites could tell again, and what they could not if all were
//! started together.

use crate::event::{Effect, Time};
use crate::machine::Machine;
use crate::members::OWN;
use crate::merge::Sender;
use crate::wire::{self, Exchange, Item};

/// The operator's statements in what was kept, so that nobody is let in before they are heeded. Whether they
/// are the operator's is for the caller to check.
#[must_use]
pub fn kept_statements(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Some((Exchange::Give, items)) = wire::read(bytes) else { return Vec::new() };
    let statement = |item| match item {
        Item::Revoked { statement, .. } => Some(statement.to_vec()),
        _ => None,
    };
    items.filter_map(statement).collect()
}

impl Machine {
    /// What to keep. It is the same for as long as nothing of it changes.
    #[must_use]
    pub fn save(&self) -> Vec<u8> {
        let mut bytes = wire::begin(&Exchange::Give);
        self.add_registers(&mut bytes);
        self.add_records(&mut bytes);
        bytes
    }

    /// What [`Machine::save`] gave. Sites are believed to be there, until that is found to be wrong; what
    /// cannot be read, and what follows it, is left out. Whether it ends where what was saved did.
    pub fn restore(&mut self, bytes: &[u8], now: Time, effects: &mut Vec<Effect>) -> bool {
        self.begin(now);
        let mut read = bytes.is_empty();
        if let (Some(own), Some((Exchange::Give, items))) = (self.members.get(OWN), wire::read(bytes)) {
            let mut items = items;
            let (site, identity) = (own.site().clone(), own.record.identity());
            let sender = Sender { site: &site, identity: &identity, whole_state: true };
            for item in items.by_ref() {
                self.say(item, &sender);
            }
            read = items.is_whole();
            // They knew the life before this one.
            self.news(OWN, true);
        }
        self.end(effects);
        read
    }

    /// Whether it has said goodbye.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }
}
