//! A client for the tests.

// Each test file uses the part that it needs, and is a crate of its own.
#![allow(dead_code, unreachable_pub)]

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::net::SocketAddr;
use tokio::net::TcpStream;

/// An answer that was read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.body))
    }

    pub fn text(&self, pointer: &str) -> String {
        self.json().pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// One keep-alive connection.
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).await.unwrap();
        let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Client { sender }
    }

    pub async fn send(&mut self, method: &str, path: &str, body: impl Into<Bytes>) -> Answer {
        self.try_send(method, path, &[], body).await.unwrap()
    }

    pub async fn try_send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> hyper::Result<Answer> {
        let mut request = Request::builder().method(method).uri(path).header("host", "sample");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.sender.ready().await?;
        let response = self.sender.send_request(request.body(Full::new(body.into())).unwrap()).await?;
        let (head, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Makes an image with a file; its id.
    pub async fn make_image(&mut self, name: &str, file: impl Into<Bytes>) -> String {
        let made = self.send("POST", "/images", format!(r#"{{"name":"{name}"}}"#)).await;
        assert_eq!(made.status, 201, "{made:?}");
        let id = made.text("/id");
        let put = self.send("PUT", &format!("/images/{id}/file"), file).await;
        assert_eq!(put.status, 200, "{put:?}");
        id
    }
}
