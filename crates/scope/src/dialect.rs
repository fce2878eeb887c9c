//! What one application accepts: its services, and the limits.

use std::collections::BTreeMap;

use crate::diagnostic::Diagnostic;
use crate::limits::Limits;
use crate::parse::Parser;
use crate::plan::Plan;
use crate::syntax::{Location, Scope};
use crate::view::View;

/// The services that scopes may name. Their names are case-insensitive.
#[derive(Clone, Debug, Default)]
pub struct Services {
    /// Every name and alias, in lower case, and the canonical name it stands for. If there are none,
    /// every name is a service.
    names: BTreeMap<Box<str>, Box<str>>,
}

impl Services {
    /// Every name is a service, and none has an alias.
    #[must_use]
    pub fn open() -> Services {
        Services::default()
    }

    /// Adds a service and its other names. The first to take a name keeps it.
    #[must_use]
    pub fn with<'a>(mut self, name: &'a str, aliases: impl IntoIterator<Item = &'a str>) -> Services {
        let canonical = name.to_ascii_lowercase();
        for known in [name].into_iter().chain(aliases) {
            let lower = known.to_ascii_lowercase().into();
            self.names.entry(lower).or_insert_with(|| canonical.as_str().into());
        }
        self
    }

    /// The canonical name of a service, if there is such a service.
    #[must_use]
    pub fn canonical(&self, name: &str) -> Option<Box<str>> {
        let lower = name.to_ascii_lowercase();
        if self.names.is_empty() { Some(lower.into()) } else { self.names.get(lower.as_str()).cloned() }
    }

    /// Whether every name is a service.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.names.is_empty()
    }

    /// Every name and alias.
    pub fn known(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.keys().map(AsRef::as_ref)
    }
}

/// The language as it is spoken at one site: the services of its application, and the limits.
#[derive(Clone, Debug, Default)]
pub struct Dialect {
    /// Which services there are.
    pub services: Services,
    /// How much a scope may ask for.
    pub limits: Limits,
}

impl Dialect {
    /// The same for who writes a scope: where every name is a service, only those that a site offers are. A
    /// slip would bind nothing, without a word.
    ///
    /// ```
    /// # use scope::{Atlas, Dialect, Site};
    /// let mut atlas = Atlas::new(Site::new("A")).unwrap();
    /// atlas.set_services(0, ["image"]);
    /// let dialect = Dialect::default().offered(&atlas);
    /// assert!(dialect.scope("image: A").is_ok() && dialect.scope("imgae: A").is_err());
    /// ```
    #[must_use]
    pub fn offered(&self, view: &dyn View) -> Dialect {
        let offered = view.services().filter(|_| self.services.is_open());
        let services =
            offered.map(|names| names.into_iter().fold(Services::open(), |all, name| all.with(name, [])));
        Dialect { services: services.unwrap_or_else(|| self.services.clone()), ..self.clone() }
    }

    /// Reads a scope.
    ///
    /// ```
    /// let dialect = scope::Dialect::default();
    /// let json = dialect.scope(r#"{"Image": "A&&B"}"#).unwrap();
    /// assert_eq!(json, dialect.scope("image : A & B").unwrap());
    /// assert_eq!(json.to_string(), "image: A & B");
    /// ```
    pub fn scope(&self, text: &str) -> Result<Scope, Diagnostic> {
        Parser::new(text, self).and_then(Parser::scope).map_err(|diagnostic| diagnostic.within("scope", text))
    }

    /// Reads a location alone, such as a zone's.
    pub fn location(&self, text: &str) -> Result<Location, Diagnostic> {
        Parser::new(text, self)
            .and_then(Parser::whole_location)
            .map_err(|diagnostic| diagnostic.within("location", text))
    }

    /// Where a service runs, by its canonical name; nothing if the scope does not say.
    ///
    /// ```
    /// # use scope::{Atlas, Dialect, Site};
    /// let view = Atlas::new(["A", "B", "C"].into_iter().filter_map(Site::new)).unwrap();
    /// let dialect = Dialect::default();
    /// let scope = dialect.scope("image: !C").unwrap();
    /// assert_eq!(dialect.plan(&scope, "image", &view).unwrap().unwrap().to_string(), "A & B");
    /// assert_eq!(dialect.plan(&scope, "compute", &view).unwrap(), None);
    /// ```
    pub fn plan(&self, scope: &Scope, service: &str, view: &dyn View) -> Result<Option<Plan>, Diagnostic> {
        let Some(location) = scope.location(service) else { return Ok(None) };
        let plan = Plan::new(location, service, view, &self.limits);
        plan.map(Some).map_err(|diagnostic| diagnostic.within("scope", scope.text()))
    }
}
