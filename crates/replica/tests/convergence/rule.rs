//! The rule of `scope-lang.md` once more, written from its text: a state from a set of operations.

use std::collections::BTreeMap;

use replica::{Class, Operation};

use crate::app::{App, Register};

fn concurrent_or_after(delete: &Operation, op: &Operation) -> bool {
    delete.saw(op) || !op.saw(delete)
}

pub(crate) fn number(op: &Operation) -> i64 {
    op.body.as_ref().unwrap().0.split(' ').nth(1).unwrap().parse().unwrap()
}

/// "A delete beats what is concurrent": what it leaves.
fn left(all: &[Operation]) -> Vec<&Operation> {
    let deletes: Vec<_> = all.iter().filter(|op| op.class == Class::Delete).collect();
    all.iter()
        .filter(|op| op.class != Class::Delete && !deletes.iter().any(|d| concurrent_or_after(d, op)))
        .collect()
}

/// The state at every site that knows them all.
pub(crate) fn state(all: &[Operation]) -> App {
    let left = left(all);
    let replaces: Vec<_> =
        left.iter().filter(|op| matches!(op.class, Class::Create | Class::Replace)).collect();
    let Some(base) = replaces
        .iter()
        .filter(|op| replaces.iter().all(|other| !other.saw(op) || other.id == op.id))
        .max_by_key(|op| (op.stamp, &op.id.site, op.id.counter))
    else {
        return App(None);
    };
    let mut counts: Vec<_> = left.iter().filter(|op| !base.saw(op)).collect();
    // Clocks respect causality, so within a field the last by (clock, site) is the later one.
    counts.sort_by_key(|op| (op.stamp, &op.id.site));
    let mut register = Register { value: number(base), fields: BTreeMap::new() };
    for op in &counts {
        if op.class == Class::Add {
            register.value += number(op);
        }
    }
    let patches: Vec<&Operation> =
        counts.iter().map(|op| **op).filter(|op| matches!(op.class, Class::Patch(_))).collect();
    for path in patches.iter().flat_map(|op| values(op)).map(|(path, _)| path) {
        if let Some(op) = winner(&patches, path) {
            let (_, value) = values(op).find(|(own, _)| *own == path).unwrap();
            register.fields.insert(path.to_owned(), value);
        }
    }
    App(Some(register))
}

/// What a patch sets: fields, and elements of them as `field/element`.
fn values(op: &Operation) -> impl Iterator<Item = (&str, i64)> {
    let words = op.body.as_ref().unwrap().0.split(' ');
    words.filter_map(|word| {
        let (name, value) = word.split_once('=')?;
        Some((name.trim_start_matches('/'), value.parse().unwrap()))
    })
}

/// "What sets a whole field erases what it has seen of the field's elements, and no other": the last patch of a path, of those that
/// the last patch of whatever the path is an element of has not seen.
fn winner<'o>(patches: &[&'o Operation], path: &str) -> Option<&'o Operation> {
    let above: Vec<_> = path.match_indices('/').filter_map(|(at, _)| path.get(..at)).collect();
    let erased =
        |op: &Operation| above.iter().filter_map(|above| winner(patches, above)).any(|whole| whole.saw(op));
    let mut own = patches.iter().filter(|op| values(op).any(|(own, _)| own == path) && !erased(op));
    own.next_back().copied()
}
