//! What a request is to the replicated resources of its service: the profile's kinds, and what is known here.

use std::borrow::Cow;
use std::collections::BTreeSet;

use http::Method;
use profile::{Class, Doubt, Item, Kind, Kinds, Rule};
use serde_json::Value;

use super::{Known, Name, Place, Seen};

/// What a request is.
#[derive(Debug)]
pub(crate) enum Meaning<'k> {
    /// Nothing that replication has to do with, unless its scope says so.
    Ordinary,
    /// It names a replica as only this site's service knows it: for clients there is no such thing.
    Hidden,
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
    /// The path of the resource, with its prefix.
    pub(crate) path: String,
    /// What follows it.
    pub(crate) below: String,
}

/// What a write with a new replicated resource makes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum New<'k> {
    /// One in this collection, which its service names.
    Named(&'k Kind),
    /// One in this collection, which its client may name.
    Unnamed(&'k Kind),
    /// The one at this path.
    At(&'k Kind, Name),
}

/// Understands a request. Of what a path may be of, the longest that is known counts.
pub(crate) fn understand<'k>(
    kinds: &'k Kinds,
    service: &str,
    method: &Method,
    path: &str,
    known: &Known,
) -> Meaning<'k> {
    let path = plain(path);
    for item in kinds.items(service, &path) {
        let name = Name::new(service, item.name);
        match known.look_up(&name) {
            Seen::Ordinary => {}
            Seen::Hidden => return Meaning::Hidden,
            Seen::Replicated(place) => return of(&item, name, place, method),
        }
    }
    Meaning::Ordinary
}

fn of<'k>(item: &Item<'k, '_>, name: Name, place: Place, method: &Method) -> Meaning<'k> {
    let rule = item.kind.rule(method.as_str(), item.below);
    let (path, below) = (item.path.to_owned(), item.below.to_owned());
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
            })
        }
        // Whoever puts something somewhere has named it.
        Method::PUT => {
            let items = kinds.items(service, &path);
            let item = items.into_iter().next().filter(|item| item.below.trim_matches('/').is_empty())?;
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
        match byte.filter(|byte| byte.is_ascii_alphanumeric() || "-._~".contains(*byte)) {
            Some(byte) => {
                plain.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    Cow::Owned(plain)
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
                None => fields(kind, content_type, body)?,
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

/// The fields that a document sets: its members, or the first segments of a JSON Patch (RFC 6902).
fn fields(kind: &Kind, content_type: Option<&str>, body: &[u8]) -> Option<BTreeSet<String>> {
    let document: Value = serde_json::from_slice(body).ok()?;
    match &document {
        Value::Array(steps) if content_type.is_none_or(|name| name.contains("patch")) => {
            let mut fields = BTreeSet::new();
            for step in steps {
                fields.insert(first_segment(step.get("path")?.as_str()?));
                if let Some(from) = step.get("from").and_then(Value::as_str) {
                    fields.insert(first_segment(from));
                }
            }
            Some(fields)
        }
        document => Some(document.pointer(&kind.fields)?.as_object()?.keys().cloned().collect()),
    }
}

fn first_segment(pointer: &str) -> String {
    let first = pointer.trim_start_matches('/').split('/').next().unwrap_or_default();
    first.replace("~1", "/").replace("~0", "~")
}
