//! How the tokens of an application are issued, validated and told: what a site must know to honour a token that
//! another site issued.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::path::Pattern;
use crate::propagation::is_header;

/// The names that stand for something in a template, for each place that has one.
const LOGIN: &[&str] = &["user", "user_domain", "project", "project_domain", "password"];
const DOMAIN: &[&str] = &["name"];
const OWNED: &[&str] = &["name", "domain"];
const ROLES: &[&str] = &["user", "project"];
const NONE: &[&str] = &[];

/// The tokens of one application.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The canonical name of the service that issues tokens and says whether they are valid.
    pub service: String,
    /// The headers of requests that have tokens.
    pub tokens: Vec<String>,
    /// The request that is answered with a new token.
    pub issue: Issue,
    /// The question whether a token is valid.
    pub validate: Validate,
    /// What the answers to both say.
    pub says: Says,
    /// How the users, projects and roles of a site are found there.
    pub find: Find,
    /// The requests that name a project by its id, which is another at each site.
    #[serde(default)]
    projects: Vec<Projects>,
}

/// Requests of one service that name a project by its id.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Projects {
    service: String,
    /// Paths in which it is a segment.
    #[serde(default)]
    paths: Vec<Pattern>,
    /// The parameters of any path that have it.
    #[serde(default)]
    parameters: Vec<String>,
}

/// The request that is answered with a new token, and how to send one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Issue {
    method: String,
    path: Pattern,
    /// The header of the answer that is the token.
    pub header: String,
    /// Where a login is sent.
    pub login: String,
    /// With what.
    pub body: Template,
}

/// The question whether a token is valid.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validate {
    methods: Vec<String>,
    path: Pattern,
    /// Where Archipel asks.
    pub ask: String,
    /// The header with the token of whoever asks. Requests of Archipel's own have theirs there too.
    pub asker: String,
    /// The header with the token that is asked about. The answer repeats it.
    pub subject: String,
    /// The parameter by which a service asks also about a token that has expired: of work that takes longer than it.
    pub expired: Option<String>,
}

/// Where an answer says what, each as a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Says {
    /// Whose token it is.
    pub user: Owned,
    /// For which project.
    pub project: Owned,
    /// With which roles: a list.
    pub roles: String,
    /// Where the services of the site are, in answers that say so.
    pub catalog: String,
    /// Until when it is valid.
    pub expires: String,
    /// What is true of the token at any site.
    pub keep: Vec<String>,
    /// What must not be there: no other site can keep to it.
    pub refuse: Vec<String>,
    /// What is said of every token of another site.
    #[serde(default)]
    pub set: BTreeMap<String, Template>,
}

/// Something that has a name within a domain, by JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owned {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// The id of its domain.
    pub domain_id: String,
    /// The name of its domain.
    pub domain_name: String,
}

/// How the users, projects and roles of a site are found.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Find {
    /// A domain, by `{name}`.
    pub domain: Lookup,
    /// A user, by `{name}` and the id of its `{domain}`.
    pub user: Lookup,
    /// A project, by `{name}` and the id of its `{domain}`.
    pub project: Lookup,
    /// The roles that a `{user}` has in a `{project}`, by their ids.
    pub roles: Lookup,
    /// Where the services of the site are.
    pub catalog: Lookup,
}

/// A list that is asked for, and what of it counts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lookup {
    /// The path and query. What stands for something is percent-encoded.
    pub path: String,
    /// Where the answer has the items, as a JSON pointer.
    pub items: String,
    /// What must be so of an item for it to count, by JSON pointers. A service may ignore what it does not know in
    /// a query.
    #[serde(default)]
    pub only: BTreeMap<String, Template>,
    /// What to take of an item: its name, and a JSON pointer. Everything, where this is empty.
    #[serde(default)]
    pub take: BTreeMap<String, String>,
}

/// A document in which a text that is a name in braces stands for something.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Template {
    /// Yes or no.
    Bool(bool),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Template>),
    /// An object.
    Table(BTreeMap<String, Template>),
}

impl Template {
    /// The name that a text stands for, if it stands for one.
    #[must_use]
    pub fn placeholder(text: &str) -> Option<&str> {
        text.strip_prefix('{')?.strip_suffix('}')
    }

    fn names(&self) -> Vec<&str> {
        match self {
            Template::Bool(_) => Vec::new(),
            Template::Text(text) => Template::placeholder(text).into_iter().collect(),
            Template::List(items) => items.iter().flat_map(Template::names).collect(),
            Template::Table(members) => members.values().flat_map(Template::names).collect(),
        }
    }
}

/// What stands in braces in the path of a lookup.
fn placeholders(path: &str) -> Vec<&str> {
    path.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(name, _)| name)).collect()
}

impl Identity {
    /// Whether a request to the service `service` is answered with a new token.
    #[must_use]
    pub fn issues(&self, service: &str, method: &str, path: &str) -> bool {
        service == self.service && method == self.issue.method && self.issue.path.fits(path)
    }

    /// Whether a request to the service `service` asks about a token.
    #[must_use]
    pub fn validates(&self, service: &str, method: &str, path: &str) -> bool {
        let own = &self.validate;
        service == self.service && own.methods.iter().any(|own| own == method) && own.path.fits(path)
    }

    /// Whether such a question is also about a token that has expired.
    #[must_use]
    pub fn asks_for_expired(&self, query: &str) -> bool {
        let yes = |value: &str| {
            matches!(value.to_ascii_lowercase().as_str(), "1" | "true" | "t" | "yes" | "y" | "on")
        };
        let own = self.validate.expired.as_ref();
        query.split('&').any(|pair| {
            pair.split_once('=').is_some_and(|(name, value)| own.is_some_and(|own| own == name) && yes(value))
        })
    }

    /// Whether a request to a service may name a project by its id.
    #[must_use]
    pub fn names_project(&self, service: &str, path: &str, query: Option<&str>) -> bool {
        let has = |own: &String| {
            let mut pairs = query.unwrap_or_default().split('&');
            pairs.any(|pair| pair.split_once('=').is_some_and(|(name, _)| name == own))
        };
        self.projects.iter().any(|own| {
            own.service == service
                && (own.paths.iter().any(|pattern| pattern.fits(path)) || own.parameters.iter().any(has))
        })
    }

    /// Whether any request to a service may.
    #[must_use]
    pub fn may_name_projects(&self, service: &str) -> bool {
        self.projects.iter().any(|own| own.service == service)
    }

    /// The service that is named, if it is none of the application's.
    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.projects.iter().map(|own| &own.service).chain([&self.service]).find(|name| !known(name))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<String> {
        let headers =
            self.tokens.iter().chain([&self.issue.header, &self.validate.asker, &self.validate.subject]);
        if let Some(name) = headers.into_iter().find(|name| !is_header(name)) {
            return Some(format!("`{name}` is not the name of a header"));
        }
        for name in [&self.validate.asker, &self.validate.subject] {
            if !self.tokens.iter().any(|token| token.eq_ignore_ascii_case(name)) {
                return Some(format!("`{name}` has a token, and is not among `tokens`"));
            }
        }
        let paths = [&self.issue.login, &self.validate.ask];
        if let Some(path) = paths.into_iter().find(|path| !path.starts_with('/')) {
            return Some(format!("the path `{path}` does not start with `/`"));
        }
        if let Some(name) = self.issue.body.names().into_iter().find(|name| !LOGIN.contains(name)) {
            return Some(format!("`{{{name}}}` stands for nothing in a login"));
        }
        if let Some(pointer) = self.says.pointers().into_iter().find(|pointer| !is_pointer(pointer)) {
            return Some(format!("`{pointer}` is not a JSON pointer to a member"));
        }
        if let Some(name) = self.says.set.values().flat_map(Template::names).next() {
            return Some(format!("`{{{name}}}` stands for nothing in `says.set`"));
        }
        let Find { domain, user, project, roles, catalog } = &self.find;
        let lookups =
            [(domain, DOMAIN, true), (user, OWNED, true), (project, OWNED, true), (roles, ROLES, false)];
        lookups
            .into_iter()
            .find_map(|(lookup, names, one)| lookup.fault(names, one))
            .or_else(|| catalog.fault(NONE, false))
    }
}

impl Says {
    fn pointers(&self) -> Vec<&str> {
        let mut all = vec![&self.roles, &self.catalog, &self.expires];
        for own in [&self.user, &self.project] {
            all.extend([&own.id, &own.name, &own.domain_id, &own.domain_name]);
        }
        all.extend(self.keep.iter().chain(&self.refuse).chain(self.set.keys()));
        all.into_iter().map(String::as_str).collect()
    }
}

impl Lookup {
    /// What is wrong with it, where these names stand for something. One that finds one thing needs its id.
    fn fault(&self, names: &[&str], needs_id: bool) -> Option<String> {
        let path = &self.path;
        if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return Some(format!("`{path}` is not a path"));
        }
        let said = placeholders(path).into_iter().chain(self.only.values().flat_map(Template::names));
        if let Some(name) = said.into_iter().find(|name| !names.contains(name)) {
            return Some(format!("`{{{name}}}` stands for nothing in the lookup `{path}`"));
        }
        let pointers = self.only.keys().chain(self.take.values()).chain([&self.items]);
        if let Some(pointer) = pointers.into_iter().find(|pointer| !is_pointer(pointer)) {
            return Some(format!("`{pointer}` is not a JSON pointer to a member"));
        }
        let lacks_id = needs_id && !self.take.contains_key("id");
        lacks_id.then(|| format!("the lookup `{path}` takes no `id`"))
    }
}

fn is_pointer(text: &str) -> bool {
    text.len() > 1 && text.starts_with('/')
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    /// The built-in profile with one text replaced in its section on tokens.
    fn with(what: &str, instead: &str) -> String {
        let text = include_str!("../profiles/openstack.toml");
        let (before, own) = text.split_once("[identity]\n").unwrap();
        assert!(own.contains(what), "{what}");
        let text = format!("{before}[identity]\n{}", own.replacen(what, instead, 1));
        Profile::read(&text).map_or_else(|error| error.to_string(), |_| "can be read".to_owned())
    }

    #[test]
    fn openstack_validates_tokens_by_a_get_and_issues_them_by_a_post() {
        let identity = Profile::named("openstack").unwrap().identity.unwrap();
        assert!(identity.issues("identity", "POST", "/v3/auth/tokens"));
        assert!(identity.issues("identity", "POST", "/identity/v3/auth/tokens/"));
        assert!(!identity.issues("image", "POST", "/v3/auth/tokens"));
        assert!(identity.validates("identity", "HEAD", "/v3/auth/tokens"));
        assert!(!identity.validates("identity", "DELETE", "/v3/auth/tokens"), "that revokes one");
        assert!(!identity.validates("identity", "GET", "/v3/auth/tokens/OS-PKI/revoked"));
        assert!(
            identity.asks_for_expired("nocatalog&allow_expired=1")
                && identity.asks_for_expired("allow_expired=True")
        );
        assert!(!identity.asks_for_expired("allow_expired=0") && !identity.asks_for_expired("allow_expired"));
    }

    #[test]
    fn the_requests_to_openstack_that_name_a_project_are_known() {
        let identity = Profile::named("openstack").unwrap().identity.unwrap();
        for (service, path, query, names) in [
            ("compute", "/v2.1/os-quota-sets/7f", None, true),
            ("compute", "/v2.1/os-quota-sets/7f/detail", None, true),
            ("compute", "/compute/v2.1/os-simple-tenant-usage/7f", Some("start=x"), true),
            ("compute", "/v2.1/os-simple-tenant-usage", None, false),
            ("compute", "/v2.1/servers", Some("limit=1&project_id=7f"), true),
            ("compute", "/v2.1/servers", Some("project_ids=7f"), false),
            ("network", "/v2.0/ports", Some("tenant_id=7f"), true),
            ("network", "/v2.0/quotas/7f", None, true),
            ("image", "/v2/images", Some("owner=7f"), true),
            ("identity", "/v3/role_assignments", Some("project_id=7f"), false),
        ] {
            assert_eq!(identity.names_project(service, path, query), names, "{path} {query:?}");
        }
        assert!(identity.may_name_projects("network") && !identity.may_name_projects("identity"));
    }

    #[test]
    fn what_cannot_be_done_is_said() {
        for (what, instead, why) in [
            (
                "service = \"identity\"",
                "service = \"keystone\"",
                "`identity` names `keystone`, which is no service",
            ),
            ("\"x-service-token\"", "\"x service\"", "`identity`: `x service` is not the name of a header"),
            (
                "subject = \"x-subject-token\"",
                "subject = \"x-other\"",
                "`identity`: `x-other` has a token, and is not among `tokens`",
            ),
            ("\"{password}\"", "\"{pasword}\"", "`identity`: `{pasword}` stands for nothing in a login"),
            (
                "roles = \"/token/roles\"",
                "roles = \"token\"",
                "`identity`: `token` is not a JSON pointer to a member",
            ),
            (
                "domains?name={name}",
                "domains?name={user}",
                "`identity`: `{user}` stands for nothing in the lookup `/v3/domains?name={user}`",
            ),
            ("take = { id = \"/id\" }", "", "`identity`: the lookup `/v3/domains?name={name}` takes no `id`"),
            (
                "login = \"/v3",
                "login = \"v3",
                "`identity`: the path `v3/auth/tokens` does not start with `/`",
            ),
        ] {
            assert_eq!(with(what, instead), why);
        }
        let error = with("header = \"x-subject-token\"", "header = \"x\"\nheadr = 1");
        assert!(error.contains("unknown field `headr`"), "{error}");
    }
}
