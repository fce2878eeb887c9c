//! The application: images with ids that the service chooses. It writes down all that it executed, and can be ill.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep};

use crate::chance::Chance;
use crate::client::{CREDENTIAL, FILE};
use crate::content;
use crate::isle::Application;
use crate::network::{Network, Wire};
use crate::trace::Trace;

/// What goes wrong, each so often in a hundred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mood {
    /// A 500, and nothing was done.
    pub fails: u64,
    /// A 500, and it was done.
    pub lies: u64,
    /// It takes seconds.
    pub slow: u64,
    /// It never answers, and nothing was done.
    pub mute: u64,
    /// It was done, and the answer is lost.
    pub loses: u64,
    /// It was done, and the answer comes when nobody waits for it any more.
    pub late: u64,
    /// The answer comes twice.
    pub stutters: u64,
    /// It does not run.
    pub down: bool,
}

/// After so many milliseconds a service that keeps names has executed what it was asked for, or never will.
const LATEST: u64 = 9_500;

/// More than any run asks of a service: what asks for more does not end by itself.
pub const MOST: usize = 2_000;

/// One execution, or one attempt of it.
#[derive(Clone, Debug)]
pub struct Done {
    /// When it was asked.
    pub asked: Instant,
    /// When it was done.
    pub at: Instant,
    /// `POST`, …
    pub method: String,
    /// The path, without its query.
    pub path: String,
    /// The name of the client's write, where it has one: `by` of the query.
    pub by: Option<String>,
    /// The name of the mesh's operation, where it has one.
    pub operation: Option<String>,
    /// What it was made as, for a creation.
    pub id: Option<String>,
    /// What the service said, or would have.
    pub status: u16,
    /// Whether the state changed.
    pub effect: bool,
    /// The name of the request that made the image that it was about.
    pub made: Option<String>,
}

/// A site's service. It survives its mesh; cheap to clone.
#[derive(Clone)]
pub struct App(Rc<RefCell<State>>);

struct State {
    name: String,
    images: BTreeMap<String, Map<String, Value>>,
    /// What clients named themselves.
    named: BTreeMap<String, Map<String, Value>>,
    ledger: Vec<Done>,
    mood: Mood,
    chance: Chance,
    trace: Trace,
    /// Since when it is well.
    well: Option<Instant>,
    /// The first file that nobody sent so.
    damaged: Option<String>,
    /// What was deleted and is held, until when.
    leaving: BTreeMap<String, Instant>,
    /// Whether it keeps the names of operations, and goes on with writes that nobody waits for any more.
    probes: bool,
    /// How often it was given what it had at some time.
    restores: u64,
    /// It asks for a credential.
    asks: bool,
    /// It deletes also what is protected.
    lets_go: bool,
    /// It names what it makes by counting.
    counter: Option<Counter>,
}

/// The count of a service that names what it makes by numbers.
#[derive(Clone, Copy)]
struct Counter {
    /// The last number that it gave.
    last: u64,
    /// It counts from the largest number that is there, so that a number may come again.
    reuses: bool,
}

/// All that a service has.
pub type Images = BTreeMap<String, Map<String, Value>>;

impl App {
    /// A service with nothing in it.
    #[must_use]
    pub fn new(name: &str, mut chance: Chance, trace: &Trace, application: Application, asks: bool) -> App {
        let counter = application.counts.then(|| Counter { last: 0, reuses: chance.percent(50) });
        App(Rc::new(RefCell::new(State {
            name: name.to_owned(),
            images: BTreeMap::new(),
            named: BTreeMap::new(),
            ledger: Vec::new(),
            mood: Mood::default(),
            chance,
            trace: trace.clone(),
            well: Some(Instant::now()),
            damaged: None,
            leaving: BTreeMap::new(),
            probes: application.probes,
            restores: 0,
            asks,
            lets_go: false,
            counter,
        })))
    }

    /// From now on it does so.
    pub fn set(&self, mood: Mood) {
        let mut state = self.0.borrow_mut();
        state.mood = mood;
        let well = mood == Mood::default();
        state.well = if well { state.well.or(Some(Instant::now())) } else { None };
    }

    /// Since when nothing is wrong with it.
    #[must_use]
    pub fn well_since(&self) -> Option<Instant> {
        self.0.borrow().well
    }

    /// What it has.
    #[must_use]
    pub fn images(&self) -> Images {
        let mut state = self.0.borrow_mut();
        state.let_go();
        state.images.clone()
    }

    /// What clients named themselves, and is there.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.0.borrow().named.keys().cloned().collect()
    }

    /// It is given what it had at some time.
    pub fn restore(&self, images: Images) {
        let mut state = self.0.borrow_mut();
        (state.images, state.restores) = (images, state.restores + 1);
    }

    /// From now on it deletes what is protected, too.
    pub fn let_go(&self) {
        self.0.borrow_mut().lets_go = true;
    }

    /// Whether it has an image that was made by this request.
    #[must_use]
    pub fn has(&self, made: &str) -> bool {
        self.0.borrow().images.values().any(|image| image.get("made").and_then(Value::as_str) == Some(made))
    }

    /// Somebody changes an image there, by hand.
    pub fn tamper(&self, made: &str) {
        let mut state = self.0.borrow_mut();
        let mut images = state.images.values_mut();
        if let Some(image) = images.find(|image| image.get("made").and_then(Value::as_str) == Some(made)) {
            image.insert("name".to_owned(), "by hand".into());
        }
    }

    /// Somebody deletes an image there, by hand.
    pub fn erase(&self, id: &str) {
        self.0.borrow_mut().images.remove(id);
    }

    /// What it was given as a file, and nobody sent as one.
    #[must_use]
    pub fn damaged(&self) -> Option<String> {
        self.0.borrow().damaged.clone()
    }

    /// What it was asked for, in order.
    #[must_use]
    pub fn ledger(&self) -> Vec<Done> {
        self.0.borrow().ledger.clone()
    }

    /// Serves for ever.
    pub async fn serve(self, network: Network, at: SocketAddr) {
        let Ok(door) = network.listen(at) else { return };
        loop {
            let (wire, _) = poll_fn(|context| door.poll_next(context)).await;
            if !self.0.borrow().mood.down {
                spawn_local(self.clone().connection(wire));
            }
        }
    }

    async fn connection(self, wire: Wire) {
        let twice = Arc::<AtomicBool>::default();
        let stutter = Arc::clone(&twice);
        let service = service_fn(move |request| {
            let (app, twice) = (self.clone(), Arc::clone(&stutter));
            async move { app.serve_one(request, twice).await }
        });
        let stream = TokioIo::new(Stutter { wire, twice });
        let _ = http1::Builder::new().auto_date_header(false).serve_connection(stream, service).await;
    }

    /// What a client asked for goes on when nobody waits for it any more. What Archipel asks for itself does not: a
    /// service that executed it after its repetition, and after what came then, would undo that.
    async fn serve_one(
        self,
        request: Request<Incoming>,
        twice: Arc<AtomicBool>,
    ) -> Result<Response<Full<Bytes>>, io::Error> {
        let own = request.uri().query().is_none_or(|query| !query.contains("by="));
        let named = request.headers().contains_key("scope-operation");
        // Where it keeps their names, it goes on with what is not to be repeated: Archipel has to wait for that.
        let goes_on = named && request.method() == Method::POST && self.0.borrow().probes;
        if (own || named) && !goes_on {
            return self.answer(request, &twice).await;
        }
        spawn_local(async move { self.answer(request, &twice).await }).await.map_err(io::Error::other)?
    }

    async fn answer(
        &self,
        request: Request<Incoming>,
        twice: &AtomicBool,
    ) -> Result<Response<Full<Bytes>>, io::Error> {
        let asked = Instant::now();
        let (head, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let (mood, slow, restores) = {
            let mut state = self.0.borrow_mut();
            let mood = state.mood;
            // What goes on takes no longer than the sites' response limit.
            let longest = if state.probes { LATEST } else { 14_000 };
            let slow = state.chance.percent(mood.slow).then(|| state.chance.between(500, longest));
            (mood, slow, state.restores)
        };
        if let Some(slow) = slow {
            sleep(Duration::from_millis(slow)).await;
        }
        // What it had in hand when it was given an old copy is lost with the rest.
        if self.0.borrow().restores != restores {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.0.borrow().ledger.len() >= MOST {
            return std::future::pending().await;
        }
        if mood.down {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        let draw = |often: u64| self.0.borrow_mut().chance.percent(often);
        if draw(mood.mute) {
            self.0.borrow().trace.say(format!(
                "{}: never answers {} {}",
                self.0.borrow().name,
                head.method,
                head.uri
            ));
            return std::future::pending().await;
        }
        let fails = draw(mood.fails);
        let (mut status, document) = self.0.borrow_mut().execute(&head, &body, asked, fails);
        if draw(mood.late) {
            let late = self.0.borrow_mut().chance.between(11_000, 25_000);
            sleep(Duration::from_millis(late)).await;
        }
        if draw(mood.loses) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if draw(mood.lies) {
            status = 500;
        }
        twice.store(draw(mood.stutters), Ordering::Relaxed);
        // A file is a name that stands for bytes.
        let file = document.as_ref().and_then(Value::as_str).and_then(content::named);
        let kind = if file.is_some() { FILE } else { "application/json" };
        let document = || document.map(|document| document.to_string()).unwrap_or_default().into();
        let mut response = Response::new(Full::new(file.unwrap_or_else(document)));
        *response.status_mut() = StatusCode::from_u16(status).map_err(io::Error::other)?;
        let kind = http::HeaderValue::from_static(kind);
        response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
        Ok(response)
    }
}

impl State {
    /// Does what was asked for, unless it fails first, and writes it down.
    fn execute(
        &mut self,
        head: &http::request::Parts,
        body: &[u8],
        asked: Instant,
        fails: bool,
    ) -> (u16, Option<Value>) {
        let path = head.uri.path().to_owned();
        let query = head.uri.query().unwrap_or_default();
        let by = query.split('&').find_map(|pair| pair.strip_prefix("by=")).map(str::to_owned);
        let operation = head.headers.get("scope-operation").and_then(|name| name.to_str().ok());
        self.let_go();
        let before = (self.images.clone(), self.named.clone());
        let file = content::name(body);
        let mut body: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        // By all services, or by the one that it names.
        let refused = body.remove("refuse").is_some_and(|by| by == true || by == *self.name);
        let (status, document, id) = if fails {
            (500, None, None)
        } else if self.asks && !head.headers.contains_key(CREDENTIAL) {
            (401, None, None)
        } else if refused {
            (422, Some(json!({ "why": "it asks to be refused" })), None)
        } else if query.starts_with("dryRun=All") {
            // What would be made has an id, and is not there.
            let status = if head.method == Method::POST { 201 } else { 200 };
            let id = format!("{:08x}-0000-4000-8000-000000000000", self.ledger.len());
            let id = self.counter.map_or(Value::from(id), |counter| Value::from(counter.last + 1));
            (status, Some(json!({ "id": id, "name": "dry" })), None)
        } else {
            let asked_for = query.strip_prefix("op=").map(decoded);
            self.change(&head.method, (&path, query), body, file, operation.or(asked_for.as_deref()))
        };
        self.images.values_mut().for_each(tidy);
        let (operation, effect) =
            (operation.map(str::to_owned), before.0 != self.images || before.1 != self.named);
        let what = format!("{} {path}?{query}", head.method);
        self.trace.say(format!(
            "{}: {what} {status} {}",
            self.name,
            operation.as_deref().unwrap_or_default()
        ));
        let about = id.as_deref().or_else(|| path.strip_prefix("/images/")?.split('/').next());
        let image = about.and_then(|about| before.0.get(about).or_else(|| self.images.get(about)));
        let made = image.and_then(|image| image.get("made")).and_then(Value::as_str).map(str::to_owned);
        let method = head.method.to_string();
        let at = Instant::now();
        self.ledger.push(Done { asked, at, method, path, by, operation, id, status, effect, made });
        (status, document)
    }

    fn change(
        &mut self,
        method: &Method,
        (path, query): (&str, &str),
        body: Map<String, Value>,
        file: String,
        operation: Option<&str>,
    ) -> (u16, Option<Value>, Option<String>) {
        let operation = operation.filter(|_| self.probes);
        let mut parts = path.trim_matches('/').split('/');
        let (kind, id, below, key) = (parts.next(), parts.next(), parts.next(), parts.next());
        if let (Some("names"), Some(name), None) = (kind, id, below) {
            return self.by_name(method, name, body);
        }
        if kind != Some("images") {
            return (404, None, None);
        }
        let Some(id) = id else { return self.collection(method, query, body, operation) };
        let shown_id = shown_id(id, self.counter.is_some());
        let Some(image) = self.images.get_mut(id) else { return (404, None, None) };
        match (method.as_str(), below) {
            ("GET" | "HEAD", None) => (200, Some(shown(image)), None),
            ("DELETE", None) if !self.lets_go && image.get("protected") == Some(&Value::Bool(true)) => {
                (403, Some(json!({ "why": "it is protected" })), None)
            }
            ("DELETE", None) => {
                if let Some(ms) = image.get("held").and_then(Value::as_u64) {
                    let until = Instant::now() + Duration::from_millis(ms);
                    self.leaving.entry(id.to_owned()).or_insert(until);
                    (202, None, None)
                } else {
                    self.images.remove(id);
                    (204, None, None)
                }
            }
            ("PUT", None) => {
                let op = image.remove("op");
                *image = whole(body, shown_id);
                if let Some(op) = op {
                    image.extend([("op".to_owned(), op), ("ops".to_owned(), json!({}))]);
                }
                (200, Some(Value::Object(image.clone())), None)
            }
            ("PUT" | "DELETE", Some("labels")) => (set_label(image, method, key), None, None),
            ("GET" | "HEAD", Some("specs")) if key.is_none() => (
                200,
                Some(json!({ "specs": image.get("specs").cloned().unwrap_or_else(|| json!({})) })),
                None,
            ),
            (_, Some("specs")) => (set_specs(image, method, key, body), None, None),
            ("PATCH", None) => {
                image.extend(body.into_iter().filter(|(field, _)| field != "id"));
                (200, Some(Value::Object(image.clone())), None)
            }
            ("POST", Some("add")) => {
                let value = body.get("value").and_then(Value::as_str).unwrap_or_default().to_owned();
                if let Some(Value::Object(adds)) = image.get_mut("adds") {
                    let count = adds.get(&value).and_then(Value::as_u64).unwrap_or(0);
                    adds.insert(value, (count + 1).into());
                }
                if let (Some(operation), Some(Value::Object(ops))) = (operation, image.get_mut("ops")) {
                    ops.insert(operation.to_owned(), true.into());
                }
                (200, Some(Value::Object(image.clone())), None)
            }
            ("GET" | "HEAD", Some("file")) => match image.get("file") {
                Some(file) => (200, Some(file.clone()), None),
                None => (404, None, None),
            },
            ("PUT", Some("file")) => {
                if file == content::DAMAGED {
                    self.damaged.get_or_insert_with(|| format!("{} at {}", path, self.name));
                }
                image.insert("file".to_owned(), file.into());
                (200, Some(Value::Object(image.clone())), None)
            }
            ("DELETE", Some("file")) => {
                image.remove("file");
                (204, None, None)
            }
            _ => (405, None, None),
        }
    }

    /// What was deleted, and is held no more, is gone.
    fn let_go(&mut self) {
        let (now, images) = (Instant::now(), &mut self.images);
        self.leaving.retain(|id, until| {
            let held = *until > now;
            if !held {
                images.remove(id);
            }
            held
        });
    }

    /// What the client names: a PUT makes it, or replaces it.
    fn by_name(
        &mut self,
        method: &Method,
        name: &str,
        body: Map<String, Value>,
    ) -> (u16, Option<Value>, Option<String>) {
        match (method.as_str(), self.named.get(name)) {
            ("PUT", before) => {
                let status = if before.is_some() { 200 } else { 201 };
                self.named.insert(name.to_owned(), body.clone());
                (status, Some(Value::Object(body)), None)
            }
            ("GET" | "HEAD", Some(there)) => (200, Some(Value::Object(there.clone())), None),
            (_, None) => (404, None, None),
            _ => (405, None, None),
        }
    }

    fn collection(
        &mut self,
        method: &Method,
        query: &str,
        body: Map<String, Value>,
        operation: Option<&str>,
    ) -> (u16, Option<Value>, Option<String>) {
        match method.as_str() {
            "GET" => (200, Some(self.page(query, operation)), None),
            "POST" => {
                let id = match &mut self.counter {
                    Some(counter) => {
                        if counter.reuses {
                            let there = self.images.keys().filter_map(|id| id.parse().ok());
                            counter.last = there.max().unwrap_or(0);
                        }
                        counter.last += 1;
                        counter.last.to_string()
                    }
                    None => self.chance.uuid(),
                };
                let mut image = whole(body, shown_id(&id, self.counter.is_some()));
                if let Some(operation) = operation {
                    image.extend([("op".to_owned(), operation.into()), ("ops".to_owned(), json!({}))]);
                }
                self.images.insert(id.clone(), image.clone());
                (201, Some(Value::Object(image)), Some(id))
            }
            _ => (405, None, None),
        }
    }
}

impl State {
    /// So many images as are asked for, after one of them, and where there are more.
    fn page(&self, query: &str, operation: Option<&str>) -> Value {
        let parameter = |name: &str| query.split('&').find_map(|pair| pair.strip_prefix(name));
        let limit = parameter("limit=").and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        let after = parameter("marker=").unwrap_or_default();
        let made_by = |image: &Map<String, Value>| {
            operation.is_none_or(|name| image.get("op").and_then(Value::as_str) == Some(name))
        };
        // Of two numbers, the shorter one is less; UUIDs are of one length.
        let place = |id: &str| (id.len(), id.to_owned());
        let mut images: Vec<_> = self.images.iter().filter(|(_, image)| made_by(image)).collect();
        images.sort_by_key(|(id, _)| place(id));
        let mut left = images.into_iter().filter(|(id, _)| place(id) > place(after));
        let page: Vec<(&String, Value)> =
            left.by_ref().take(limit).map(|(id, image)| (id, Value::Object(image.clone()))).collect();
        let next = page.last().filter(|_| left.next().is_some());
        let next = next.map(|(id, _)| format!("/images?limit={limit}&marker={id}"));
        let images: Vec<&Value> = page.iter().map(|(_, image)| image).collect();
        match next {
            Some(next) => json!({ "images": images, "next": next }),
            None => json!({ "images": images }),
        }
    }
}

/// Labels are written one by one, and are the member `tags` of the image: a set. One that is not there cannot be taken away.
fn set_label(image: &mut Map<String, Value>, method: &Method, label: Option<&str>) -> u16 {
    let Some(label) = label else { return 405 };
    let tags = image.get("tags").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut tags: BTreeSet<String> = tags.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    if method == Method::PUT {
        tags.insert(label.to_owned());
    } else if !tags.remove(label) {
        return 404;
    }
    image.insert("tags".to_owned(), tags.into_iter().collect());
    204
}

/// Specifications are a map beside the document, which does not show them: written one by one, or some at once.
fn set_specs(
    image: &mut Map<String, Value>,
    method: &Method,
    name: Option<&str>,
    mut body: Map<String, Value>,
) -> u16 {
    let mut specs = image.get("specs").and_then(Value::as_object).cloned().unwrap_or_default();
    match (method.as_str(), name) {
        ("PUT", Some(name)) => {
            let Some(value) = body.remove(name) else { return 400 };
            specs.insert(name.to_owned(), value);
        }
        ("DELETE", Some(name)) if specs.remove(name).is_none() => return 404,
        ("DELETE", Some(_)) => {}
        ("POST", None) => {
            let Some(Value::Object(set)) = body.remove("specs") else { return 400 };
            specs.extend(set);
        }
        _ => return 405,
    }
    image.insert("specs".to_owned(), specs.into());
    200
}

/// No tags are as none at all, and so are specifications.
fn tidy(image: &mut Map<String, Value>) {
    let empty = |value: &Value| {
        value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
    };
    for name in ["tags", "specs"] {
        if image.get(name).is_some_and(empty) {
            image.remove(name);
        }
    }
}

/// An image as clients see it.
fn shown(image: &Map<String, Value>) -> Value {
    let mut image = image.clone();
    image.remove("specs");
    Value::Object(image)
}

/// A text without its percent-encoding.
fn decoded(text: &str) -> String {
    let mut parts = text.split('%');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        plain.extend(byte.map(char::from));
        plain.push_str(part.get(2..).unwrap_or_default());
    }
    plain
}

/// An id as documents show it: a number, where the service counts.
fn shown_id(id: &str, counts: bool) -> Value {
    let number = counts.then(|| id.parse::<u64>().ok()).flatten();
    number.map_or_else(|| Value::from(id), Value::from)
}

/// An image of these fields. What was added to it is counted: whatever the order, it looks the same.
fn whole(mut fields: Map<String, Value>, id: Value) -> Map<String, Value> {
    fields.insert("id".to_owned(), id);
    fields.entry("adds").or_insert_with(|| json!({}));
    fields
}

/// A stream that can say everything twice.
struct Stutter {
    wire: Wire,
    twice: Arc<AtomicBool>,
}

impl AsyncRead for Stutter {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stutter {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.twice.swap(false, Ordering::Relaxed) {
            let _ = Pin::new(&mut self.wire).poll_write(context, bytes)?;
        }
        Pin::new(&mut self.wire).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.wire).poll_shutdown(context)
    }
}
