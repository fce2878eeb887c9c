//! The admin socket: HTTP over a Unix socket in the state directory. Every command that changes or asks a
//! running archipel goes through it; `docs/admin.md` is its reference.

mod api;
mod replicas;
mod settling;

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Weak;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mesh::Mesh;
use scope::Site;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio::task::LocalSet;

use crate::members::Members;
use api::Answer;

/// A question or an order is short.
const LONGEST: usize = 64 << 10;

/// Where it is.
#[must_use]
pub fn path(state: &Path) -> PathBuf {
    state.join("admin.sock")
}

/// Listens, over the socket of a process that is gone, but never over one that is there. The directory is
/// made if it is not there.
pub async fn listen(state: &Path) -> io::Result<UnixListener> {
    let path = path(state);
    let shown = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot use the state directory `{}`: {error}", state.display()))
    };
    // For nobody else: between binding and the change of its mode, the socket would be open to all.
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(shown)?;
    if UnixStream::connect(&path).await.is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another archipel runs with this state directory",
        ));
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(shown(error)),
        _ => {}
    }
    let listener = UnixListener::bind(&path).map_err(shown)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// What the socket speaks for.
#[derive(Clone)]
pub struct Admin {
    /// This site.
    pub site: Site,
    /// Its data plane. Only borrowed, and never across a wait: a connection that somebody leaves open must
    /// not keep it from being drained.
    pub mesh: Weak<Mesh>,
    /// The sites that it knows.
    pub members: Members,
}

/// Answers until dropped.
pub async fn serve(listener: UnixListener, admin: Admin) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files, most likely: that is no time to stop listening to the operator.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let admin = admin.clone();
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| {
                let admin = admin.clone();
                async move { Ok::<_, Infallible>(answer(request, &admin).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

/// An admin socket that is served by a thread of its own.
pub struct Serving {
    stop: oneshot::Sender<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Serving {
    /// Listens in this state directory, and answers.
    pub fn start(state: &Path, admin: Admin) -> io::Result<Serving> {
        let (stop, stopped) = oneshot::channel();
        let state = state.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(listen(&state))?;
        let thread = std::thread::Builder::new().name("admin".to_owned()).spawn(move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = serve(listener, admin) => {}
                    _ = stopped => {}
                }
            });
            let _ = std::fs::remove_file(path(&state));
        })?;
        Ok(Serving { stop, thread })
    }

    /// Ends it.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

async fn answer(request: Request<Incoming>, admin: &Admin) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let answer = match Limited::new(body, LONGEST).collect().await.map(Collected::to_bytes) {
        Ok(body) => api::answer(&head.method, head.uri.path(), &body, admin).await,
        Err(error) => Answer::refused(StatusCode::BAD_REQUEST, error.to_string()),
    };
    let (status, kind, body) = match answer {
        Answer::Document(status, document) => (status, "application/json", document.to_string()),
        Answer::Text(text) => (StatusCode::OK, "text/plain; version=0.0.4", text),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Asks the process that runs with this state directory.
pub async fn ask(state: &Path, method: Method, path: &str, body: Option<Value>) -> Result<Value, String> {
    let socket = self::path(state);
    let stream = UnixStream::connect(&socket).await.map_err(|error| {
        format!(
            "no archipel answers at `{}`: {error}\nhelp: is it running, with this state directory?",
            socket.display()
        )
    })?;
    let failed = |error: &dyn std::fmt::Display| format!("the running archipel did not answer: {error}");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
    tokio::task::spawn_local(async move {
        let _ = connection.await;
    });
    let body = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
    let request = Request::builder().method(method).uri(path).header("host", "admin").body(Full::new(body));
    let response = sender
        .send_request(request.map_err(|error| failed(&error))?)
        .await
        .map_err(|error| failed(&error))?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| failed(&error))?.to_bytes();
    let answer: Value = serde_json::from_slice(&body).map_err(|error| failed(&error))?;
    if status.is_success() {
        return Ok(answer);
    }
    Err(answer.get("title").and_then(Value::as_str).map_or_else(|| failed(&answer), str::to_owned))
}
