//! The rule of `@eventual`: from the operations that are known to the state that they make.
//!
//! A delete beats what is concurrent. The base is the replace that no other replace has seen; of several,
//! the highest (clock, site). An add or patch counts unless the base had seen it; within a field the later
//! patch wins. A field may have elements that are patched by themselves. It is to them what the base is to all:
//! they count on top of the patch that sets the whole field, unless that had seen them.
//! The outcome depends on the set of operations alone: arrival order never matters.

use std::collections::{BTreeMap, BTreeSet};

use crate::operation::{Class, Field, OpId, Operation, names};

/// The state that a set of operations makes, in terms of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The create or replace that the state starts from. None: the resource does not exist.
    pub base: Option<OpId>,
    /// Adds and idempotent actions on top of it, each once.
    pub adds: BTreeSet<OpId>,
    /// The patch that gives each patched field its value.
    pub fields: BTreeMap<Field, OpId>,
}

impl Target {
    /// What these operations make.
    pub fn of<'a>(operations: impl Iterator<Item = &'a Operation> + Clone) -> Target {
        let deletes: Vec<_> = operations.clone().filter(|op| op.class == Class::Delete).collect();
        let alive = operations
            .filter(|op| op.class != Class::Delete && deletes.iter().all(|delete| op.saw(delete)))
            .collect::<Vec<_>>();
        let replaces: Vec<_> = alive.iter().copied().filter(|op| op.class.sets_all()).collect();
        let Some(base) = last(&replaces) else { return Target::default() };
        let mut target = Target { base: Some(base.id.clone()), ..Target::default() };
        let mut patches = BTreeMap::<Vec<&str>, Vec<(&Field, &Operation)>>::new();
        for op in alive.into_iter().filter(|op| !base.saw(op)) {
            match &op.class {
                Class::Create | Class::Replace | Class::Delete => {}
                Class::Add | Class::Action { .. } => {
                    target.adds.insert(op.id.clone());
                }
                Class::Patch(fields) => {
                    for field in fields {
                        patches.entry(names(field)).or_default().push((field, op));
                    }
                }
            }
        }
        // A field comes before its elements.
        let mut winners = BTreeMap::<Vec<&str>, &Operation>::new();
        for (path, ops) in patches {
            let wholes: Vec<_> = (1..path.len()).filter_map(|end| winners.get(path.get(..end)?)).collect();
            let counts = |op: &Operation| !wholes.iter().any(|whole| whole.saw(op));
            let own: Vec<_> = ops.iter().map(|(_, op)| *op).filter(|op| counts(op)).collect();
            let Some(winner) = last(&own) else { continue };
            let spelled = ops.iter().find(|(_, op)| op.id == winner.id).map(|(field, _)| (*field).clone());
            target.fields.extend(spelled.map(|field| (field, winner.id.clone())));
            winners.insert(path, winner);
        }
        target
    }
}

/// The one that no other has seen; of several, the highest (clock, site).
fn last<'a>(operations: &[&'a Operation]) -> Option<&'a Operation> {
    let unseen = |op: &&&Operation| !operations.iter().any(|other| other.id != op.id && other.saw(op));
    // What has seen another has the higher clock, so that it is the highest of all: looking at each with each of
    // the others would take long where thousands wait for a site.
    let highest = operations.iter().max_by(|a, b| a.rank().cmp(&b.rank())).filter(unseen);
    highest.or_else(|| operations.iter().filter(unseen).max_by(|a, b| a.rank().cmp(&b.rank()))).copied()
}
