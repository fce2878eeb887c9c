//! The form of the ids that a service gives, known before it makes anything that is replicated.
//!
//! A service that gives ids of its own gives others at each site. UUIDs are safe: no site's service gives one twice, and the first
//! replica's is the resource's for clients. Of any other form, what is `2` here may be another's `2` there: the resource gets a name for
//! clients that no service gives by itself. A profile says the form (`ids`). Where it does not, the collection is read, and what it
//! does not prove is refused before anything is made.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use http::header::{ACCEPT_ENCODING, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use http_body_util::{BodyExt, Collected, Limited};
use profile::{IdForm, Kind, MetaRange, NamedBy};
use replica::{Meta, Naming, Subject};
use serde_json::Value;

use super::keeper::allocate::Unallocated;
use super::taken::Understood;
use super::understand::plain;
use super::walk::{At, Outcome, refuse};
use super::{Name, Replicas};
use crate::body::LegBody;
use crate::headers;
use crate::leg::LegFailure;
use crate::problem::Problem;

/// The longest list that is read for its ids.
const LIST_BYTES: usize = 4 << 20;
/// So many collections are remembered; others are read each time.
const MAX_COLLECTIONS: usize = 10_000;
/// So many characters of 32 has a text that no service gives by itself.
const TEXT_LENGTH: usize = 26;

/// The collections whose ids were looked at.
#[derive(Debug, Default)]
pub(crate) struct LearntForms(RwLock<BTreeMap<Name, Learnt>>);

#[derive(Clone, Debug)]
struct Learnt {
    form: IdForm,
    /// The service's own ids are half way to those of replicated resources, and that was said.
    warned: bool,
    /// They have reached them.
    exhausted: bool,
}

impl LearntForms {
    fn get(&self, collection: &Name) -> Option<Learnt> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(collection).cloned()
    }

    fn add(&self, collection: Name, form: IdForm) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.get(&collection).is_some_and(|learnt| learnt.form == form);
        if known.len() < MAX_COLLECTIONS && !is_known {
            known.insert(collection, Learnt { form, warned: false, exhausted: false });
        }
    }

    /// The service has given this id in a collection of this form. Whether that is to be said: it is half way to the range, for
    /// the first time.
    pub(super) fn given(&self, collection: &Name, form: &IdForm, id: &str) -> bool {
        let (Ok(number), IdForm::Integer(range)) = (id.parse::<u64>(), form) else { return false };
        if number < range.from / 2 {
            return false;
        }
        self.add(collection.clone(), form.clone());
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let Some(learnt) = known.get_mut(collection) else { return false };
        learnt.exhausted |= number >= range.from;
        !std::mem::replace(&mut learnt.warned, true)
    }
}

/// What the ids of a collection look like.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing is there.
    Nothing,
    /// All are UUIDs: so many.
    Uuids(usize),
    /// All are whole numbers.
    Integers(Numbers),
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
    /// A write that makes what its service names, with the name that clients will know, where that is none of its service's.
    pub(super) async fn named_for_clients<'w>(
        self,
        replicas: &Replicas,
        understood: &Understood<'w>,
        head: &Parts,
    ) -> Result<Option<Understood<'w>>, Outcome> {
        let Subject::New { naming: Naming::FirstReplica, level, sites } = &understood.subject else {
            return Ok(None);
        };
        match self.naming(replicas, understood.kind, &understood.path, head).await? {
            naming @ Naming::Allocated(_) => {
                let subject = Subject::New { naming, level: *level, sites: sites.clone() };
                Ok(Some(Understood { subject, ..understood.clone() }))
            }
            Naming::FirstReplica | Naming::Chosen(_) => Ok(None),
        }
    }

    /// How what a request makes in a collection is to be called for clients; or the answer to the request, where the form of the
    /// ids that the service here gives is not known to be safe.
    async fn naming(
        self,
        replicas: &Replicas,
        kind: &Kind,
        path: &str,
        head: &Parts,
    ) -> Result<Naming, Outcome> {
        // A client that may choose names was given one.
        if kind.named_by != NamedBy::Service {
            return Ok(Naming::FirstReplica);
        }
        let (service, profile) = (&self.service.name, &self.state.settings().profile);
        let item = format!("{}/x", plain(path).trim_end_matches('/'));
        let items = profile.kinds.items(service, &item);
        let Some(item) = items.first() else { return Ok(Naming::FirstReplica) };
        let collection = Name::new(service, item.name).with_id("");
        let form = self.form(replicas, kind, &collection, path, head).await?;
        let id = match &form {
            IdForm::Uuid => return Ok(Naming::FirstReplica),
            IdForm::Integer(range) => match replicas.allocate(*range).await {
                Ok(number) => number.to_string(),
                Err(why) => return Err(refuse(unallocated(&why))),
            },
            IdForm::Text(prefix) => format!("{prefix}{}", self.text().to_ascii_lowercase()),
            IdForm::Ulid => self.text(),
        };
        Ok(Naming::Allocated(Meta::from(&collection.with_id(&id))))
    }

    /// A text that no service gives by itself: a ULID of now.
    fn text(self) -> String {
        const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let mut random = [0; 10];
        self.core.random(&mut random);
        let now = outside::time_of_day().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let random = random.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        let bits = (now.as_millis() & ((1 << 48) - 1)) << 80 | random;
        let digit = |at: usize| {
            let value = usize::try_from(bits >> (5 * (TEXT_LENGTH - 1 - at)) & 31).unwrap_or_default();
            DIGITS.get(value).copied().map_or('0', char::from)
        };
        (0..TEXT_LENGTH).map(digit).collect()
    }

    /// The form of the ids of a collection.
    async fn form(
        self,
        replicas: &Replicas,
        kind: &Kind,
        collection: &Name,
        path: &str,
        head: &Parts,
    ) -> Result<IdForm, Outcome> {
        let (service, site) = (&self.service.name, &self.state.settings().site);
        let forms = &replicas.known.forms;
        let learnt = forms.get(collection).filter(|own| kind.ids.as_ref().is_none_or(|ids| *ids == own.form));
        if let Some(learnt) = learnt {
            return if learnt.exhausted { Err(refuse(exhausted(collection))) } else { Ok(learnt.form) };
        }
        if kind.ids == Some(IdForm::Uuid) {
            return Ok(IdForm::Uuid);
        }
        let (seen, because) = match self.look_at_list(replicas, kind, path, head).await {
            Ok(seen) => {
                let because = seen.why(kind.in_item(&kind.id));
                (seen, because)
            }
            Err(Unread::Status(status)) if status.is_server_error() && kind.ids.is_none() => {
                return Err(refuse(not_read(path, status)));
            }
            Err(Unread::Status(status)) => (Seen::NoList, format!("it answers {}", status.as_u16())),
            Err(Unread::Failed(failure)) if kind.ids.is_none() => return Err(Err(*failure)),
            Err(Unread::Failed(_)) => (Seen::NoList, String::new()),
        };
        let form = match (&kind.ids, &seen) {
            (Some(declared), _) => declared.clone(),
            (None, Seen::Uuids(_)) => IdForm::Uuid,
            (None, Seen::Integers(numbers)) if numbers.greatest <= MetaRange::WIDE.upto => {
                IdForm::Integer(MetaRange::WIDE)
            }
            (None, _) => return Err(refuse(unknown_form(&because, kind, service, path, site))),
        };
        if kind.ids.is_none() {
            self.core.shared.audit.write(&serde_json::json!({
                "replicas": "the form of the ids of this collection was learnt from those that are there",
                "collection": collection.to_string(),
                "ids": form.to_string(),
            }));
        }
        forms.add(collection.clone(), form.clone());
        if let (IdForm::Integer(range), Seen::Integers(numbers)) = (&form, &seen) {
            // Those that replicated resources have for clients are in the list, too.
            let own = |number: &&u64| {
                !range.has(**number)
                    || replicas.known.place(&collection.with_id(&number.to_string())).is_none()
            };
            if let Some(greatest) = numbers.all.iter().filter(own).max() {
                let audit = &self.core.shared.audit;
                replicas.known.note_given(audit, collection, &form, &greatest.to_string());
            }
            if forms.get(collection).is_some_and(|learnt| learnt.exhausted) {
                return Err(refuse(exhausted(collection)));
            }
        }
        Ok(form)
    }

    /// Reads a collection with the client's own credential.
    async fn look_at_list(
        self,
        replicas: &Replicas,
        kind: &Kind,
        path: &str,
        head: &Parts,
    ) -> Result<Seen, Unread> {
        let profile = &self.state.settings().profile;
        let mut head = Box::new(head.clone());
        headers::only_ask(&mut head.headers);
        head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        head.method = Method::GET;
        let Ok(uri) = Uri::try_from(path) else { return Ok(Seen::NoList) };
        head.uri = uri;
        let answer = self.rewritten(replicas, head, LegBody::Empty, None).await;
        let answer = answer.map_err(|failure| Unread::Failed(Box::new(failure)))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(Unread::Status(status));
        }
        let body = Limited::new(answer.into_body(), LIST_BYTES).collect().await.ok().map(Collected::to_bytes);
        let items = profile.lists.of(&self.service.name, path).and_then(|list| list.items);
        Ok(body.map_or(Seen::NoList, |body| seen(&body, items.as_deref(), kind.in_item(&kind.id))))
    }
}

/// Why a list was not read.
enum Unread {
    Status(StatusCode),
    Failed(Box<LegFailure>),
}

/// The whole numbers of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Numbers {
    first: String,
    greatest: u64,
    all: Vec<u64>,
}

impl Seen {
    /// Why nothing is made, as the end of a sentence.
    fn why(&self, id: &str) -> String {
        match self {
            Seen::Nothing => "it lists nothing".to_owned(),
            Seen::Uuids(count) => format!("it lists {count} UUIDs"),
            Seen::Integers(numbers) => {
                format!("its ids are integers beyond what is exact in JSON, such as {}", numbers.first)
            }
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

/// The service's own ids have reached those that replicated resources have for clients.
fn exhausted(collection: &Name) -> Problem {
    let title = "The service's own ids have reached the range of replicated resources; nothing was executed";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "ids-in-range", title).detail(format!(
        "in {collection} the service itself has ids that replicated resources have for clients: say in the profile where their \
         range begins, above all that the service gives: `ids = {{ form = \"integer\", from = … }}`"
    ))
}

fn unallocated(why: &Unallocated) -> Problem {
    let title = "No id could be given to a new resource; nothing was executed";
    let (status, detail) = match why {
        Unallocated::SameSlice(other) => (
            StatusCode::UNPROCESSABLE_ENTITY,
            format!(
                "the names of this site and of {other} lead to the same slice of the range of ids, so that both would give the \
                 same ones: a site with another name gives ids for both"
            ),
        ),
        Unallocated::Exhausted => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "this site has given all ids of its slice: say in the profile that the range is larger (`bits`, `from`)".to_owned(),
        ),
        Unallocated::Unavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, "the records of this site take nothing now".to_owned())
        }
    };
    Problem::new(status, "no-id", title).detail(detail).unsent()
}

fn unknown_form(because: &str, kind: &Kind, service: &str, path: &str, site: &scope::Site) -> Problem {
    let detail = format!(
        "GET {path} at {site}: {because}. What `{service}` calls a new {} may name another one at another site. Say in the profile \
         which ids it gives: a [[kinds]] with `path = \"{path}\"` and `ids = \"uuid\"`, `\"integer\"`, `\"text\"`, `\"slug\"` or \
         `\"ulid\"`. If clients can choose ids, say `named_by = \"client\"` there, and PUT it under a name",
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
            Some(Value::Number(id)) if id.is_u64() => {
                let number = id.as_u64().unwrap_or_default();
                Seen::Integers(Numbers { first: id.to_string(), greatest: number, all: vec![number] })
            }
            _ => return Seen::Without,
        };
        all = match (all, one) {
            (Seen::Nothing, one) => one,
            (Seen::Uuids(count), Seen::Uuids(_)) => Seen::Uuids(count + 1),
            (Seen::Integers(mut numbers), Seen::Integers(one)) => {
                numbers.greatest = numbers.greatest.max(one.greatest);
                numbers.all.extend(one.all);
                Seen::Integers(numbers)
            }
            (Seen::Texts(first), Seen::Texts(_)) => Seen::Texts(first),
            (all, one) => return Seen::Mixed(all.example(), one.example()),
        };
    }
    all
}

impl Seen {
    fn example(self) -> String {
        match self {
            Seen::Integers(numbers) => numbers.first,
            Seen::Texts(one) => one,
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

    fn numbers(all: &[u64]) -> Seen {
        let greatest = *all.iter().max().unwrap();
        Seen::Integers(Numbers { first: all[0].to_string(), greatest, all: all.to_vec() })
    }

    #[test]
    fn a_collection_proves_a_form_only_where_all_ids_have_it() {
        let text = |text: &str| text.to_owned();
        for (list, is) in [
            (r#"[{"id": "UUID"}, {"id": "UUID"}]"#, Seen::Uuids(2)),
            (r#"{"images": [{"id": "UUID"}], "count": 1}"#, Seen::Uuids(1)),
            (r#"[{"id": 1}, {"id": 7}]"#, numbers(&[1, 7])),
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
        assert_eq!(within, numbers(&[3]));
    }
}
