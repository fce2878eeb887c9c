//! What the machine wants done waits until what it wants recorded is durable. Calls that come while the disk is
//! busy are made durable together, next.

use std::collections::VecDeque;

use super::vault::Change;

/// So many calls become durable together, at most, and about so many changes and bytes.
const CALLS: usize = 256;
const CHANGES: usize = 1024;
const BYTES: usize = 16 << 20;

/// What one call of the machine wants: these changes durable, and then these deeds done.
#[derive(Debug)]
pub(super) struct Call<D> {
    pub(super) changes: Vec<Change>,
    pub(super) deeds: Vec<D>,
}

/// The calls that wait, in their order.
#[derive(Debug)]
pub(super) struct Journal<D> {
    waiting: VecDeque<Call<D>>,
    /// What is being made durable: its deeds, and the changes in case it has to be tried again.
    committing: Option<(Vec<Change>, Vec<D>)>,
}

impl<D> Default for Journal<D> {
    fn default() -> Journal<D> {
        Journal { waiting: VecDeque::new(), committing: None }
    }
}

impl<D> Journal<D> {
    /// Adds a call. Gives back what can be done at once: nothing is before it, and nothing has to be durable.
    pub(super) fn add(&mut self, call: Call<D>) -> Vec<D> {
        if call.changes.is_empty() && self.is_empty() {
            return call.deeds;
        }
        self.waiting.push_back(call);
        Vec::new()
    }

    /// What has to become durable next, if the disk is free.
    pub(super) fn next(&mut self) -> Option<Vec<Change>> {
        if self.committing.is_some() || self.waiting.is_empty() {
            return None;
        }
        let (mut changes, mut deeds, mut bytes) = (Vec::<Change>::new(), Vec::new(), 0);
        for _ in 0..CALLS {
            let more = |call: &Call<D>| call.changes.iter().map(Change::bytes).sum::<usize>();
            let Some(size) = self.waiting.front().map(more) else { break };
            if bytes > 0 && (bytes + size > BYTES || changes.len() > CHANGES) {
                break;
            }
            bytes += size;
            let Some(call) = self.waiting.pop_front() else { break };
            changes.extend(call.changes);
            deeds.extend(call.deeds);
        }
        let changes = last_of_each(changes);
        self.committing = Some((changes.clone(), deeds));
        Some(changes)
    }

    /// It is durable: what is to be done now.
    pub(super) fn committed(&mut self) -> Vec<D> {
        self.committing.take().map(|(_, deeds)| deeds).unwrap_or_default()
    }

    /// What is not known to be durable, to be tried again.
    pub(super) fn again(&self) -> Option<Vec<Change>> {
        self.committing.as_ref().map(|(changes, _)| changes.clone())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.committing.is_none()
    }
}

/// Of several changes of one row the last counts.
fn last_of_each(changes: Vec<Change>) -> Vec<Change> {
    let mut seen = std::collections::HashSet::new();
    let mut last: Vec<Change> = changes
        .into_iter()
        .rev()
        .filter(|change| seen.insert((change.table as u8, change.key.clone())))
        .collect();
    last.reverse();
    last
}

#[cfg(test)]
mod tests {
    use super::super::vault::Table;
    use super::*;

    fn call(value: u8, deed: &'static str) -> Call<&'static str> {
        Call { changes: vec![Change::put(Table::Machine, [1], &value)], deeds: vec![deed] }
    }

    #[test]
    fn nothing_is_done_before_it_and_all_before_it_are_durable() {
        let mut journal = Journal::default();
        assert_eq!(journal.add(Call { changes: Vec::new(), deeds: vec!["at once"] }), ["at once"]);
        assert!(journal.add(call(1, "first")).is_empty());
        assert_eq!(journal.next().unwrap().len(), 1);
        assert!(journal.add(Call { changes: Vec::new(), deeds: vec!["after"] }).is_empty());
        assert!(journal.add(call(2, "second")).is_empty());
        assert!(journal.add(call(3, "third")).is_empty());
        assert!(journal.next().is_none(), "the disk is busy");
        assert_eq!(journal.committed(), ["first"]);
        let together = journal.next().unwrap();
        assert_eq!(together, [Change::put(Table::Machine, [1], &3_u8)]);
        assert_eq!(journal.again(), Some(together), "a disk that failed is tried again");
        assert_eq!(journal.committed(), ["after", "second", "third"]);
        assert!(journal.is_empty());
    }
}
