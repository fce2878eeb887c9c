//! The site that accepts a write signs it, and on whose behalf it is: a site that passes it on can change neither.

use std::time::{Duration, UNIX_EPOCH};

use link::{Notary, Signed};
use replica::{Body, Class, Doubt, OpId, Operation, Who, Write};
use scope::Site;
use serde_json::json;

use super::Keeper;
use crate::replicas::request::Kept;

impl Keeper {
    /// Signs the write that is accepted next.
    pub(super) fn vouch(&self, write: &Write, kept: &Kept) -> Option<Signed> {
        let said = said(&self.machine.next_op(), &write.class, write.doubt, &write.on_behalf_of, kept)?;
        self.core.state().notary()?.sign(&said)
    }

    /// Whether the writes that came with operations are what the sites that accepted these signed, for the same users;
    /// and no operation has the write of another.
    pub(super) fn are_vouched(&self, from: &Site, operations: &[Operation], writes: &[Kept]) -> bool {
        let state = self.core.state();
        let Some(notary) = state.notary() else { return false };
        let is_its_own = |op: &Operation| {
            let known = op.body.as_ref().and_then(|Body(id)| self.book.op_of(id));
            known.is_none_or(|known| *known == op.id)
        };
        let is_signed = |kept: &Kept| operations.iter().any(|op| is_signed(notary, op, kept));
        let vouched = operations.iter().all(is_its_own) && writes.iter().all(is_signed);
        if !vouched {
            self.note(&json!({
                "replicas": "a write is not as the site signed it that accepted it; it is not taken",
                "from": from.name(),
            }));
        }
        vouched
    }
}

/// What is signed: all that decides what is executed, and for whom.
pub(super) fn said(op: &OpId, class: &Class, doubt: Doubt, who: &Who, kept: &Kept) -> Option<Vec<u8>> {
    let Kept { id, service, kind, method, path, below, query, headers, content, signed: _ } = kept;
    let what = (id, service, kind, method, path, below, query, headers, content);
    postcard::to_allocvec(&(op, class, doubt, who, what)).ok()
}

/// Whether a write is what this operation executes, and the site that accepted it says so, of a user of its own.
fn is_signed(notary: &Notary, op: &Operation, kept: &Kept) -> bool {
    let is_its =
        op.body.as_ref().is_some_and(|Body(id)| *id == kept.id) && op.on_behalf_of.site == op.id.site;
    let when = UNIX_EPOCH.checked_add(Duration::from_millis(op.on_behalf_of.time_ms)).unwrap_or(UNIX_EPOCH);
    let said = said(&op.id, &op.class, op.doubt, &op.on_behalf_of, kept);
    let (Some(signed), Some(said)) = (kept.signed.as_ref().filter(|_| is_its), said) else { return false };
    notary.is_by(op.id.site.name(), &said, signed, when)
}
