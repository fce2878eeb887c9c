//! One HTTP request on a connection of its own, and its outcome.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A request without its address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Call {
    /// `POST`, …
    pub(crate) method: &'static str,
    /// The path with its query.
    pub(crate) path: String,
    /// `X-Scope`, or nothing.
    pub(crate) scope: String,
    /// `Authorization`, or nothing.
    pub(crate) credential: Option<&'static str>,
    /// The document it sends, or null.
    pub(crate) body: Value,
}

/// A whole answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// Null where it is no JSON document.
    pub(crate) body: Value,
}

impl Answer {
    /// A header's text, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }
}

/// The end of a request as its client saw it.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// A whole answer came.
    Answered(Answer),
    /// Nobody listened: no byte was sent.
    NotSent,
    /// The connection broke off before the answer was whole.
    Lost,
    /// Nothing came within the client's limit.
    Silent,
}

/// Sends a request and waits for its answer, within a limit.
pub(crate) async fn send(to: SocketAddr, call: &Call, limit: Duration) -> Outcome {
    let Ok(Ok(stream)) = timeout(limit, TcpStream::connect(to)).await else { return Outcome::NotSent };
    match timeout(limit, exchange(stream, call)).await {
        Ok(Ok(answer)) => Outcome::Answered(answer),
        Ok(Err(_)) => Outcome::Lost,
        Err(_) => Outcome::Silent,
    }
}

async fn exchange(stream: TcpStream, call: &Call) -> Result<Answer, Box<dyn std::error::Error>> {
    stream.set_nodelay(true)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let driver = tokio::task::spawn_local(async move { drop(connection.await) });
    let mut request = Request::builder().method(call.method).uri(&call.path).header("host", "register");
    if !call.scope.is_empty() {
        request = request.header("x-scope", format!("register: {}", call.scope));
    }
    if let Some(credential) = call.credential {
        request = request.header("authorization", credential);
    }
    let bytes = match &call.body {
        Value::Null => Bytes::new(),
        body => {
            request = request.header("content-type", "application/json");
            body.to_string().into()
        }
    };
    let response = sender.send_request(request.body(Full::new(bytes))?).await?;
    let (head, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    driver.abort();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Answer { status: head.status.as_u16(), headers: head.headers, body })
}

/// Microseconds of the wall clock, which all processes of the tier share.
pub(crate) fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}
