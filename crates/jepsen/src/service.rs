//! The service: registers that log every execution before they answer, and fail as real services do.
//!
//! Its log is also its storage: a service that was killed reads it again when it starts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, request::Parts};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

use crate::client::now;
use crate::document::{self, Document};
use crate::random::Random;

/// The path at which the harness sets a service's failures.
pub(crate) const MOOD_PATH: &str = "/_mood";

/// The failures of a service, each so often in a hundred requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mood {
    /// Answers 500, not executed.
    pub(crate) fails: u64,
    /// Answers 500, executed.
    pub(crate) fails_after: u64,
    /// Takes up to [`MAX_SLOW_MS`] longer.
    pub(crate) slow: u64,
    /// Never answers, not executed.
    pub(crate) mute: u64,
    /// Never answers, executed.
    pub(crate) mute_after: u64,
    /// Closes the connection, executed.
    pub(crate) loses_answer: u64,
}

/// Below every response limit: what is executed is executed while its sender waits.
const MAX_SLOW_MS: u64 = 2_500;

/// One execution, a line of the log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Execution {
    /// Microseconds of the wall clock.
    pub(crate) at: u64,
    /// `Scope-Operation`, where it was sent.
    pub(crate) operation: Option<String>,
    /// The tag of the client's request (`by` of the query), where it has one.
    pub(crate) by: Option<String>,
    pub(crate) method: String,
    /// The path without its query.
    pub(crate) path: String,
    pub(crate) status: u16,
    /// The path of the document that it changed, if it changed one.
    pub(crate) changed: Option<String>,
    /// That document afterwards; nothing where it is deleted.
    pub(crate) document: Option<Document>,
}

impl Execution {
    /// The id of the document that it changed.
    pub(crate) fn id(&self) -> Option<&str> {
        self.changed.as_deref().and_then(|path| path.rsplit('/').next())
    }
}

/// Reads a log. A last line that is not whole is the execution that a kill prevented.
pub(crate) fn read_log(path: &Path) -> io::Result<Vec<Execution>> {
    let text = std::fs::read_to_string(path)?;
    let whole = text.rfind('\n').and_then(|end| text.get(..end)).unwrap_or("");
    whole.lines().map(|line| serde_json::from_str(line).map_err(io::Error::other)).collect()
}

/// Serves until it is killed.
pub(crate) async fn serve(listen: SocketAddr, log: &Path, seed: u64) -> io::Result<()> {
    let file = OpenOptions::new().create(true).append(true).open(log)?;
    let mut documents = BTreeMap::new();
    for execution in read_log(log)? {
        match (execution.changed, execution.document) {
            (Some(path), Some(document)) => drop(documents.insert(path, document)),
            (Some(path), None) => drop(documents.remove(&path)),
            (None, _) => {}
        }
    }
    let service = Service(Rc::new(RefCell::new(State {
        documents,
        log: file,
        mood: Mood::default(),
        random: Random::new(seed, now()),
    })));
    let listener = TcpListener::bind(listen).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = service.clone();
        tokio::task::spawn_local(async move {
            let answer = service_fn(move |request| service.clone().answer(request));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

#[derive(Clone)]
struct Service(Rc<RefCell<State>>);

struct State {
    /// By their paths.
    documents: BTreeMap<String, Document>,
    log: File,
    mood: Mood,
    random: Random,
}

/// A status and a document.
type Reply = (u16, Value);

impl Service {
    /// Answers a request. It ends with its connection: nothing is executed once the sender is gone.
    async fn answer(self, request: Request<Incoming>) -> io::Result<Response<Full<Bytes>>> {
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        if head.uri.path() == MOOD_PATH {
            self.0.borrow_mut().mood = serde_json::from_slice(&body)?;
            return respond((200, Value::Null));
        }
        let draw = |often: u64| self.0.borrow_mut().random.percent(often);
        let mood = self.0.borrow().mood;
        if draw(mood.slow) {
            let milliseconds = self.0.borrow_mut().random.between(200..=MAX_SLOW_MS);
            sleep(Duration::from_millis(milliseconds)).await;
        }
        if draw(mood.mute) {
            return std::future::pending().await;
        }
        if draw(mood.fails) {
            return respond((500, json!({ "why": "it fails, and has done nothing" })));
        }
        let reply = self.0.borrow_mut().execute(&head, &body)?;
        if draw(mood.mute_after) {
            return std::future::pending().await;
        }
        if draw(mood.loses_answer) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if draw(mood.fails_after) {
            return respond((500, json!({ "why": "it fails, and has done it" })));
        }
        respond(reply)
    }
}

fn respond((status, document): Reply) -> io::Result<Response<Full<Bytes>>> {
    let body = if document.is_null() { Bytes::new() } else { document.to_string().into() };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    Ok(response)
}

/// The value of a parameter of a query.
fn parameter<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

impl State {
    /// Executes a request, and logs a write before it counts.
    fn execute(&mut self, head: &Parts, body: &[u8]) -> io::Result<Reply> {
        let (path, query) = (head.uri.path(), head.uri.query().unwrap_or(""));
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let collection = segments.first().copied().unwrap_or("");
        if head.method == "GET" || head.method == "HEAD" {
            return Ok(self.read(path, &segments, query));
        }
        let operation = head.headers.get("scope-operation").and_then(|name| name.to_str().ok());
        let fields: Document = if body.is_empty() { Document::new() } else { serde_json::from_slice(body)? };
        let known = matches!(collection, "registers" | "names");
        let own = segments.get(..2).map(|own| format!("/{}", own.join("/")));
        let before = own.as_ref().and_then(|own| self.documents.get(own).cloned());
        let (status, changed, after) = match (head.method.as_str(), segments.len(), own, before) {
            ("POST", 1, _, _) if collection == "registers" => {
                let id = uuid()?;
                (201, Some(format!("/registers/{id}")), Some(named(&fields, &id, operation)))
            }
            ("PUT", 2, Some(own), before) if known && (before.is_some() || collection == "names") => {
                let id = segments.get(1).copied().unwrap_or("");
                let made_by =
                    before.as_ref().map_or(operation, |before| Some(document::text(before, "made_by")));
                (if before.is_some() { 200 } else { 201 }, Some(own), Some(named(&fields, id, made_by)))
            }
            ("PATCH", 2, Some(own), Some(mut document)) => {
                document::patch(&mut document, &fields);
                (200, Some(own), Some(document))
            }
            ("DELETE", 2, Some(own), Some(_)) => (204, Some(own), None),
            ("POST", 3, Some(own), Some(mut document)) if segments.last() == Some(&"add") => {
                document::add(&mut document, document::text(&fields, "tag"));
                document::note_addition(&mut document, operation.unwrap_or(""));
                (200, Some(own), Some(document))
            }
            (_, _, _, None) => (404, None, None),
            _ => (405, None, None),
        };
        self.log(&Execution {
            at: now(),
            operation: operation.map(str::to_owned),
            by: parameter(query, "by").map(str::to_owned),
            method: head.method.to_string(),
            path: path.to_owned(),
            status,
            changed: changed.clone(),
            document: after.clone(),
        })?;
        let shown = after.clone().map_or(Value::Null, Value::Object);
        match (changed, after) {
            (Some(path), Some(document)) => drop(self.documents.insert(path, document)),
            (Some(path), None) => drop(self.documents.remove(&path)),
            (None, _) => {}
        }
        Ok((status, shown))
    }

    /// Writes a line at once: a kill leaves either all of an execution or nothing.
    fn log(&mut self, execution: &Execution) -> io::Result<()> {
        self.log.write_all(format!("{}\n", serde_json::to_string(execution)?).as_bytes())
    }

    fn read(&self, path: &str, segments: &[&str], query: &str) -> Reply {
        match segments {
            ["health"] => (200, json!({ "healthy": true })),
            [collection @ ("registers" | "names")] => (200, self.list(collection, query)),
            _ => match self.documents.get(path) {
                Some(document) => (200, Value::Object(document.clone())),
                None => (404, Value::Null),
            },
        }
    }

    /// A page of a collection, by id; `next` leads on. `made_by` leaves what that operation made.
    fn list(&self, collection: &str, query: &str) -> Value {
        let prefix = format!("/{collection}/");
        let after = format!("{prefix}{}", parameter(query, "marker").unwrap_or(""));
        let limit = parameter(query, "limit").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let made_by = parameter(query, "made_by").map(|name| name.replace("%2F", "/").replace("%2f", "/"));
        let listed = |document: &Document| {
            made_by.as_ref().is_none_or(|name| document::text(document, "made_by") == name)
        };
        let all = self.documents.iter().filter(|(path, _)| path.starts_with(&prefix) && **path > after);
        let mut rest = all.filter(|(_, document)| listed(document));
        let page: Vec<&Document> = rest.by_ref().take(limit).map(|(_, document)| document).collect();
        let mut list = json!({ collection: page });
        if rest.next().is_some()
            && let (Some(last), Some(members)) = (page.last(), list.as_object_mut())
        {
            let next = format!("/{collection}?limit={limit}&marker={}", document::text(last, "id"));
            members.insert("next".to_owned(), next.into());
        }
        list
    }
}

/// A whole new document of a body, with what the service has for itself.
fn named(fields: &Document, id: &str, made_by: Option<&str>) -> Document {
    let mut document = document::whole(document::content(fields));
    document.insert("id".to_owned(), id.into());
    document.insert("made_by".to_owned(), made_by.unwrap_or("").into());
    document.insert("added_by".to_owned(), json!([]));
    document
}

fn uuid() -> io::Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let hex = format!(
        "{:032x}",
        u128::from_be_bytes(bytes) & !(0xf000 << 64) & !(0xc << 60) | (0x4000 << 64) | (0x8 << 60)
    );
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| hex.get(range).unwrap_or("").to_owned());
    Ok(parts.join("-"))
}
