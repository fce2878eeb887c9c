//! The ids that clients know and those of this site's service, on the way in and on the way out.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode, response};
use http_body::{Body, Frame};
use ids::{Condition, Direction, Etags, Refused, Rewriter, Table};

use super::declared::{Declared, DeclaredRewriter, Unfit};
use super::references::Named;
use super::{Known, references, taken};
use crate::BoxError;
use crate::body::{AnswerBody, LegBody};
use crate::core::State;
use crate::problem::Problem;

/// Digests of a body, which do not hold once it was rewritten.
const DIGESTS: [&str; 4] = ["content-digest", "repr-digest", "digest", "content-md5"];

/// Headers with URLs in them.
const URLS: [HeaderName; 3] = [header::LOCATION, header::CONTENT_LOCATION, header::LINK];

/// What is rewritten at one site for one service.
pub(crate) struct Rewriting {
    /// Ids that are found wherever they are.
    table: Table,
    /// Those that are found in declared places only.
    declared: Option<Declared>,
    etags: Etags,
}

impl Rewriting {
    /// Of a request with this method and path. Nothing where ids are the same in the service as for clients.
    pub(crate) fn of(
        known: &Arc<Known>,
        state: &State,
        service: &str,
        (method, path): (&Method, &str),
    ) -> Option<Rewriting> {
        let declared = Declared::of(known, state, service, method, path);
        let table = known.table(service).or_else(|| declared.as_ref().map(|_| Table::new()))?;
        Some(Rewriting { table, declared, etags: Etags::new(state.settings().site.name()) })
    }

    /// Makes a request fit for the service. A JSON body that is short enough to be held is rewritten too.
    pub(crate) async fn request(
        &self,
        head: &mut Parts,
        body: LegBody,
        most: usize,
    ) -> Result<LegBody, Problem> {
        let mut changed = self.target(head)?;
        let short = body.size_hint().upper().is_some_and(|bytes| bytes <= most as u64);
        let body = if short && !body.is_end_stream() && is_json(content_type(&head.headers)) {
            let before = taken::take_body(body, most).await?;
            let after = self.whole(content_type(&head.headers), before.clone())?;
            changed |= before != after;
            if before.len() != after.len() {
                head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(after.len()));
            }
            LegBody::Full(after)
        } else {
            body
        };
        if changed && taken::is_signed(head) {
            return Err(taken::signed());
        }
        if changed {
            drop_digests(&mut head.headers);
        }
        self.conditions(&mut head.headers)?;
        head.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        Ok(body)
    }

    /// A JSON body for the service.
    fn whole(&self, kind: &str, body: Bytes) -> Result<Bytes, Problem> {
        let body =
            references::whole(&self.table, body, Direction::ToService).map_err(|refused| no(&refused))?;
        match &self.declared {
            Some(declared) => declared.body(kind, body, Direction::ToService).map_err(|refused| no(&refused)),
            None => Ok(body),
        }
    }

    /// The path and the query. Whether anything was changed.
    fn target(&self, head: &mut Parts) -> Result<bool, Problem> {
        let Some(target) = head.uri.path_and_query() else { return Ok(false) };
        let declared = match &self.declared {
            Some(declared) => declared.target(target.path(), target.query()).map_err(unfit)?,
            None => None,
        };
        let own = declared.as_deref().unwrap_or(target.as_str());
        let rewritten = self.table.rewrite(own, Direction::ToService).map_err(|refused| no(&refused))?;
        if rewritten == target.as_str() {
            return Ok(false);
        }
        if let Ok(uri) = rewritten.parse() {
            head.uri = uri;
        }
        Ok(true)
    }

    /// Entity tags are of one site.
    pub(crate) fn conditions(&self, headers: &mut HeaderMap) -> Result<(), Problem> {
        for name in [header::IF_MATCH, header::IF_NONE_MATCH] {
            let Some(list) = headers.get(&name).and_then(|list| list.to_str().ok()) else { continue };
            match self.etags.condition(list) {
                Ok(Condition::Any) => {}
                Ok(Condition::These(list)) => {
                    if let Ok(value) = HeaderValue::try_from(list) {
                        headers.insert(name, value);
                    }
                }
                Ok(Condition::Nothing) if name == header::IF_MATCH => return Err(not_that_one()),
                Ok(Condition::Nothing) => {
                    headers.remove(name);
                }
                Err(malformed) => {
                    return Err(Problem::new(
                        StatusCode::BAD_REQUEST,
                        "bad-condition",
                        "A condition is malformed",
                    )
                    .detail(malformed.to_string()));
                }
            }
        }
        // A date, or a tag; where the tag is not of this site, the whole is sent.
        let range = headers.get(header::IF_RANGE).and_then(|range| range.to_str().ok());
        if let Some(tag) = range.filter(|range| range.contains('"')) {
            let tag = self.etags.upstream(tag).and_then(|tag| HeaderValue::try_from(tag).ok());
            if let Some(tag) = tag {
                headers.insert(header::IF_RANGE, tag);
            } else {
                headers.remove(header::IF_RANGE);
                headers.remove(header::RANGE);
            }
        }
        Ok(())
    }

    /// Makes an answer of the service fit for clients.
    pub(crate) fn response(&self, response: Response<AnswerBody>) -> Response<AnswerBody> {
        let (head, body) = response.into_parts();
        self.answer(head, body, self.declared.clone())
    }

    /// Makes the answer to an ordinary request fit for clients: what it says was made is no replica.
    pub(crate) fn ordinary_response(&self, response: Response<AnswerBody>) -> Response<AnswerBody> {
        let (head, body) = response.into_parts();
        let declared = self.declared.clone().map(|declared| declared.answered(&head));
        self.answer(head, body, declared)
    }

    fn answer(
        &self,
        mut head: response::Parts,
        body: AnswerBody,
        declared: Option<Declared>,
    ) -> Response<AnswerBody> {
        for name in URLS {
            let values: Vec<HeaderValue> = head.headers.get_all(&name).iter().cloned().collect();
            head.headers.remove(&name);
            for value in values {
                let text = value.to_str().ok();
                let text = text.and_then(|text| self.table.rewrite(text, Direction::ToClient).ok());
                let text = text.map(|text| match &declared {
                    Some(declared) => declared.header(&text, Direction::ToClient).into_owned(),
                    None => text.into_owned(),
                });
                let value = text.and_then(|text| HeaderValue::from_str(&text).ok()).unwrap_or(value);
                head.headers.append(&name, value);
            }
        }
        if let Some(tag) = head.headers.get(header::ETAG).and_then(|tag| tag.to_str().ok())
            && let Ok(own) = HeaderValue::try_from(self.etags.own(tag))
        {
            head.headers.insert(header::ETAG, own);
        }
        if !is_json(content_type(&head.headers)) {
            return Response::from_parts(head, body);
        }
        let coding = head.headers.get(header::CONTENT_ENCODING);
        if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
            return Problem::new(StatusCode::BAD_GATEWAY, "coded", "The service's answer cannot be read")
                .detail("it is coded although that was not asked for, and has ids that must be replaced")
                .into_response();
        }
        drop_digests(&mut head.headers);
        let declared = declared.filter(|declared| !declared.is_without_places());
        if body.is_end_stream() {
            return Response::from_parts(head, body);
        }
        if !self.table.keeps_length() || declared.is_some() {
            head.headers.remove(header::CONTENT_LENGTH);
        }
        let mut body = body;
        if !self.table.is_empty() {
            let rewriter = Rewriter::new(self.table.clone(), Direction::ToClient);
            body = AnswerBody::rewritten(Rewritten::new(BodyRewriter::Anywhere(Box::new(rewriter)), body));
        }
        if let Some(declared) = declared {
            let rewriter = BodyRewriter::Declared(Box::new(declared.rewriter(Direction::ToClient)));
            body = AnswerBody::rewritten(Rewritten::new(rewriter, body));
        }
        Response::from_parts(head, body)
    }

    /// The replicated resources that a path and a body, as clients know them, name in declared places.
    pub(crate) fn named(&self, path: &str, kind: &str, body: &Bytes) -> Vec<Named> {
        let Some(declared) = &self.declared else { return Vec::new() };
        let mut names = declared.named_in_path(path);
        if is_json(kind) {
            names.extend(declared.named(kind, body));
        }
        names
    }

    /// Refuses a write to a replicated resource that the service here could not be given with its own ids. JSON that is looked
    /// at is among what it has.
    pub(crate) fn check(&self, head: &Parts, json: Option<&Bytes>) -> Result<(), Problem> {
        let mut changed = self.target(&mut head.clone())?;
        if let Some(json) = json {
            changed |= self.whole(content_type(&head.headers), json.clone())? != json;
        }
        if changed && taken::is_signed(head) { Err(taken::signed()) } else { Ok(()) }
    }
}

pub(super) fn drop_digests(headers: &mut HeaderMap) {
    for name in DIGESTS {
        headers.remove(name);
    }
}

pub(super) fn content_type(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|name| name.to_str().ok()).unwrap_or_default()
}

/// Whether a body is JSON, of any kind. Nothing else is touched: a file may have an id in it by chance.
pub(super) fn is_json(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    name.ends_with("json") || name.ends_with("json-patch")
}

/// Why a path or a query is not for the service here.
fn unfit(unfit: Unfit) -> Problem {
    match unfit {
        Unfit::Hidden => no(&Refused::Hidden(String::new())),
        Unfit::Undeclared(name) => {
            let title = "A parameter has the id of a replicated resource, and is not declared to have one";
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "undeclared-id", title).detail(format!(
                "the service here knows the resource by another id: say in the profile of which kind `{name}` has ids, with \
                 `parameters = {{ {name} = \"KIND\" }}` in the [[kinds]] of this collection"
            ))
        }
    }
}

fn no(refused: &Refused) -> Problem {
    match refused {
        Refused::Hidden(_) => Problem::new(StatusCode::NOT_FOUND, "not-found", "There is no such resource"),
        Refused::Encoding => {
            Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not-utf-8", "JSON is written in UTF-8")
        }
        Refused::Spelling => Problem::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "spelling",
            "The body is written in a way that cannot be read here",
        ),
    }
}

fn not_that_one() -> Problem {
    Problem::new(
        StatusCode::PRECONDITION_FAILED,
        "other-version",
        "The resource is not as the condition says",
    )
    .detail("its entity tag is of another site, or of none")
}

/// How a body is rewritten.
enum BodyRewriter {
    Anywhere(Box<Rewriter>),
    Declared(Box<DeclaredRewriter>),
}

impl BodyRewriter {
    fn push(&mut self, chunk: Bytes, out: &mut VecDeque<Bytes>) -> Result<(), Refused> {
        match self {
            BodyRewriter::Anywhere(rewriter) => rewriter.push(chunk, out),
            BodyRewriter::Declared(rewriter) => rewriter.push(chunk, out),
        }
    }

    fn finish(&mut self, out: &mut VecDeque<Bytes>) -> Result<(), Refused> {
        match self {
            BodyRewriter::Anywhere(rewriter) => rewriter.finish(out),
            BodyRewriter::Declared(rewriter) => rewriter.finish(out),
        }
    }
}

/// An answer on its way through a rewriter.
pub(crate) struct Rewritten {
    rewriter: BodyRewriter,
    body: Box<AnswerBody>,
    ready: VecDeque<Bytes>,
    /// What came behind the data.
    last: Option<Frame<Bytes>>,
    ended: bool,
}

impl Rewritten {
    fn new(rewriter: BodyRewriter, body: AnswerBody) -> Rewritten {
        Rewritten { rewriter, body: Box::new(body), ready: VecDeque::new(), last: None, ended: false }
    }

    /// The answer as the service gives it.
    pub(crate) fn body(&mut self) -> &mut AnswerBody {
        &mut self.body
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if self.ended {
                return Poll::Ready(self.last.take().map(Ok));
            }
            let outcome = match ready!(Pin::new(&mut *self.body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.rewriter.push(bytes, &mut self.ready),
                    Err(trailers) => {
                        self.last = Some(trailers);
                        continue;
                    }
                },
                None => {
                    self.ended = true;
                    self.rewriter.finish(&mut self.ready)
                }
            };
            if let Err(refused) = outcome {
                return Poll::Ready(Some(Err(refused.into())));
            }
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.ended && self.ready.is_empty() && self.last.is_none()
    }
}
