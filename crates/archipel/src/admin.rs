//! The admin socket: HTTP over a Unix socket in the state directory, for `archipel bypass` and `status`.

use std::convert::Infallible;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Weak;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Collected, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use mesh::Mesh;
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};

/// A question or an order is short.
const LONGEST: usize = 64 << 10;

/// Where it is.
#[must_use]
pub fn path(state: &Path) -> PathBuf {
    state.join("admin.sock")
}

/// Listens, over the socket of a process that is gone, but never over one that is there.
pub async fn listen(state: &Path) -> io::Result<UnixListener> {
    let path = path(state);
    if UnixStream::connect(&path).await.is_ok() {
        return Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another archipel runs with this state directory",
        ));
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Answers until dropped. The mesh is only borrowed, and never across a wait: a connection that somebody
/// leaves open must not keep it from being drained.
pub async fn serve(listener: UnixListener, site: String, mesh: Weak<Mesh>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of files, most likely: that is no time to stop listening to the operator.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        let (site, mesh) = (site.clone(), Weak::clone(&mesh));
        tokio::task::spawn_local(async move {
            let service = service_fn(|request| {
                let (site, mesh) = (site.clone(), Weak::clone(&mesh));
                async move { Ok::<_, Infallible>(answer(request, &site, &mesh).await) }
            });
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(request: Request<Incoming>, site: &str, mesh: &Weak<Mesh>) -> Response<Full<Bytes>> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, LONGEST).collect().await.map(Collected::to_bytes);
    let (status, document) = match (body, mesh.upgrade()) {
        (Ok(body), Some(mesh)) => obey(&head.method, head.uri.path(), &body, site, &mesh),
        (Err(error), _) => (StatusCode::BAD_REQUEST, json!({ "title": error.to_string() })),
        (_, None) => (StatusCode::SERVICE_UNAVAILABLE, json!({ "title": "it is stopping" })),
    };
    let mut response = Response::new(Full::new(Bytes::from(document.to_string())));
    *response.status_mut() = status;
    response
}

fn obey(method: &Method, path: &str, body: &[u8], site: &str, mesh: &Mesh) -> (StatusCode, Value) {
    match (method, path) {
        (&Method::GET, "/v1/status") => (StatusCode::OK, status(site, mesh)),
        (&Method::PUT, "/v1/bypass") => {
            let order = serde_json::from_slice::<Value>(body).ok();
            let Some(on) = order.and_then(|order| order.get("on")?.as_bool()) else {
                let title = "send {\"on\": true} or {\"on\": false}";
                return (StatusCode::BAD_REQUEST, json!({ "title": title }));
            };
            mesh.set_bypass(on);
            (StatusCode::OK, status(site, mesh))
        }
        _ => (StatusCode::NOT_FOUND, json!({ "title": "there is /v1/status and /v1/bypass" })),
    }
}

fn status(site: &str, mesh: &Mesh) -> Value {
    let (attributed, unattributed) = mesh.observed();
    json!({
        "site": site,
        "bypass": mesh.bypass(),
        "in_flight": mesh.in_flight(),
        "observed": { "attributed": attributed, "unattributed": unattributed },
    })
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
    if status.is_success() { Ok(answer) } else { Err(failed(&answer)) }
}
