//! The one rule by which operands are put together, before and after names are resolved: groups of one
//! operator are flat, operands are not repeated, and a level is kept only where it says something.

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;
use crate::syntax::{Combination, Group, Level, without_repeats};

/// A location, or what it resolves to.
pub(crate) trait Tree: Ord + Sized {
    /// What one operand stands for may be unknown, and so whether it can have a level: one that was given
    /// stays, to be judged later.
    const UNRESOLVED: bool;

    /// The group that it is, or itself.
    fn into_group(self) -> Result<Group<Self>, Self>;

    fn from_group(group: Group<Self>) -> Self;

    /// `L @level`.
    fn leveled(self, level: Level) -> Result<Self, LevelFault>;
}

/// Why something cannot have a level.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LevelFault {
    /// Its sites are combined by another operator than `&`.
    NotAll(Level, Combination),
    /// It has another one already: the one it has, and the one it was to have.
    Two(Level, Level),
}

/// Puts operands together. They were combined themselves, each with [`inside`] as the level around it.
///
/// `around` is the level of the `&` group in which the outcome stands; `None` if that is not known.
pub(crate) fn combine<T: Tree>(group: Group<T>, around: Option<Level>) -> Result<T, LevelFault> {
    let mut operands = Vec::with_capacity(group.operands.len());
    for operand in group.operands {
        match operand.into_group() {
            // A group that still has a level of its own has another than this one.
            Ok(same) if same.combination == group.combination && same.level.is_none() => {
                operands.extend(same.operands);
            }
            Ok(other) => operands.push(T::from_group(other)),
            Err(leaf) => operands.push(leaf),
        }
    }
    let mut operands = without_repeats(operands);
    let one = operands.len() == 1;
    let level = group.level.filter(|level| Some(*level) != around || (one && T::UNRESOLVED));
    if one {
        let only = operands.swap_remove(0);
        return match level {
            Some(level) => only.leveled(level),
            None => Ok(only),
        };
    }
    Ok(T::from_group(Group { level, operands, ..group }))
}

/// The level around the operands of a group.
pub(crate) fn inside<T>(group: &Group<T>, around: Option<Level>) -> Option<Level> {
    match group.combination {
        Combination::All => group.level.or(around),
        _ => Some(Level::default()),
    }
}

impl<T: Tree> Group<T> {
    /// The group, which is of `&`, with a level; it may have a single operand.
    pub(crate) fn leveled(self, level: Level) -> Result<T, LevelFault> {
        match self.level {
            _ if self.combination != Combination::All => Err(LevelFault::NotAll(level, self.combination)),
            Some(other) if other != level => Err(LevelFault::Two(other, level)),
            _ => Ok(T::from_group(Group { level: Some(level), ..self })),
        }
    }

    /// `A @level`: a group of one.
    pub(crate) fn of_one(operand: T, level: Level) -> T {
        let operands = vec![operand];
        T::from_group(Group { combination: Combination::All, level: Some(level), operands })
    }
}

impl LevelFault {
    /// At `span` stands what cannot have the level. `text` is its canonical text, where it was written so.
    pub(crate) fn diagnostic(self, span: Span, text: Option<&str>) -> Diagnostic {
        match self {
            LevelFault::NotAll(level, combination) => {
                let (name, operator) = (level.name(), combination.operator());
                let message = format!("@{name} says how replicas agree, and `{operator}` makes none");
                let diagnostic = Diagnostic::new(Code::Level, message)
                    .at(span, format!("these sites are combined by `{operator}`"));
                match text {
                    Some(text) => {
                        diagnostic.replace(span, format!("all({text})"), "replicas are made by `&`")
                    }
                    None => diagnostic.help(format!(
                        "give a level to a group of `&`, such as `(A & B) @{name}` or `all(…) @{name}`"
                    )),
                }
            }
            LevelFault::Two(has, wanted) => {
                Diagnostic::new(Code::Level, format!("this is @{} already", has.name()))
                    .at(span, format!("cannot be @{} too", wanted.name()))
                    .help(format!(
                        "leave out one of the levels: a group of `&` has one, here @{}",
                        has.name()
                    ))
            }
        }
    }
}
