//! What a request is to the replicated resources of its service: the profile's kinds, and what is known here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use http::Method;
use http::request::Parts;
use profile::{Class, Doubt, Item, Kind, Kinds, Profile, Rule, element};

use super::exact::Exact;
use super::{Known, Name, Place, Seen};

/// What a request is.
#[derive(Debug)]
pub(crate) enum Meaning<'k> {
    /// Nothing that replication has to do with, unless its scope says so.
    Ordinary,
    /// It names a replica as only this site's service knows it: for clients there is no such thing.
    Hidden,
    /// This is a replicated resource for clients, and something else in the service here.
    Both(Name),
    /// Of a replicated resource, or of something below it.
    Read(Target<'k>),
    /// The same, and it changes it.
    Write(Target<'k>, Rule),
}

/// A replicated resource that a request names.
#[derive(Debug)]
pub(crate) struct Target<'k> {
    pub(crate) kind: &'k Kind,
    pub(crate) name: Name,
    pub(crate) place: Place,
    /// The path of the resource, with its prefix, as it was sent.
    pub(crate) path: String,
    /// What follows it, likewise.
    pub(crate) below: String,
}

impl Target<'_> {
    /// Whether what it names is a part of the resource that is copied with it.
    pub(crate) fn is_part(&self) -> bool {
        is_part(self.kind, &self.below)
    }
}

/// Whether what is below a resource is a part of it that is copied with it.
pub(crate) fn is_part(kind: &Kind, below: &str) -> bool {
    let below = plain(below);
    kind.parts.iter().any(|part| **part == *below)
}

/// What a write with a new replicated resource makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum New<'k> {
    /// One in this collection, which its service names.
    Named(&'k Kind),
    /// One in this collection, which its client may name.
    Unnamed(&'k Kind),
    /// The same, in the body.
    InBody(&'k Kind),
    /// The one at this path.
    At(&'k Kind, Name),
}

/// Understands a request. Of what a path may be of, the longest that is known counts. What belongs to users is its
/// owner's or, where that is nobody, nothing that is known.
pub(crate) fn understand<'k>(
    kinds: &'k Kinds,
    service: &str,
    method: &Method,
    path: &str,
    owner: Option<&str>,
    known: &Known,
) -> Meaning<'k> {
    let sent = path;
    let path = plain(sent);
    for item in kinds.items(service, &path) {
        let name = match (&item.kind.owner, owner) {
            (None, _) => Name::new(service, item.name),
            (Some(_), Some(owner)) => Name::owned(service, item.name, owner),
            (Some(_), None) => continue,
        };
        match known.look_up(&name) {
            Seen::Ordinary => {}
            Seen::Hidden => return Meaning::Hidden,
            Seen::Replicated(_) if known.is_both(&name) => return Meaning::Both(name),
            Seen::Replicated(place) => return of(&item, sent, name, place, method),
        }
    }
    Meaning::Ordinary
}

/// The method that a request counts by: a dry run only asks, as a GET does.
pub(crate) fn counted(profile: &Profile, service: &str, head: &Parts) -> Method {
    let dry = profile.is_dry_run(service, head.uri.query());
    if dry { Method::GET } else { head.method.clone() }
}

fn of<'k>(item: &Item<'k, '_>, sent: &str, name: Name, place: Place, method: &Method) -> Meaning<'k> {
    let rule = item.kind.rule(method.as_str(), item.below);
    let (path, below) = as_sent(sent, item.path);
    let (path, below) = (path.to_owned(), below.to_owned());
    let target = Target { kind: item.kind, name, place, path, below };
    if rule.class == Class::Read { Meaning::Read(target) } else { Meaning::Write(target, rule) }
}

/// What a write to several sites would make; nothing where no such thing can be replicated.
pub(crate) fn makes<'k>(kinds: &'k Kinds, service: &str, method: &Method, path: &str) -> Option<New<'k>> {
    let path = plain(path);
    match *method {
        Method::POST => {
            let kind = kinds.collection(service, path.trim_end_matches('/'))?;
            Some(match kind.named_by {
                profile::NamedBy::Service => New::Named(kind),
                profile::NamedBy::Client => New::Unnamed(kind),
                profile::NamedBy::Body => New::InBody(kind),
            })
        }
        // Whoever puts something somewhere has named it.
        Method::PUT => {
            let items = kinds.items(service, &path);
            let item = items.into_iter().next().filter(|item| item.below.trim_matches('/').is_empty())?;
            if item.kind.named_by == profile::NamedBy::Body {
                return None;
            }
            Some(New::At(item.kind, Name::new(service, item.name)))
        }
        _ => None,
    }
}

/// A path in which nothing is written in a longer way than it must be: `%37` is `7` (RFC 3986, 6.2.2.2). A resource
/// has one name, however it is spelled.
pub(crate) fn plain(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut plain = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        let byte = after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()).map(char::from);
        let byte = byte.filter(|byte| byte.is_ascii_alphanumeric() || "-._~".contains(*byte));
        rest = if byte.is_some() { after.get(2..).unwrap_or_default() } else { after };
        plain.push(byte.unwrap_or('%'));
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

/// The part of a path that is this once nothing in it is written in a longer way than it must be, and what follows it.
fn as_sent<'s>(sent: &'s str, plain: &str) -> (&'s str, &'s str) {
    // No slash is escaped in one and not in the other.
    let ends = sent.match_indices('/').map(|(at, _)| at).chain([sent.len()]);
    let end = ends.filter(|end| *end > 0).nth(plain.matches('/').count().saturating_sub(1));
    sent.split_at_checked(end.unwrap_or(sent.len())).unwrap_or((sent, ""))
}

/// Whether a path has `.` or `..` in it, however they are spelled: a service may take it for another one, and what
/// is replicated is executed at other sites with more rights than the client has.
pub(crate) fn has_dots(path: &str) -> bool {
    let path = plain(path).to_ascii_lowercase().replace("%2f", "/").replace("%5c", "/").replace('\\', "/");
    path.split('/').any(|segment| matches!(segment, "." | ".."))
}

/// How a write behaves beside others. Nothing: it does not say which fields it sets.
pub(crate) fn class(
    kind: &Kind,
    rule: &Rule,
    content_type: Option<&str>,
    body: &[u8],
) -> Option<replica::Class> {
    Some(match rule.class {
        Class::Replace => replica::Class::Replace,
        Class::Delete => replica::Class::Delete,
        Class::Add => replica::Class::Add,
        // A read is none, whatever its method.
        Class::Action | Class::Read => replica::Class::Action { idempotent: rule.idempotent },
        Class::Patch => {
            let fields = match &rule.field {
                Some(field) => BTreeSet::from([field.clone()]),
                None => fields(kind, rule, content_type, body)?,
            };
            // What sets the root of a document sets all of it.
            if fields.contains("") {
                replica::Class::Replace
            } else {
                replica::Class::Patch(fields.into_iter().map(Into::into).collect())
            }
        }
    })
}

pub(crate) fn doubt(doubt: Doubt) -> replica::Doubt {
    match doubt {
        Doubt::Repeat => replica::Doubt::Repeat,
        Doubt::Probe => replica::Doubt::Probe,
        Doubt::Ask => replica::Doubt::Ask,
    }
}

/// The fields that a document sets: its members, or the first segments of a JSON Patch.
fn fields(kind: &Kind, rule: &Rule, content_type: Option<&str>, body: &[u8]) -> Option<BTreeSet<String>> {
    let mut document = Exact::read(body)?;
    if let Some(members) = &rule.members {
        return match document.at(&members.at)? {
            Exact::Object(named) => Some(named.keys().map(|name| element(&members.of, name)).collect()),
            Exact::Array(_) | Exact::Long(_) | Exact::Plain(_) => None,
        };
    }
    match &document {
        Exact::Array(steps) if content_type.is_none_or(|name| name.contains("patch")) => {
            let mut fields = BTreeSet::new();
            for step in steps {
                fields.insert(step_field(kind, step_path(step)?));
                if let Some(from) = step.text("from") {
                    fields.insert(step_field(kind, from));
                }
            }
            Some(fields)
        }
        _ => match document.at(&kind.fields)? {
            Exact::Object(members) => Some(members.keys().map(|name| kind.field_of(name)).collect()),
            Exact::Array(_) | Exact::Long(_) | Exact::Plain(_) => None,
        },
    }
}

/// Where a step of a JSON Patch writes: by RFC 6902, or by its first drafts, `{"replace": "/name", "value": …}`, which are
/// spoken to this day.
pub(super) fn step_path(step: &Exact) -> Option<&str> {
    let drafted = || ["add", "remove", "replace"].iter().find_map(|operation| step.text(operation));
    step.text("path").or_else(drafted)
}

/// The field that a step of a JSON Patch sets at a path. That of the root is empty.
pub(super) fn step_field(kind: &Kind, pointer: &str) -> String {
    let name = step_name(pointer);
    if name.is_empty() { name } else { kind.field_of(&name) }
}

/// The member that a path of a JSON Patch begins with.
pub(super) fn step_name(pointer: &str) -> String {
    let first = pointer.trim_start_matches('/').split('/').next().unwrap_or_default();
    first.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use scope::Site;

    use super::*;

    const META: &str = "7f0e1d2c-3b4a-4958-8776-655443322110";
    const LOCAL: &str = "11111111-2222-4333-8444-555555555555";

    fn profile() -> Profile {
        Profile::read(
            "description = 'test'\n\
             [[kinds]]\nname = 'image'\nservice = 'image'\npath = '/**/v2/images'\nfields = ''\n\
             operations = [{ method = 'POST', below = '/search', class = 'read' }]\n\
             [[kinds]]\nname = 'tag'\nservice = 'image'\npath = '/**/v2/tags'\nnamed_by = 'client'\n\
             [[kinds]]\nname = 'flavor'\nservice = 'image'\npath = '/**/flavors'\nnamed_by = 'body'\nfields = '/flavor'\n\
             elements = [{ below = '/specs', member = '/flavor/extra' }]\napart = ['/file']\n\
             operations = [{ method = 'POST', below = '/specs', class = 'patch', members = '/extra' }]\n\
             [[kinds]]\nname = 'server'\nservice = 'image'\npath = '/**/servers'\nreplicated = false\n",
        )
        .unwrap()
    }

    /// One image that is `LOCAL` here.
    fn known() -> Known {
        let known = Known::default();
        let place = Place {
            level: replica::Level::Eventual,
            members: ["A", "B"].map(|name| Site::new(name).unwrap()).into(),
            local: Some(Name::new("image", &format!("/v2/images/{LOCAL}"))),
            chosen: false,
            readable: true,
            unconfirmed: std::collections::BTreeSet::new(),
            shown: crate::replicas::known::Shown { whole: true, erasures: 0 },
            deleted: false,
        };
        known.set(&Name::new("image", &format!("/v2/images/{META}")), Some(place));
        known
    }

    /// What a request is, in a word.
    fn is(method: &str, path: &str) -> String {
        let (profile, known) = (profile(), known());
        let method = method.parse().unwrap();
        let (word, target) = match understand(&profile.kinds, "image", &method, path, None, &known) {
            Meaning::Ordinary => return "ordinary".to_owned(),
            Meaning::Hidden => return "hidden".to_owned(),
            Meaning::Both(_) => return "both".to_owned(),
            Meaning::Read(target) => ("read", target),
            Meaning::Write(target, _) => ("write", target),
        };
        assert_eq!(target.name, Name::new("image", &format!("/v2/images/{META}")));
        format!("{word} {}", target.below).trim_end().to_owned()
    }

    #[test]
    fn what_is_of_a_replicated_resource_is_told_from_what_is_not() {
        assert_eq!(is("GET", &format!("/v2/images/{META}")), "read");
        assert_eq!(is("GET", &format!("/glance/v2/images/{META}/file")), "read /file");
        assert_eq!(is("POST", &format!("/v2/images/{META}/search")), "read /search");
        assert_eq!(is("DELETE", &format!("/v2/images/{META}")), "write");
        assert_eq!(is("PUT", &format!("/v2/images/{META}/file")), "write /file");
        assert_eq!(is("GET", "/v2/images"), "ordinary");
        assert_eq!(is("POST", "/v2/images"), "ordinary");
        assert_eq!(is("GET", "/v2/images/another"), "ordinary");
    }

    #[test]
    fn a_local_id_is_hidden_however_it_is_spelled() {
        assert_eq!(is("GET", &format!("/v2/images/{LOCAL}")), "hidden");
        assert_eq!(is("PUT", &format!("/v2/images/{LOCAL}/file")), "hidden");
        let spelled = LOCAL.replace('1', "%31").replace('-', "%2D");
        assert_eq!(is("GET", &format!("/v2/images/{spelled}")), "hidden");
        let spelled = META.replace('e', "%65").replace('-', "%2d");
        assert_eq!(is("GET", &format!("/v2/images/{spelled}")), "read");
    }

    #[test]
    fn what_is_sent_on_is_spelled_as_it_came() {
        for (sent, path, below) in [
            ("/v2/images/7/", "/v2/images/7", "/"),
            ("/v2/%69mages/7/a%2Fb", "/v2/images/7", "/a%2Fb"),
            ("//v2//images/%37//file//", "//v2//images/7", "//file//"),
            ("/%76", "/v", ""),
            ("x", "x", ""),
        ] {
            assert_eq!(as_sent(sent, path).1, below, "{sent}");
            let own = as_sent(sent, path).0;
            assert_eq!((plain(own).as_ref(), format!("{own}{below}")), (path, sent.to_owned()));
        }
    }

    #[test]
    fn what_must_be_escaped_stays_so() {
        assert_eq!(plain("/a%2Fb/%7Eme/%zz/%"), "/a%2Fb/~me/%zz/%");
    }

    #[test]
    fn a_path_that_leads_elsewhere_is_noticed_however_it_is_spelled() {
        for path in ["/a/../b", "/a/%2e%2E/b", "/a/..", "/a/.", "/a/..%2Fb", "/a%5c..", "/a/..\\b"] {
            assert!(has_dots(path), "{path}");
        }
        for path in ["/a/b", "/a/...", "/a/.b", "/a/b..c", "/%25/b"] {
            assert!(!has_dots(path), "{path}");
        }
    }

    #[test]
    fn what_is_made_depends_on_who_names_it() {
        let profile = profile();
        let makes =
            |method: &str, path: &str| match makes(&profile.kinds, "image", &method.parse().unwrap(), path) {
                None => "nothing".to_owned(),
                Some(New::Named(kind)) => format!("named {}", kind.name),
                Some(New::Unnamed(kind)) => format!("unnamed {}", kind.name),
                Some(New::InBody(kind)) => format!("in body {}", kind.name),
                Some(New::At(_, name)) => format!("at {name}"),
            };
        assert_eq!(makes("POST", "/g/v2/images/"), "named image");
        assert_eq!(makes("POST", "/g/v2/tags"), "unnamed tag");
        assert_eq!(makes("PUT", "/g/v2/tags/red"), "at image:/v2/tags/red");
        assert_eq!(makes("PUT", "/v2/images/7/file"), "nothing");
        assert_eq!(makes("DELETE", "/v2/tags/red"), "nothing");
        assert_eq!(makes("POST", "/servers"), "nothing");
        assert_eq!(makes("POST", "/v2.1/flavors"), "in body flavor");
        assert_eq!(makes("PUT", "/v2.1/flavors/7"), "nothing");
    }

    #[test]
    fn a_patch_sets_the_fields_that_it_names() {
        let profile = profile();
        let kind = profile.kinds.collection("image", "/v2/images").unwrap();
        let class = |content_type: &str, body: &str| {
            let rule = kind.rule("PATCH", "");
            class(kind, &rule, Some(content_type), body.as_bytes())
        };
        let patch = |fields: &[&str]| {
            Some(replica::Class::Patch(fields.iter().map(|field| (*field).into()).collect()))
        };
        assert_eq!(class("application/json", r#"{"name":"x","tags":[1]}"#), patch(&["name", "tags"]));
        let steps = r#"[{"op":"move","path":"/a~1b/0","from":"/c"},{"op":"add","path":"/d","value":1}]"#;
        assert_eq!(class("application/json-patch+json", steps), patch(&["a/b", "c", "d"]));
        let drafted = r#"[{"replace":"/name","value":"x"},{"add":"/d","value":1},{"remove":"/c"}]"#;
        assert_eq!(class("application/json-patch+json", drafted), patch(&["c", "d", "name"]));
        let whole = r#"[{"op":"replace","path":"","value":{}}]"#;
        assert_eq!(class("application/json-patch+json", whole), Some(replica::Class::Replace));
        for unclear in ["", "[1]", "7", "{", r#"[{"move":"/a","to":"/b"}]"#] {
            assert_eq!(class("application/json-patch+json", unclear), None, "{unclear}");
        }
        let below = kind.rule("PUT", "/file");
        assert_eq!(super::class(kind, &below, None, b"\xff"), patch(&["/file"]));
    }

    #[test]
    fn a_member_and_what_is_written_below_as_its_element_are_one_field() {
        let profile = profile();
        let kind = profile.kinds.collection("image", "/flavors").unwrap();
        let class = |method: &str, below: &str, body: &str| {
            class(kind, &kind.rule(method, below), Some("application/json"), body.as_bytes())
        };
        let patch = |fields: &[&str]| {
            Some(replica::Class::Patch(fields.iter().map(|field| (*field).into()).collect()))
        };
        assert_eq!(class("PATCH", "", r#"{"flavor":{"extra":{"a":1}}}"#), patch(&["/specs"]));
        assert_eq!(class("PUT", "/specs/hw%3Aa", ""), patch(&["/specs/hw:a"]));
        assert_eq!(
            class("POST", "/specs", r#"{"extra":{"hw:a":1,"b/c":2}}"#),
            patch(&["/specs/b%2Fc", "/specs/hw:a"])
        );
        assert_eq!(class("POST", "/specs", r#"{"extra":[1]}"#), None);
        // Its name is that of a path below which is no member.
        assert_eq!(class("PATCH", "", r#"{"flavor":{"file":1}}"#), patch(&["#file"]));
        assert_eq!(class("PUT", "/file", ""), patch(&["/file"]));
    }
}
