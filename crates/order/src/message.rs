//! What sites tell each other about a group.

use omnipaxos::messages::Message as Agreement;
use omnipaxos::messages::sequence_paxos::PaxosMsg;
use serde::{Deserialize, Serialize};

use crate::id::GroupId;
use crate::link::Stamp;
use crate::log::Slot;
use crate::record::{self, Unreadable};

/// Between two members of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Message {
    /// The group.
    pub(crate) group: GroupId,
    /// Where it belongs on the link.
    pub(crate) stamp: Stamp,
    /// So many entries it was given.
    pub(crate) given: u64,
    pub(crate) payload: Payload,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub(crate) enum Payload {
    /// The library's own.
    Agreement(Vec<u8>),
    /// To the leader: a mark, for the reads of the sender up to this one.
    Mark(u64),
    /// To the leader: only what the sender was given.
    Given,
    /// From the leader: the receiver is to lead.
    Lead,
}

impl Message {
    /// The entries that it carries, for whoever has to send along what they name.
    #[must_use]
    pub fn entries(&self) -> Vec<Vec<u8>> {
        let Some(Agreement::SequencePaxos(message)) = self.agreement() else { return Vec::new() };
        let slots = match message.msg {
            PaxosMsg::Promise(promise) => promise.log_sync.map(|sync| sync.suffix).unwrap_or_default(),
            PaxosMsg::AcceptSync(sync) => sync.log_sync.suffix,
            PaxosMsg::AcceptDecide(accept) => accept.entries,
            _ => Vec::new(),
        };
        slots.into_iter().filter_map(|slot| slot.bytes).collect()
    }

    /// True where its sender has promised or accepted something by it, or claims to lead: it must not forget that.
    #[must_use]
    pub fn binds(&self) -> bool {
        let Some(Agreement::SequencePaxos(message)) = self.agreement() else { return false };
        matches!(
            message.msg,
            PaxosMsg::Prepare(_)
                | PaxosMsg::Promise(_)
                | PaxosMsg::AcceptSync(_)
                | PaxosMsg::AcceptDecide(_)
                | PaxosMsg::Accepted(_)
        )
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> &GroupId {
        &self.group
    }

    pub(crate) fn agreement(&self) -> Option<Agreement<Slot>> {
        match &self.payload {
            Payload::Agreement(bytes) => record::decode(bytes).ok(),
            Payload::Mark(_) | Payload::Given | Payload::Lead => None,
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        record::encode(self)
    }

    /// Reads [`Message::bytes`].
    pub fn read(bytes: &[u8]) -> Result<Message, Unreadable> {
        record::decode(bytes)
    }
}
