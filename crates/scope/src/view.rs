//! The sites as a plan sees them: one snapshot, passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::diagnostic::{Code, Diagnostic};
use crate::dialect::Dialect;
use crate::syntax::Location;
use crate::token::is_name;

/// A site, by its name. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Site(Arc<str>);

impl Site {
    /// A site of this name, if the language can write it: words of letters, digits, `.`, `_` and `-`,
    /// the first starting with a letter, with single spaces between; not `here`.
    #[must_use]
    pub fn new(name: &str) -> Option<Site> {
        (is_name(name) && name != "here").then(|| Site(name.into()))
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As its name; a name that the language cannot write is refused.
#[cfg(feature = "serde")]
impl serde::Serialize for Site {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Site {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Site, D::Error> {
        let name = <String as serde::Deserialize>::deserialize(deserializer)?;
        Site::new(&name).ok_or_else(|| serde::de::Error::custom(format_args!("`{name}` is no site's name")))
    }
}

/// A location that an administrator gave a name to.
#[derive(Clone, Debug)]
pub struct Zone {
    pub(crate) text: Box<str>,
    pub(crate) location: Location,
}

impl Zone {
    /// Reads a zone that was defined elsewhere. It may lead back to itself, through zones that were defined
    /// elsewhere too: a plan that uses it says so.
    pub fn read(name: &str, text: &str, dialect: &Dialect) -> Result<Zone, Diagnostic> {
        let origin = format!("zone {name}");
        if !is_name(name) || name == "here" {
            let message = format!("`{}` cannot be a zone's name", name.escape_debug());
            return Err(Diagnostic::new(Code::Zone, message).within(&origin, text));
        }
        let location = dialect.location(text).map_err(|diagnostic| diagnostic.within(&origin, text))?;
        Ok(Zone { text: text.into(), location })
    }

    /// Names a location. The zone may name zones that are defined later, but no site, and never itself,
    /// directly or through the zones of the view.
    pub fn define(name: &str, text: &str, dialect: &Dialect, view: &dyn View) -> Result<Zone, Diagnostic> {
        let origin = format!("zone {name}");
        let zone = Zone::read(name, text, dialect)?;
        if view.find(name).is_some() {
            let message = format!("`{name}` is a site: no zone has a site's name");
            return Err(Diagnostic::new(Code::Zone, message).within(&origin, text));
        }
        match zone.cycle(name, view) {
            Some(diagnostic) => Err(diagnostic.within(&origin, text)),
            None => Ok(zone),
        }
    }

    /// Whether the zone, if it were called `name`, would lead back to itself.
    fn cycle(&self, name: &str, view: &dyn View) -> Option<Diagnostic> {
        let mut uses = Vec::new();
        self.location.names(&mut |used, span| uses.push((used, span)));
        let mut seen = BTreeSet::new();
        for (used, span) in uses {
            let mut open = vec![used];
            while let Some(zone) = open.pop() {
                if zone == name {
                    let through = if used == name { "itself" } else { "one that is defined by it" };
                    return Some(
                        Diagnostic::new(Code::Zone, format!("the zone `{name}` would be defined by itself"))
                            .at(span, format!("`{used}` is {through}")),
                    );
                }
                if let (true, Some(zone)) = (seen.insert(zone), view.zone(zone)) {
                    zone.location.names(&mut |used, _| open.push(used));
                }
            }
        }
        None
    }

    /// What was written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it stands for.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }
}

/// One snapshot of the sites. A site is its position in [`View::members`].
///
/// A plan asks for the same thing more than once and relies on getting the same answer.
pub trait View {
    /// The site at which the client entered.
    fn here(&self) -> usize;
    /// Every site, reachable or not, in an order that does not change.
    fn members(&self) -> &[Site];
    /// The site of this name.
    fn find(&self, name: &str) -> Option<usize>;
    /// Whether a site offers a service, by its canonical name.
    fn offers(&self, site: usize, service: &str) -> bool;
    /// Every service that some site offers, by its canonical name; nothing where a site may offer any.
    fn services(&self) -> Option<BTreeSet<&str>>;
    /// The measured or estimated round trip between two sites, if it is known; zero from a site to itself.
    fn rtt(&self, from: usize, to: usize) -> Option<Duration>;
    /// The value of one of a site's labels.
    fn label(&self, site: usize, label: &str) -> Option<&str>;
    /// The value of one of a site's metrics.
    fn metric(&self, site: usize, metric: &str) -> Option<f64>;
    /// The zone of this name.
    fn zone(&self, name: &str) -> Option<&Zone>;
    /// The names of all zones, labels or metrics, for suggestions.
    fn known(&self, what: Known) -> Vec<&str>;
}

/// A kind of name that a view has besides its sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// Zones.
    Zones,
    /// Labels of sites.
    Labels,
    /// Metrics of sites.
    Metrics,
}

/// A view that is written down: sites and what is known of them.
#[derive(Clone, Debug)]
pub struct Atlas {
    here: usize,
    members: Vec<Site>,
    positions: BTreeMap<Site, usize>,
    /// Sites that are not here offer every service.
    services: BTreeMap<usize, BTreeSet<Box<str>>>,
    rtts: BTreeMap<(usize, usize), Duration>,
    labels: BTreeMap<Box<str>, BTreeMap<usize, Box<str>>>,
    metrics: BTreeMap<Box<str>, BTreeMap<usize, f64>>,
    zones: BTreeMap<Box<str>, Zone>,
}

impl Atlas {
    /// Sites in this order, each once, the first of which is `here`; none if there is no site.
    #[must_use]
    pub fn new(sites: impl IntoIterator<Item = Site>) -> Option<Atlas> {
        let mut members = Vec::new();
        let mut positions = BTreeMap::new();
        for site in sites {
            positions.entry(site.clone()).or_insert_with(|| {
                members.push(site);
                members.len() - 1
            });
        }
        (!members.is_empty()).then(|| Atlas {
            here: 0,
            members,
            positions,
            services: BTreeMap::new(),
            rtts: BTreeMap::new(),
            labels: BTreeMap::new(),
            metrics: BTreeMap::new(),
            zones: BTreeMap::new(),
        })
    }

    /// Says which site is `here`.
    pub fn set_here(&mut self, site: usize) {
        self.here = site.min(self.members.len() - 1);
    }

    /// Says which services, by their canonical names, a site offers. Without, it offers all.
    pub fn set_services<'n>(&mut self, site: usize, services: impl IntoIterator<Item = &'n str>) {
        self.services.insert(site, services.into_iter().map(Into::into).collect());
    }

    /// Says how far apart two sites are, both ways.
    pub fn set_rtt(&mut self, from: usize, to: usize, rtt: Duration) {
        self.rtts.insert((from.min(to), from.max(to)), rtt);
    }

    /// Gives a site a label.
    pub fn set_label(&mut self, site: usize, label: &str, value: &str) {
        self.labels.entry(label.into()).or_default().insert(site, value.into());
    }

    /// Gives a site a metric. What is not a number is unknown.
    pub fn set_metric(&mut self, site: usize, metric: &str, value: f64) {
        let sites = self.metrics.entry(metric.into()).or_default();
        if value.is_nan() {
            sites.remove(&site);
        } else {
            sites.insert(site, value);
        }
    }

    /// Names a location, as [`Zone::define`] does. On an error nothing changes.
    pub fn define_zone(&mut self, name: &str, text: &str, dialect: &Dialect) -> Result<(), Diagnostic> {
        let zone = Zone::define(name, text, dialect, self)?;
        self.zones.insert(name.into(), zone);
        Ok(())
    }
}

impl View for Atlas {
    fn here(&self) -> usize {
        self.here
    }

    fn members(&self) -> &[Site] {
        &self.members
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }

    fn offers(&self, site: usize, service: &str) -> bool {
        self.services.get(&site).is_none_or(|services| services.contains(service))
    }

    fn services(&self) -> Option<BTreeSet<&str>> {
        let sites = (0..self.members.len()).map(|site| self.services.get(&site));
        let offered: Option<Vec<_>> = sites.collect();
        Some(offered?.into_iter().flatten().map(AsRef::as_ref).collect())
    }

    fn rtt(&self, from: usize, to: usize) -> Option<Duration> {
        if from == to {
            return Some(Duration::ZERO);
        }
        self.rtts.get(&(from.min(to), from.max(to))).copied()
    }

    fn label(&self, site: usize, label: &str) -> Option<&str> {
        self.labels.get(label)?.get(&site).map(AsRef::as_ref)
    }

    fn metric(&self, site: usize, metric: &str) -> Option<f64> {
        self.metrics.get(metric)?.get(&site).copied()
    }

    fn zone(&self, name: &str) -> Option<&Zone> {
        self.zones.get(name)
    }

    fn known(&self, what: Known) -> Vec<&str> {
        match what {
            Known::Zones => self.zones.keys().map(AsRef::as_ref).collect(),
            Known::Labels => self.labels.keys().map(AsRef::as_ref).collect(),
            Known::Metrics => self.metrics.keys().map(AsRef::as_ref).collect(),
        }
    }
}

/// So that sites can be looked up by a plain name; their order is that of their names.
impl std::borrow::Borrow<str> for Site {
    fn borrow(&self) -> &str {
        &self.0
    }
}
