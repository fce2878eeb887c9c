//! What of the library's messages is taken in, and how.

use omnipaxos::messages::Message as Agreement;
use omnipaxos::messages::sequence_paxos::{Compaction, PaxosMsg};
use omnipaxos::util::LogSync;

use crate::log::Slot;

/// A leader answers each promise with its log after what the follower then had. After losses, the answer
/// to an earlier promise may come when more is committed here, all of which it repeats: that part is cut off,
/// so that nothing committed is ever written again. One that ends before it is too old to count.
pub(crate) fn clipped(mut agreement: Agreement<Slot>, decided: usize) -> Option<Agreement<Slot>> {
    if let Agreement::SequencePaxos(message) = &mut agreement
        && let PaxosMsg::AcceptSync(accept) = &mut message.msg
        && let Some(known) = decided.checked_sub(accept.log_sync.sync_idx)
    {
        accept.log_sync.suffix = accept.log_sync.suffix.get(known..)?.to_vec();
        accept.log_sync.sync_idx = decided;
    }
    Some(agreement)
}

/// Whether it is of a kind that members send each other. The library has more, which this crate has no use
/// for: forwarded entries, reconfigurations and snapshots.
pub(crate) fn is_used(agreement: &Agreement<Slot>) -> bool {
    let plain = |sync: &LogSync<Slot>| sync.decided_snapshot.is_none() && sync.stopsign.is_none();
    match agreement {
        Agreement::BLE(_) => true,
        Agreement::SequencePaxos(message) => match &message.msg {
            PaxosMsg::PrepareReq(_)
            | PaxosMsg::Prepare(_)
            | PaxosMsg::AcceptDecide(_)
            | PaxosMsg::Accepted(_)
            | PaxosMsg::NotAccepted(_)
            | PaxosMsg::Decide(_)
            | PaxosMsg::Compaction(Compaction::Trim(_)) => true,
            PaxosMsg::Promise(promise) => promise.log_sync.as_ref().is_none_or(plain),
            PaxosMsg::AcceptSync(accept) => plain(&accept.log_sync),
            PaxosMsg::Compaction(Compaction::Snapshot(_))
            | PaxosMsg::ProposalForward(_)
            | PaxosMsg::AcceptStopSign(_)
            | PaxosMsg::ForwardStopSign(_) => false,
        },
    }
}
