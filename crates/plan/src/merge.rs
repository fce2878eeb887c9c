//! `&` and `^` on lists: every operand is asked at once, and the answers of all are one answer.
//!
//! It ends when every operand has ended, and what it ends with depends on how each ended, not on which
//! was first. Only a 2xx can be merged. Any other status that is not a failure, such as a 403 or a 304,
//! is a *refusal*: where nothing was merged, the first in the plan's order is the answer, and no
//! fallback goes on to another site. A driver that merges therefore sends no conditional requests.

use std::collections::BTreeSet;

use scope::Site;

use crate::answer::{Answer, Won};
use crate::event::{Effect, Failure, Leg};
use crate::run::{Outcome, Run};
use crate::tree::{NodeId, Operator};

#[derive(Debug)]
pub(crate) struct Merge {
    how: How,
    /// In the order of the plan, so of their ids.
    operands: Vec<NodeId>,
    /// How each of them ended.
    ends: Vec<Option<End>>,
    running: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `&`.
    Union(Incomplete),
    /// `^`.
    Unique,
}

/// What a `&` is without the answer of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incomplete {
    /// An answer that says so.
    Partial,
    /// Failed: the request is strict.
    Strict,
    /// Failed: a `^` around it cannot tell what is unique.
    Unfounded,
}

#[derive(Clone, Debug)]
enum End {
    Got(Won),
    Refused(Leg),
    Failed(Failure),
}

impl Merge {
    pub(crate) fn new(how: How, operands: Vec<NodeId>) -> Merge {
        let ends = operands.iter().map(|_| None).collect();
        Merge { how, operands, ends, running: 0 }
    }

    fn end_of(&mut self, operand: NodeId) -> Option<&mut Option<End>> {
        let at = self.operands.binary_search(&operand).ok()?;
        self.ends.get_mut(at)
    }
}

impl Run<'_> {
    fn merge(&mut self, node: NodeId) -> Option<&mut Merge> {
        match &mut self.tree[node].operator {
            Operator::Merge(merge) => Some(merge),
            _ => None,
        }
    }

    /// Begins every operand. Returns what they amount to if all fail at once.
    pub(crate) fn begin_merge(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        for operand in self.merge(node)?.operands.clone() {
            let failure = self.begin(operand, effects);
            let merge = self.merge(node)?;
            match failure {
                None => merge.running += 1,
                Some(failure) => *merge.end_of(operand)? = Some(End::Failed(failure)),
            }
        }
        let merge = self.merge(node)?;
        if merge.running > 0 {
            return None;
        }
        match merge.how.outcome(merge.ends.iter().flatten()) {
            Outcome::Failed(failure) | Outcome::Stopped(failure) => Some(failure),
            Outcome::Won(_) => None,
        }
    }

    pub(crate) fn merge_ended(
        &mut self,
        node: NodeId,
        operand: NodeId,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) -> Option<Outcome> {
        let end = match outcome {
            Outcome::Won(Won { answer: Answer::Leg(leg), .. }) if !self.can_be_merged(leg) => {
                End::Refused(leg)
            }
            Outcome::Won(won) => End::Got(won),
            Outcome::Failed(failure) => End::Failed(failure),
            Outcome::Stopped(_) => return Some(outcome),
        };
        let merge = self.merge(node)?;
        *merge.end_of(operand)? = Some(end);
        merge.running = merge.running.saturating_sub(1);
        if merge.running > 0 {
            return None;
        }
        let mut outcome = merge.how.outcome(merge.ends.iter().flatten());
        if let Outcome::Won(won) = &mut outcome {
            self.once_each(&mut won.answer);
        }
        self.abort_below(node, &outcome.legs(), effects);
        Some(outcome)
    }

    /// An answer that is kept for a merge was cut off before the others were there.
    pub(crate) fn lost_to_merge(&mut self, node: NodeId, operand: NodeId, leg: Leg) {
        let Some(end) = self.merge(node).and_then(|merge| merge.end_of(operand)) else { return };
        let left = match end.take() {
            Some(End::Got(won)) => won.without(leg).map(End::Got),
            Some(End::Refused(refused)) if refused == leg => None,
            other => other,
        };
        *end = Some(left.unwrap_or(End::Failed(Failure::Unavailable)));
    }

    fn can_be_merged(&self, leg: Leg) -> bool {
        self.status(leg).is_some_and(|status| (200..300).contains(&status))
    }

    /// Drops what repeats a site: `(A ; B) & (A ; C)` may ask A twice, and its items are there once.
    fn once_each(&self, answer: &mut Answer) {
        let (Answer::Union(parts) | Answer::Unique(parts)) = answer else { return };
        let mut seen: BTreeSet<&Site> = BTreeSet::new();
        parts.retain(|part| match part {
            Answer::Leg(leg) => self.legs.get(leg.0).is_some_and(|record| seen.insert(&record.site)),
            Answer::Union(_) | Answer::Unique(_) => true,
        });
    }

    /// The legs of an answer, nearest first.
    pub(crate) fn nearest_first(&self, answer: &Answer) -> Vec<Leg> {
        let mut legs = answer.legs();
        legs.sort_by_key(|leg| match self.legs.get(leg.0).map(|record| &self.tree[record.node].operator) {
            Some(Operator::Site { near, .. }) => Some(*near),
            _ => None,
        });
        legs
    }
}

impl How {
    fn outcome<'e>(self, ends: impl Iterator<Item = &'e End>) -> Outcome {
        let (mut got, mut refused, mut failed) = (Vec::new(), None, Vec::new());
        for end in ends {
            match end {
                End::Got(won) => got.push(won.clone()),
                End::Refused(leg) => refused = refused.or(Some(*leg)),
                End::Failed(failure) => failed.push(*failure),
            }
        }
        match self {
            How::Union(incomplete) => union(incomplete, got, refused, &failed),
            How::Unique => unique(got, refused, &failed),
        }
    }
}

fn union(incomplete: Incomplete, got: Vec<Won>, refused: Option<Leg>, failed: &[Failure]) -> Outcome {
    if got.is_empty() {
        let failure = failed.iter().copied().reduce(Failure::and).unwrap_or(Failure::Unavailable);
        return refused.map_or(Outcome::Failed(failure), |leg| Outcome::Won(Won::of(leg)));
    }
    // Who has nothing of what was looked up is not missing.
    let missing = failed.iter().any(|failure| *failure != Failure::Nothing);
    let partial = refused.is_some() || missing || got.iter().any(|won| won.partial);
    match (partial, incomplete, refused) {
        (false, _, _) | (true, Incomplete::Partial, _) => {}
        (true, Incomplete::Strict | Incomplete::Unfounded, None) => return Outcome::Failed(Failure::Partial),
        // Nothing around it goes on to another site: that one might say yes.
        (true, Incomplete::Strict, Some(_)) => return Outcome::Stopped(Failure::Partial),
        (true, Incomplete::Unfounded, Some(leg)) => return Outcome::Won(Won::of(leg)),
    }
    let flat = |won: Won| match won.answer {
        Answer::Union(parts) => parts,
        answer => vec![answer],
    };
    Outcome::Won(Won { answer: Answer::Union(got.into_iter().flat_map(flat).collect()), partial })
}

/// As for one resource, a 404 says that a site has none, and a refusal is the answer.
fn unique(got: Vec<Won>, refused: Option<Leg>, failed: &[Failure]) -> Outcome {
    let missing = got.iter().any(|won| won.partial) || failed.iter().any(|end| !end.is_absence());
    match refused {
        Some(leg) => Outcome::Won(Won::of(leg)),
        None if missing => Outcome::Failed(Failure::Missing),
        None if got.is_empty() => Outcome::Failed(Failure::NotFound),
        None => {
            let answer = Answer::Unique(got.into_iter().map(|won| won.answer).collect());
            Outcome::Won(Won { answer, partial: false })
        }
    }
}
