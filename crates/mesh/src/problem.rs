//! Errors on the wire: RFC 9457 problem documents, in one place.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Collected, Limited};
use plan::{Asked, Failure, Refused};
use profile::Problems;
use replica::OpId;
use scope::{Diagnostic, Plan, Site, Style};
use serde_json::{Value, json};

use crate::body::AnswerBody;
use crate::carry;
use crate::replicas::operations;
use crate::said;

/// Says that no service executed the request. Only peers may set it, and only peers see it.
pub(crate) const UNSENT: HeaderName = HeaderName::from_static("archipel-unsent");

/// What is wrong, for a person and for a program.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    /// The last part of the problem's type.
    kind: &'static str,
    title: &'static str,
    detail: String,
    position: Option<usize>,
    asked: Vec<Asked>,
    /// Where to learn what became of it.
    operation: Option<Box<OpId>>,
    /// Nothing was executed anywhere.
    unsent: bool,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, kind: &'static str, title: &'static str) -> Problem {
        Problem {
            status,
            kind,
            title,
            detail: String::new(),
            position: None,
            asked: Vec::new(),
            operation: None,
            unsent: false,
        }
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Problem {
        self.detail = detail.into();
        self
    }

    pub(crate) fn asked(mut self, asked: Vec<Asked>) -> Problem {
        self.asked = asked;
        self
    }

    /// Where to learn what became of it.
    pub(crate) fn operation(mut self, operation: Option<OpId>) -> Problem {
        self.operation = operation.map(Box::new);
        self
    }

    /// The request had no effect: said to peers, who may then go elsewhere.
    pub(crate) fn unsent(mut self) -> Problem {
        self.unsent = true;
        self
    }

    pub(crate) fn bad_scope(diagnostic: &Diagnostic) -> Problem {
        let mut problem = Problem::new(StatusCode::BAD_REQUEST, "bad-scope", "The scope is not valid");
        problem.position = Some(diagnostic.span().start);
        problem.detail(diagnostic.render(Style::Plain)).unsent()
    }

    /// Two sites speak no version of their protocol in common.
    pub(crate) fn misfit(site: &Site, misfit: link::Misfit) -> Problem {
        let title = "The two sites speak no version of their protocol in common; nothing was executed";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "protocol", title);
        problem.detail(format!("{site}: {misfit}")).unsent()
    }

    /// A scope places two services apart that must be at one site.
    pub(crate) fn apart(because: &str, [first, second]: [(&str, &Plan); 2]) -> Problem {
        let title = "These services must be at one site";
        let detail = format!(
            "`{}` is at {} and `{}` at {}, and {because}: name the same site for both, or only the one that calls the \
             other, which is then where its caller is",
            first.0, first.1, second.0, second.1
        );
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-together", title).detail(detail).unsent()
    }

    pub(crate) fn refused(refused: Refused) -> Problem {
        let status = StatusCode::from_u16(refused.status()).unwrap_or(StatusCode::NOT_IMPLEMENTED);
        Problem::new(status, "unsupported-plan", "This scope cannot be carried out")
            .detail(refused.to_string())
            .unsent()
    }

    pub(crate) fn failed(failure: Failure, asked: Vec<Asked>) -> Problem {
        let status = StatusCode::from_u16(failure.status()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let kind = match failure {
            Failure::NotFound | Failure::Nothing => "not-found",
            Failure::Conflict => "conflict",
            Failure::Reserved => "reserved",
            Failure::Unknown => "unknown-outcome",
            Failure::Missing => "missing-answer",
            Failure::Partial => "incomplete",
            Failure::Unavailable | Failure::TimedOut | Failure::ClientGone => "no-site-answered",
        };
        Problem::new(status, kind, "No site's answer is the answer").detail(failure.to_string()).asked(asked)
    }

    /// The time that the scope gives was up before anything was recorded.
    pub(crate) fn out_of_time(asked: Vec<Asked>) -> Problem {
        let title = "No site's answer is the answer";
        let detail = "time was up before the write was recorded; nothing was executed";
        let status = StatusCode::GATEWAY_TIMEOUT;
        Problem::new(status, "no-site-answered", title).detail(detail).asked(asked).unsent()
    }

    /// There should have been an answer: a fault of the mesh itself.
    pub(crate) fn no_answer(asked: Vec<Asked>) -> Problem {
        Problem::new(StatusCode::BAD_GATEWAY, "no-answer", "The answer of a site was lost").asked(asked)
    }

    /// There is no place for one more request to this site's own services.
    pub(crate) fn here_is_busy() -> Problem {
        Problem::busy("this site has as many requests in flight as it may")
    }

    pub(crate) fn busy(what: &str) -> Problem {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-requests", "Too many requests are in flight")
            .detail(what)
            .unsent()
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// The last part of its type.
    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    pub(crate) fn into_response(self) -> Response<AnswerBody> {
        let (status, headers, document) = self.into_document();
        let mut response = Response::new(AnswerBody::full(document));
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }

    /// Its status, what is said in headers, and the document.
    pub(crate) fn into_document(self) -> (StatusCode, HeaderMap, Bytes) {
        let mut document = json!({
            "type": format!("{TYPE}{}", self.kind),
            "title": self.title,
            "status": self.status.as_u16(),
        });
        if let Value::Object(fields) = &mut document {
            if !self.detail.is_empty() {
                fields.insert("detail".to_owned(), self.detail.into());
            }
            if let Some(position) = self.position {
                fields.insert("position".to_owned(), position.into());
            }
            if let Some(operation) = &self.operation {
                fields.insert("operation".to_owned(), operations::address(operation).into());
            }
            if !self.asked.is_empty() {
                fields.insert("sites".to_owned(), self.asked.iter().map(said::json).collect());
            }
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(KIND));
        if self.status == StatusCode::SERVICE_UNAVAILABLE || self.status == StatusCode::TOO_MANY_REQUESTS {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.unsent {
            headers.insert(UNSENT, HeaderValue::from_static("1"));
        }
        said::put(&mut headers, &self.asked);
        (self.status, headers, Bytes::from(document.to_string()))
    }
}

/// What the types of this mesh's problems begin with.
const TYPE: &str = "urn:archipel:";

/// The kind of document that a problem is.
const KIND: &str = "application/problem+json";

/// No problem is longer: their lists of sites are as long as scopes may be.
const LONGEST: usize = 1 << 20;

/// An answer as the clients of an application read it: a problem, this mesh's or another's, is put within the member that
/// its profile names.
pub(crate) async fn as_read(response: Response<AnswerBody>, problems: &Problems) -> Response<AnswerBody> {
    let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes);
    let Some(member) = problems.within.as_ref().filter(|_| kind == Some(KIND.as_bytes())) else {
        return response;
    };
    let (mut head, body) = response.into_parts();
    let Ok(document) = Limited::new(body, LONGEST).collect().await.map(Collected::to_bytes) else {
        let (status, mut headers, document) = Problem::no_answer(Vec::new()).into_document();
        let document = within(&mut headers, document, member);
        let mut response = Response::new(AnswerBody::full(document));
        (*response.status_mut(), *response.headers_mut()) = (status, headers);
        return response;
    };
    let document = within(&mut head.headers, document, member);
    Response::from_parts(head, AnswerBody::full(document))
}

/// A problem within a member, with the message and the code that clients look for there. It keeps all that it says.
pub(crate) fn within(headers: &mut HeaderMap, document: Bytes, member: &str) -> Bytes {
    let Ok(Value::Object(mut problem)) = serde_json::from_slice(&document) else { return document };
    let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default();
    // A service's own are as it told them.
    if !text("type").starts_with(TYPE) {
        return document;
    }
    let message = [text("title"), text("detail")].join(": ");
    problem.insert("message".to_owned(), message.trim_end_matches(": ").into());
    let code = problem.get("status").cloned();
    problem.insert("code".to_owned(), code.into());
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.remove(CONTENT_LENGTH);
    Bytes::from(json!({ member: problem }).to_string())
}

impl From<carry::Error> for Problem {
    fn from(error: carry::Error) -> Problem {
        let problem =
            Problem::new(error.status(), error.code(), "The scope of this request cannot be carried");
        problem.detail(error.to_string()).unsent()
    }
}
