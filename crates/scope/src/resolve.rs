//! A location's names, zones and functions turned into sites, against one view.

use std::time::Duration;

use crate::combine::{LevelFault, Tree, combine, inside};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::Limits;
use crate::syntax::{Combination, Group, Kind, Level, Location, Word, without_repeats};
use crate::view::{Known, Site, View};

/// A location whose leaves are sites, not yet flattened. A group without operands has no site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Node {
    Site(usize),
    Group(Group<Node>),
    Within(Duration, Box<Node>),
}

impl Node {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Node::Group(group) if group.operands.is_empty())
    }

    /// Every site in it, as often as it stands there.
    pub(crate) fn leaves(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Node::Site(site) => visit(*site),
            Node::Group(group) => group.operands.iter().for_each(|operand| operand.leaves(visit)),
            Node::Within(_, inner) => inner.leaves(visit),
        }
    }

    pub(crate) fn count(&self) -> usize {
        let mut count = 0;
        self.leaves(&mut |_| count += 1);
        count
    }

    /// These sites, combined so.
    pub(crate) fn of(combination: Combination, sites: Vec<usize>) -> Node {
        Node::Group(Group::new(combination, sites.into_iter().map(Node::Site).collect()))
    }

    /// The same, with only the sites that are wanted.
    pub(crate) fn filter(self, wanted: &dyn Fn(usize) -> bool) -> Node {
        match self {
            Node::Site(site) if wanted(site) => Node::Site(site),
            Node::Site(_) => Node::of(Combination::All, Vec::new()),
            Node::Group(group) => {
                let operands = group.operands.into_iter().map(|operand| operand.filter(wanted));
                Node::Group(Group { operands: operands.filter(|kept| !kept.is_empty()).collect(), ..group })
            }
            Node::Within(limit, inner) => match inner.filter(wanted) {
                kept if kept.is_empty() => kept,
                kept => Node::Within(limit, Box::new(kept)),
            },
        }
    }

    /// Puts the whole of it in its canonical shape. `around` is the level of the `&` group in which it
    /// stands.
    pub(crate) fn canonical(self, around: Level) -> Result<Node, LevelFault> {
        match self {
            Node::Site(_) => Ok(self),
            Node::Within(limit, inner) => Ok(match inner.canonical(Level::default())? {
                Node::Within(sooner, inner) => Node::Within(limit.min(sooner), inner),
                inner => Node::Within(limit, Box::new(inner)),
            }),
            Node::Group(group) => {
                let within = inside(&group, Some(around)).unwrap_or_default();
                let operands = group.operands.into_iter().map(|operand| operand.canonical(within));
                combine(Group { operands: operands.collect::<Result<_, _>>()?, ..group }, Some(around))
            }
        }
    }
}

impl Tree for Node {
    const UNRESOLVED: bool = false;
    fn into_group(self) -> Result<Group<Node>, Node> {
        match self {
            Node::Group(group) => Ok(group),
            other => Err(other),
        }
    }

    fn from_group(group: Group<Node>) -> Node {
        Node::Group(group)
    }

    fn leveled(self, level: Level) -> Result<Node, LevelFault> {
        match self {
            Node::Site(_) => Ok(Group::of_one(self, level)),
            Node::Within(limit, inner) => Ok(Node::Within(limit, Box::new(inner.leveled(level)?))),
            Node::Group(group) => group.leveled(level),
        }
    }
}

/// One walk over one location.
pub(crate) struct Resolver<'r> {
    pub(crate) view: &'r dyn View,
    service: &'r str,
    limits: &'r Limits,
    /// Sites looked at so far.
    spent: usize,
    depth: usize,
    /// The zones that are being looked into, outermost first.
    zones: Vec<&'r str>,
}

impl<'r> Resolver<'r> {
    pub(crate) fn new(view: &'r dyn View, service: &'r str, limits: &'r Limits) -> Self {
        Resolver { view, service, limits, spent: 0, depth: 0, zones: Vec::new() }
    }

    /// Pays for looking at some sites. All that takes time pays here, so no scope takes long.
    pub(crate) fn spend(&mut self, sites: usize) -> Result<(), Diagnostic> {
        self.spent = self.spent.saturating_add(sites);
        if self.spent <= self.limits.steps {
            return Ok(());
        }
        let message = format!("this scope asks to look at more than {} sites", self.limits.steps);
        Err(Diagnostic::new(Code::Limit, message)
            .help("name fewer sites, or let the administrator raise the limit `steps`"))
    }

    /// The members that offer the service.
    pub(crate) fn members(&mut self) -> Result<Vec<usize>, Diagnostic> {
        let count = self.view.members().len();
        self.spend(count)?;
        Ok((0..count).filter(|site| self.view.offers(*site, self.service)).collect())
    }

    /// The sites of a location, each once, in order.
    pub(crate) fn sites_of(&mut self, location: &'r Location) -> Result<Vec<usize>, Diagnostic> {
        let node = self.location(location)?;
        let mut sites = Vec::new();
        node.leaves(&mut |site| sites.push(site));
        self.spend(sites.len())?;
        Ok(without_repeats(sites))
    }

    pub(crate) fn location(&mut self, location: &'r Location) -> Result<Node, Diagnostic> {
        self.spend(1)?;
        if self.depth == self.limits.expanded_depth() {
            let message = format!("zones within zones lead deeper than {}", self.limits.expanded_depth());
            return Err(Diagnostic::new(Code::Limit, message).at(location.span(), "here"));
        }
        self.depth += 1;
        let node = match &location.kind {
            Kind::Name(name) => self.name(name, location),
            Kind::Here => Ok(Node::Site(self.view.here())),
            Kind::Members => self.members().map(|sites| Node::of(Combination::All, sites)),
            Kind::Not(inner) => self.all_but(inner),
            Kind::Group(group) => self.group(group),
            Kind::Call(function, arguments) => (function.resolve)(self, arguments),
        };
        self.depth -= 1;
        node
    }

    fn name(&mut self, name: &'r str, location: &Location) -> Result<Node, Diagnostic> {
        if let Some(site) = self.view.find(name) {
            return Ok(Node::Site(site));
        }
        let Some(zone) = self.view.zone(name) else {
            return Err(self.unknown_name(name, location));
        };
        if self.zones.contains(&name) {
            let path =
                self.zones.iter().map(|zone| format!("`{zone}`")).collect::<Vec<_>>().join(" is defined by ");
            return Err(Diagnostic::new(Code::Zone, format!("the zone `{name}` is defined by itself"))
                .at(location.span(), format!("{path}, and that by `{name}`"))
                .help("an administrator must define one of them anew"));
        }
        self.zones.push(name);
        let node = self.location(&zone.location);
        self.zones.pop();
        node.map_err(|diagnostic| {
            diagnostic.within(&format!("zone {name}"), &zone.text).used(location.span(), "in this zone")
        })
    }

    fn all_but(&mut self, inner: &'r Location) -> Result<Node, Diagnostic> {
        let mut but = self.sites_of(inner)?;
        but.sort_unstable();
        let members = self.members()?;
        let others = members.into_iter().filter(|site| but.binary_search(site).is_err());
        Ok(Node::of(Combination::All, others.collect()))
    }

    fn group(&mut self, group: &'r Group<Location>) -> Result<Node, Diagnostic> {
        let mut operands = Vec::with_capacity(group.operands.len());
        for operand in &group.operands {
            let node = self.location(operand)?;
            if node.is_empty() {
                return Err(no_site(operand));
            }
            operands.push(node);
        }
        // A level on one name is decided here, where it can be pointed at.
        match (group.level, operands.as_slice(), group.operands.as_slice()) {
            (Some(level), [_], [written]) => {
                let only = operands.swap_remove(0);
                only.leveled(level).map_err(|fault| fault.diagnostic(written.span(), None))
            }
            _ => Ok(Node::Group(Group { combination: group.combination, level: group.level, operands })),
        }
    }

    pub(crate) fn check_label(&self, label: &Word) -> Result<(), Diagnostic> {
        self.check(label, Known::Labels, Code::UnknownLabel, "label")
    }

    pub(crate) fn check_metric(&self, metric: &Word) -> Result<(), Diagnostic> {
        self.check(metric, Known::Metrics, Code::UnknownMetric, "metric")
    }

    fn check(&self, word: &Word, what: Known, code: Code, called: &str) -> Result<(), Diagnostic> {
        let known = self.view.known(what);
        if known.contains(&&*word.text) {
            return Ok(());
        }
        Err(Diagnostic::unknown(code, called, &word.text, word.place.0, known.iter().copied()))
    }

    fn unknown_name(&self, name: &str, location: &Location) -> Diagnostic {
        let zones = self.view.known(Known::Zones);
        let known = |word: &str| self.view.find(word).is_some() || zones.contains(&word);
        if let Some(joined) = joined(name, known) {
            return Diagnostic::new(Code::UnknownName, format!("no site or zone is called `{name}`"))
                .at(location.span(), "read as one name")
                .replace(location.span(), joined, "sites are joined by an operator");
        }
        let sites = self.view.members().iter().map(Site::name);
        let all = sites.chain(zones.iter().copied());
        Diagnostic::unknown(Code::UnknownName, "site or zone", name, location.span(), all)
    }
}

/// The operators, as people say them.
const SPOKEN: [(&str, &str); 6] =
    [("and", "&"), ("or", "|"), ("xor", "^"), ("then", ";"), ("else", ";"), ("otherwise", ";")];

/// `Site1 and Site2`, or `Site1 Site2`, with the operator that was meant.
fn joined(name: &str, known: impl Fn(&str) -> bool) -> Option<String> {
    name.match_indices(' ').find_map(|(at, _)| {
        let (first, rest) = name.split_at_checked(at)?;
        let rest = rest.trim_start();
        let spoken = SPOKEN
            .iter()
            .find_map(|(word, operator)| Some((*operator, rest.strip_prefix(word)?.strip_prefix(' ')?)));
        let (operator, second) = spoken.unwrap_or(("&", rest));
        (known(first) && known(second)).then(|| format!("{first} {operator} {second}"))
    })
}

pub(crate) fn no_site(location: &Location) -> Diagnostic {
    Diagnostic::new(Code::NoSite, "this location has no site")
        .at(location.span(), "no site is left here")
        .help("a request must run somewhere: name at least one site")
}
