//! A hyper server behind `Guarded`, over a pipe in memory.

use std::convert::Infallible;
use std::error::Error;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use http1guard::{Guarded, Limits, Violation};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

use super::notation;

/// What a server made of a connection.
pub struct Served {
    pub readings: Vec<String>,
    /// Everything that it answered.
    pub answers: String,
}

/// Sends `pieces` to a server, one write each, and half-closes.
pub async fn serve<'b>(pieces: impl IntoIterator<Item = &'b [u8]>) -> Served {
    serve_over(1 << 16, pieces).await
}

/// The same over a pipe of so many bytes each way.
pub async fn serve_over<'b>(width: usize, pieces: impl IntoIterator<Item = &'b [u8]>) -> Served {
    let (client, server) = duplex(width);
    let (mut reader, mut writer) = tokio::io::split(client);
    let readings = Arc::new(Mutex::new(Vec::new()));
    let service = service_fn(|request| answer(request, Arc::clone(&readings)));
    let io = TokioIo::new(Guarded::new(server, Limits::default()));
    // Half-closed is not gone: without this hyper drops a request at the end of the stream.
    let connection =
        hyper::server::conn::http1::Builder::new().half_close(true).serve_connection(io, service);
    let write = async {
        for piece in pieces {
            // The server may have closed already.
            let _ = writer.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let _ = writer.shutdown().await;
    };
    let read = async {
        let mut answers = Vec::new();
        reader.read_to_end(&mut answers).await.unwrap();
        String::from_utf8(answers).unwrap()
    };
    let (_, (), answers) = tokio::join!(connection, write, read);
    let readings = readings.lock().unwrap().clone();
    Served { readings, answers }
}

impl Served {
    /// The status of every answer but `100 Continue`. Panics unless they are whole, one after the other.
    pub fn statuses(&self) -> Vec<u16> {
        let (mut rest, mut statuses) = (&self.answers[..], Vec::new());
        while !rest.is_empty() {
            let (head, after) = rest.split_once("\r\n\r\n").expect("a whole head");
            assert!(head.starts_with("HTTP/1."), "{}", self.answers);
            let head = head.to_ascii_lowercase();
            let length = head
                .split_once("content-length: ")
                .map_or(0, |(_, length)| length.lines().next().unwrap().parse().unwrap());
            statuses.push(head[9..12].parse().unwrap());
            rest = &after[length..];
        }
        statuses.retain(|&status| status != 100);
        statuses
    }
}

/// Answers 200 to every request that it can read, and the violation's status to one that it cannot.
pub async fn answer(
    request: Request<Incoming>,
    readings: Arc<Mutex<Vec<String>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let (status, text) = match body.collect().await {
        Ok(body) => {
            let mut trailers = body.trailers().map(fields).unwrap_or_default();
            let body = body.to_bytes();
            let target = head.uri.to_string();
            let method = head.method.as_str();
            let reading = notation(method, &target, &mut fields(&head.headers), &body, &mut trailers);
            readings.lock().unwrap().push(reading);
            (200, "fine")
        }
        Err(error) => match violation(&error) {
            Some(violation) => (violation.status(), violation.rule.detail()),
            None => (400, "incomplete"),
        },
    };
    // A success for CONNECT would switch protocols.
    let status = if head.method == "CONNECT" { 404 } else { status };
    Ok(Response::builder().status(status).body(Full::from(text)).unwrap())
}

/// The violation that a body ended in.
pub fn violation(error: &hyper::Error) -> Option<Violation> {
    let error = error.source()?.downcast_ref::<std::io::Error>()?;
    let violation = error.get_ref()?.downcast_ref().copied();
    assert_eq!(violation.is_some(), error.kind() == std::io::ErrorKind::InvalidData);
    violation
}

fn fields(map: &HeaderMap) -> Vec<(String, Vec<u8>)> {
    map.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect()
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}
