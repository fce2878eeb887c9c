//! What `curl` does, and the command that would have done it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// The demo's own patience: far longer than any scenario takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Asks, one request at a time.
pub struct Client {
    runtime: tokio::runtime::Runtime,
}

/// What came back.
pub struct Answer {
    /// The command that a person would type.
    pub command: String,
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
    /// From the request to the last byte of the answer.
    pub took: Duration,
}

impl Answer {
    /// The body as JSON; null if it is none.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// A string in the body's JSON object, or nothing.
    #[must_use]
    pub fn text(&self, field: &str) -> String {
        self.json().get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The sites of a merged list's items, item by item; nothing if it is another answer.
    #[must_use]
    pub fn sites(&self) -> Vec<String> {
        let document = self.json();
        let items = document.as_object().and_then(|members| members.values().find_map(Value::as_array));
        let site = |item: &Value| item.get("scope_site").and_then(Value::as_str).map(str::to_owned);
        items.into_iter().flatten().filter_map(site).collect()
    }

    /// A header's value, or nothing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Client {
    /// A client.
    pub fn new() -> std::io::Result<Client> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Client { runtime })
    }

    /// Sends a request, with these headers, and reads the whole answer.
    pub fn ask(
        &self,
        method: &str,
        to: SocketAddr,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let command = command(method, to, path, headers, body);
        let began = Instant::now();
        let mut request = Request::builder().method(method).uri(path).header("host", to.to_string());
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::from(body.unwrap_or_default().to_owned())));
        let request = request.map_err(|error| error.to_string())?;
        let answer =
            self.runtime.block_on(async { tokio::time::timeout(PATIENCE, exchange(to, request)).await });
        let (status, headers, body) = match answer {
            Ok(answer) => answer.map_err(|error| format!("{command}: {error}"))?,
            Err(_) => return Err(format!("{command}: no answer within {PATIENCE:?}")),
        };
        Ok(Answer { command, status, headers, body, took: began.elapsed() })
    }
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn exchange(
    to: SocketAddr,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, HeaderMap, Bytes), Failure> {
    let stream = TcpStream::connect(to).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    let (head, body) = sender.send_request(request).await?.into_parts();
    let body = body.collect().await?.to_bytes();
    connection.abort();
    Ok((head.status, head.headers, body))
}

fn command(method: &str, to: SocketAddr, path: &str, headers: &[(&str, &str)], body: Option<&str>) -> String {
    let mut command = "curl".to_owned();
    match (method, body) {
        ("GET", None) | ("POST", Some(_)) => {}
        _ => command.push_str(&format!(" -X {method}")),
    }
    for (name, value) in headers {
        command.push_str(&format!(" -H '{name}: {value}'"));
    }
    if let Some(body) = body {
        command.push_str(&format!(" -H 'Content-Type: application/json' -d '{body}'"));
    }
    format!("{command} http://{to}{path}")
}
