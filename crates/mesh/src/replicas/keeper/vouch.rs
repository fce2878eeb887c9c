//! The site that accepts a write signs it, and on whose behalf it is: a site that passes it on can change neither.
//!
//! A signature is checked before each execution, and not when a write comes: what cannot be executed here is then a
//! replica that is behind, which takes the state of another, and nothing that holds up others.

use std::time::{Duration, UNIX_EPOCH};

use link::{Notary, Signed};
use replica::{Body, Class, Doubt, OpId, Operation, Who, Write};

use super::Keeper;
use crate::replicas::request::Kept;

impl Keeper {
    /// Signs the write that is accepted next. None where there is no other site to believe it.
    pub(super) fn vouch(&self, write: &Write, kept: &Kept) -> Option<Signed> {
        let said = said(&self.machine.next_op(), &write.class, write.doubt, &write.on_behalf_of, kept)?;
        self.core.state().notary()?.sign(&said)
    }
}

/// What is signed: all that decides what is executed, and for whom.
pub(super) fn said(op: &OpId, class: &Class, doubt: Doubt, who: &Who, kept: &Kept) -> Option<Vec<u8>> {
    let Kept { id, service, kind, method, path, below, query, headers, content, names, signed: _ } = kept;
    let what = (id, service, kind, method, path, below, query, headers, content, names);
    postcard::to_allocvec(&(op, class, doubt, who, what)).ok()
}

/// Whether a write is what this operation executes, and the site that accepted it says so, of a user of its own.
pub(super) fn is_signed(notary: &Notary, op: &Operation, kept: &Kept) -> bool {
    let is_its =
        op.body.as_ref().is_some_and(|Body(id)| *id == kept.id) && op.on_behalf_of.site == op.id.site;
    let Some(signed) = kept.signed.as_ref().filter(|_| is_its) else { return false };
    let when = UNIX_EPOCH.checked_add(Duration::from_millis(op.on_behalf_of.time_ms)).unwrap_or(UNIX_EPOCH);
    let said = said(&op.id, &op.class, op.doubt, &op.on_behalf_of, kept);
    said.is_some_and(|said| notary.is_by(op.id.site.name(), &said, signed, when))
}
