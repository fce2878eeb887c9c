//! The name of a write, for a request whose time may be up before the write has an answer.
//!
//! The keeper names a write when it records it, and another site is told a name before it is asked. Either says so here first. Once
//! the request has been answered, neither begins any more: so its client is told the name of all that may have been recorded.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use replica::OpId;
use scope::Site;

/// See the module. Clones are of the same write.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteName(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// With the other site that was told it, if one was.
    op: Option<(OpId, Option<Site>)>,
    /// Nobody waits any more.
    over: bool,
}

/// A write that is about to be recorded. Whoever ends it meanwhile waits until this is dropped.
pub(crate) struct Beginning<'w>(MutexGuard<'w, State>);

impl WriteName {
    /// Begins to record it, or to send it where it may be recorded. None: nobody waits for it any more.
    pub(crate) fn begin(&self) -> Option<Beginning<'_>> {
        Some(self.state()).filter(|state| !state.over).map(Beginning)
    }

    /// It was recorded nowhere after all.
    pub(crate) fn forget(&self) {
        self.state().op = None;
    }

    /// Ends it: the name by which it may have been recorded, and at which other site. None: it was not, and will not be.
    pub(crate) fn end(&self) -> Option<(OpId, Option<Site>)> {
        let mut state = self.state();
        state.over = true;
        state.op.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Beginning<'_> {
    /// It may be recorded by this name from now on, here or at another site.
    pub(crate) fn name(&mut self, op: OpId, at: Option<Site>) {
        self.0.op = Some((op, at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op() -> OpId {
        "A/1-1/7".parse().unwrap()
    }

    #[test]
    fn what_was_begun_has_its_name_and_nothing_begins_after_the_end() {
        let name = WriteName::default();
        name.clone().begin().unwrap().name(op(), None);
        assert_eq!(name.end(), Some((op(), None)));
        assert!(name.begin().is_none());
        let other = WriteName::default();
        other.begin().unwrap().name(op(), Site::new("B"));
        other.forget();
        assert_eq!(other.end(), None);
    }
}
