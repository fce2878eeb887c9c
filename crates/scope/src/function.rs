//! The functions of the language: one table. The parser and the planner read it and know none by name.

use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;

use crate::diagnostic::Diagnostic;
use crate::resolve::{Node, Resolver};
use crate::syntax::{Argument, Combination};

/// One function: how it is written, and what it does.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// How to call it, for people.
    pub(crate) signature: &'static str,
    pub(crate) parameters: &'static [Parameter],
    /// Whether the last parameter may be given again, in any order.
    pub(crate) repeats: bool,
    /// How the sites are combined, where that does not depend on an argument.
    pub(crate) combines: Option<Combination>,
    pub(crate) resolve: Resolve,
}

type Resolve = for<'r> fn(&mut Resolver<'r>, &'r [Argument]) -> Result<Node, Diagnostic>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parameter {
    Location,
    Duration,
    Count,
    Word,
    Pair,
}

impl Parameter {
    /// What to call it in "expected …".
    pub(crate) fn describe(self) -> &'static str {
        match self {
            Parameter::Location => "a location, such as `Site1`",
            Parameter::Duration => "a duration, such as `10ms`",
            Parameter::Count => "a count, such as `3`",
            Parameter::Word => "the name of a metric, such as `load`",
            Parameter::Pair => "a label and its value, such as `region = eu`",
        }
    }
}

pub(crate) static FUNCTIONS: [Function; 11] = [
    Function {
        name: "around",
        signature: "around(location, radius)",
        parameters: &[Parameter::Location, Parameter::Duration],
        repeats: false,
        combines: Some(Combination::Otherwise),
        resolve: around,
    },
    Function {
        name: "nearest",
        signature: "nearest(count, location)",
        parameters: &[Parameter::Count, Parameter::Location],
        repeats: false,
        combines: Some(Combination::Otherwise),
        resolve: nearest,
    },
    recombining("all", "all(location)", Combination::All, |r, a| recombine(r, a, Combination::All)),
    recombining("any", "any(location)", Combination::Any, |r, a| recombine(r, a, Combination::Any)),
    recombining("one", "one(location)", Combination::One, |r, a| recombine(r, a, Combination::One)),
    recombining("first", "first(location)", Combination::Otherwise, |r, a| {
        recombine(r, a, Combination::Otherwise)
    }),
    Function {
        name: "except",
        signature: "except(location, location)",
        parameters: &[Parameter::Location, Parameter::Location],
        repeats: false,
        combines: None,
        resolve: |resolver, arguments| keep(resolver, arguments, |listed| !listed),
    },
    Function {
        name: "common",
        signature: "common(location, location)",
        parameters: &[Parameter::Location, Parameter::Location],
        repeats: false,
        combines: None,
        resolve: |resolver, arguments| keep(resolver, arguments, |listed| listed),
    },
    Function {
        name: "where",
        signature: "where(label = value, …)",
        parameters: &[Parameter::Pair],
        repeats: true,
        combines: Some(Combination::All),
        resolve: labelled,
    },
    Function {
        name: "by",
        signature: "by(metric, location)",
        parameters: &[Parameter::Word, Parameter::Location],
        repeats: false,
        combines: Some(Combination::Otherwise),
        resolve: by,
    },
    Function {
        name: "within",
        signature: "within(duration, location)",
        parameters: &[Parameter::Duration, Parameter::Location],
        repeats: false,
        combines: None,
        resolve: within,
    },
];

const fn recombining(
    name: &'static str,
    signature: &'static str,
    combination: Combination,
    resolve: Resolve,
) -> Function {
    Function {
        name,
        signature,
        parameters: &[Parameter::Location],
        repeats: false,
        combines: Some(combination),
        resolve,
    }
}

pub(crate) fn find(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|function| function.name == name)
}

/// A plan's deadline prints as a call of this function.
pub(crate) fn deadline() -> &'static Function {
    find("within").unwrap_or_else(|| mistyped())
}

/// The parser gives a function what its entry in the table says, in number and kind.
fn mistyped() -> ! {
    unreachable!("arguments are checked against the table of functions when they are parsed")
}

/// The sites of L first, then every other within the radius of one of them, nearest first.
fn around<'r>(resolver: &mut Resolver<'r>, arguments: &'r [Argument]) -> Result<Node, Diagnostic> {
    let [Argument::Location(location), Argument::Duration(radius)] = arguments else { mistyped() };
    let mut sites = resolver.sites_of(location)?;
    let mut sorted = sites.clone();
    sorted.sort_unstable();
    let others = resolver.members()?.into_iter().filter(|site| sorted.binary_search(site).is_err());
    let others: Vec<usize> = others.collect();
    // A distance costs less than a site that is kept.
    resolver.spend(sites.len().saturating_mul(others.len()) / 4)?;
    let view = resolver.view;
    let distance = |site: usize| sites.iter().filter_map(|from| view.rtt(*from, site)).min();
    let near = |site: usize| distance(site).filter(|rtt| rtt <= radius).map(|rtt| (rtt, site));
    let mut near: Vec<(Duration, usize)> = others.into_iter().filter_map(near).collect();
    near.sort();
    sites.extend(near.into_iter().map(|(_, site)| site));
    Ok(Node::of(Combination::Otherwise, sites))
}

/// The first few by distance from here; those of unknown distance last.
fn nearest<'r>(resolver: &mut Resolver<'r>, arguments: &'r [Argument]) -> Result<Node, Diagnostic> {
    let [Argument::Count(count), Argument::Location(location)] = arguments else { mistyped() };
    let mut sites = resolver.sites_of(location)?;
    let (view, here) = (resolver.view, resolver.view.here());
    sites.sort_by_cached_key(|site| view.rtt(here, *site).unwrap_or(Duration::MAX));
    sites.truncate(usize::try_from(*count).unwrap_or(usize::MAX));
    Ok(Node::of(Combination::Otherwise, sites))
}

fn recombine<'r>(
    resolver: &mut Resolver<'r>,
    arguments: &'r [Argument],
    combination: Combination,
) -> Result<Node, Diagnostic> {
    let [Argument::Location(location)] = arguments else { mistyped() };
    Ok(Node::of(combination, resolver.sites_of(location)?))
}

/// L, with only those sites for which `wanted` holds, given whether M has them.
fn keep<'r>(
    resolver: &mut Resolver<'r>,
    arguments: &'r [Argument],
    wanted: fn(bool) -> bool,
) -> Result<Node, Diagnostic> {
    let [Argument::Location(location), Argument::Location(listed)] = arguments else { mistyped() };
    let node = resolver.location(location)?;
    let mut listed = resolver.sites_of(listed)?;
    listed.sort_unstable();
    resolver.spend(node.count())?;
    Ok(node.filter(&|site| wanted(listed.binary_search(&site).is_ok())))
}

/// Every member that has all of these labels.
fn labelled<'r>(resolver: &mut Resolver<'r>, arguments: &'r [Argument]) -> Result<Node, Diagnostic> {
    let mut sites = resolver.members()?;
    for argument in arguments {
        let Argument::Pair(label, value) = argument else { mistyped() };
        resolver.spend(sites.len())?;
        resolver.check_label(label)?;
        sites.retain(|site| resolver.view.label(*site, &label.text) == Some(&value.text));
    }
    Ok(Node::of(Combination::All, sites))
}

/// The sites of L, lowest first; those without the metric last.
fn by<'r>(resolver: &mut Resolver<'r>, arguments: &'r [Argument]) -> Result<Node, Diagnostic> {
    let [Argument::Word(metric), Argument::Location(location)] = arguments else { mistyped() };
    let mut sites = resolver.sites_of(location)?;
    resolver.check_metric(metric)?;
    let value = |site: usize| resolver.view.metric(site, &metric.text).filter(|value| !value.is_nan());
    sites.sort_by(|a, b| match (value(*a), value(*b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        (a, b) => b.is_some().cmp(&a.is_some()),
    });
    Ok(Node::of(Combination::Otherwise, sites))
}

fn within<'r>(resolver: &mut Resolver<'r>, arguments: &'r [Argument]) -> Result<Node, Diagnostic> {
    let [Argument::Duration(limit), Argument::Location(location)] = arguments else { mistyped() };
    let node = resolver.location(location)?;
    Ok(if node.is_empty() { node } else { Node::Within(*limit, Box::new(node)) })
}

/// Functions are equal by name: the table has each once.
impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.name == other.name
    }
}

impl Eq for Function {}

impl PartialOrd for Function {
    fn partial_cmp(&self, other: &Function) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Function {
    fn cmp(&self, other: &Function) -> Ordering {
        self.name.cmp(other.name)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
