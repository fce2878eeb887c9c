//! The `compute` service: servers, each made from an image that another service has.
//!
//! ```text
//! POST   /servers        {"name", "image"}   201, once the image's file was read from `image`
//! GET    /servers                            {"servers": […]}, oldest first
//! GET    /servers/{id}                       {"id", "name", "image", "digest", "size", "status"}
//! DELETE /servers/{id}                       204
//! ```

mod fetch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::http::uri::{Authority, Scheme, Uri};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::counts::{Counts, Write};
use crate::http::{Answer, Body, Refusal, created, json_answer, name_in, no_content, read_json, string_in};
use crate::id::Id;
use crate::server::{App, Common};
use crate::trace;
use fetch::Fetched;

/// How a `compute` service is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What answers carry as `X-Served-By`, such as `compute@Site1`.
    pub label: Option<String>,
    /// How long reading an image may take, from the connection to its last byte.
    pub image_timeout: Duration,
    /// How many servers there may be.
    pub max_servers: usize,
    authority: Authority,
    /// What comes before `/images`: nothing, or a path without a slash at its end.
    prefix: String,
}

impl Settings {
    /// The usual settings, with the address of `image`: `http://host:port`, and a path if it has one.
    pub fn new(image_url: &str) -> Result<Settings, BadUrl> {
        let bad = || BadUrl(image_url.into());
        let url: Uri = image_url.parse().map_err(|_| bad())?;
        let authority = url.authority().filter(|_| url.scheme() == Some(&Scheme::HTTP)).ok_or_else(bad)?;
        Ok(Settings {
            label: None,
            image_timeout: Duration::from_mins(1),
            max_servers: 100_000,
            authority: authority.clone(),
            prefix: url.path().trim_end_matches('/').into(),
        })
    }
}

/// The address of `image` is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadUrl(String);

impl fmt::Display for BadUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is not the address of a service: write `http://host:port`", self.0)
    }
}

impl std::error::Error for BadUrl {}

/// A `compute` service. Clones are the same service.
#[derive(Clone, Debug)]
pub struct Compute(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    common: Common,
    settings: Settings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    servers: BTreeMap<Id, Server>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Server {
    name: String,
    image: String,
    file: Fetched,
    /// The order of creation.
    sequence: u64,
}

impl Compute {
    /// A service without servers.
    #[must_use]
    pub fn new(settings: Settings) -> Compute {
        let common = Common::new(settings.label.as_deref());
        Compute(Arc::new(Inner { common, settings, state: Mutex::default() }))
    }

    /// What was executed.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        self.0.common.counts()
    }

    async fn route(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match (segments.as_slice(), request.method().clone()) {
            (["servers"], Method::GET | Method::HEAD) => Ok(self.list()),
            (["servers"], Method::POST) => self.create(request).await,
            (["servers"], _) => Err(Refusal::not_allowed("GET, HEAD, POST")),
            (["servers", id], Method::GET | Method::HEAD) => self.show(id),
            (["servers", id], Method::DELETE) => self.delete(id),
            (["servers", _], _) => Err(Refusal::not_allowed("GET, HEAD, DELETE")),
            _ => Err(Refusal::not_found(&path)),
        }
    }

    fn list(&self) -> Response<Body> {
        let state = self.lock();
        let mut all: Vec<_> = state.servers.iter().collect();
        all.sort_by_key(|(_, server)| server.sequence);
        let all: Vec<Value> = all.into_iter().map(|(id, server)| server.show(*id)).collect();
        json_answer(StatusCode::OK, &json!({ "servers": all }))
    }

    async fn create(&self, request: Request<Incoming>) -> Answer {
        let context = trace::Context::of(request.headers());
        let document = read_json(request).await?;
        let name = name_in(&document)?;
        let image = image_in(&document)?;
        let full =
            || Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "there are as many servers as there may be");
        // Asked before the image is read, because reading it may be long, and again after.
        if self.lock().servers.len() >= self.0.settings.max_servers {
            return Err(full());
        }
        let file = fetch::image(&self.0.settings, image, &context).await?;
        let mut state = self.lock();
        if state.servers.len() >= self.0.settings.max_servers {
            return Err(full());
        }
        let id = Id::random();
        let sequence = state.next_sequence;
        state.next_sequence += 1;
        let server = Server { name: name.into(), image: image.into(), file, sequence };
        let shown = server.show(id);
        state.servers.insert(id, server);
        self.counts().write(Write::Create, name);
        Ok(created(&format!("/servers/{id}"), &shown))
    }

    fn show(&self, id: &str) -> Answer {
        let shown = Id::parse(id)
            .and_then(|id| self.lock().servers.get(&id).map(|server| server.show(id)))
            .ok_or_else(|| no_server(id))?;
        Ok(json_answer(StatusCode::OK, &shown))
    }

    fn delete(&self, id: &str) -> Answer {
        let removed =
            Id::parse(id).and_then(|id| self.lock().servers.remove(&id)).ok_or_else(|| no_server(id))?;
        self.counts().write(Write::Delete, &removed.name);
        Ok(no_content())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl App for Compute {
    fn common(&self) -> &Common {
        &self.0.common
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.route(request).await.unwrap_or_else(Refusal::into_response)
    }
}

impl Server {
    fn show(&self, id: Id) -> Value {
        json!({
            "id": id.to_string(),
            "name": self.name,
            "image": self.image,
            "digest": self.file.digest,
            "size": self.file.size_bytes,
            "status": "ACTIVE",
        })
    }
}

fn no_server(id: &str) -> Refusal {
    Refusal::not_found(&format!("server {id}"))
}

/// The `image` of a new server. It becomes part of a path, so it must be able to stand in one; what an
/// id looks like is the business of the service that gives it.
fn image_in(document: &Value) -> Result<&str, Refusal> {
    let image = string_in(document, "image")?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:@".contains(&byte);
    let dots = image.bytes().all(|byte| byte == b'.');
    if image.len() > 255 || dots || !image.bytes().all(plain) {
        return Err(Refusal::bad_request("`image` is not the id of an image"));
    }
    Ok(image)
}
