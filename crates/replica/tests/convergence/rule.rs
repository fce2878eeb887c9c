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
    for op in counts {
        match op.class {
            Class::Add => register.value += number(op),
            Class::Patch(_) => {
                for (name, value) in
                    op.body.as_ref().unwrap().0.split(' ').filter_map(|word| word.split_once('='))
                {
                    register.fields.insert(name.to_owned(), value.parse().unwrap());
                }
            }
            _ => {}
        }
    }
    App(Some(register))
}
