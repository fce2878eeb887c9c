//! What is beside the items: from the first source, with sums, and with the next page of all.

use profile::{List, Next, Paging};
use serde_json::{Map, Value, json};

use crate::item::Path;
use crate::query;
use crate::scan::Shape;
use crate::sum::{join_once, sum};

/// The members beside the items: their names, and their values as they were written.
pub(crate) type Members = Vec<(String, Vec<u8>)>;

/// How a source told that there is more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// Which of the profile's ways.
    pub(crate) way: Next,
    /// The URL, path or token.
    pub(crate) value: String,
}

impl Told {
    /// What a source tells in its members, or in its header.
    pub(crate) fn of(
        paging: &Paging,
        shape: &Shape,
        members: &Members,
        link: Option<&String>,
    ) -> Option<Told> {
        paging.next.iter().find_map(|way| {
            let value = match way {
                Next::Header(_) => link.cloned(),
                _ if members.is_empty() => None,
                Next::Member(path) | Next::Token(path) => text(members, &Path::new(path)),
                Next::Links(ending) => {
                    let links = value(members, &links_name(shape, ending)?)?;
                    let next =
                        links.as_array()?.iter().find(|link| link.get("rel") == Some(&json!("next")))?;
                    next.get("href")?.as_str().map(str::to_owned)
                }
            };
            let value = value.filter(|value| !value.is_empty())?;
            Some(Told { way: way.clone(), value })
        })
    }

    /// The site's own marker of its next page.
    pub(crate) fn marker(&self, paging: &Paging) -> Option<String> {
        match self.way {
            Next::Token(_) => Some(self.value.clone()),
            _ => query::of_url(&self.value, &paging.marker).filter(|marker| !marker.is_empty()),
        }
    }

    /// Whether it says where the page starts in the way that the profile describes.
    pub(crate) fn has_marker(&self, paging: &Paging) -> bool {
        matches!(self.way, Next::Token(_)) || query::of_url(&self.value, &paging.marker).is_some()
    }

    pub(crate) fn is_absolute(&self) -> bool {
        self.value.contains("://")
    }
}

fn links_name(shape: &Shape, ending: &str) -> Option<String> {
    if let Shape::Member(items) = shape { Some(format!("{items}{ending}")) } else { None }
}

fn value(members: &Members, name: &str) -> Option<Value> {
    let (_, raw) = members.iter().find(|(own, _)| own == name)?;
    serde_json::from_slice(raw).ok()
}

fn text(members: &Members, path: &Path) -> Option<String> {
    let (first, inner) = path.segments().split_first()?;
    let value = value(members, first)?;
    inner.iter().try_fold(&value, |value, name| value.get(name))?.as_str().map(str::to_owned)
}

/// The members of a merged list, each with a comma before it. `all` are those of each source, the first one's
/// first; `next` is how the next page is told, and its value.
pub(crate) fn write(
    list: &List,
    shape: &Shape,
    all: &[&Members],
    next: Option<(&Next, &str)>,
    out: &mut Vec<u8>,
) {
    if next.is_none() && all.iter().all(|members| members.is_empty()) {
        return;
    }
    let ways = || list.paging.iter().flat_map(|paging| &paging.next);
    let touched = touched(list, shape);
    let mut parsed: Vec<Value> = all.iter().map(|members| pick(members, &touched)).collect();
    let Some((first, others)) = parsed.split_first_mut() else { return };
    let others: Vec<&Value> = others.iter().collect();
    for path in &list.sum {
        sum(first, &others, &Path::new(path), None);
    }
    for path in &list.join {
        join_once(first, &others, &Path::new(path));
    }
    for path in &list.drop {
        clear(first, &Path::new(path), false);
    }
    for way in ways() {
        match way {
            Next::Member(path) | Next::Token(path) => clear(first, &Path::new(path), true),
            Next::Links(ending) => {
                let name = links_name(shape, ending).unwrap_or_default();
                clear(first, &Path::one(&name), false);
            }
            Next::Header(_) => {}
        }
    }
    match next {
        Some((Next::Member(path) | Next::Token(path), value)) => set(first, &Path::new(path), json!(value)),
        Some((Next::Links(ending), url)) => {
            let name = links_name(shape, ending).unwrap_or_default();
            set(first, &Path::one(&name), json!([{ "rel": "next", "href": url }]));
        }
        Some((Next::Header(_), _)) | None => {}
    }
    let mut touched_members = first.as_object().cloned().unwrap_or_default();
    for (name, raw) in all.iter().take(1).flat_map(|members| members.iter()) {
        if !touched.contains(name) {
            member(name, raw, out);
        } else if let Some(value) = touched_members.remove(name) {
            member(name, value.to_string().as_bytes(), out);
        }
    }
    for (name, value) in touched_members {
        member(&name, value.to_string().as_bytes(), out);
    }
}

pub(crate) fn member(name: &str, raw: &[u8], out: &mut Vec<u8>) {
    out.push(b',');
    out.extend_from_slice(Value::from(name).to_string().as_bytes());
    out.push(b':');
    out.extend_from_slice(raw);
}

/// The names of the members that may become other than the first source's.
fn touched(list: &List, shape: &Shape) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let first = |path: &String| Path::new(path).segments().first().cloned();
    names.extend(list.sum.iter().chain(&list.join).chain(&list.drop).filter_map(first));
    for way in list.paging.iter().flat_map(|paging| &paging.next) {
        match way {
            Next::Member(path) | Next::Token(path) => names.extend(first(path)),
            Next::Links(ending) => names.extend(links_name(shape, ending)),
            Next::Header(_) => {}
        }
    }
    names
}

/// Some members as one object.
fn pick(members: &Members, names: &[String]) -> Value {
    let of = |(name, raw): &(String, Vec<u8>)| Some((name.clone(), serde_json::from_slice(raw).ok()?));
    Value::Object(members.iter().filter(|(name, _)| names.contains(name)).filter_map(of).collect())
}

fn set(root: &mut Value, path: &Path, value: Value) {
    let Some((last, way)) = path.segments().split_last() else { return };
    let mut at = root;
    for name in way {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        let Some(object) = at.as_object_mut() else { return };
        at = object.entry(name.clone()).or_insert(Value::Null);
    }
    if !at.is_object() {
        *at = Value::Object(Map::new());
    }
    if let Some(object) = at.as_object_mut() {
        object.insert(last.clone(), value);
    }
}

/// Takes a member away. An inner one is there with nothing in it, if `as_null`: so services do it.
fn clear(root: &mut Value, path: &Path, as_null: bool) {
    let Some((last, way)) = path.segments().split_last() else { return };
    let holder = way.iter().try_fold(root, |value, name| value.get_mut(name));
    let Some(object) = holder.and_then(Value::as_object_mut) else { return };
    match object.get_mut(last) {
        Some(value) if as_null && !way.is_empty() => *value = Value::Null,
        _ => drop(object.remove(last)),
    }
}
