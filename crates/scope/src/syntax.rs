//! What was written: scopes and locations, in their canonical shape.
//!
//! Groups of one operator are flat, operands are not repeated, and a level is kept only where it says
//! more than leaving it out. So two spellings of one thing are equal, and print the same.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::combine::{LevelFault, Tree, combine, inside};
use crate::diagnostic::Diagnostic;
use crate::function::Function;
use crate::span::{Place, Span};

/// Where each service of a request runs.
#[derive(Clone, Debug)]
pub struct Scope {
    pub(crate) text: Box<str>,
    /// Sorted by key, `*` last; no key twice.
    pub(crate) bindings: Vec<Binding>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Binding {
    pub(crate) key: Key,
    pub(crate) place: Place,
    pub(crate) location: Location,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// A service by its canonical name.
    Service(Box<str>),
    /// `*`: the services that are not named.
    Rest,
}

impl Scope {
    /// The text it was read from.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it binds nothing. Such a scope is no scope.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bindings.is_empty()
    }

    /// The services that it names, sorted.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.bindings.iter().filter_map(|binding| match &binding.key {
            Key::Service(name) => Some(&**name),
            Key::Rest => None,
        })
    }

    /// Where `service`, by its canonical name, runs: its own binding, else that of `*`.
    #[must_use]
    pub fn location(&self, service: &str) -> Option<&Location> {
        let named = |binding: &&Binding| matches!(&binding.key, Key::Service(name) if **name == *service);
        let rest = |binding: &&Binding| binding.key == Key::Rest;
        let found = self.bindings.iter().find(named).or_else(|| self.bindings.iter().find(rest));
        found.map(|binding| &binding.location)
    }
}

/// Two scopes are equal when they bind the same services to the same locations, however spelt.
impl PartialEq for Scope {
    fn eq(&self, other: &Scope) -> bool {
        self.bindings == other.bindings
    }
}

impl Eq for Scope {}

/// Which sites, and how they are combined, before any name is resolved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Location {
    pub(crate) kind: Kind,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A site or a zone.
    Name(Box<str>),
    /// `*`
    Members,
    /// `here`
    Here,
    /// `!L`
    Not(Box<Location>),
    Group(Group<Location>),
    Call(&'static Function, Vec<Argument>),
}

/// Operands joined by one operator. With a single operand it is `A @quorum`: a group of one that has
/// a level.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group<T> {
    pub(crate) combination: Combination,
    /// Only for [`Combination::All`]. `None` is the level of the `&` group around it, else the default.
    pub(crate) level: Option<Level>,
    pub(crate) operands: Vec<T>,
}

impl<T> Group<T> {
    pub(crate) fn new(combination: Combination, operands: Vec<T>) -> Self {
        Group { combination, level: None, operands }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Argument {
    Location(Location),
    Duration(Duration),
    Count(u64),
    /// The name of a metric.
    Word(Word),
    /// `label = value`
    Pair(Word, Word),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Word {
    pub(crate) text: Box<str>,
    pub(crate) place: Place,
}

/// How the sites of a location are used together, loosest operator first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Combination {
    /// `;`: in order, the next if there is a problem.
    Otherwise,
    /// `|`: the first available.
    Any,
    /// `^`: exactly one.
    One,
    /// `&`: every one of them.
    All,
}

impl Combination {
    /// The operator, as the canonical form writes it.
    #[must_use]
    pub fn operator(self) -> &'static str {
        match self {
            Combination::Otherwise => ";",
            Combination::Any => "|",
            Combination::One => "^",
            Combination::All => "&",
        }
    }
}

/// When a replicated write is answered, and what orders concurrent ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Recorded here; replicas may stay different.
    Weak,
    /// Executed once; every replica ends in the same state.
    #[default]
    Eventual,
    /// Ordered and executed by a majority.
    Quorum,
    /// Recorded by every replica first, then executed by every replica.
    Strong,
}

impl Level {
    pub(crate) const ALL: [Level; 4] = [Level::Weak, Level::Eventual, Level::Quorum, Level::Strong];

    /// The word after `@`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Weak => "weak",
            Level::Eventual => "eventual",
            Level::Quorum => "quorum",
            Level::Strong => "strong",
        }
    }
}

impl Location {
    pub(crate) fn new(kind: Kind, span: Span) -> Self {
        Location { kind, place: Place(span) }
    }

    /// Where it stands in its text.
    #[must_use]
    pub fn span(&self) -> Span {
        self.place.0
    }

    /// Puts the whole of it in its canonical shape. `around` is the level of the `&` group in which it
    /// stands; `None` if that is not known, as in a zone, which may be used anywhere.
    pub(crate) fn canonical(self, around: Option<Level>) -> Result<Location, Diagnostic> {
        let span = self.place.0;
        let apart = Some(Level::default());
        let kind = match self.kind {
            Kind::Not(inner) => Kind::Not(Box::new(inner.canonical(apart)?)),
            Kind::Call(function, arguments) => {
                let canonical = |argument| match argument {
                    Argument::Location(inner) => inner.canonical(apart).map(Argument::Location),
                    other => Ok(other),
                };
                Kind::Call(function, arguments.into_iter().map(canonical).collect::<Result<_, _>>()?)
            }
            Kind::Group(group) => {
                let within = inside(&group, around);
                let operands = group.operands.into_iter().map(|operand| operand.canonical(within));
                let group = Group { operands: operands.collect::<Result<_, _>>()?, ..group };
                let combined = combine(group, around).map_err(|fault| fault.diagnostic(span, None))?;
                return Ok(Location { place: Place(span), ..combined });
            }
            leaf => leaf,
        };
        Ok(Location { kind, ..self })
    }

    /// Every site or zone that it names, in the order of the text.
    pub fn names<'l>(&'l self, visit: &mut dyn FnMut(&'l str, Span)) {
        match &self.kind {
            Kind::Name(name) => visit(name, self.place.0),
            Kind::Members | Kind::Here => {}
            Kind::Not(inner) => inner.names(visit),
            Kind::Group(group) => group.operands.iter().for_each(|operand| operand.names(visit)),
            Kind::Call(_, arguments) => {
                for argument in arguments {
                    if let Argument::Location(inner) = argument {
                        inner.names(visit);
                    }
                }
            }
        }
    }
}

impl Tree for Location {
    const UNRESOLVED: bool = true;
    fn into_group(self) -> Result<Group<Location>, Location> {
        match self.kind {
            Kind::Group(group) => Ok(group),
            kind => Err(Location { kind, ..self }),
        }
    }

    fn from_group(group: Group<Location>) -> Location {
        let ends = group.operands.first().zip(group.operands.last());
        let span = ends.map(|(first, last)| first.span().to(last.span())).unwrap_or_default();
        Location::new(Kind::Group(group), span)
    }

    fn leveled(self, level: Level) -> Result<Location, LevelFault> {
        match self.kind {
            Kind::Group(group) => group.leveled(level),
            Kind::Call(Function { combines: Some(other), .. }, _) if *other != Combination::All => {
                Err(LevelFault::NotAll(level, *other))
            }
            kind => Ok(Group::of_one(Location { kind, ..self }, level)),
        }
    }
}

/// The first of each, in order. Never more than n log n comparisons: a scope comes from anyone.
pub(crate) fn without_repeats<T: Ord>(items: Vec<T>) -> Vec<T> {
    // Below this, looking at each is faster than a tree.
    const FEW: usize = 8;
    if items.len() <= FEW {
        let mut kept: Vec<T> = Vec::with_capacity(items.len());
        for item in items {
            if !kept.contains(&item) {
                kept.push(item);
            }
        }
        return kept;
    }
    let mut seen = BTreeSet::new();
    let keep: Vec<bool> = items.iter().map(|item| seen.insert(item)).collect();
    items.into_iter().zip(keep).filter_map(|(item, keep)| keep.then_some(item)).collect()
}
