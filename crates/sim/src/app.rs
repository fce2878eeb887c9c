//! The application: images with ids that the service chooses. It writes down all that it executed, and can be ill.

use std::cell::RefCell;
use std::collections::BTreeMap;
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
use crate::client::FILE;
use crate::content;
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
}

/// A site's service. It survives its mesh; cheap to clone.
#[derive(Clone)]
pub struct App(Rc<RefCell<State>>);

struct State {
    name: String,
    images: BTreeMap<String, Map<String, Value>>,
    ledger: Vec<Done>,
    mood: Mood,
    chance: Chance,
    trace: Trace,
    /// Since when it is well.
    well: Option<Instant>,
    /// The first file that nobody sent so.
    damaged: Option<String>,
}

/// All that a service has.
pub type Images = BTreeMap<String, Map<String, Value>>;

impl App {
    /// A service with nothing in it.
    #[must_use]
    pub fn new(name: &str, chance: Chance, trace: &Trace) -> App {
        App(Rc::new(RefCell::new(State {
            name: name.to_owned(),
            images: BTreeMap::new(),
            ledger: Vec::new(),
            mood: Mood::default(),
            chance,
            trace: trace.clone(),
            well: Some(Instant::now()),
            damaged: None,
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
        self.0.borrow().images.clone()
    }

    /// It is given what it had at some time.
    pub fn restore(&self, images: Images) {
        self.0.borrow_mut().images = images;
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
        if own || request.headers().contains_key("scope-operation") {
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
        let (mood, slow) = {
            let mut state = self.0.borrow_mut();
            let mood = state.mood;
            let slow = state.chance.percent(mood.slow).then(|| state.chance.between(500, 14_000));
            (mood, slow)
        };
        if let Some(slow) = slow {
            sleep(Duration::from_millis(slow)).await;
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
        let before = self.images.clone();
        let file = content::name(body);
        let mut body: Map<String, Value> = serde_json::from_slice(body).unwrap_or_default();
        // By all services, or by the one that it names.
        let refused = body.remove("refuse").is_some_and(|by| by == true || by == *self.name);
        let (status, document, id) = if fails {
            (500, None, None)
        } else if refused {
            (422, Some(json!({ "why": "it asks to be refused" })), None)
        } else {
            self.change(&head.method, &path, body, file)
        };
        let (operation, effect) = (operation.map(str::to_owned), before != self.images);
        let what = format!("{} {path}?{query}", head.method);
        self.trace.say(format!(
            "{}: {what} {status} {}",
            self.name,
            operation.as_deref().unwrap_or_default()
        ));
        let method = head.method.to_string();
        let at = Instant::now();
        self.ledger.push(Done { asked, at, method, path, by, operation, id, status, effect });
        (status, document)
    }

    fn change(
        &mut self,
        method: &Method,
        path: &str,
        body: Map<String, Value>,
        file: String,
    ) -> (u16, Option<Value>, Option<String>) {
        let mut parts = path.trim_matches('/').split('/');
        let (kind, id, below) = (parts.next(), parts.next(), parts.next());
        if kind != Some("images") {
            return (404, None, None);
        }
        let Some(id) = id else { return self.collection(method, body) };
        let Some(image) = self.images.get_mut(id) else { return (404, None, None) };
        match (method.as_str(), below) {
            ("GET" | "HEAD", None) => (200, Some(Value::Object(image.clone())), None),
            ("DELETE", None) => {
                self.images.remove(id);
                (204, None, None)
            }
            ("PUT", None) => {
                *image = whole(body, id);
                (200, Some(Value::Object(image.clone())), None)
            }
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

    fn collection(
        &mut self,
        method: &Method,
        body: Map<String, Value>,
    ) -> (u16, Option<Value>, Option<String>) {
        match method.as_str() {
            "GET" => {
                let images: Vec<_> = self.images.values().cloned().map(Value::Object).collect();
                (200, Some(json!({ "images": images })), None)
            }
            "POST" => {
                let id = self.chance.uuid();
                let image = whole(body, &id);
                self.images.insert(id.clone(), image.clone());
                (201, Some(Value::Object(image)), Some(id))
            }
            _ => (405, None, None),
        }
    }
}

/// An image of these fields. What was added to it is counted: whatever the order, it looks the same.
fn whole(mut fields: Map<String, Value>, id: &str) -> Map<String, Value> {
    fields.insert("id".to_owned(), id.into());
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
