//! Linearizability of one register (Wing and Gong): an order of all operations, each at one moment between its start and
//! its end, in which every read sees the state that the writes before it made.
//!
//! The simulator has the same search for plain values (`crates/sim/src/linear.rs`, behind its feature). Here the state is a
//! whole document, which additions and patches change too.

use std::collections::HashSet;

use crate::document::{self, Document};

/// An operation of a client.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// When it began.
    pub(crate) from: u64,
    /// When it ended; nothing where its outcome is unknown: it may take effect at any later time, or never.
    pub(crate) to: Option<u64>,
    /// The tag of its request.
    pub(crate) tag: String,
    /// Its effect.
    pub(crate) effect: Effect,
}

/// What an operation does to the register.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// Replaces the document.
    Put(Document),
    /// Sets these members.
    Patch(Document),
    /// Counts an addition.
    Add,
    /// Saw this document.
    Read(Document),
}

/// The outcome of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Linearizable,
    NotLinearizable,
    /// The search took too long, or the history is too long.
    Undecided,
}

/// More states than any history of a round needs; a search beyond it is given up.
const MAX_STATES: usize = 400_000;

/// Searches for an order.
pub(crate) fn judge(initial: &Document, history: &[Operation]) -> Judgement {
    let seen = |tag: &str| {
        history.iter().any(|operation| match &operation.effect {
            Effect::Read(document) => shows(document, tag),
            _ => false,
        })
    };
    // A write without outcome that no read shows need not have happened.
    let needed = |operation: &&Operation| operation.to.is_some() || seen(&operation.tag);
    let mut history: Vec<&Operation> = history.iter().filter(needed).collect();
    // Those that ended first are tried first.
    history.sort_by_key(|operation| (operation.to.unwrap_or(u64::MAX), operation.from));
    if history.len() > 128 {
        return Judgement::Undecided;
    }
    let mut search = Search { history, visited: HashSet::new() };
    match search.step(0, initial) {
        Some(true) => Judgement::Linearizable,
        Some(false) => Judgement::NotLinearizable,
        None => Judgement::Undecided,
    }
}

/// Whether a document shows a write of this tag.
fn shows(document: &Document, tag: &str) -> bool {
    document::text(document, "value") == tag
        || document::added(document, tag) > 0
        || document.contains_key(&document::mark(tag))
}

struct Search<'h> {
    history: Vec<&'h Operation>,
    visited: HashSet<(u128, String)>,
}

impl Search<'_> {
    /// Whether the rest has an order, from a state; nothing where that took too long.
    fn step(&mut self, done: u128, state: &Document) -> Option<bool> {
        let left = |index: usize| done & (1 << index) == 0;
        let waiting: Vec<(usize, &Operation)> =
            self.history.iter().copied().enumerate().filter(|(index, _)| left(*index)).collect();
        if waiting.iter().all(|(_, operation)| operation.to.is_none()) {
            return Some(true);
        }
        if !self.visited.insert((done, canonical(state))) {
            return Some(false);
        }
        if self.visited.len() > MAX_STATES {
            return None;
        }
        let first_end = waiting.iter().filter_map(|(_, operation)| operation.to).min();
        for (index, operation) in waiting {
            if first_end.is_some_and(|end| operation.from > end) {
                continue;
            }
            let Some(next) = apply(state, operation) else { continue };
            if self.step(done | 1 << index, &next)? {
                return Some(true);
            }
        }
        Some(false)
    }
}

/// The state after an operation; nothing where a read saw another one.
fn apply(state: &Document, operation: &Operation) -> Option<Document> {
    match &operation.effect {
        Effect::Put(document) => Some(document::whole(document.clone())),
        Effect::Patch(fields) => {
            let mut next = state.clone();
            document::patch(&mut next, fields);
            Some(next)
        }
        Effect::Add => {
            let mut next = state.clone();
            document::add(&mut next, &operation.tag);
            Some(next)
        }
        Effect::Read(document) => (canonical(document) == canonical(state)).then(|| state.clone()),
    }
}

/// A document's content as a text: members of a JSON object are sorted.
fn canonical(document: &Document) -> String {
    serde_json::Value::Object(document::content(document)).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn document(value: &Value) -> Document {
        value.as_object().cloned().map(document::whole).unwrap_or_default()
    }

    fn operation(from: u64, to: Option<u64>, tag: &str, effect: Effect) -> Operation {
        Operation { from, to, tag: tag.to_owned(), effect }
    }

    fn set(from: u64, to: Option<u64>, tag: &str) -> Operation {
        operation(from, to, tag, Effect::Patch(document(&json!({ "value": tag }))))
    }

    fn read(from: u64, value: &Value) -> Operation {
        operation(from, Some(from + 1), "r", Effect::Read(document(value)))
    }

    fn holds(history: &[Operation]) -> bool {
        judge(&document(&json!({ "value": "0" })), history) == Judgement::Linearizable
    }

    #[test]
    fn read_sees_writes_that_ended_before_it() {
        assert!(!holds(&[set(0, Some(1), "a"), read(2, &json!({ "value": "0" }))]));
        assert!(holds(&[set(0, Some(1), "a"), read(2, &json!({ "value": "a" }))]));
    }

    #[test]
    fn concurrent_writes_have_one_order() {
        let then = |values: [&str; 2]| {
            let [first, second] = values;
            let writes = [set(0, Some(9), "a"), set(0, Some(9), "b")];
            let reads = [read(10, &json!({ "value": first })), read(12, &json!({ "value": second }))];
            holds(&[writes, reads].concat())
        };
        assert!(then(["a", "a"]) && then(["b", "b"]));
        assert!(!then(["a", "b"]));
    }

    #[test]
    fn unknown_write_happens_late_or_never_but_not_twice() {
        let unknown = set(0, None, "a");
        let (old, new) = (json!({ "value": "0" }), json!({ "value": "a" }));
        assert!(holds(&[unknown.clone(), read(5, &old)]));
        assert!(holds(&[unknown.clone(), read(5, &old), read(7, &new)]));
        assert!(!holds(&[unknown, read(5, &new), read(7, &old)]));
    }

    #[test]
    fn additions_count_once() {
        let add = operation(0, Some(1), "x", Effect::Add);
        assert!(holds(&[add.clone(), read(2, &json!({ "value": "0", "adds": { "x": 1 } }))]));
        assert!(!holds(&[add.clone(), read(2, &json!({ "value": "0", "adds": { "x": 2 } }))]));
        assert!(!holds(&[add, read(2, &json!({ "value": "0" }))]));
    }
}
