//! Clients: one request on a connection of its own, and what came of it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::task::spawn_local;
use tokio::time::{Instant, timeout};

use crate::isle::PUBLIC;
use crate::network::Network;
use crate::world::{client_host, mesh_host};

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
    /// A document, or nothing.
    pub body: Option<Value>,
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
    /// The document.
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
        body: Value::Null,
    };
    match answer {
        // Nobody listens there: no byte of it has left.
        Ok(Err(Unasked::NotSent)) => nothing(Verdict::Refused),
        Ok(Err(Unasked::Lost)) | Err(_) => nothing(Verdict::Unknown),
        Ok(Ok(response)) => {
            let (head, body) = response.into_parts();
            let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
            let status = head.status.as_u16();
            let problem = body.get("type").and_then(Value::as_str);
            let problem = problem.and_then(|kind| kind.strip_prefix("urn:archipel:")).map(str::to_owned);
            let sites = head.headers.get("scope-sites").and_then(|sites| sites.to_str().ok());
            let sites = sites.unwrap_or_default().to_owned();
            let verdict = verdict(status, problem.as_deref());
            Told { from, to, verdict, status, problem, sites, body }
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
    if !asked.scope.is_empty() {
        request = request.header("x-scope", format!("image: {}", asked.scope));
    }
    let body = asked.body.as_ref().map(Value::to_string).unwrap_or_default();
    if asked.body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = request.body(Full::new(Bytes::from(body))).map_err(|_| Unasked::NotSent)?;
    let response = sender.send_request(request).await.map_err(lost)?;
    let (head, body) = response.into_parts();
    let body = body.collect().await.map_err(lost)?.to_bytes();
    driving.abort();
    Ok(Response::from_parts(head, body))
}
