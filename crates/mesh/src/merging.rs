//! One answer of several sites' answers to a list: what is asked of each, and what is made of it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, Uri};
use http_body::Body;
use merge::{Broken, Head, Late, Limits, Merged, Merger, Page, Pull, Totals};
use plan::{Answer, Asked, Leg, Said, Why};
use profile::{List, Profile};
use scope::{Plan, Site};

use crate::body::AnswerBody;
use crate::problem::Problem;
use crate::said;

/// What a merged list says when it lacks a site; `kubectl`, for one, shows it to people.
const LACKS_A_SITE: &str = "299 - \"a site is missing from this list, see Scope-Sites\"";

/// Headers of one site's answer that do not hold for all.
const OF_ONE_SITE: [HeaderName; 8] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::ETAG,
    header::LAST_MODIFIED,
    header::ACCEPT_RANGES,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
];

/// Headers of a request that a part of the answer cannot follow.
const NOT_FOR_PARTS: [HeaderName; 6] = [
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_MATCH,
    header::IF_UNMODIFIED_SINCE,
    header::IF_RANGE,
    header::RANGE,
];

/// How the answers to one request are combined.
pub(crate) struct Combine {
    /// The sites that may be asked; each is a source, by its place here.
    sites: Vec<Site>,
    how: How,
    path: String,
}

enum How {
    List(Box<(List, Page)>),
    Totals(Box<profile::Totals>),
}

/// The answers that a run chose, by leg.
pub(crate) struct Chosen {
    pub(crate) answer: Answer,
    /// Nearest first.
    pub(crate) legs: Vec<(Leg, Site, Response<AnswerBody>)>,
    /// A site is missing.
    pub(crate) partial: bool,
    pub(crate) asked: Vec<Asked>,
}

impl Combine {
    /// How a plan's answers to a request are combined; nothing where one answer is enough.
    pub(crate) fn of(
        plan: &Plan,
        profile: &Profile,
        service: &str,
        head: &Parts,
        tls: bool,
    ) -> Result<Option<Combine>, Problem> {
        let path = head.uri.path();
        if head.method != http::Method::GET || !joins(plan) {
            return Ok(None);
        }
        let mut sites = Vec::new();
        let tree = tree_of(plan, &mut sites);
        if let Some(totals) = profile.totals(service, path) {
            let how = How::Totals(Box::new(totals.clone()));
            return Ok(Some(Combine { sites, how, path: path.to_owned() }));
        }
        let Some(list) = profile.lists.of(service, path) else { return Ok(None) };
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let request = merge::Request {
            origin: format!("{}://{host}", if tls { "https" } else { "http" }),
            path: path.to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
        };
        let names: Vec<&str> = sites.iter().map(Site::name).collect();
        let page = Page::plan(&list, &tree, &request, &names).map_err(|refused| {
            let status = match refused {
                merge::Refused::Counted { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                merge::Refused::Marker { .. } => StatusCode::BAD_REQUEST,
            };
            Problem::new(status, "not-mergeable", "This list cannot be merged as it is asked for")
                .detail(refused.to_string())
                .unsent()
        })?;
        Ok(Some(Combine { sites, how: How::List(Box::new((list, page))), path: path.to_owned() }))
    }

    /// Whether it is known to be a list before any site has answered.
    pub(crate) fn is_known_list(&self) -> bool {
        matches!(&self.how, How::List(list) if list.0.items.is_some())
    }

    /// Makes a request fit for one of the sites. Whether there is anything to ask of it.
    pub(crate) fn prepare(&self, site: &Site, head: &mut Parts) -> bool {
        for name in NOT_FOR_PARTS {
            head.headers.remove(name);
        }
        // What is coded cannot be read on the way, and would have to be decoded.
        head.headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let How::List(list) = &self.how else { return true };
        let Some(query) = self.source(site).and_then(|source| list.1.query(source)) else { return false };
        let target = if query.is_empty() { self.path.clone() } else { format!("{}?{query}", self.path) };
        if let Ok(uri) = target.parse::<Uri>() {
            head.uri = uri;
        }
        true
    }

    /// Whether there is anything to ask of a site: on a later page, one may have told all it has.
    fn asks(&self, site: &Site) -> bool {
        match &self.how {
            How::List(list) => self.source(site).is_some_and(|source| list.1.query(source).is_some()),
            How::Totals(_) => true,
        }
    }

    fn source(&self, site: &Site) -> Option<usize> {
        self.sites.iter().position(|other| other == site)
    }

    /// Makes one answer of those that a run chose.
    pub(crate) async fn answer(self, mut chosen: Chosen, strict: bool) -> (Response<AnswerBody>, bool) {
        chosen.asked.retain(|asked| self.asks(&asked.site));
        let response = match self.how {
            How::Totals(ref rule) => {
                let rule = (**rule).clone();
                self.total(rule, chosen, strict).await
            }
            How::List(ref list) => {
                let (list, page) = (**list).clone();
                self.list(list, page, chosen, strict).await
            }
        };
        let partial = response.headers().contains_key(header::WARNING);
        (response, partial)
    }

    async fn list(&self, list: List, page: Page, chosen: Chosen, strict: bool) -> Response<AnswerBody> {
        let Chosen { answer, legs, mut partial, mut asked } = chosen;
        let places: Vec<(Leg, Option<usize>)> =
            legs.iter().map(|(leg, site, _)| (*leg, self.source(site))).collect();
        let tree = merged(&answer, &places);
        let first = first_leg(&answer);
        let merger = Merger::new(list, tree, page, Limits::default(), Late::Abort);
        let link = merger.link_header().to_owned();
        let mut merging = Merging { merger, bodies: self.sites.iter().map(|_| None).collect() };
        let mut heads = Vec::new();
        for (leg, site, response) in legs {
            let Some(source) = self.source(&site) else { continue };
            let (head, body) = response.into_parts();
            merging.open(source, &head.headers, &link);
            if let Some(place) = merging.bodies.get_mut(source) {
                *place = Some(body);
            }
            heads.push((leg, source, head));
        }
        let begin = std::future::poll_fn(|context| merging.poll(context)).await;
        for (source, fault) in merging.merger.failures() {
            partial = true;
            if let Some(asked) =
                self.sites.get(source).and_then(|site| asked.iter_mut().find(|asked| asked.site == *site))
            {
                asked.said = Said::Error(match fault {
                    merge::Fault::Lost => Why::Reset,
                    _ => Why::Protocol,
                });
            }
        }
        match begin {
            Ok(Pull::NotAList) => one_resource(&answer, merging, heads, &asked),
            Ok(_) if strict && partial => missing(asked),
            Ok(first_chunk) => {
                let head = heads.into_iter().find(|(leg, ..)| Some(*leg) == first);
                let mut response = Response::new(AnswerBody::full(Bytes::new()));
                *response.headers_mut() = head.map(|(_, _, head)| head.headers).unwrap_or_default();
                as_merged(response.headers_mut(), &link, partial);
                if let Some((name, value)) = merging.merger.header()
                    && let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value))
                {
                    response.headers_mut().insert(name, value);
                }
                said::put(response.headers_mut(), &asked);
                *response.body_mut() = AnswerBody::merged(first_chunk, merging);
                response
            }
            Err(broken) => no_merge(&broken, asked),
        }
    }

    async fn total(&self, rule: profile::Totals, chosen: Chosen, strict: bool) -> Response<AnswerBody> {
        let Chosen { answer, legs, mut partial, asked } = chosen;
        let first = first_leg(&answer);
        let mut totals = Totals::new(rule, self.sites.len(), Limits::default());
        for source in 0..self.sites.len() {
            totals.fail(source);
        }
        let mut headers = HeaderMap::new();
        for (leg, site, response) in legs {
            let Some(source) = self.source(&site) else { continue };
            let (head, mut body) = response.into_parts();
            totals.open(source, text(&head.headers, &header::CONTENT_ENCODING));
            if Some(leg) == first {
                headers = head.headers;
            }
            loop {
                let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
                match frame {
                    Some(Ok(frame)) => {
                        if let Ok(bytes) = frame.into_data() {
                            totals.push(source, bytes);
                        }
                    }
                    Some(Err(_)) => {
                        totals.fail(source);
                        break;
                    }
                    None => {
                        totals.end(source);
                        break;
                    }
                }
            }
        }
        let answered = answer.legs().len();
        partial |= self.sites.len() - totals.failures().count() < answered;
        if strict && partial {
            return missing(asked);
        }
        let Some(sum) = totals.sum() else { return no_merge(&Broken::Nothing, asked) };
        as_merged(&mut headers, "link", partial);
        said::put(&mut headers, &asked);
        let mut response = Response::new(AnswerBody::full(sum));
        *response.headers_mut() = headers;
        response
    }
}

/// Several bodies on their way to become one.
pub(crate) struct Merging {
    merger: Merger,
    /// By source.
    bodies: Vec<Option<AnswerBody>>,
}

impl Merging {
    fn open(&mut self, source: usize, headers: &HeaderMap, link: &str) {
        let head = Head {
            content_type: text(headers, &header::CONTENT_TYPE),
            content_encoding: text(headers, &header::CONTENT_ENCODING),
            link: headers.get(link).and_then(|value| value.to_str().ok()),
        };
        self.merger.open(source, head);
    }

    /// The next step of the merge, once enough has come.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Pull, Broken>> {
        loop {
            match self.merger.pull() {
                Ok(Pull::Pending) => {}
                step => return Poll::Ready(step),
            }
            let wanted = self.merger.wants();
            if wanted.is_empty() {
                return Poll::Ready(Err(Broken::Nothing));
            }
            let moved = wanted.into_iter().filter(|source| self.read(*source, context)).count();
            if moved == 0 {
                return Poll::Pending;
            }
        }
    }

    /// Reads of one body what is there. Whether anything was.
    fn read(&mut self, source: usize, context: &mut Context<'_>) -> bool {
        let Some(body) = self.bodies.get_mut(source).and_then(Option::as_mut) else {
            self.merger.fail(source);
            return true;
        };
        match Pin::new(body).poll_frame(context) {
            Poll::Pending => false,
            Poll::Ready(Some(Ok(frame))) => {
                if let Ok(bytes) = frame.into_data() {
                    self.merger.push(source, bytes);
                }
                true
            }
            Poll::Ready(None) => {
                self.merger.end(source);
                true
            }
            Poll::Ready(Some(Err(_))) => {
                self.merger.fail(source);
                true
            }
        }
    }
}

/// Whether a plan asks several sites for one answer.
fn joins(plan: &Plan) -> bool {
    match plan {
        Plan::Site(_) => false,
        Plan::Within(_, inner) => joins(inner),
        Plan::All(_, plans) | Plan::One(plans) if plans.len() > 1 => true,
        Plan::All(_, plans) | Plan::Any(plans) | Plan::One(plans) | Plan::Otherwise(plans) => {
            plans.iter().any(joins)
        }
    }
}

/// Every site that a plan may ask, and how their lists would be combined if all were.
fn tree_of(plan: &Plan, sites: &mut Vec<Site>) -> Merged {
    match plan {
        Plan::Site(site) => {
            let known = sites.iter().position(|other| other == site);
            Merged::Source(known.unwrap_or_else(|| {
                sites.push(site.clone());
                sites.len() - 1
            }))
        }
        Plan::Within(_, inner) => tree_of(inner, sites),
        Plan::One(plans) => Merged::Unique(plans.iter().map(|plan| tree_of(plan, sites)).collect()),
        Plan::All(_, plans) | Plan::Any(plans) | Plan::Otherwise(plans) => {
            Merged::Union(plans.iter().map(|plan| tree_of(plan, sites)).collect())
        }
    }
}

/// The answer that a run chose, with sources for its legs.
fn merged(answer: &Answer, places: &[(Leg, Option<usize>)]) -> Merged {
    let source = |leg: &Leg| places.iter().find(|(other, _)| other == leg).and_then(|(_, source)| *source);
    match answer {
        // A source that is not there is one that has nothing.
        Answer::Leg(leg) => Merged::Source(source(leg).unwrap_or(usize::MAX)),
        Answer::Union(parts) => Merged::Union(parts.iter().map(|part| merged(part, places)).collect()),
        Answer::Unique(parts) => Merged::Unique(parts.iter().map(|part| merged(part, places)).collect()),
    }
}

fn first_leg(answer: &Answer) -> Option<Leg> {
    answer.legs().first().copied()
}

/// These were no lists but readings of one resource. The nearest answers for all; but where exactly one may
/// have it, there must be one.
fn one_resource(
    answer: &Answer,
    mut merging: Merging,
    heads: Vec<(Leg, usize, http::response::Parts)>,
    asked: &[Asked],
) -> Response<AnswerBody> {
    if matches!(answer, Answer::Unique(parts) if parts.len() > 1) {
        return Problem::failed(plan::Failure::Conflict, asked.to_vec()).into_response();
    }
    let nearest = heads.into_iter().next();
    let Some((source, head, body)) =
        nearest.and_then(|(_, source, head)| Some((source, head, merging.bodies.get_mut(source)?.take()?)))
    else {
        return no_merge(&Broken::Nothing, asked.to_vec());
    };
    let mut response = Response::from_parts(head, body.after(merging.merger.take_raw(source)));
    said::put(response.headers_mut(), asked);
    response
}

/// Takes off what was true of one site's answer only, and says what is missing.
fn as_merged(headers: &mut HeaderMap, link: &str, partial: bool) {
    for name in OF_ONE_SITE {
        headers.remove(name);
    }
    headers.remove(link);
    if partial {
        headers.insert(header::WARNING, HeaderValue::from_static(LACKS_A_SITE));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    }
}

fn missing(asked: Vec<Asked>) -> Response<AnswerBody> {
    Problem::new(StatusCode::GATEWAY_TIMEOUT, "incomplete", "A site is missing from this list")
        .detail("the request, or this listener, wants all of it or nothing")
        .asked(asked)
        .into_response()
}

fn no_merge(broken: &Broken, asked: Vec<Asked>) -> Response<AnswerBody> {
    let status = match broken {
        Broken::Nothing | Broken::Late { .. } => StatusCode::BAD_GATEWAY,
        Broken::UniqueItems | Broken::UniquePaged { .. } | Broken::Held => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Problem::new(status, "not-merged", "The lists of these sites could not be merged")
        .detail(broken.to_string())
        .asked(asked)
        .into_response()
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
