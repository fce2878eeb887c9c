//! The `records` service: JSON documents in collections of any name, with ids as applications make them.
//!
//! ```text
//! POST   /{collection}        {…}   201, the record with its id; one that is in the body is taken, or a 409
//! GET    /{collection}              [{…}], by id; `?limit=` and `&marker=` give a page, with a `Link` to the next;
//!                                   any other parameter is a member that has to be equal
//! GET    /{collection}/{id}         {"id", …}, with an `ETag`
//! PUT    /{collection}/{id}   {…}   replaces it; 404 if there is none
//! PATCH  /{collection}/{id}   {…}   sets members
//! DELETE /{collection}/{id}         204
//! ```
//!
//! `If-Match` is honoured. Integers are given as small REST servers give them: one more than the greatest that is there, so that an
//! id may come back after a deletion.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::body::Incoming;
use hyper::header::{ETAG, HeaderMap, HeaderValue, IF_MATCH, LINK};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Map, Value, json};

use crate::counts::Write;
use crate::http::{Answer, Body, Refusal, created, json_answer, no_content, read_json};
use crate::id::Id;
use crate::server::{App, Common};

/// How a service names its records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RecordIds {
    /// Whole numbers: one more than the greatest.
    #[default]
    Integers,
    /// Texts: this, and then such a number.
    Prefixed(String),
    /// UUIDs.
    Uuids,
}

/// A `records` service. Clones are the same service.
#[derive(Clone, Debug)]
pub struct Records(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    common: Common,
    ids: RecordIds,
    collections: Mutex<BTreeMap<String, Collection>>,
}

/// Records by the order in which their ids come.
type Collection = BTreeMap<Key, Map<String, Value>>;

/// Numbers come by their size, texts by their characters.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Text(String),
}

impl Key {
    fn read(text: &str) -> Key {
        text.parse().map_or_else(|_| Key::Text(text.to_owned()), Key::Number)
    }

    fn of(value: &Value) -> Option<Key> {
        match value {
            Value::Number(number) => number.as_u64().map(Key::Number),
            Value::String(text) => Some(Key::Text(text.clone())),
            _ => None,
        }
    }

    fn value(&self) -> Value {
        match self {
            Key::Number(number) => json!(number),
            Key::Text(text) => json!(text),
        }
    }

    fn text(&self) -> String {
        match self {
            Key::Number(number) => number.to_string(),
            Key::Text(text) => text.clone(),
        }
    }
}

impl Records {
    /// A service without records.
    #[must_use]
    pub fn new(ids: RecordIds) -> Records {
        let collections = Mutex::default();
        Records(Arc::new(Inner { common: Common::new(None), ids, collections }))
    }

    /// What a collection has, in its order.
    #[must_use]
    pub fn all(&self, collection: &str) -> Vec<Value> {
        let all = self.collections();
        let records = all.get(collection).into_iter().flat_map(BTreeMap::values);
        records.cloned().map(Value::Object).collect()
    }

    fn collections(&self) -> MutexGuard<'_, BTreeMap<String, Collection>> {
        self.0.collections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn route(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match (segments.as_slice(), request.method().clone()) {
            ([collection], Method::GET | Method::HEAD) => self.list(collection, request.uri().query()),
            ([collection], Method::POST) => self.create(collection, request).await,
            ([_], _) => Err(Refusal::not_allowed("GET, HEAD, POST")),
            ([collection, id], Method::GET | Method::HEAD) => self.show(collection, id),
            ([collection, id], Method::PUT | Method::PATCH) => self.write(collection, id, request).await,
            ([collection, id], Method::DELETE) => self.delete(collection, id, request.headers()),
            ([_, _], _) => Err(Refusal::not_allowed("GET, HEAD, PUT, PATCH, DELETE")),
            _ => Err(Refusal::not_found(&path)),
        }
    }

    fn list(&self, collection: &str, query: Option<&str>) -> Answer {
        let (mut limit, mut marker, mut equal) = (usize::MAX, None, Vec::new());
        let pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        for (name, value) in pairs {
            match name {
                "limit" => {
                    limit = value.parse().map_err(|_| Refusal::bad_request("`limit` is a number"))?;
                }
                "marker" => marker = Some(self.key(value)),
                _ => equal.push((name, value)),
            }
        }
        let is = |record: &Map<String, Value>, (name, value): &(&str, &str)| match record.get(*name) {
            Some(Value::String(text)) => text == value,
            Some(other) => {
                let other = other.to_string();
                other.as_str() == *value
            }
            None => false,
        };
        let all = self.collections();
        let records = all.get(collection).into_iter().flatten();
        let mut records = records
            .filter(|(key, _)| marker.as_ref().is_none_or(|marker| *key > marker))
            .filter(|(_, record)| equal.iter().all(|pair| is(record, pair)));
        let page: Vec<_> = records.by_ref().take(limit).collect();
        let document = page.iter().map(|(_, record)| Value::Object((*record).clone())).collect();
        let mut answer = json_answer(StatusCode::OK, &Value::Array(document));
        if let (Some((last, _)), true) = (page.last(), records.next().is_some()) {
            let next = format!("</{collection}?limit={limit}&marker={}>; rel=\"next\"", last.text());
            let bad = |_| Refusal::bad_request("ids are plain");
            answer.headers_mut().insert(LINK, HeaderValue::try_from(next).map_err(bad)?);
        }
        Ok(answer)
    }

    fn key(&self, id: &str) -> Key {
        match self.0.ids {
            RecordIds::Integers => Key::read(id),
            RecordIds::Prefixed(_) | RecordIds::Uuids => Key::Text(id.to_owned()),
        }
    }

    async fn create(&self, collection: &str, request: Request<Incoming>) -> Answer {
        let mut record = object(read_json(request).await?)?;
        let mut all = self.collections();
        let records = all.entry(collection.to_owned()).or_default();
        let key = match record.get("id").and_then(Key::of) {
            Some(key) => key,
            None => self.next(records),
        };
        if records.contains_key(&key) {
            return Err(Refusal::new(StatusCode::CONFLICT, format!("there is a record {}", key.text())));
        }
        record.insert("id".to_owned(), key.value());
        let answer = created(&format!("/{collection}/{}", key.text()), &Value::Object(record.clone()));
        records.insert(key, record);
        self.0.common.counts().write(Write::Create, collection);
        Ok(answer)
    }

    fn next(&self, records: &Collection) -> Key {
        let number = |key: &Key, prefix: &str| match key {
            Key::Number(number) => Some(*number),
            Key::Text(text) => text.strip_prefix(prefix)?.parse().ok(),
        };
        let next = |prefix: &str| {
            records.keys().filter_map(|key| number(key, prefix)).max().unwrap_or_default().saturating_add(1)
        };
        match &self.0.ids {
            RecordIds::Integers => Key::Number(next("")),
            RecordIds::Prefixed(prefix) => Key::Text(format!("{prefix}{}", next(prefix))),
            RecordIds::Uuids => Key::Text(Id::random().to_string()),
        }
    }

    fn show(&self, collection: &str, id: &str) -> Answer {
        let all = self.collections();
        let record = all.get(collection).and_then(|all| all.get(&self.key(id)));
        Ok(represented(record.ok_or_else(|| Refusal::not_found("record"))?))
    }

    async fn write(&self, collection: &str, id: &str, request: Request<Incoming>) -> Answer {
        let (headers, replaces) = (request.headers().clone(), request.method() == Method::PUT);
        let written = object(read_json(request).await?)?;
        let key = self.key(id);
        let mut all = self.collections();
        let record = all.get_mut(collection).and_then(|all| all.get_mut(&key));
        let record = record.ok_or_else(|| Refusal::not_found("record"))?;
        check(&headers, record)?;
        if replaces {
            record.clear();
        }
        record.extend(written);
        record.insert("id".to_owned(), key.value());
        self.0.common.counts().write(Write::Update, collection);
        Ok(represented(record))
    }

    fn delete(&self, collection: &str, id: &str, headers: &HeaderMap) -> Answer {
        let mut all = self.collections();
        let (key, none) = (self.key(id), || Refusal::not_found("record"));
        let records = all.get_mut(collection).ok_or_else(none)?;
        check(headers, records.get(&key).ok_or_else(none)?)?;
        records.remove(&key);
        self.0.common.counts().write(Write::Delete, collection);
        Ok(no_content())
    }
}

impl App for Records {
    fn common(&self) -> &Common {
        &self.0.common
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.route(request).await.unwrap_or_else(Refusal::into_response)
    }
}

fn object(document: Value) -> Result<Map<String, Value>, Refusal> {
    match document {
        Value::Object(record) => Ok(record),
        _ => Err(Refusal::bad_request("a record is a JSON object")),
    }
}

fn represented(record: &Map<String, Value>) -> Response<Body> {
    let mut answer = json_answer(StatusCode::OK, &Value::Object(record.clone()));
    if let Ok(tag) = HeaderValue::try_from(tag(record)) {
        answer.headers_mut().insert(ETAG, tag);
    }
    answer
}

fn tag(record: &Map<String, Value>) -> String {
    let mut hasher = DefaultHasher::new();
    Value::Object(record.clone()).to_string().hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// Refuses what is not as the condition says.
fn check(headers: &HeaderMap, record: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(wanted) = headers.get(IF_MATCH).and_then(|wanted| wanted.to_str().ok()) else { return Ok(()) };
    let own = tag(record);
    let fits = wanted.split(',').any(|one| matches!(one.trim(), "*") || one.trim() == own);
    let refused = || Refusal::new(StatusCode::PRECONDITION_FAILED, "the record is another by now");
    fits.then_some(()).ok_or_else(refused)
}
