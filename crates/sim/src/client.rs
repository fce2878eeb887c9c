//! Clients: one request on a connection of its own, and what came of it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use crate::content;
use crate::isle::PUBLIC;
use crate::network::Network;
use crate::world::{client_host, mesh_host};

/// What services and clients say that a file is.
pub const FILE: &str = "application/octet-stream";

/// What shows on whose behalf a request is, where services ask for that.
pub const CREDENTIAL: &str = "x-auth-token";

/// How long a client waits for its answer.
const PATIENCE: Duration = Duration::from_secs(40);

/// What a client asks for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Of which site.
    pub site: usize,
    /// `POST`, …
    pub method: &'static str,
    /// The path with its query.
    pub path: String,
    /// The scope, or nothing.
    pub scope: String,
    /// What it sends.
    pub body: Sent,
    /// It shows a credential.
    pub token: bool,
}

/// What a client sends.
#[derive(Clone, Debug)]
pub enum Sent {
    /// No body.
    Nothing,
    /// A document.
    Document(Value),
    /// A file. The client may be gone before all of it has left.
    File {
        /// What is in it.
        bytes: Bytes,
        /// After so many of these.
        breaks_off: Option<usize>,
    },
}

/// What a client was told.
#[derive(Clone, Debug)]
pub struct Told {
    /// When it asked, and when it was told.
    pub from: Instant,
    /// See there.
    pub to: Instant,
    /// What it makes of it.
    pub verdict: Verdict,
    /// The status; 0 without an answer.
    pub status: u16,
    /// The last part of a problem's type.
    pub problem: Option<String>,
    /// `Scope-Sites`, as it came.
    pub sites: String,
    /// `Scope-Operation`, or the address in a problem.
    pub operation: Option<String>,
    /// The document; of a file, its name.
    pub body: Value,
}

/// What a client may conclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was done.
    Done,
    /// It was not, and never will be.
    Refused,
    /// Nobody knows.
    Unknown,
}

impl Sent {
    fn breaks_off(&self) -> bool {
        matches!(self, Sent::File { breaks_off: Some(_), .. })
    }
}

/// Asks, and waits for what comes of it.
pub async fn ask(network: &Network, asked: &Asked) -> Told {
    let from = Instant::now();
    let answer = timeout(PATIENCE, exchange(network, asked)).await;
    let to = Instant::now();
    let nothing = |verdict| Told {
        from,
        to,
        verdict,
        status: 0,
        problem: None,
        sites: String::new(),
        operation: None,
        body: Value::Null,
    };
    match answer {
        // Nobody listens there: no byte of it has left.
        Ok(Err(Unasked::NotSent)) => nothing(Verdict::Refused),
        // What did not come as a whole is not executed.
        Ok(Err(Unasked::Lost)) | Err(_) if asked.body.breaks_off() => nothing(Verdict::Refused),
        Ok(Err(Unasked::Lost)) | Err(_) => nothing(Verdict::Unknown),
        Ok(Ok(response)) => {
            let (head, body) = response.into_parts();
            let is_file = head.headers.get("content-type").is_some_and(|kind| kind == FILE);
            let document = || serde_json::from_slice(&body).unwrap_or(Value::Null);
            let body: Value = if is_file { content::name(&body).into() } else { document() };
            let status = head.status.as_u16();
            let problem = body.get("type").and_then(Value::as_str);
            let problem = problem.and_then(|kind| kind.strip_prefix("urn:archipel:")).map(str::to_owned);
            let sites = head.headers.get("scope-sites").and_then(|sites| sites.to_str().ok());
            let sites = sites.unwrap_or_default().to_owned();
            let operation = head.headers.get("scope-operation").and_then(|operation| operation.to_str().ok());
            let operation = operation.or_else(|| body.get("operation").and_then(Value::as_str));
            let operation = operation.map(str::to_owned);
            let verdict = match problem.as_deref() {
                // Of a write that says that no site executed it; of a read, nothing.
                Some("no-site-answered") if asked.method != "GET" => Verdict::Refused,
                problem => verdict(status, problem),
            };
            Told { from, to, verdict, status, problem, sites, operation, body }
        }
    }
}

/// What an answer to a write says: docs/requests.md.
fn verdict(status: u16, problem: Option<&str>) -> Verdict {
    match (status, problem) {
        (200..=299, _) => Verdict::Done,
        (_, Some("unknown-outcome" | "timeout" | "no-answer" | "missing-answer" | "no-site-answered")) => {
            Verdict::Unknown
        }
        (400..=499, _) | (501 | 503 | 507, Some(_)) => Verdict::Refused,
        // A service's own 5xx proves nothing.
        _ => Verdict::Unknown,
    }
}

enum Unasked {
    NotSent,
    Lost,
}

async fn exchange(network: &Network, asked: &Asked) -> Result<Response<Bytes>, Unasked> {
    let to = SocketAddr::new(mesh_host(asked.site), PUBLIC);
    let wire = network.connect(client_host(asked.site), to).await.map_err(|_| Unasked::NotSent)?;
    let lost = |_: hyper::Error| Unasked::Lost;
    let (mut sender, connection) = http1::handshake(TokioIo::new(wire)).await.map_err(lost)?;
    let driving = spawn_local(async move { drop(connection.await) });
    let mut request = Request::builder().method(asked.method).uri(&asked.path).header("host", "image");
    if asked.token {
        request = request.header(CREDENTIAL, "client");
    }
    if !asked.scope.is_empty() {
        request = request.header("x-scope", format!("image: {}", asked.scope));
    }
    let (body, kind) = match &asked.body {
        Sent::Nothing => (Outgoing::of(&Bytes::new(), None), None),
        Sent::Document(document) => {
            (Outgoing::of(&document.to_string().into(), None), Some("application/json"))
        }
        Sent::File { bytes, breaks_off } => (Outgoing::of(bytes, *breaks_off), Some(FILE)),
    };
    if let Some(kind) = kind {
        request = request.header("content-type", kind);
    }
    let request = request.body(body).map_err(|_| Unasked::NotSent)?;
    let response = sender.send_request(request).await.map_err(lost)?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    driving.abort();
    Ok(Response::from_parts(head, body))
}

/// A body that ends where it should, or says that it is longer and breaks off.
struct Outgoing {
    left: Bytes,
    length: u64,
}

impl Outgoing {
    fn of(bytes: &Bytes, breaks_off: Option<usize>) -> Outgoing {
        let left = breaks_off.map_or_else(|| bytes.clone(), |end| bytes.slice(..end.min(bytes.len())));
        Outgoing { left, length: bytes.len() as u64 }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if self.left.is_empty() {
            let missing = self.length > 0;
            return Poll::Ready(missing.then(|| Err(std::io::ErrorKind::BrokenPipe.into())));
        }
        let left = std::mem::take(&mut self.left);
        self.length -= left.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(left))))
    }

    fn is_end_stream(&self) -> bool {
        self.length == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.length)
    }
}
