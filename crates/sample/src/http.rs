//! What the services share of HTTP: JSON answers, JSON refusals, and reading a small JSON body.

use bytes::Bytes;
use http_body_util::{BodyExt as _, Either, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE, EXPECT, HeaderValue, LOCATION};
use hyper::{HeaderMap, Request, Response, StatusCode};
use serde_json::{Value, json};

use crate::image::Blob;

/// The longest JSON body that is read. A name and an id need far less.
const MAX_JSON_BYTES: usize = 64 * 1024;
/// The longest name of a resource.
const MAX_NAME_BYTES: usize = 255;
/// Bytes of a refused body that are read and forgotten, so that a client that sends everything before it
/// listens hears why. Past it, the connection is closed.
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;

/// The body of an answer.
pub type Body = Either<Full<Bytes>, Blob>;

/// An answer, or why there is none.
pub(crate) type Answer = Result<Response<Body>, Refusal>;

/// A request that was not executed, for the person who sent it.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    message: String,
    allow: Option<&'static str>,
    cause: Option<(&'static str, Value)>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Refusal {
        Refusal { status, message: message.into(), allow: None, cause: None }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }

    pub(crate) fn not_found(what: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, format!("there is no {what} here"))
    }

    pub(crate) fn not_allowed(allow: &'static str) -> Refusal {
        let message = format!("this resource takes {allow}");
        Refusal { allow: Some(allow), ..Refusal::new(StatusCode::METHOD_NOT_ALLOWED, message) }
    }

    pub(crate) fn too_large(message: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }

    /// Adds what another service answered.
    pub(crate) fn because(self, name: &'static str, cause: Value) -> Refusal {
        Refusal { cause: Some((name, cause)), ..self }
    }

    pub(crate) fn into_response(self) -> Response<Body> {
        let mut error = json!({ "status": self.status.as_u16(), "message": self.message });
        if let (Some((name, cause)), Some(error)) = (self.cause, error.as_object_mut()) {
            error.insert(name.into(), cause);
        }
        let mut response = json_answer(self.status, &json!({ "error": error }));
        if let Some(allow) = self.allow {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allow));
        }
        response
    }
}

/// A JSON document as an answer.
pub(crate) fn json_answer(status: StatusCode, document: &Value) -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::new(document.to_string().into())));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// 201, with where the new resource is.
pub(crate) fn created(location: &str, document: &Value) -> Response<Body> {
    let mut response = json_answer(StatusCode::CREATED, document);
    let location = HeaderValue::from_str(location).expect("a path of letters, digits, dashes and slashes");
    response.headers_mut().insert(LOCATION, location);
    response
}

/// 204.
pub(crate) fn no_content() -> Response<Body> {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}

/// Reads the JSON body of a request.
pub(crate) async fn read_json(request: Request<Incoming>) -> Result<Value, Refusal> {
    let (head, mut body) = request.into_parts();
    let document = match Limited::new(&mut body, MAX_JSON_BYTES).collect().await {
        Ok(document) => document.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            discard(&head.headers, &mut body).await;
            return Err(Refusal::too_large(format!("a JSON body has at most {MAX_JSON_BYTES} bytes")));
        }
        Err(error) => return Err(Refusal::bad_request(format!("the body ended early: {error}"))),
    };
    serde_json::from_slice(&document)
        .map_err(|error| Refusal::bad_request(format!("the body is not JSON: {error}")))
}

/// Reads what is left of a refused body, unless the client waits to be told to send it.
pub(crate) async fn discard(headers: &HeaderMap, body: &mut Incoming) {
    if headers.contains_key(EXPECT) {
        return;
    }
    let mut discarded = 0;
    while discarded < MAX_DISCARDED_BYTES
        && let Some(Ok(frame)) = body.frame().await
    {
        discarded += frame.data_ref().map_or(0, Bytes::len);
    }
}

/// The `name` in a JSON body.
pub(crate) fn name_in(document: &Value) -> Result<&str, Refusal> {
    let name = string_in(document, "name")?;
    if name.len() > MAX_NAME_BYTES {
        return Err(Refusal::bad_request(format!("`name` has at most {MAX_NAME_BYTES} bytes")));
    }
    Ok(name)
}

/// A string in a JSON body, which is not empty.
pub(crate) fn string_in<'a>(document: &'a Value, key: &str) -> Result<&'a str, Refusal> {
    let value = document.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    value.ok_or_else(|| Refusal::bad_request(format!("the body needs a `{key}`: a string, not empty")))
}
