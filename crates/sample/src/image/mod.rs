//! The `image` service: named blobs.
//!
//! ```text
//! POST   /images              {"name"}   201, the image; its id is chosen here, or is the `id` in the body: 409 if
//!                                        there is one
//! GET    /images                         {"images": […]}, oldest first; with `?limit=` and `&marker=`, an
//!                                        image's id, a page of them, and where the `next` is
//! GET    /images/{id}                    {"id", "name", "size", "digest", "status", "created_at"}
//! PUT    /images/{id}         {"name"}   changes it; makes it, with that id, if there is none
//! PATCH  /images/{id}         {"name"}   changes it
//! DELETE /images/{id}                    204
//! PUT    /images/{id}/file    bytes      replaces its content; 413 if there is no memory for it
//! GET    /images/{id}/file               its content
//! ```
//!
//! An image is `queued`, with no size and no digest, until it has a file; then it is `active`.

mod blob;
mod store;

use std::sync::Arc;

use http_body::Body as _;
use http_body_util::{BodyExt as _, Either};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;

pub use blob::Blob;

use crate::counts::{Counts, Write};
use crate::http::{Answer, Body, Refusal, created, discard, json_answer, name_in, no_content, read_json};
use crate::id::Id;
use crate::server::{App, Common};
use blob::{Budget, Writer};
use store::{Missing, Put, Store};

/// How an `image` service is set up.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What answers carry as `X-Served-By`, such as `image@Site1`.
    pub label: Option<String>,
    /// Memory for all images together, with those being sent and received.
    pub memory_bytes: usize,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { label: None, memory_bytes: 256 * 1024 * 1024 }
    }
}

/// An `image` service. Clones are the same service.
#[derive(Clone, Debug)]
pub struct Image(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    common: Common,
    budget: Budget,
    store: Store,
}

impl Image {
    /// A service without images.
    #[must_use]
    pub fn new(settings: &Settings) -> Image {
        Image(Arc::new(Inner {
            common: Common::new(settings.label.as_deref()),
            budget: Budget::new(settings.memory_bytes),
            store: Store::default(),
        }))
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
            (["images"], Method::GET | Method::HEAD) => self.list(request.uri().query().unwrap_or_default()),
            (["images"], Method::POST) => self.create(request).await,
            (["images"], _) => Err(Refusal::not_allowed("GET, HEAD, POST")),
            (["images", id], Method::PUT) => self.put(id, request).await,
            (["images", id], Method::GET | Method::HEAD) => self.show(known(id)?),
            (["images", id], Method::PATCH) => self.patch(known(id)?, request).await,
            (["images", id], Method::DELETE) => self.delete(known(id)?),
            (["images", _], _) => Err(Refusal::not_allowed("GET, HEAD, PUT, PATCH, DELETE")),
            (["images", id, "file"], Method::PUT) => self.upload(known(id)?, request).await,
            (["images", id, "file"], Method::GET | Method::HEAD) => self.download(known(id)?),
            (["images", _, "file"], _) => Err(Refusal::not_allowed("GET, HEAD, PUT")),
            _ => Err(Refusal::not_found(&path)),
        }
    }

    fn list(&self, query: &str) -> Answer {
        let mut limit = usize::MAX;
        let mut marker = None;
        for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')) {
            let bad = || Refusal::bad_request(format!("`{name}` cannot be `{value}`"));
            match name {
                "limit" => limit = value.parse().ok().filter(|limit| *limit > 0).ok_or_else(bad)?,
                "marker" => marker = Some(Id::parse(value).ok_or_else(bad)?),
                _ => {}
            }
        }
        let gone = || Refusal::bad_request("there is no image with the id that is the marker");
        let (images, last) = self.0.store.list(marker, limit).ok_or_else(gone)?;
        let document = match last {
            None => json!({ "images": images }),
            Some(last) => {
                json!({ "images": images, "next": format!("/images?limit={limit}&marker={last}") })
            }
        };
        Ok(json_answer(StatusCode::OK, &document))
    }

    async fn create(&self, request: Request<Incoming>) -> Answer {
        let document = read_json(request).await?;
        let id = match document.get("id").and_then(serde_json::Value::as_str) {
            None => Id::random(),
            Some(text) => {
                let bad = || Refusal::bad_request(format!("the id `{text}` is not a UUID"));
                let id = Id::parse(text).ok_or_else(bad)?;
                if self.0.store.show(id).is_some() {
                    return Err(Refusal::new(StatusCode::CONFLICT, format!("there is an image {id}")));
                }
                id
            }
        };
        self.store(id, name_in(&document)?)
    }

    async fn put(&self, id: &str, request: Request<Incoming>) -> Answer {
        let id = Id::parse(id).ok_or_else(|| Refusal::bad_request(format!("the id `{id}` is not a UUID")))?;
        let document = read_json(request).await?;
        self.store(id, name_in(&document)?)
    }

    fn store(&self, id: Id, name: &str) -> Answer {
        let put = self.0.store.put(id, name, || self.0.budget.record()).ok_or_else(|| {
            Refusal::new(StatusCode::INSUFFICIENT_STORAGE, "there is no memory for another image")
        })?;
        Ok(match put {
            Put::Created(image) => {
                self.counts().write(Write::Create, name);
                created(&format!("/images/{id}"), &image)
            }
            Put::Renamed(image) => {
                self.counts().write(Write::Update, name);
                json_answer(StatusCode::OK, &image)
            }
        })
    }

    async fn patch(&self, id: Id, request: Request<Incoming>) -> Answer {
        let document = read_json(request).await?;
        let name = name_in(&document)?;
        let image = self.0.store.rename(id, name).ok_or_else(|| no_image(id))?;
        self.counts().write(Write::Update, name);
        Ok(json_answer(StatusCode::OK, &image))
    }

    fn show(&self, id: Id) -> Answer {
        let image = self.0.store.show(id).ok_or_else(|| no_image(id))?;
        Ok(json_answer(StatusCode::OK, &image))
    }

    fn delete(&self, id: Id) -> Answer {
        let name = self.0.store.remove(id).ok_or_else(|| no_image(id))?;
        self.counts().write(Write::Delete, &name);
        Ok(no_content())
    }

    async fn upload(&self, id: Id, request: Request<Incoming>) -> Answer {
        self.0.store.show(id).ok_or_else(|| no_image(id))?;
        let (head, mut body) = request.into_parts();
        let blob = match self.receive(&mut body).await {
            Ok(blob) => blob,
            Err(refusal) => {
                discard(&head.headers, &mut body).await;
                return Err(refusal);
            }
        };
        // The image may have been deleted while its file came in: then the file goes too.
        let (name, image) = self.0.store.fill(id, blob).ok_or_else(|| no_image(id))?;
        self.counts().write(Write::Upload, &name);
        Ok(json_answer(StatusCode::OK, &image))
    }

    async fn receive(&self, body: &mut Incoming) -> Result<Blob, Refusal> {
        let full = || Refusal::too_large("there is no memory for this file; delete images, or send less");
        // A length that was declared is refused before a byte is stored.
        let declared = usize::try_from(body.size_hint().lower()).map_err(|_| full())?;
        let mut writer = Writer::new(&self.0.budget, declared).ok_or_else(full)?;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                Refusal::bad_request(format!("the file ended early, and was not stored: {error}"))
            })?;
            if let Some(bytes) = frame.data_ref() {
                writer.write(bytes).ok_or_else(full)?;
            }
        }
        Ok(writer.finish())
    }

    fn download(&self, id: Id) -> Answer {
        let file = self.0.store.file(id).map_err(|missing| match missing {
            Missing::Image => no_image(id),
            Missing::File => {
                Refusal::new(StatusCode::CONFLICT, format!("image {id} has no file yet; PUT one first"))
            }
        })?;
        let mut response = Response::new(Either::Right(file));
        let content_type = HeaderValue::from_static("application/octet-stream");
        response.headers_mut().insert(CONTENT_TYPE, content_type);
        Ok(response)
    }
}

impl App for Image {
    fn common(&self) -> &Common {
        &self.0.common
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.route(request).await.unwrap_or_else(Refusal::into_response)
    }
}

/// Reads the id of an image that should exist: none exists under what is not a UUID.
fn known(id: &str) -> Result<Id, Refusal> {
    Id::parse(id).ok_or_else(|| Refusal::not_found(&format!("image {id}")))
}

fn no_image(id: Id) -> Refusal {
    Refusal::not_found(&format!("image {id}"))
}
