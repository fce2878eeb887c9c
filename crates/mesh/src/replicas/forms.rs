//! The form of the ids that a service gives, learnt before it makes anything that is replicated.
//!
//! A service that gives ids of its own gives others at each site. UUIDs are safe: no site's service gives one twice. Of any other
//! form, what is `2` here may be another's `2` there. A profile says the form (`ids`). Where it does not, the collection is read,
//! and what it does not prove is refused before anything is made.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt, Collected, Limited};
use profile::{Kind, NamedBy};
use serde_json::Value;

use super::understand::plain;
use super::walk::{At, Outcome, refuse};
use super::{Name, Replicas};
use crate::body::LegBody;
use crate::headers;
use crate::problem::Problem;

/// The longest list that is read for its ids.
const LIST_BYTES: usize = 4 << 20;
/// So many collections are remembered; others are read each time.
const MAX_COLLECTIONS: usize = 10_000;

/// The collections that were read, and have UUIDs.
#[derive(Debug, Default)]
pub(crate) struct LearntForms(RwLock<BTreeSet<Name>>);

impl LearntForms {
    fn has(&self, collection: &Name) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(collection)
    }

    fn add(&self, collection: Name) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_COLLECTIONS {
            known.insert(collection);
        }
    }
}

/// What the ids of a collection look like.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing is there.
    Nothing,
    /// All are UUIDs: so many.
    Uuids(usize),
    /// All are whole numbers, such as this one.
    Integers(String),
    /// All are other texts, such as this one.
    Texts(String),
    /// They are of several forms: these two.
    Mixed(String, String),
    /// An item has no id where the profile says that it has one.
    Without,
    /// The answer is no list.
    NoList,
}

impl At<'_> {
    /// Sees to it that the form of the ids is known which the service here gives in a collection. Nothing: it is; else the answer
    /// to the request that was to make something there.
    pub(super) async fn refuse_unknown_form(
        self,
        replicas: &Replicas,
        kind: &Kind,
        path: &str,
        head: &Parts,
    ) -> Option<Outcome> {
        if kind.ids.is_some() || kind.named_by != NamedBy::Service {
            return None;
        }
        let (service, profile) = (&self.service.name, &self.state.settings().profile);
        let item = format!("{}/x", plain(path).trim_end_matches('/'));
        let items = profile.kinds.items(service, &item);
        let collection = Name::new(service, items.first()?.name).with_id("");
        let forms = &replicas.known.forms;
        if forms.has(&collection) {
            return None;
        }
        let mut head = Box::new(head.clone());
        headers::only_ask(&mut head.headers);
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        head.method = Method::GET;
        head.uri = Uri::try_from(path).ok()?;
        let answer = match self.rewritten(replicas, head, LegBody::Empty, None).await {
            Ok(answer) => answer,
            Err(failure) => return Some(Err(failure)),
        };
        let (status, body) = (answer.status(), answer.into_body());
        let because = if status.is_server_error() {
            return Some(refuse(not_read(path, status)));
        } else if status.is_success() {
            let body = Limited::new(body, LIST_BYTES).collect().await.ok().map(Collected::to_bytes);
            let items = profile.lists.of(service, path).and_then(|list| list.items);
            let id = kind.in_item(&kind.id);
            match body.map_or(Seen::NoList, |body| seen(&body, items.as_deref(), id)) {
                Seen::Uuids(count) => {
                    self.core.shared.audit.write(&serde_json::json!({
                        "replicas": "the ids of this collection are UUIDs, as those that are there show",
                        "collection": collection.to_string(),
                        "ids": count,
                    }));
                    forms.add(collection);
                    return None;
                }
                other => other.why(id),
            }
        } else {
            format!("it answers {}", status.as_u16())
        };
        Some(refuse(unknown_form(&because, kind, service, path, &self.state.settings().site)))
    }
}

impl Seen {
    /// Why nothing is made, as the end of a sentence.
    fn why(&self, id: &str) -> String {
        match self {
            Seen::Nothing => "it lists nothing".to_owned(),
            Seen::Uuids(count) => format!("it lists {count} UUIDs"),
            Seen::Integers(one) => format!("its ids are integers, such as {one}"),
            Seen::Texts(one) => format!("its ids are no UUIDs, such as `{one}`"),
            Seen::Mixed(one, other) => format!("its ids are of several forms, such as `{one}` and `{other}`"),
            Seen::Without => format!("an item has no id at `{id}`"),
            Seen::NoList => "its answer is no list that can be read".to_owned(),
        }
    }
}

fn not_read(path: &str, status: StatusCode) -> Problem {
    let title = "The form of the ids in this collection could not be learnt; nothing was executed";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "unknown-ids", title)
        .detail(format!("the service answers {} to GET {path}", status.as_u16()))
        .unsent()
}

fn unknown_form(because: &str, kind: &Kind, service: &str, path: &str, site: &scope::Site) -> Problem {
    let detail = format!(
        "GET {path} at {site}: {because}. What `{service}` calls a new {} would name another one at another site. If it gives \
         UUIDs, say so in the profile: a [[kinds]] with `path = \"{path}\"` and `ids = \"uuid\"`. If clients can choose ids, \
         say `named_by = \"client\"` there, and PUT it under a name",
        kind.name
    );
    let title = "The ids of this collection are not known to be safe to replicate; nothing was executed";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-ids", title).detail(detail)
}

/// What the ids of a list look like. `items`: the member that has the items, where the profile says it.
fn seen(body: &[u8], items: Option<&str>, id: &str) -> Seen {
    let Ok(document) = serde_json::from_slice::<Value>(body) else { return Seen::NoList };
    let Some(items) = items_of(&document, items) else { return Seen::NoList };
    let mut all = Seen::Nothing;
    for item in items {
        let one = match item.pointer(id) {
            Some(Value::String(id)) if ids::is_uuid(id) => Seen::Uuids(1),
            Some(Value::String(id)) => Seen::Texts(id.clone()),
            Some(Value::Number(id)) if id.is_u64() || id.is_i64() => Seen::Integers(id.to_string()),
            _ => return Seen::Without,
        };
        all = match (all, one) {
            (Seen::Nothing, one) => one,
            (Seen::Uuids(count), Seen::Uuids(_)) => Seen::Uuids(count + 1),
            (Seen::Integers(first), Seen::Integers(_)) => Seen::Integers(first),
            (Seen::Texts(first), Seen::Texts(_)) => Seen::Texts(first),
            (all, one) => return Seen::Mixed(all.example(), one.example()),
        };
    }
    all
}

impl Seen {
    fn example(self) -> String {
        match self {
            Seen::Integers(one) | Seen::Texts(one) => one,
            _ => "a UUID".to_owned(),
        }
    }
}

/// The items of a list: where the profile says, else the whole answer, else the one array that it has.
fn items_of<'d>(document: &'d Value, member: Option<&str>) -> Option<&'d Vec<Value>> {
    if let Some(member) = member {
        return member.split('.').try_fold(document, |value, name| value.get(name))?.as_array();
    }
    match document {
        Value::Array(items) => Some(items),
        Value::Object(members) => {
            let mut arrays = members.values().filter_map(Value::as_array);
            arrays.next().filter(|_| arrays.next().is_none())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "7f0e1d2c-3b4a-4958-8776-655443322110";

    fn of(text: &str) -> Seen {
        seen(text.replace("UUID", UUID).as_bytes(), None, "/id")
    }

    #[test]
    fn a_collection_proves_a_form_only_where_all_ids_have_it() {
        let text = |text: &str| text.to_owned();
        for (list, is) in [
            (r#"[{"id": "UUID"}, {"id": "UUID"}]"#, Seen::Uuids(2)),
            (r#"{"images": [{"id": "UUID"}], "count": 1}"#, Seen::Uuids(1)),
            (r#"[{"id": 1}, {"id": 7}]"#, Seen::Integers(text("1"))),
            (r#"[{"id": "a1"}]"#, Seen::Texts(text("a1"))),
            (r#"[{"id": "UUID"}, {"id": 7}]"#, Seen::Mixed(text("a UUID"), text("7"))),
            (r#"[{"id": 1}, {"id": "1"}]"#, Seen::Mixed(text("1"), text("1"))),
            (r#"[{"id": 1.5}]"#, Seen::Without),
            (r#"[{"name": "UUID"}]"#, Seen::Without),
            ("[]", Seen::Nothing),
            (r#"{"images": []}"#, Seen::Nothing),
            (r#"{"images": [], "links": []}"#, Seen::NoList),
            (r#"{"id": "UUID"}"#, Seen::NoList),
            ("<html>", Seen::NoList),
        ] {
            assert_eq!(of(list), is, "{list}");
        }
        let within = seen(br#"{"data": {"all": [{"id": 3}]}, "x": []}"#, Some("data.all"), "/id");
        assert_eq!(within, Seen::Integers("3".to_owned()));
    }
}
