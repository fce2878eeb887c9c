//! The kinds of resources that can be replicated: where they are, how writes to them behave.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::contents::{self, Content, Contents};
use crate::elements::{Elements, Members, field_at};
use crate::ids::IdForm;
use crate::owner::Owner;
use crate::path::{Pattern, segments};
use crate::probe::Probe;

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
    /// The form of the ids that its service gives. None: it is learnt from what the collection has.
    pub ids: Option<IdForm>,
    /// Members that have the ids of others, as JSON pointers in which `*` is each element of an array, with the others' kinds.
    #[serde(default)]
    pub refs: BTreeMap<String, String>,
    /// Parameters of queries that have the ids of others, with the others' kinds.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
    /// Members that each site's service makes up itself, as JSON pointers: outside comparisons and copies.
    #[serde(default)]
    pub generated: Vec<String>,
    /// What to do where nobody knows whether one was made, where no `probe` says it.
    create_doubt: Option<Doubt>,
    /// How to find out whether one was made.
    pub probe: Option<Probe>,
    /// The member of a document that patches have their fields in, as a JSON pointer. The root without it.
    #[serde(default)]
    pub fields: String,
    /// The member of an answer that has what writes send bare, as a JSON pointer. Answers have no envelope without it.
    #[serde(default)]
    pub document: String,
    /// Statuses by which its service says, beside 404 and 410, that there is none of that name.
    #[serde(default)]
    pub absent: Vec<u16>,
    /// What is below it and must be copied too: read by GET, written by PUT.
    #[serde(default)]
    pub parts: Vec<String>,
    /// Its documents go from site to site byte for byte, with their media type.
    #[serde(default)]
    pub exact: bool,
    /// The media types that are accepted where Archipel reads one by itself.
    pub accept: Option<String>,
    /// Content that its documents name: at a site that is there first.
    #[serde(default)]
    contents: Vec<Contents>,
    /// When one that was deleted is gone.
    #[serde(default)]
    pub deletion: Deletion,
    /// Members of the document whose elements are also written by themselves, below it.
    #[serde(default)]
    pub elements: Vec<Elements>,
    /// Paths below it that are no members of the document, although one has the same name.
    #[serde(default)]
    pub apart: Vec<String>,
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
    /// The service, in the form that [`Kind::ids`] says.
    #[default]
    Service,
    /// Its client, by a PUT to the new address. A POST to the collection can be sent so too.
    Client,
    /// Its client, in the body of a POST to the collection, where [`Kind::id`] says.
    Body,
}

/// When a resource that was deleted is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Deletion {
    /// When the DELETE was answered.
    #[default]
    Answered,
    /// When a GET of it is a 404: until then something else holds it.
    Absent,
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
    /// Where the body has the elements that it sets of what is at its path, each by its name, as a JSON pointer.
    members: Option<String>,
    /// How to find out whether it was executed.
    probe: Option<Probe>,
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
    /// Which members of the body, where these are not those of the resource.
    pub members: Option<Members>,
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
    pub(crate) fn is_of(&self, service: &str) -> bool {
        self.service.as_deref().is_none_or(|own| own == service)
    }

    pub(crate) fn path(&self) -> &Pattern {
        &self.path
    }

    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|service| !known(service))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<String> {
        self.misuse().map(str::to_owned).or_else(|| self.overlap())
    }

    /// A kind that it refers to, and that is none of these.
    pub(crate) fn unknown_ref(&self, kinds: &[Kind]) -> Option<&String> {
        let mut named = self.refs.values().chain(self.parameters.values());
        named.find(|name| !kinds.iter().any(|kind| kind.name == **name && kind.service == self.service))
    }

    fn misuse(&self) -> Option<&'static str> {
        let pointers =
            self.generated.iter().chain(self.needs.keys()).chain(self.refs.keys()).chain([&self.id]);
        if pointers.into_iter().any(|pointer| !pointer.starts_with('/')) {
            return Some("a JSON pointer starts with `/`");
        }
        if [&self.fields, &self.document].iter().any(|at| !at.is_empty() && !at.starts_with('/')) {
            return Some("a JSON pointer starts with `/`");
        }
        if let Some(why) = self.envelope_fault().or_else(|| self.exact_fault()) {
            return Some(why);
        }
        if self.ids.is_some() && self.named_by != NamedBy::Service {
            return Some(
                "`ids` is for what its service names: ids that clients choose are the same at every site",
            );
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
        if self.operations.iter().any(|own| own.members.is_some() && own.field.is_some()) {
            return Some("a patch sets either one `field` or the `members` of its body");
        }
        self.probe_fault().or_else(|| self.operations.iter().find_map(|own| own.fault(&self.generated)))
    }

    /// What is wrong with answers that look otherwise than what is written, and with statuses of what is not there.
    fn envelope_fault(&self) -> Option<&'static str> {
        let shown_is_written = self.named_by == NamedBy::Body
            || self.json_patch.is_some()
            || !self.elements.is_empty()
            || matches!(self.probe, Some(Probe::Marker(_)));
        if !self.document.is_empty() && shown_is_written {
            return Some(
                "`document` is for writes without the envelope of answers: not with `named_by = \"body\"`, `json_patch`, \
                 `elements` or a `probe` by a marker",
            );
        }
        let of_others = |status: &u16| !(400..=499).contains(status) || matches!(status, 401 | 408 | 429);
        self.absent
            .iter()
            .any(of_others)
            .then_some("`absent` has statuses from 400 to 499; 401, 408 and 429 say nothing of what is there")
    }

    /// The fault of documents that go byte for byte, or of what they name.
    fn exact_fault(&self) -> Option<&'static str> {
        let pointers = self.fields.len() + self.document.len() + self.refs.len() + self.generated.len();
        let changed = pointers + self.elements.len() + self.parts.len() > 0 || self.json_patch.is_some();
        if self.exact && (self.named_by != NamedBy::Client || changed) {
            return Some(
                "`exact` is for whole documents with `named_by = \"client\"`: without `fields`, `document`, `refs`, \
                 `generated`, `elements`, `parts` or `json_patch`",
            );
        }
        if !self.contents.is_empty() && !self.exact {
            return Some("`contents` are of documents that go byte for byte: say `exact = true`");
        }
        let visible = |accept: &str| accept.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !self.accept.as_deref().is_none_or(visible) {
            return Some("a header cannot have what `accept` says");
        }
        self.contents.iter().find_map(|own| own.fault(&self.path))
    }

    /// The content that the document of one with this path names.
    #[must_use]
    pub fn contents_of(&self, path: &str, document: &[u8]) -> Vec<Content<'_>> {
        contents::named(&self.contents, path, document)
    }

    /// True where its documents may name something by its content.
    #[must_use]
    pub fn has_contents(&self) -> bool {
        !self.contents.is_empty()
    }

    /// What is wrong with how it is found out whether one was made.
    fn probe_fault(&self) -> Option<&'static str> {
        if self.probe.is_some() && self.create_doubt.is_some() {
            return Some("`probe` says what to do about a creation in doubt: leave `create_doubt` out");
        }
        match self.probe.as_ref()? {
            Probe::Key { .. } => None,
            Probe::Marker(marker) if marker.list.is_none() && self.named_by == NamedBy::Service => Some(
                "the service names what it makes: say in `query` and `items` of the `probe` which list tells it",
            ),
            Probe::Marker(marker) => marker.fault(&self.generated),
            Probe::Upload(_) => Some("`checksum` is for the `probe` of an operation that uploads a part"),
        }
    }

    /// What to do where nobody knows whether one was made.
    #[must_use]
    pub fn create_doubt(&self) -> Doubt {
        match &self.probe {
            Some(Probe::Key { .. }) => Doubt::Repeat,
            Some(_) => Doubt::Probe,
            None => self.create_doubt.unwrap_or(Doubt::Ask),
        }
    }

    /// How to find out whether a write to one was executed, or to something below it.
    #[must_use]
    pub fn probe_of(&self, method: &str, below: &str) -> Option<&Probe> {
        self.own(method, below)?.probe.as_ref()
    }

    /// A place in an answer that shows one, as a list's items have it, and writes without an envelope.
    #[must_use]
    pub fn in_item<'p>(&self, pointer: &'p str) -> &'p str {
        let envelope = if self.document.is_empty() { &self.fields } else { &self.document };
        pointer.strip_prefix(envelope.as_str()).filter(|rest| rest.starts_with('/')).unwrap_or(pointer)
    }

    /// Whether its service says with this status that there is none of that name.
    #[must_use]
    pub fn is_absence(&self, status: u16) -> bool {
        matches!(status, 404 | 410) || self.absent.contains(&status)
    }

    /// What the profile says of a write.
    fn own(&self, method: &str, below: &str) -> Option<&Operation> {
        self.operations.iter().find(|operation| {
            operation.method.eq_ignore_ascii_case(method)
                && match &operation.below {
                    Some(pattern) => !is_itself(below) && pattern.fits(below),
                    None => is_itself(below),
                }
        })
    }

    /// Whether it is known what a request with this method does to one, or to something below it: the usual ones, and those
    /// of which the profile says it.
    #[must_use]
    pub fn knows(&self, method: &str, below: &str) -> bool {
        const USUAL: [&str; 8] = ["GET", "HEAD", "OPTIONS", "TRACE", "POST", "PUT", "PATCH", "DELETE"];
        USUAL.contains(&method) || self.own(method, below).is_some()
    }

    /// The paths below it that are known to be written: the first segment of each.
    pub(crate) fn written_below(&self) -> Vec<String> {
        let writes = |own: &&Operation| !matches!(own.class, Class::Read | Class::Action | Class::Add);
        let own = self.operations.iter().filter(writes).filter_map(|own| own.below.as_ref()?.first());
        let parts = self.parts.iter().filter_map(|part| segments(part).next());
        own.chain(parts).map(|first| format!("/{first}")).collect()
    }

    /// How a write to a resource of this kind behaves, or to something below it.
    ///
    /// Unless the profile says otherwise: PUT replaces, PATCH patches, DELETE deletes; what is below is a field,
    /// which PUT and DELETE set; a POST is an action.
    #[must_use]
    pub fn rule(&self, method: &str, below: &str) -> Rule {
        let usual = usual(method, below);
        let Some(own) = self.own(method, below) else { return usual };
        let idempotent = own.idempotent || (own.class == usual.class && usual.idempotent);
        let doubt = match own.doubt {
            Some(doubt) => doubt,
            None if own.probe.is_some() => Doubt::Probe,
            None if idempotent || matches!(own.class, Class::Replace | Class::Delete) => Doubt::Repeat,
            None if own.class == Class::Patch && (own.field.is_some() || own.members.is_some()) => {
                Doubt::Repeat
            }
            None => Doubt::Ask,
        };
        let members = own.members.clone().map(|at| Members { of: field_at(below), at });
        let members = members.filter(|_| own.class == Class::Patch);
        let field = own.field.clone().or(usual.field);
        let field = field.filter(|_| own.class == Class::Patch && members.is_none());
        Rule { class: own.class, idempotent, doubt, field, members }
    }
}

impl Operation {
    /// What is wrong with how it is found out whether it was executed.
    fn fault(&self, generated: &[String]) -> Option<&'static str> {
        let probe = self.probe.as_ref()?;
        if self.doubt.is_some() {
            return Some("`probe` says what to do about an operation in doubt: leave `doubt` out");
        }
        match probe {
            Probe::Key { .. } => Some(
                "`idempotency_key` is for creations: a write that a later replacement erased is executed again, and \
                 the service would take that for a repetition. Use `marker`",
            ),
            Probe::Marker(marker) if marker.list.is_some() => {
                Some("`query` and `items` are for creations: an operation is looked for in its resource")
            }
            Probe::Marker(marker) => marker.fault(generated),
            Probe::Upload(_) if self.below.is_none() => {
                Some("`checksum` is of a part: say in `below` which, such as `/file`")
            }
            Probe::Upload(_) => None,
        }
    }
}

fn is_itself(below: &str) -> bool {
    segments(below).next().is_none()
}

fn usual(method: &str, below: &str) -> Rule {
    let rule = |class, idempotent, doubt| Rule { class, idempotent, doubt, field: None, members: None };
    match (method, is_itself(below)) {
        ("GET" | "HEAD" | "OPTIONS" | "TRACE", _) => rule(Class::Read, true, Doubt::Repeat),
        ("PUT", true) => rule(Class::Replace, true, Doubt::Repeat),
        ("PATCH", true) => rule(Class::Patch, true, Doubt::Repeat),
        ("DELETE", true) => rule(Class::Delete, true, Doubt::Repeat),
        ("PUT" | "DELETE", false) => {
            Rule { field: Some(field_at(below)), ..rule(Class::Patch, true, Doubt::Repeat) }
        }
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

    /// Whether a collection is of the kind with this name.
    #[must_use]
    pub fn is_collection_of(&self, service: &str, path: &str, name: &str) -> bool {
        self.collection(service, path).is_some_and(|kind| kind.name == name)
    }

    /// True where a path is that of a document which goes byte for byte, or of what such a document may name.
    #[must_use]
    pub fn is_content(&self, service: &str, path: &str) -> bool {
        let of = |kind: &&Kind| kind.replicated && kind.exact && kind.is_of(service);
        let named = |kind: &Kind| kind.contents.iter().any(|own| own.has(&kind.path, path));
        let items = self.items(service, path);
        items.first().is_some_and(|item| item.kind.exact && item.below.is_empty())
            || self.0.iter().filter(of).any(named)
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

    #[test]
    fn a_probe_says_what_to_do_about_a_write_in_doubt() {
        let kinds = kinds(
            "[[kinds]]\nname = 'x'\npath = '/x'\nid = '/x/id'\nfields = '/x'\ngenerated = ['/x/ops']\n\
             operations = [{ method = 'POST', below = '/add', class = 'add', probe = { marker = '/x/ops' } }]\n\
             [kinds.probe]\nidempotency_key = 'Idempotency-Key'\n\
             [[kinds]]\nname = 'y'\npath = '/y'\ngenerated = ['/op']\n\
             probe = { marker = '/op', query = 'op={operation}', items = '' }",
        );
        let (keyed, marked) = (&kinds.0[0], &kinds.0[1]);
        assert_eq!((keyed.fault(), marked.fault()), (None, None));
        assert_eq!((keyed.create_doubt(), marked.create_doubt()), (Doubt::Repeat, Doubt::Probe));
        assert_eq!(keyed.rule("POST", "/add").doubt, Doubt::Probe);
        assert!(keyed.probe_of("POST", "/add").is_some() && keyed.probe_of("POST", "/other").is_none());
        assert_eq!(
            (keyed.in_item("/x/id"), keyed.in_item("/y"), marked.in_item("/op")),
            ("/id", "/y", "/op")
        );
    }

    #[test]
    fn answers_may_have_an_envelope_and_statuses_of_their_own() {
        let parsed =
            kinds("[[kinds]]\nname = 'x'\npath = '/x'\nid = '/data/id'\ndocument = '/data'\nabsent = [403]");
        let kind = &parsed.0[0];
        assert_eq!(
            (kind.fault(), kind.in_item("/data/id"), kind.in_item("/database")),
            (None, "/id", "/database")
        );
        assert!(
            kind.is_absence(403) && kind.is_absence(404) && kind.is_absence(410) && !kind.is_absence(400)
        );
        for (text, says) in [
            ("document = 'data'", "starts with `/`"),
            ("document = '/data'\nnamed_by = 'body'", "without the envelope"),
            ("document = '/data'\njson_patch = 'x/y'", "without the envelope"),
            ("absent = [500]", "from 400 to 499"),
            ("absent = [401]", "from 400 to 499"),
        ] {
            let kinds = kinds(&format!("[[kinds]]\nname = 'x'\npath = '/x'\n{text}"));
            let fault = kinds.0[0].fault();
            assert!(fault.as_ref().is_some_and(|fault| fault.contains(says)), "{text}: {fault:?}");
        }
    }

    #[test]
    fn a_probe_that_proves_nothing_is_refused_with_what_to_write() {
        let add = "operations = [{ method = 'POST', below = '/add', class = 'add', ";
        for (text, says) in [
            ("probe = { marker = '/op' }".to_owned(), "say in `query` and `items`"),
            ("named_by = 'body'\nprobe = { marker = '/op' }".to_owned(), "in `generated` too"),
            (
                "create_doubt = 'ask'\nprobe = { idempotency_key = 'K' }".to_owned(),
                "leave `create_doubt` out",
            ),
            ("probe = { checksum = '/c', algorithm = 'sha256' }".to_owned(), "uploads a part"),
            (format!("{add}probe = {{ idempotency_key = 'K' }} }}]"), "is for creations"),
            (format!("{add}probe = {{ marker = '/op' }} }}]"), "in `generated` too"),
            (format!("{add}doubt = 'ask', probe = {{ marker = '/op' }} }}]"), "leave `doubt` out"),
            (
                format!("{add}probe = {{ marker = '/op', query = 'a={{operation}}', items = '' }} }}]"),
                "looked for in its resource",
            ),
        ] {
            let kinds = kinds(&format!("[[kinds]]\nname = 'x'\npath = '/x'\n{text}"));
            let fault = kinds.0[0].fault().unwrap_or_default();
            assert!(fault.contains(says), "{text}: {fault}");
        }
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
        let members = rule.members.map(|members| format!("{}/{{{}}}", members.of, members.at));
        let field = rule.field.or(members).map(|field| format!(" {field}")).unwrap_or_default();
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
            (
                "compute",
                "POST /v2.1/flavors/1/os-extra_specs",
                "flavor 1 Patch /os-extra_specs/{/extra_specs}",
            ),
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
            ("named_by = 'client'\nids = 'uuid'", "`ids` is for what its service names"),
            ("refs = { '/post_id' = 'post' }", "it refers to `post`, which is no kind of its service"),
            ("refs = { 'post_id' = 'x' }", "a JSON pointer starts with `/`"),
            ("because = 'x'", "`because` says why"),
            ("needs = { '/a' = 'x' }", "`owner` and `needs` are for"),
        ] {
            let text = format!("description = 'x'\n[[kinds]]\nname = 'x'\npath = '/x'\n{text}");
            let error = crate::Profile::read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
