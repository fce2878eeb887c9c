//! Reading an image from the `image` service: its record, then its file, over one connection.

use std::error::Error;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{HOST, HeaderValue};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;

use super::Settings;
use crate::http::Refusal;
use crate::id::hex;
use crate::trace::Context;

/// The longest record that is read.
const MAX_RECORD_BYTES: usize = 64 * 1024;
/// How much of what `image` answered is repeated to the client.
const MAX_QUOTED_BYTES: usize = 1024;

/// What is kept of a file that was read.
#[derive(Debug)]
pub(super) struct Fetched {
    pub(super) digest: String,
    pub(super) size_bytes: u64,
}

/// Reads an image. The file is hashed as it comes and never held.
pub(super) async fn image(settings: &Settings, id: &str, context: &Context) -> Result<Fetched, Refusal> {
    let read = Reader { settings, context, connection: None }.read(id);
    tokio::time::timeout(settings.image_timeout, read).await.unwrap_or_else(|_| {
        let seconds = settings.image_timeout.as_secs_f64();
        let message = format!("the image service at {} took over {seconds} s", settings.authority);
        Err(Refusal::new(StatusCode::GATEWAY_TIMEOUT, message))
    })
}

struct Reader<'a> {
    settings: &'a Settings,
    context: &'a Context,
    connection: Option<SendRequest<Empty<Bytes>>>,
}

impl Reader<'_> {
    async fn read(mut self, id: &str) -> Result<Fetched, Refusal> {
        let path = format!("{}/images/{id}", self.settings.prefix);
        let record = self.get(&path).await?;
        let record = Limited::new(record.into_body(), MAX_RECORD_BYTES).collect().await;
        let record = record.map_err(|error| self.failed(error.as_ref()))?.to_bytes();
        let record: Value = serde_json::from_slice(&record).map_err(|error| self.failed(&error))?;
        let file = self.get(&format!("{path}/file")).await?;
        let fetched = self.hash(file).await?;
        match record.get("digest").and_then(Value::as_str) {
            Some(promised) if promised != fetched.digest => {
                let message = format!(
                    "the file of image {id} is not the one that its record promised: {promised} was \
                     promised, {} came",
                    fetched.digest
                );
                Err(Refusal::new(StatusCode::BAD_GATEWAY, message))
            }
            _ => Ok(fetched),
        }
    }

    async fn hash(&self, file: Response<Incoming>) -> Result<Fetched, Refusal> {
        let mut file = file.into_body();
        let (mut hasher, mut size_bytes) = (Sha256::new(), 0);
        while let Some(frame) = file.frame().await {
            let frame = frame.map_err(|error| self.failed(&error))?;
            if let Some(bytes) = frame.data_ref() {
                hasher.update(bytes);
                size_bytes += bytes.len() as u64;
            }
        }
        Ok(Fetched { digest: format!("sha256:{}", hex(&hasher.finalize())), size_bytes })
    }

    /// Asks for a path; anything but 200 is a refusal that says what was answered.
    async fn get(&mut self, path: &str) -> Result<Response<Incoming>, Refusal> {
        let mut request = Request::new(Empty::new());
        *request.uri_mut() = path.parse().map_err(|error| self.failed(&error))?;
        let host = HeaderValue::from_str(self.settings.authority.as_str());
        request.headers_mut().insert(HOST, host.map_err(|error| self.failed(&error))?);
        self.context.put(request.headers_mut());
        let mut connection = self.connection().await?;
        let answered = connection.send_request(request).await.map_err(|error| self.failed(&error))?;
        self.connection = Some(connection);
        match answered.status() {
            StatusCode::OK => Ok(answered),
            _ => Err(self.refused(path, answered).await),
        }
    }

    /// The connection of the request before, if it can take another; or a new one.
    async fn connection(&mut self) -> Result<SendRequest<Empty<Bytes>>, Refusal> {
        if let Some(mut connection) = self.connection.take()
            && connection.ready().await.is_ok()
        {
            return Ok(connection);
        }
        let address = self.settings.authority.as_str();
        let address = if self.settings.authority.port().is_some() {
            address.to_owned()
        } else {
            format!("{address}:80")
        };
        let stream = TcpStream::connect(address).await.map_err(|error| self.failed(&error))?;
        let _ = stream.set_nodelay(true);
        let (sender, driver) = handshake(TokioIo::new(stream)).await.map_err(|error| self.failed(&error))?;
        // It ends when the sender goes and the last body is read or dropped; errors reach those too.
        tokio::spawn(driver);
        Ok(sender)
    }

    async fn refused(&self, path: &str, answered: Response<Incoming>) -> Refusal {
        let status = answered.status();
        let quoted = Limited::new(answered.into_body(), MAX_QUOTED_BYTES).collect().await;
        let quoted = quoted.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body = serde_json::from_slice(&quoted)
            .unwrap_or_else(|_| Value::String(String::from_utf8_lossy(&quoted).into()));
        let ours = if status == StatusCode::NOT_FOUND { status } else { StatusCode::BAD_GATEWAY };
        let message = format!("the image service at {} answered {status}", self.settings.authority);
        Refusal::new(ours, message)
            .because("image_service", json!({ "path": path, "status": status.as_u16(), "body": body }))
    }

    fn failed(&self, error: &(dyn Error + 'static)) -> Refusal {
        let mut message = format!("the image service at {} failed: {error}", self.settings.authority);
        let mut source = error.source();
        while let Some(deeper) = source {
            message.push_str(": ");
            message.push_str(&deeper.to_string());
            source = deeper.source();
        }
        Refusal::new(StatusCode::BAD_GATEWAY, message)
    }
}
