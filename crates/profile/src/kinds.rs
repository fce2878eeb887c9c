//! The kinds of resources that can be replicated: where they are, how writes to them behave.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::owner::Owner;
use crate::path::{Pattern, segments};

/// So many segments has the path of a resource at most.
const DEEPEST: usize = 64;

/// One kind of resource of one service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// What people call it.
    pub name: String,
    /// Whose. None: any service's.
    service: Option<String>,
    /// The collection: a POST there makes one, and each is one segment below. `/**` alone is any path.
    path: Pattern,
    /// Where the answer to its creation says its id, as a JSON pointer.
    #[serde(default = "id")]
    pub id: String,
    /// Who gives it its id.
    #[serde(default)]
    pub named_by: NamedBy,
    /// Members that each site's service makes up itself, as JSON pointers: outside comparisons and copies.
    #[serde(default)]
    pub generated: Vec<String>,
    /// What to do where nobody knows whether one was made.
    #[serde(default = "ask")]
    pub create_doubt: Doubt,
    /// The member of a document that patches have their fields in, as a JSON pointer. The root without it.
    #[serde(default)]
    pub fields: String,
    /// What is below it and must be copied too: read by GET, written by PUT.
    #[serde(default)]
    pub parts: Vec<String>,
    /// What a client that chooses ids writes in the place of one, to have it chosen: no id.
    #[serde(default)]
    pub unnamed: Vec<String>,
    /// The type of a JSON Patch (RFC 6902) by which one is set to what another site has. It is then never deleted and
    /// made again for that: some services take an id once only.
    pub json_patch: Option<String>,
    /// What a document that makes one has to say, as JSON pointers, each with why: for the client.
    #[serde(default)]
    pub needs: BTreeMap<String, String>,
    /// How requests say whose it is, where that is one user: each has other ones of the same name.
    pub owner: Option<Owner>,
    /// Whether one can be replicated at all: `false` says of these paths that nothing there can be.
    #[serde(default = "yes")]
    pub replicated: bool,
    /// Why not, for the client.
    pub because: Option<String>,
    /// What differs from the usual writes. The first that fits counts.
    #[serde(default)]
    operations: Vec<Operation>,
}

/// Who gives a resource its id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedBy {
    /// The service, which chooses a UUID.
    #[default]
    Service,
    /// Its client, by a PUT to the new address. A POST to the collection can be sent so too.
    Client,
    /// Its client, in the body of a POST to the collection, where [`Kind::id`] says.
    Body,
}

/// How a write behaves beside concurrent ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Sets the whole resource.
    Replace,
    /// Removes it.
    Delete,
    /// Commutes.
    Add,
    /// Sets the fields that it names.
    Patch,
    /// Anything else.
    Action,
    /// Changes nothing: it is a read, whatever its method.
    Read,
}

/// What to do where nobody knows whether a service executed a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// Execute it again.
    Repeat,
    /// Ask the service whether it was executed: one was made if it is there, deleted if it is not, changed if
    /// it is as the write says.
    Probe,
    /// Show it to the operator.
    Ask,
}

/// Writes of one kind, to a resource or to what is below it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    method: String,
    /// Below the resource. Empty: itself.
    #[serde(default)]
    below: Option<Pattern>,
    class: Class,
    #[serde(default)]
    idempotent: bool,
    doubt: Option<Doubt>,
    #[serde(default)]
    field: Option<String>,
}

/// How a write behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Beside concurrent ones.
    pub class: Class,
    /// Whether executing it twice is the same as once.
    pub idempotent: bool,
    /// Where it is in doubt.
    pub doubt: Doubt,
    /// The one field that it sets, whatever its body: what is below a resource is a field of it. None: the
    /// members of the body.
    pub field: Option<String>,
}

/// A path as that of one resource, or of something below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item<'k, 'p> {
    /// Its kind.
    pub kind: &'k Kind,
    /// What names it at every site, whatever its service's prefix: the path without that. Ends with the id.
    pub name: &'p str,
    /// Its own path, with the prefix.
    pub path: &'p str,
    /// Its id: the last segment of both.
    pub id: &'p str,
    /// What of the path is below it, from the slash on.
    pub below: &'p str,
}

impl Kind {
    fn is_of(&self, service: &str) -> bool {
        self.service.as_deref().is_none_or(|own| own == service)
    }

    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|service| !known(service))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let pointers = self.generated.iter().chain(self.needs.keys()).chain([&self.id]);
        if pointers.into_iter().any(|pointer| !pointer.starts_with('/')) {
            return Some("a JSON pointer starts with `/`");
        }
        if !self.fields.is_empty() && !self.fields.starts_with('/') {
            return Some("a JSON pointer starts with `/`");
        }
        if !self.unnamed.is_empty() && self.named_by != NamedBy::Body {
            return Some("`unnamed` is for ids that are chosen in the body");
        }
        if (self.owner.is_some() || !self.needs.is_empty()) && self.named_by != NamedBy::Body {
            return Some("`owner` and `needs` are for what is named in the body that makes it");
        }
        if let Some(why) = self.owner.as_ref().and_then(Owner::fault) {
            return Some(why);
        }
        if self.because.is_some() && self.replicated {
            return Some("`because` says why `replicated` is false");
        }
        if self.parts.iter().any(|part| !part.starts_with('/') || part.ends_with('/')) {
            return Some("a part is a path below the resource, such as `/file`");
        }
        None
    }

    /// How a write to a resource of this kind behaves, or to something below it.
    ///
    /// Unless the profile says otherwise: PUT replaces, PATCH patches, DELETE deletes; what is below is a field,
    /// which PUT and DELETE set; a POST is an action.
    #[must_use]
    pub fn rule(&self, method: &str, below: &str) -> Rule {
        let fits = |operation: &&Operation| {
            operation.method.eq_ignore_ascii_case(method)
                && match &operation.below {
                    Some(pattern) => !is_itself(below) && pattern.fits(below),
                    None => is_itself(below),
                }
        };
        let usual = usual(method, below);
        let Some(own) = self.operations.iter().find(fits) else { return usual };
        let idempotent = own.idempotent || (own.class == usual.class && usual.idempotent);
        let doubt = match own.doubt {
            Some(doubt) => doubt,
            None if idempotent || matches!(own.class, Class::Replace | Class::Delete) => Doubt::Repeat,
            None if own.class == Class::Patch && own.field.is_some() => Doubt::Repeat,
            None => Doubt::Ask,
        };
        let field = own.field.clone().or(usual.field).filter(|_| own.class == Class::Patch);
        Rule { class: own.class, idempotent, doubt, field }
    }
}

fn is_itself(below: &str) -> bool {
    segments(below).next().is_none()
}

fn usual(method: &str, below: &str) -> Rule {
    let rule = |class, idempotent, doubt| Rule { class, idempotent, doubt, field: None };
    match (method, is_itself(below)) {
        ("GET" | "HEAD" | "OPTIONS" | "TRACE", _) => rule(Class::Read, true, Doubt::Repeat),
        ("PUT", true) => rule(Class::Replace, true, Doubt::Repeat),
        ("PATCH", true) => rule(Class::Patch, true, Doubt::Repeat),
        ("DELETE", true) => rule(Class::Delete, true, Doubt::Repeat),
        ("PUT" | "DELETE", false) => Rule {
            field: Some(below.trim_end_matches('/').to_owned()),
            ..rule(Class::Patch, true, Doubt::Repeat)
        },
        _ => rule(Class::Action, false, Doubt::Ask),
    }
}

/// The kinds of an application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Kinds(pub(crate) Vec<Kind>);

impl Kinds {
    /// Whether a service has any that can be replicated. One that has none is never looked at.
    #[must_use]
    pub fn any(&self, service: &str) -> bool {
        self.0.iter().any(|kind| kind.replicated && kind.is_of(service))
    }

    /// The kind of what a POST to this path makes.
    #[must_use]
    pub fn collection(&self, service: &str, path: &str) -> Option<&Kind> {
        let fits = |kind: &&Kind| kind.is_of(service) && kind.path.fits(path);
        self.0.iter().find(fits).filter(|kind| kind.replicated)
    }

    /// The kind of what a path is of, or of what a POST there makes, if the profile says that it cannot be replicated.
    #[must_use]
    pub fn barred(&self, service: &str, path: &str) -> Option<&Kind> {
        let first = |path: &str| self.0.iter().find(|kind| kind.is_of(service) && kind.path.fits(path));
        let above = || path.trim_end_matches('/').rsplit_once('/').and_then(|(above, _)| first(above));
        first(path).or_else(above).filter(|kind| !kind.replicated)
    }

    /// What a path may be of: the longest first, so that what is the path itself comes before what it is below.
    #[must_use]
    pub fn items<'k, 'p>(&'k self, service: &str, path: &'p str) -> Vec<Item<'k, 'p>> {
        let mut items = Vec::new();
        for end in ends(path).into_iter().rev() {
            let Some((own, below)) = path.split_at_checked(end) else { continue };
            let Some((collection, id)) = own.rsplit_once('/') else { continue };
            let kind = self.0.iter().find(|kind| kind.is_of(service) && kind.path.fits(collection));
            let Some(kind) = kind.filter(|kind| kind.replicated && !id.is_empty()) else { continue };
            let prefix = kind.path.prefix(collection).len();
            let name = own.get(prefix..).unwrap_or(own);
            items.push(Item { kind, name, path: own, id, below });
        }
        items
    }
}

/// Where each segment of a path ends, up to a depth that no resource has: a path of thousands would take long.
fn ends(path: &str) -> Vec<usize> {
    let slashes = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
    let ends =
        slashes.filter(|end| path.get(..*end).is_some_and(|own| !own.is_empty() && !own.ends_with('/')));
    ends.take(DEEPEST).collect()
}

fn id() -> String {
    "/id".to_owned()
}

fn ask() -> Doubt {
    Doubt::Ask
}

fn yes() -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Kinds {
        #[derive(Deserialize)]
        struct File {
            kinds: Kinds,
        }
        toml::from_str::<File>(text).unwrap().kinds
    }

    #[test]
    fn what_is_below_a_resource_is_found_with_its_name_whatever_the_prefix() {
        let kinds = kinds("[[kinds]]\nname = 'image'\nservice = 'image'\npath = '/**/v2/images'");
        let found = kinds.items("image", "/glance/v2/images/7f/file");
        let [item] = &found[..] else { panic!("{found:?}") };
        assert_eq!((item.name, item.path), ("/v2/images/7f", "/glance/v2/images/7f"));
        assert_eq!((item.id, item.below), ("7f", "/file"));
        assert!(kinds.items("compute", "/v2/images/7f").is_empty());
        assert!(kinds.items("image", "/v2/images").is_empty());
        assert!(kinds.collection("image", "/glance/v2/images/").is_some());
        assert!(kinds.any("image") && !kinds.any("compute"));
    }

    #[test]
    fn any_path_may_be_a_resource_where_nothing_is_known() {
        let kinds = kinds("[[kinds]]\nname = 'resource'\npath = '/**'");
        let names: Vec<_> = kinds.items("x", "/a/b/c").into_iter().map(|item| item.name).collect();
        assert_eq!(names, ["/a/b/c", "/a/b", "/a"]);
        assert!(kinds.collection("x", "/a/b").is_some());
    }

    #[test]
    fn usual_writes_need_no_words_and_others_get_theirs() {
        let kinds = kinds(
            "[[kinds]]\nname = 'x'\npath = '/x'\noperations = [\n\
             { method = 'POST', below = '/add', class = 'add' },\n\
             { method = 'POST', below = '/stop', class = 'action', idempotent = true },\n\
             { method = 'PUT', class = 'patch' }]",
        );
        let kind = &kinds.0[0];
        let is = |method, below| {
            let rule = kind.rule(method, below);
            (rule.class, rule.doubt)
        };
        assert_eq!(is("DELETE", ""), (Class::Delete, Doubt::Repeat));
        assert_eq!(is("PUT", ""), (Class::Patch, Doubt::Ask));
        assert_eq!(is("POST", "/add"), (Class::Add, Doubt::Ask));
        assert_eq!(is("POST", "/stop"), (Class::Action, Doubt::Repeat));
        assert_eq!(is("POST", "/start"), (Class::Action, Doubt::Ask));
        assert_eq!(is("GET", "/file"), (Class::Read, Doubt::Repeat));
        assert_eq!(kind.rule("PUT", "/file/").field.as_deref(), Some("/file"));
    }

    /// What a request to OpenStack is: a word, the kind, and how it behaves.
    fn openstack(service: &str, request: &str) -> String {
        let profile = crate::Profile::named("openstack").unwrap();
        let (method, path) = request.split_once(' ').unwrap();
        if let Some(kind) = profile.kinds.collection(service, path).filter(|_| method == "POST") {
            return format!("makes {} {:?}", kind.name, kind.named_by);
        }
        if let Some(barred) = profile.kinds.barred(service, path) {
            return format!("no {}", barred.name);
        }
        let items = profile.kinds.items(service, path);
        let Some(item) = items.first() else { return "nothing".to_owned() };
        let rule = item.kind.rule(method, item.below);
        let field = rule.field.map(|field| format!(" {field}")).unwrap_or_default();
        let repeat = if rule.idempotent { "" } else { " once" };
        format!("{} {} {:?}{field}{repeat}", item.kind.name, item.id, rule.class)
    }

    #[test]
    fn writes_to_openstack_are_what_its_services_make_of_them() {
        for (service, request, is) in [
            ("image", "POST /v2/images", "makes image Body"),
            ("image", "POST /image/v2/images", "makes image Body"),
            ("image", "PATCH /v2/images/7f", "image 7f Patch"),
            ("image", "PUT /v2/images/7f/file", "image 7f Patch /file"),
            ("image", "GET /v2/images/7f/file", "image 7f Read"),
            ("image", "PUT /v2/images/7f/tags/lts", "image 7f Patch /tags/lts"),
            ("image", "DELETE /v2/images/7f/tags/lts", "image 7f Patch /tags/lts"),
            ("image", "POST /v2/images/7f/members", "image 7f Add once"),
            ("image", "PUT /v2/images/7f/members/42", "image 7f Patch /members/42"),
            ("image", "POST /v2/images/7f/actions/deactivate", "image 7f Action"),
            ("image", "POST /v2/images/7f/import", "image 7f Action once"),
            ("image", "DELETE /v2/images/7f", "image 7f Delete"),
            ("image", "POST /v2/metadefs/namespaces", "nothing"),
            ("compute", "POST /v2.1/flavors", "makes flavor Body"),
            ("compute", "PUT /v2.1/flavors/m1.tiny", "flavor m1.tiny Patch"),
            ("compute", "POST /v2.1/flavors/1/os-extra_specs", "flavor 1 Patch /os-extra_specs"),
            ("compute", "PUT /v2.1/flavors/1/os-extra_specs/hw:x", "flavor 1 Patch /os-extra_specs/hw:x"),
            ("compute", "POST /v2.1/flavors/1/action", "flavor 1 Action once"),
            ("compute", "POST /v2.1/servers", "no server"),
            ("compute", "POST /v2.1/os-keypairs", "makes key pair Body"),
            ("compute", "DELETE /v2.1/os-keypairs/mine", "key pair mine Delete"),
            ("network", "POST /v2.0/ports", "no port"),
            ("network", "PUT /v2.0/networks/7", "no network"),
            ("volume", "POST /v3/5f0c/volumes", "no volume"),
            ("identity", "POST /v3/users", "makes user Service"),
            ("identity", "PATCH /identity/v3/users/0a1b", "user 0a1b Patch"),
            ("identity", "POST /v3/users/0a1b/password", "user 0a1b Action once"),
            ("identity", "PUT /v3/projects/0a/users/1b/roles/2c", "project 0a Action once"),
            ("identity", "POST /v3/auth/tokens", "nothing"),
        ] {
            assert_eq!(openstack(service, request), is, "{request}");
        }
    }

    #[test]
    fn kinds_that_cannot_be_meant_are_refused() {
        for (text, why) in [
            ("unnamed = ['auto']", "`unnamed` is for ids"),
            ("because = 'x'", "`because` says why"),
            ("needs = { '/a' = 'x' }", "`owner` and `needs` are for"),
        ] {
            let text = format!("description = 'x'\n[[kinds]]\nname = 'x'\npath = '/x'\n{text}");
            let error = crate::Profile::read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
