//! What Archipel knows of an application, as data.
//!
//! A profile is a TOML file under `profiles/`, built into the binary. It says which services the
//! application has and what else they are called, what they hand on from the request they serve to the
//! calls they make, how their lists look, which of their answers are failures, how their resources are
//! replicated and how their users' tokens are validated; nothing else in Archipel knows an application by name.

mod answers;
mod check;
mod contents;
mod effect;
mod elements;
mod identity;
mod ids;
mod kinds;
mod lists;
mod lookup;
mod owner;
mod path;
mod probe;
mod propagation;
mod sessions;
mod setting;
mod settles;
mod streams;
mod together;

use std::collections::BTreeMap;
use std::fmt;

use scope::Services;
use serde::Deserialize;

pub use answers::{Fails, Judge};
pub use check::{ProfileFault, faults};
pub use contents::{Content, ContentUpload, Contents};
pub use effect::DryRun;
pub use elements::{Elements, Members, element, field_at};
pub use identity::{Find, Identity, Issue, Lookup, Owned, Says, Template, Validate};
pub use ids::{IdForm, MetaRange};
pub use kinds::{Class, Deletion, Doubt, Item, Kind, Kinds, NamedBy, Rule};
pub use lists::{List, Lists, Next, Paging, Sort, Totals};
pub use lookup::LookupQuery;
pub use owner::Owner;
pub use probe::{Marker, MarkerList, Probe, Taken, Upload};
pub use propagation::{Form, Header, Origin, Propagation, ServiceToken};
pub use sessions::Session;
pub use settles::{Outcome, Settles};
use streams::StreamRule;
pub use together::Together;

/// The profiles that are built in, by name.
const BUILT_IN: [(&str, &str); 5] = [
    ("kinto", include_str!("../profiles/kinto.toml")),
    ("oci", include_str!("../profiles/oci.toml")),
    ("openstack", include_str!("../profiles/openstack.toml")),
    ("rest", include_str!("../profiles/rest.toml")),
    ("sample", include_str!("../profiles/sample.toml")),
];

/// How the clients of an application read errors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Problems {
    /// The one member of an error's document, in which its `message` and `code` are. Without it, errors are
    /// problem documents (RFC 9457).
    pub within: Option<String>,
}

/// One application.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The application, in a few words.
    pub description: String,
    /// Its services by their canonical names, each with its aliases. With none, every name is a
    /// service.
    #[serde(default)]
    pub services: BTreeMap<String, Vec<String>>,
    /// What services hand on.
    #[serde(default)]
    pub propagation: Propagation,
    /// What runs where the client entered.
    #[serde(default)]
    pub origin: Origin,
    /// How its clients read errors.
    #[serde(default)]
    pub problems: Problems,
    /// How its lists look.
    #[serde(default)]
    pub lists: Lists,
    /// The documents whose numbers are summed over sites.
    #[serde(default)]
    totals: Vec<Totals>,
    /// The answers that services keep open.
    #[serde(default)]
    streams: Vec<StreamRule>,
    /// The answers that are failures, besides those that are for every application.
    #[serde(default)]
    fails: Vec<Fails>,
    /// What is known only after the answer.
    #[serde(default)]
    settles: Vec<Settles>,
    /// The requests that change nothing, whatever their methods.
    #[serde(default)]
    dry_runs: Vec<DryRun>,
    /// Sessions of several requests, which live at the site that began them.
    #[serde(default)]
    sessions: Vec<Session>,
    /// The kinds of resources that can be replicated. The first whose path fits counts.
    #[serde(default)]
    pub kinds: Kinds,
    /// The services that must be at one site. A scope that places them apart is refused.
    #[serde(default)]
    pub together: Vec<Together>,
    /// How tokens of its users are issued and validated, if it has any that other sites may honour.
    pub identity: Option<Box<Identity>>,
}

impl Profile {
    /// A built-in profile by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Profile> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        // A built-in profile that cannot be read fails the test below.
        Profile::read(text).ok()
    }

    /// The names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a profile, and refuses one in which a name means two services or a header cannot be used.
    pub fn read(text: &str) -> Result<Profile, Error> {
        let profile: Profile = toml::from_str(text).map_err(|source| Error::Toml(source.to_string()))?;
        let mut owners = BTreeMap::new();
        for (service, aliases) in &profile.services {
            for name in aliases.iter().chain([service]) {
                if let Some(other) = owners.insert(name.to_ascii_lowercase(), service) {
                    return Err(Error::TwoServices {
                        name: name.clone(),
                        services: [other.clone(), service.clone()],
                    });
                }
            }
        }
        if let Some((name, why)) = profile.propagation.fault() {
            return Err(Error::Header { name: name.to_owned(), why });
        }
        let known = |name: &String| profile.services.is_empty() || profile.services.contains_key(name);
        if let Some(name) = profile.origin.services.iter().find(|name| !known(name)) {
            return Err(Error::NoService { part: "origin", name: name.clone() });
        }
        let tokens = &profile.propagation.service_tokens;
        if let Some(token) = tokens.iter().find(|token| !known(&token.service)) {
            return Err(Error::NoService { part: "service_tokens", name: token.service.clone() });
        }
        if let Some(name) = profile.sessions.iter().find_map(|session| session.stranger(known)) {
            return Err(Error::NoService { part: "sessions", name: name.clone() });
        }
        if let Some(name) = profile.dry_runs.iter().find_map(|dry_run| dry_run.stranger(known)) {
            return Err(Error::NoService { part: "dry_runs", name: name.clone() });
        }
        if let Some(name) = profile.lists.stranger(known) {
            return Err(Error::NoService { part: "lists", name: name.clone() });
        }
        if let Some(name) = profile.totals.iter().find_map(|totals| totals.stranger(known)) {
            return Err(Error::NoService { part: "totals", name: name.clone() });
        }
        if let Some(name) = profile.streams.iter().find_map(|rule| rule.stranger(known)) {
            return Err(Error::NoService { part: "streams", name: name.clone() });
        }
        if let Some(name) = profile.kinds.0.iter().find_map(|kind| kind.stranger(known)) {
            return Err(Error::NoService { part: "kinds", name: name.clone() });
        }
        if let Some(name) = profile.fails.iter().find_map(|fails| fails.stranger(known)) {
            return Err(Error::NoService { part: "fails", name: name.clone() });
        }
        if let Some(name) = profile.settles.iter().find_map(|settles| settles.stranger(known)) {
            return Err(Error::NoService { part: "settles", name: name.clone() });
        }
        if let Some(name) = profile.together.iter().find_map(|together| together.stranger(known)) {
            return Err(Error::NoService { part: "together", name: name.clone() });
        }
        if let Some(why) = profile.together.iter().find_map(Together::fault) {
            return Err(Error::Together { why });
        }
        if let Some(why) = profile.settles.iter().find_map(Settles::fault) {
            return Err(Error::Settles { why });
        }
        if let Some(why) = profile.fails.iter().find_map(Fails::fault) {
            return Err(Error::Fails { why });
        }
        if let Some((kind, why)) = profile.kinds.0.iter().find_map(|kind| Some((kind, kind.fault()?))) {
            return Err(Error::Kind { name: kind.name.clone(), why });
        }
        let kinds = &profile.kinds.0;
        if let Some((kind, other)) = kinds.iter().find_map(|kind| Some((kind, kind.unknown_ref(kinds)?))) {
            let why = format!("it refers to `{other}`, which is no kind of its service");
            return Err(Error::Kind { name: kind.name.clone(), why });
        }
        if let Some(identity) = &profile.identity {
            if let Some(name) = identity.stranger(known) {
                return Err(Error::NoService { part: "identity", name: name.clone() });
            }
            if let Some(why) = identity.fault() {
                return Err(Error::Identity { why });
            }
        }
        match profile.lists.fault() {
            Some(why) => Err(Error::Lists { why }),
            None => Ok(profile),
        }
    }

    /// Whether a request with this query changes nothing, whatever its method.
    #[must_use]
    pub fn is_dry_run(&self, service: &str, query: Option<&str>) -> bool {
        query.is_some_and(|query| self.dry_runs.iter().any(|dry_run| dry_run.fits(service, query)))
    }

    /// Whether a path is the address of a session that a service began.
    #[must_use]
    pub fn is_session(&self, service: &str, path: &str) -> bool {
        self.sessions.iter().any(|session| session.fits(service, path))
    }

    /// True where a request begins a session: it goes to one site.
    #[must_use]
    pub fn begins_session(&self, service: &str, method: &str, path: &str) -> bool {
        method == "POST" && self.sessions.iter().any(|session| session.begins(service, path))
    }

    /// Whether a service begins sessions at all.
    #[must_use]
    pub fn has_sessions(&self, service: &str) -> bool {
        self.sessions.iter().any(|session| session.is_of(service))
    }

    /// What a GET of a path gives, if it is a document whose numbers are summed over sites.
    #[must_use]
    pub fn totals(&self, service: &str, path: &str) -> Option<&Totals> {
        self.totals.iter().find(|totals| totals.fits(service, path))
    }

    /// Whether the answer to a GET is one that the service keeps open.
    #[must_use]
    pub fn is_stream(&self, service: &str, path: &str, query: Option<&str>) -> bool {
        self.streams.iter().any(|rule| rule.fits(service, path, query))
    }

    /// What judges the answers to a request, if the profile has anything to say of them.
    #[must_use]
    pub fn judge(&self, service: &str, method: &str, path: &str, query: Option<&str>) -> Option<Judge> {
        let rules = self.fails.iter().filter(|fails| fails.fits(service, method, path));
        let may_look_up = method == "GET" && self.lists.look_up();
        let looks_up = query.filter(|query| may_look_up && !self.is_stream(service, path, Some(query)));
        let list =
            looks_up.and_then(|query| self.lists.of(service, path).filter(|list| list.is_lookup(query)));
        Judge::of(rules, list)
    }

    /// How the outcome of a request is learned, where its answer may not tell yet.
    #[must_use]
    pub fn settles(&self, service: &str, method: &str, path: &str) -> Option<&Settles> {
        self.settles.iter().find(|settles| settles.fits(service, method, path))
    }

    /// Whether a service, by its canonical name, runs where the client entered unless a scope names it.
    #[must_use]
    pub fn runs_at_origin(&self, service: &str) -> bool {
        self.origin.services.iter().any(|name| name == service)
    }

    /// The services, as the scope language sees them.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.iter().fold(Services::open(), |services, (name, aliases)| {
            services.with(name, aliases.iter().map(String::as_str))
        })
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The text is not TOML, or not of a profile's form.
    Toml(String),
    /// A name stands for two services.
    TwoServices {
        /// The name.
        name: String,
        /// The services.
        services: [String; 2],
    },
    /// A header cannot be used as the profile wants.
    Header {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Lists cannot be merged as the profile wants.
    Lists {
        /// What is wrong.
        why: &'static str,
    },
    /// An answer cannot be told to be a failure as the profile wants.
    Fails {
        /// What is wrong.
        why: &'static str,
    },
    /// Services cannot be kept together as the profile wants.
    Together {
        /// What is wrong.
        why: &'static str,
    },
    /// An outcome cannot be waited for as the profile wants.
    Settles {
        /// What is wrong.
        why: &'static str,
    },
    /// Resources of a kind cannot be replicated as the profile wants.
    Kind {
        /// The kind.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Tokens cannot be honoured as the profile wants.
    Identity {
        /// What is wrong.
        why: String,
    },
    /// A service is not one of the application's, by its canonical name.
    NoService {
        /// The part of the profile that names it.
        part: &'static str,
        /// The name.
        name: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Toml(why) => f.write_str(why.trim_end()),
            Error::TwoServices { name, services: [first, second] } => {
                write!(f, "`{name}` means two services, `{first}` and `{second}`")
            }
            Error::Header { name, why } => write!(f, "the header `{name}` {why}"),
            Error::Lists { why } => write!(f, "`lists`: {why}"),
            Error::Together { why } => write!(f, "`together`: {why}"),
            Error::Settles { why } => write!(f, "`settles`: {why}"),
            Error::Fails { why } => write!(f, "`fails`: {why}"),
            Error::Kind { name, why } => write!(f, "the kind `{name}`: {why}"),
            Error::Identity { why } => write!(f, "`identity`: {why}"),
            Error::NoService { part, name } => write!(f, "`{part}` names `{name}`, which is no service"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_can_be_read() {
        for name in Profile::names() {
            assert!(Profile::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_services_of_openstack_go_by_their_project_names_too() {
        let services = Profile::named("openstack").unwrap().services();
        for (alias, service) in [
            ("nova", "compute"),
            ("Glance", "image"),
            ("keystone", "identity"),
            ("neutron", "network"),
            ("PLACEMENT", "placement"),
            ("cinder", "volume"),
            ("swift", "object-store"),
            ("novnc", "console"),
        ] {
            assert_eq!(services.canonical(alias).as_deref(), Some(service));
            assert_eq!(services.canonical(service).as_deref(), Some(service));
        }
        assert_eq!(services.canonical("imge"), None);
    }

    #[test]
    fn any_name_is_a_service_of_a_rest_application() {
        let services = Profile::named("rest").unwrap().services();
        assert_eq!(services.canonical("Shopping-Cart").as_deref(), Some("shopping-cart"));
    }

    #[test]
    fn a_name_for_two_services_is_refused() {
        let text = "description = 'x'\n[services]\nimage = ['store']\nobject = ['Store']";
        let error = Profile::read(text).unwrap_err();
        assert_eq!(error.to_string(), "`Store` means two services, `image` and `object`");
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let error = Profile::read("description = 'x'\nservice = 1").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("unknown field `service`"), "{error}");
    }

    #[test]
    fn openstack_hands_on_its_request_id_and_rest_what_tracing_does() {
        let openstack = Profile::named("openstack").unwrap();
        let header = Header { name: "X-OpenStack-Request-ID".into(), form: Form::ReqUuid };
        let sender = vec!["x-auth-token".to_owned()];
        let login = ServiceToken {
            service: "identity".into(),
            method: "POST".into(),
            path: "/v3/auth/tokens".into(),
            header: "x-subject-token".into(),
        };
        let expected = Propagation {
            tracestate: true,
            baggage: false,
            headers: vec![header],
            sender,
            service_tokens: vec![login],
        };
        assert_eq!(openstack.propagation, expected);
        assert!(openstack.runs_at_origin("identity") && !openstack.runs_at_origin("image"));

        let rest = Profile::named("rest").unwrap();
        assert_eq!(
            rest.propagation,
            Propagation { tracestate: true, baggage: true, ..Propagation::default() }
        );
        assert!(!rest.runs_at_origin("identity"));
    }

    #[test]
    fn a_login_is_at_a_service_of_the_application() {
        let text = |service| {
            format!(
                "description = 'x'\n[services]\nid = []\n[[propagation.service_tokens]]\nservice = '{service}'\n\
                 method = 'POST'\npath = '/'\nheader = 'x-t'"
            )
        };
        assert!(Profile::read(&text("id")).is_ok());
        let error = Profile::read(&text("di")).unwrap_err().to_string();
        assert_eq!(error, "`service_tokens` names `di`, which is no service");
    }

    #[test]
    fn a_profile_without_propagation_hands_nothing_on() {
        let profile = Profile::read("description = 'x'").unwrap();
        assert_eq!(profile.propagation, Propagation::default());
    }

    #[test]
    fn headers_that_cannot_carry_a_key_are_refused() {
        for (names, why) in [
            (&["Host"][..], "the header `Host` has another use, and cannot carry a key"),
            (&["Archipel-Leg"], "the header `Archipel-Leg` has another use, and cannot carry a key"),
            (&["X-Id", "x-id"], "the header `x-id` is named twice"),
            (&["X Id"], "the header `X Id` is not the name of a header"),
            (&[""], "the header `` is not the name of a header"),
        ] {
            let header = |name| format!("\n[[propagation.headers]]\nname = '{name}'\nform = 'hex'");
            let headers: String = names.iter().map(header).collect();
            let text = format!("description = 'x'{headers}");
            assert_eq!(Profile::read(&text).unwrap_err().to_string(), why);
        }
    }

    #[test]
    fn unknown_keys_forms_and_origins_are_refused() {
        for (text, why) in [
            ("[propagation]\ntrace = true", "unknown field `trace`"),
            ("[propagation]\nsender = ['Traceparent']", "says nothing of its sender"),
            ("[origin]\nservice = []", "unknown field `service`"),
            ("[[propagation.headers]]\nname = 'a'\nform = 'base64'", "unknown variant `base64`"),
            (
                "[services]\nimage = ['glance']\n[origin]\nservices = ['glance']",
                "`glance`, which is no service",
            ),
        ] {
            let error = Profile::read(&format!("description = 'x'\n{text}")).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
