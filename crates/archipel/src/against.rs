//! A profile compared with what the service answers. It reads, and changes nothing unless it is given something to make.

mod made;
mod shape;

use std::fmt;

use bytes::Bytes;
use http::HeaderMap;
use profile::{IdForm, Item, Kind, List, NamedBy, Next, Paging, Profile, Totals};
use serde_json::Value;

use shape::{at_member, items_of, members, pointer_to, short};

/// An answer of the service.
pub struct Seen {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// Sends a request: a method, a path with a query, and a body.
pub type Ask<'a> = dyn FnMut(&str, &str, Option<&str>) -> Result<Seen, String> + 'a;

/// Something that was compared, and how that came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The service is as the profile says.
    Fits(String),
    /// Nothing can be said, and why.
    Unknown(String),
    /// The service is not as the profile says, and what to write.
    Differs(String),
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::Fits(line) => write!(f, "fits     {line}"),
            Finding::Unknown(line) => write!(f, "unknown  {line}"),
            Finding::Differs(line) => write!(f, "differs  {line}"),
        }
    }
}

/// Compares a profile with one service.
pub struct Comparison<'a> {
    profile: &'a Profile,
    service: &'a str,
    ask: &'a mut Ask<'a>,
    findings: Vec<Finding>,
}

impl<'a> Comparison<'a> {
    /// Asks this service in this way.
    pub fn new(profile: &'a Profile, service: &'a str, ask: &'a mut Ask<'a>) -> Comparison<'a> {
        Comparison { profile, service, ask, findings: Vec::new() }
    }

    /// Compares all that has one path, and lists at these paths besides. What is to be made is made and deleted again: the
    /// path of a collection, and a document.
    #[must_use]
    pub fn run(mut self, lists: &[String], create: Option<(&str, &str)>) -> Vec<Finding> {
        let mut paths = self.profile.list_paths(self.service);
        let kinds: Vec<_> = self.profile.kind_paths(self.service).collect();
        for path in kinds.iter().filter_map(|(_, path)| path.as_ref()).chain(lists) {
            if !paths.contains(path) {
                paths.push(path.clone());
            }
        }
        for path in &paths {
            self.list(path);
        }
        for (kind, path) in kinds {
            if path.is_none() && !lists.iter().any(|list| self.is_of_kind(kind, list)) {
                self.unknown(format!(
                    "the kind `{}`: its path has `*`, so say with --list which collection to look at",
                    kind.name
                ));
            }
        }
        for (path, totals) in self.profile.total_paths(self.service).collect::<Vec<_>>() {
            self.totals(&path, totals);
        }
        if let Some((path, document)) = create {
            self.make(path, document);
        }
        self.findings
    }

    fn is_of_kind(&self, kind: &Kind, path: &str) -> bool {
        self.profile.kinds.collection(self.service, path).is_some_and(|own| own == kind)
    }

    fn fits(&mut self, line: String) {
        self.findings.push(Finding::Fits(line));
    }

    fn unknown(&mut self, line: String) {
        self.findings.push(Finding::Unknown(line));
    }

    fn differs(&mut self, line: String) {
        self.findings.push(Finding::Differs(line));
    }

    /// The document at a path, or nothing, which was noted.
    fn get(&mut self, path: &str) -> Option<(Value, HeaderMap)> {
        let seen = match (self.ask)("GET", path, None) {
            Ok(seen) => seen,
            Err(why) => {
                self.unknown(format!("GET {path}: {why}"));
                return None;
            }
        };
        match seen.status {
            200..=299 => {}
            status @ (401 | 403) => {
                self.unknown(format!("GET {path}: {status}: give a credential with --header 'Name: value'"));
                return None;
            }
            status => {
                self.differs(format!("GET {path}: {status}: the profile says that something is there"));
                return None;
            }
        }
        match serde_json::from_slice(&seen.body) {
            Ok(document) => Some((document, seen.headers)),
            Err(error) => {
                self.differs(format!("GET {path}: the answer is not JSON: {error}"));
                None
            }
        }
    }

    fn list(&mut self, path: &str) {
        let Some(list) = self.profile.lists.of(self.service, path) else {
            return self.unknown(format!("GET {path}: the profile says that lists there are not merged"));
        };
        let Some((document, headers)) = self.get(path) else { return };
        if list.keyed {
            return self.keyed(path, &list, &document);
        }
        let Some(items) = items_of(&document, list.items.as_deref()) else {
            return self.differs(format!("GET {path}: {}", no_items(&document, &list)));
        };
        let count = items.len();
        let values = !items.is_empty() && items.iter().all(|item| item.is_string() || item.is_number());
        if let Some(why) = item_fault(items, &list).filter(|_| !values) {
            return self.differs(format!("GET {path}: {why}"));
        }
        for sum in &list.sum {
            if at_member(&document, sum).iter().all(|value| !value.is_number()) {
                self.differs(format!("GET {path}: `sum` has `{sum}`, and no number is there"));
            }
        }
        if values {
            self.fits(format!("GET {path}: a list of {count} values"));
        } else {
            self.fits(format!("GET {path}: a list of {count} items, each with its `{}`", list.id));
        }
        if let Some(paging) = &list.paging {
            self.paging(path, &list, paging, count, &document, &headers);
        }
        if values {
            return;
        }
        let Some(first) = items.first() else {
            return self
                .unknown(format!("GET {path}: the list is empty, and tells nothing of items and ids"));
        };
        let id = id_text(first.get(list.id.as_str()).unwrap_or(&Value::Null));
        if let Some(kind) = self.profile.kinds.collection(self.service, path) {
            self.ids(path, kind, items, &list);
            self.item(path, &id);
        }
    }

    /// A list whose items are members of an object, each named by its id.
    fn keyed(&mut self, path: &str, list: &List, document: &Value) {
        let at = list.items.as_deref().map(|member| at_member(document, member));
        let items = at.map_or(Some(document), |found| found.first().copied()).and_then(Value::as_object);
        match items {
            None => self.differs(format!(
                "GET {path}: `keyed` says that items are members of an object; the answer has {}",
                members(document)
            )),
            Some(items) => {
                self.fits(format!("GET {path}: a list of {} items, each named by its id", items.len()));
                if let (Some(id), Some(_)) =
                    (items.keys().next(), self.profile.kinds.collection(self.service, path))
                {
                    self.item(path, id);
                }
            }
        }
    }

    fn paging(
        &mut self,
        path: &str,
        list: &List,
        paging: &Paging,
        count: usize,
        whole: &Value,
        headers: &HeaderMap,
    ) {
        let told = |document: &Value, headers: &HeaderMap| {
            paging.next.iter().any(|next| next_page(next, list, document, headers))
        };
        if count < 2 {
            let line = if told(whole, headers) { "a next page is told" } else { "too few items for pages" };
            return self.unknown(format!("GET {path}: paging is not compared: {line}"));
        }
        let query = format!("{path}?{}=1", paging.limit);
        let Some((page, headers)) = self.get(&query) else { return };
        let length = items_of(&page, list.items.as_deref()).map(Vec::len);
        if length != Some(1) {
            return self.differs(format!(
                "GET {query}: {} items: `limit = \"{}\"` is not the parameter, or the service has no pages: write \
                 `paging = false`",
                length.unwrap_or(0),
                paging.limit
            ));
        }
        if told(&page, &headers) {
            self.fits(format!("GET {query}: one item, and the next page is told"));
        } else if paging.guess || paging.offset.is_some() || paging.page.is_some() {
            self.fits(format!("GET {query}: one item; a next page is not told, and need not be"));
        } else {
            self.differs(format!(
                "GET {query}: one item of {count}, and no next page where `next` says; it has {}",
                members(&page)
            ));
        }
    }

    /// The form of the ids of a kind.
    fn ids(&mut self, path: &str, kind: &Kind, items: &[Value], list: &List) {
        if kind.named_by != NamedBy::Service {
            return self.fits(format!("the kind `{}`: its clients choose ids, of any form", kind.name));
        }
        let ids: Vec<&Value> = items.iter().filter_map(|item| item.get(list.id.as_str())).collect();
        let form = kind.ids.as_ref().unwrap_or(&IdForm::Uuid);
        let other = ids.iter().find(|id| !form.fits(&id_text(id)));
        match (other, &kind.ids) {
            (None, _) => {
                let count = ids.len();
                self.fits(format!("the kind `{}`: {count} ids at {path}, all {form}", kind.name));
            }
            (Some(other), Some(_)) => self.differs(format!(
                "the kind `{}`: `ids` says {form}, and {path} has the id {}",
                kind.name,
                short(other)
            )),
            (Some(other), None) => self.differs(format!(
                "the kind `{}`: {path} has the id {}, which is no UUID. Two sites would give it to different things: say \
                 `ids`, or `named_by` where clients choose ids, or `replicated = false`",
                kind.name,
                short(other)
            )),
        }
    }

    /// One resource: where its document says what.
    fn item(&mut self, collection: &str, id: &str) {
        let path = format!("{}/{id}", collection.trim_end_matches('/'));
        let found = self.profile.kinds.items(self.service, &path);
        let Some(Item { kind, .. }) = found.into_iter().next() else { return };
        let Some((document, _)) = self.get(&path) else { return };
        match document.pointer(&kind.id) {
            Some(own) if id_text(own) == id => self.fits(format!("GET {path}: `id = \"{}\"`", kind.id)),
            _ => {
                let hint = pointer_to(&document, id).map_or_else(
                    || "the document does not have the id".to_owned(),
                    |at| format!("write `id = \"{at}\"`"),
                );
                self.differs(format!("GET {path}: the id is not at `{}`: {hint}", kind.id));
            }
        }
        let fields = document.pointer(&format!("{}{}", kind.document, kind.fields));
        let Some(fields) = fields.and_then(Value::as_object) else {
            return self.differs(format!(
                "GET {path}: `fields = \"{}\"` is no object; the document has {}",
                kind.fields,
                members(&document)
            ));
        };
        for missing in kind.generated.iter().filter(|pointer| document.pointer(pointer).is_none()) {
            self.unknown(format!("GET {path}: `generated` has `{missing}`, which this one does not show"));
        }
        for name in fields.keys() {
            let Some(below) = kind.alike_below(name) else { continue };
            self.differs(format!(
                "GET {path}: writes to `{below}` may set its member `{name}`: if they do, write `elements = [{{ below = \
                 \"{below}\", member = \"{}/{name}\" }}]`; if it is other data, `apart = [\"{below}\"]`",
                kind.fields
            ));
        }
        for part in &kind.parts {
            match (self.ask)("GET", &format!("{path}{part}"), None).map(|seen| seen.status) {
                Ok(200 | 204) => self.fits(format!("GET {path}{part}: a part")),
                Ok(404 | 409 | 410) => {
                    self.unknown(format!("GET {path}{part}: this one has no such part"));
                }
                Ok(status) => self.differs(format!("GET {path}{part}: {status}: `parts` are read by a GET")),
                Err(why) => self.unknown(format!("GET {path}{part}: {why}")),
            }
        }
    }

    fn totals(&mut self, path: &str, totals: &Totals) {
        let Some((document, _)) = self.get(path) else { return };
        let bad: Vec<&String> = totals
            .sum
            .iter()
            .filter(|sum| at_member(&document, sum).iter().all(|value| !value.is_number()))
            .collect();
        if bad.is_empty() {
            return self.fits(format!("GET {path}: {} numbers to sum", totals.sum.len()));
        }
        for sum in bad {
            self.differs(format!(
                "GET {path}: `sum` has `{sum}`, and no number is there; the document has {}",
                members(&document)
            ));
        }
    }
}

/// Why there is no list where one was said to be.
fn no_items(document: &Value, list: &List) -> String {
    let lists = shape::lists_in(document);
    let hint = match lists.as_slice() {
        [] => format!("the answer has no list; it has {}", members(document)),
        [one] => format!("write `items = \"{one}\"`"),
        several => format!("the answer has several lists; `items` is one of {}", several.join(", ")),
    };
    match &list.items {
        Some(items) => format!("no list at `items = \"{items}\"`: {hint}"),
        None => format!("not the usual shape of a list: {hint}"),
    }
}

/// What the items of a list lack.
fn item_fault(items: &[Value], list: &List) -> Option<String> {
    let mut known = std::collections::BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let Some(id) = item.get(list.id.as_str()) else {
            let number = index + 1;
            return Some(format!(
                "item {number} has no `{}`; it has {}: say `id` in `lists`",
                list.id,
                members(item)
            ));
        };
        if !known.insert(id.to_string()) {
            return Some(format!(
                "two items have the `{}` {}: it does not identify them",
                list.id,
                short(id)
            ));
        }
        if let Some(tag) = list.tag.as_deref().filter(|tag| item.get(tag).is_some()) {
            return Some(format!("items have a member `{tag}` of their own: say another `tag`, or `false`"));
        }
    }
    let sort = list.sort.as_ref()?;
    let first = items.first()?;
    let field = |key: &String| {
        let name = key.trim_start_matches(['-', '+']).split(':').next().unwrap_or_default().to_owned();
        sort.fields.get(&name).cloned().unwrap_or(name)
    };
    let mut fields = sort.default.iter().map(field).chain(sort.times.iter().cloned());
    let missing = fields.find(|field| at_member(first, field).is_empty() && first.get(field).is_none());
    // `times` names fields of all lists: only an order that cannot be kept is a fault.
    let missing = missing.filter(|field| !sort.times.contains(field))?;
    Some(format!("`sort` names `{missing}`, which items do not have; they have {}", members(first)))
}

/// Whether an answer says that there is another page.
fn next_page(next: &Next, list: &List, document: &Value, headers: &HeaderMap) -> bool {
    let some =
        |member: &str| at_member(document, member).iter().any(|value| !value.is_null() && **value != "");
    match next {
        Next::Member(member) | Next::Token(member) => some(member),
        Next::Links(ending) => list.items.as_ref().is_some_and(|items| some(&format!("{items}{ending}"))),
        Next::Header(name) => headers.get(name).is_some_and(|value| !value.is_empty()),
    }
}

/// An id as a segment of a path.
fn id_text(id: &Value) -> String {
    id.as_str().map_or_else(|| id.to_string(), str::to_owned)
}
