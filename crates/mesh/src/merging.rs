//! One answer of several sites' answers to a list: what is asked of each, and what is made of it.

mod tree;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response, StatusCode, Uri};
use http_body::Body;
use merge::{Ahead, Broken, Early, Fault, Head, Late, Limits, Merger, Page, Pull, Same, Totals};
use plan::{Answer, Asked, Failure, Leg, Said, Why};
use profile::{List, Profile};
use scope::{Plan, Site};
use tokio::time::Instant;

use crate::body::AnswerBody;
use crate::carry::Carry;
use crate::problem::Problem;
use crate::replicas::Replicas;
use crate::replicas::copies::{self, Copies, Listed};
use crate::said;
use crate::streams::{self, Stalled};

use tree::{Sources, has_conflict, is_unique, joins, merged, tree_of};

/// What a merged list says when it lacks a site; `kubectl`, for one, shows it to people.
const LACKS_A_SITE: &str = "299 - \"a site is missing from this list, see Scope-Sites\"";

const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Headers of one site's answer that do not hold for all.
const OF_ONE_SITE: [HeaderName; 11] = [
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    header::ETAG,
    header::LAST_MODIFIED,
    header::ACCEPT_RANGES,
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
    header::EXPIRES,
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
    sources: Sources,
    how: How,
    path: String,
    copies: Option<Copies>,
    /// What sites are told so that they mark what several have.
    listed: Option<Listed>,
}

enum How {
    List(Box<(Rc<List>, Page)>),
    Totals(Box<profile::Totals>),
}

/// How a request came.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) tls: bool,
    pub(crate) carry: &'a Carry,
}

/// The answers that a run chose, by leg.
pub(crate) struct Chosen {
    pub(crate) answer: Answer,
    /// Nearest first.
    pub(crate) legs: Vec<Reply>,
    /// A site is missing.
    pub(crate) partial: bool,
    pub(crate) asked: Vec<Asked>,
}

/// A leg's answer.
pub(crate) struct Reply {
    pub(crate) leg: Leg,
    pub(crate) site: Site,
    pub(crate) answer: Response<AnswerBody>,
    /// What was read of it while others were waited for.
    pub(crate) early: Option<Box<Ahead>>,
}

/// How what is no list is read.
#[derive(Clone, Copy)]
struct Reading {
    strict: bool,
    /// How long it may pause.
    patience: Duration,
}

/// What the items with an id are.
type Rule = Box<dyn Fn(&str) -> Same>;

/// Reads what has come of an answer. Its body is as before.
pub(crate) async fn read_early(
    early: &Early,
    response: Response<AnswerBody>,
) -> (Response<AnswerBody>, Option<Box<Ahead>>) {
    let (head, body) = response.into_parts();
    let mut body = Some(body);
    let (body, first) = std::future::poll_fn(|context| {
        let body = body.take().unwrap_or_else(|| AnswerBody::full(Bytes::new()));
        Poll::Ready(body.first(context))
    })
    .await;
    let ahead = first.and_then(|bytes| early.read(head_of(&head.headers, "link"), bytes));
    (Response::from_parts(head, body), ahead)
}

/// What became of the answers that were chosen.
pub(crate) struct Made {
    pub(crate) response: Response<AnswerBody>,
    /// Whether it is one answer of several, and not one site's own.
    pub(crate) merged: bool,
    /// It lacks a site, and says so.
    pub(crate) partial: bool,
}

impl Made {
    /// One site's own answer, or none.
    fn plain(response: Response<AnswerBody>) -> Made {
        Made { response, merged: false, partial: false }
    }
}

impl Combine {
    /// How a plan's answers to a request are combined; nothing where one answer is enough. With what is replicated comes
    /// the user whose the items of this list are, where they are a user's.
    pub(crate) fn of(
        plan: &Plan,
        profile: &Profile,
        service: &str,
        head: &Parts,
        replicas: Option<(&Replicas, Option<&str>)>,
        asked: Asking<'_>,
    ) -> Result<Option<Combine>, Problem> {
        let path = head.uri.path();
        if head.method != http::Method::GET || !joins(plan) {
            return Ok(None);
        }
        if profile.is_stream(service, path, head.uri.query()) {
            return Err(stream().unsent());
        }
        let mut sources = Sources::default();
        let tree = tree_of(plan, &mut sources);
        if let Some(totals) = profile.totals(service, path) {
            let how = How::Totals(Box::new(totals.clone()));
            return Ok(Some(Combine { sources, how, path: path.to_owned(), copies: None, listed: None }));
        }
        let Some(list) = profile.lists.of(service, path) else { return Ok(None) };
        let host = head.headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let request = merge::Request {
            origin: format!("{}://{host}", if asked.tls { "https" } else { "http" }),
            path: path.to_owned(),
            query: head.uri.query().unwrap_or_default().to_owned(),
        };
        let names: Vec<&str> = sources.sites.iter().map(Site::name).collect();
        let page = Page::plan(&list, &tree, &request, &names).map_err(|refused| {
            let status = match refused {
                merge::Refused::Counted { .. } | merge::Refused::Page { .. } => {
                    StatusCode::UNPROCESSABLE_ENTITY
                }
                merge::Refused::Marker { .. } => StatusCode::BAD_REQUEST,
            };
            Problem::new(status, "not-mergeable", "This list cannot be merged as it is asked for")
                .detail(refused.to_string())
                .unsent()
        })?;
        // What is not replicated anywhere is marked nowhere, and nobody is asked to.
        let listed = profile.kinds.any(service).then(|| {
            let target = head.uri.path_and_query().map_or(path, |target| target.as_str());
            Listed::new(asked.carry.secret_of(target), sources.sites.clone())
        });
        let page = match &listed {
            Some(listed) => page.marked(listed.mark()),
            None => page,
        };
        let copies =
            replicas.and_then(|(replicas, owner)| Copies::of(&profile.kinds, replicas, service, owner));
        let how = How::List(Box::new((Rc::new(list), page)));
        Ok(Some(Combine { sources, how, path: path.to_owned(), copies, listed }))
    }

    /// What the sites of this list are told of it.
    pub(crate) fn listed(&self) -> Option<&Listed> {
        self.listed.as_ref()
    }

    /// Whether it is known to be a list before any site has answered.
    pub(crate) fn is_known_list(&self) -> bool {
        matches!(&self.how, How::List(list) if list.0.items.is_some())
    }

    /// Makes a request fit for any of the sites.
    pub(crate) fn prepare(headers: &mut HeaderMap) {
        for name in NOT_FOR_PARTS {
            headers.remove(name);
        }
        // What is coded cannot be read on the way, and would have to be decoded.
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    }

    /// Makes a request ask what one of the sites is asked. Whether there is anything to ask of it.
    pub(crate) fn target(&self, site: &Site, head: &mut Parts) -> bool {
        let How::List(list) = &self.how else { return true };
        let Some(query) = self.sources.of(site).and_then(|source| list.1.query(source)) else { return false };
        if head.uri.query().unwrap_or_default() == query {
            return true;
        }
        let target = if query.is_empty() { self.path.clone() } else { format!("{}?{query}", self.path) };
        if let Ok(uri) = target.parse::<Uri>() {
            head.uri = uri;
        }
        true
    }

    /// What reads lists while others are waited for.
    pub(crate) fn early(&self) -> Option<Early> {
        match &self.how {
            How::List(list) => Some(Early::new(Rc::clone(&list.0), &list.1, Limits::default())),
            How::Totals(_) => None,
        }
    }

    /// Whether there is anything to ask of a site: on a later page, one may have told all it has.
    pub(crate) fn asks(&self, site: &Site) -> bool {
        match &self.how {
            How::List(list) => self.sources.of(site).is_some_and(|source| list.1.query(source).is_some()),
            How::Totals(_) => true,
        }
    }

    /// Makes one answer of those that a run chose, which a service gave.
    pub(crate) async fn answer(
        self,
        mut chosen: Chosen,
        strict: bool,
        patience: Duration,
        profile: &Profile,
        service: &str,
    ) -> Made {
        // Who has told all it has said nothing of this page.
        chosen.asked.retain(|asked| self.asks(&asked.site));
        chosen.legs.retain(|reply| self.asks(&reply.site));
        let Combine { sources, how, copies, path, .. } = self;
        // Where no more than one says that it has replicated ones, this site's own word counts.
        let replicated = chosen.legs.iter().filter(|reply| copies::has_some(reply.answer.headers())).count();
        let rule = copies
            .and_then(|copies| copies.rule(&profile.kinds, service, &path, replicated > 1))
            .map(|rule| Box::new(rule) as Rule);
        match how {
            How::Totals(rule) => sources.total(*rule, chosen, strict).await,
            // Nothing at all is no list, and one site's nothing is as good as another's.
            How::List(_) if chosen.legs.iter().all(|reply| reply.answer.body().is_end_stream()) => {
                nothing(chosen, strict)
            }
            How::List(list) => {
                let (list, page) = *list;
                sources.list(list, page, rule, chosen, Reading { strict, patience }).await
            }
        }
    }
}

impl Sources {
    async fn list(
        &self,
        list: Rc<List>,
        page: Page,
        rule: Option<Rule>,
        chosen: Chosen,
        reading: Reading,
    ) -> Made {
        let strict = reading.strict;
        let Chosen { answer, legs, mut partial, mut asked } = chosen;
        let places: BTreeMap<Leg, usize> =
            legs.iter().filter_map(|reply| Some((reply.leg, self.of(&reply.site)?))).collect();
        if legs.iter().any(|reply| streams::is_event_stream(reply.answer.headers())) {
            return Made::plain(stream().asked(asked).into_response());
        }
        // What earlier pages left to a site that is not there now, nobody else tells.
        partial |= page.owing().any(|source| !places.values().any(|there| *there == source));
        let sum_headers = list.sum_headers.clone();
        let mut merger = Merger::new(list, merged(&answer, &places), page, Limits::default(), Late::Abort);
        if let Some(rule) = rule {
            merger = merger.once(rule);
        }
        let link = merger.link_header().to_owned();
        let bodies = self.sites.iter().map(|_| None).collect();
        let mut merging = Merging { merger, bodies, stalled: false };
        let mut heads = Vec::new();
        for Reply { leg, site, answer: response, early } in legs {
            let Some(source) = self.of(&site) else { continue };
            let (head, body) = response.into_parts();
            merging.merger.open(source, head_of(&head.headers, &link));
            if let Some(ahead) = early {
                merging.merger.read_early(source, ahead);
            }
            if let Some(place) = merging.bodies.get_mut(source) {
                *place = Some(body);
            }
            heads.push((leg, source, head));
        }
        let begin = std::future::poll_fn(|context| merging.poll(context)).await;
        let mut unfounded = false;
        for (source, fault) in merging.merger.failures() {
            partial = true;
            unfounded |= heads.iter().any(|(leg, other, _)| *other == source && is_unique(&answer, *leg));
            heads.retain(|(_, other, _)| *other != source);
            self.note(source, if *fault == Fault::Lost { Why::Reset } else { Why::Protocol }, &mut asked);
        }
        // What a site has is in the list, and nobody knows what the others lack of it.
        for source in merging.merger.unread() {
            partial = true;
            self.note(source, Why::Protocol, &mut asked);
        }
        match begin {
            // Which items are unique cannot be told without one that has a say in it.
            Ok(_) if unfounded => Made::plain(Problem::failed(Failure::Missing, asked).into_response()),
            Ok(Pull::NotAList) => {
                Made::plain(self.one_resource(&answer, merging, heads, asked, reading).await)
            }
            Ok(_) if strict && partial => Made::plain(missing(asked)),
            Ok(first_chunk) => {
                let mut response = Response::new(AnswerBody::full(Bytes::new()));
                let sums = summed(&sum_headers, &heads);
                *response.headers_mut() = first_head(&answer, heads);
                for name in &sum_headers {
                    response.headers_mut().remove(name.as_str());
                }
                as_merged(response.headers_mut(), &link, partial);
                response.headers_mut().extend(sums);
                if let Some((name, value)) = merging.merger.header()
                    && let (Ok(name), Ok(value)) = (name.parse::<HeaderName>(), HeaderValue::try_from(value))
                {
                    response.headers_mut().insert(name, value);
                }
                said::put(response.headers_mut(), &asked);
                *response.body_mut() = AnswerBody::merged(first_chunk, merging);
                Made { response, merged: true, partial }
            }
            Err(Broken::Nothing) if merging.stalled => Made::plain(stream().asked(asked).into_response()),
            Err(broken) => Made::plain(no_merge(&broken, asked)),
        }
    }

    async fn total(&self, rule: profile::Totals, chosen: Chosen, strict: bool) -> Made {
        let Chosen { answer, legs, mut partial, mut asked } = chosen;
        let mut totals = Totals::new(rule, self.sites.len(), Limits::default());
        for source in 0..self.sites.len() {
            totals.fail(source);
        }
        let mut heads = Vec::new();
        for Reply { leg, site, answer: response, .. } in legs {
            let Some(source) = self.of(&site) else { continue };
            let (head, body) = response.into_parts();
            totals.open(source, text(&head.headers, &header::CONTENT_ENCODING));
            read_whole(&mut totals, source, body).await;
            match totals.failures().find(|(other, _)| *other == source) {
                None => heads.push((leg, source, head)),
                Some((_, fault)) => {
                    partial = true;
                    let why = if *fault == Fault::Lost { Why::Reset } else { Why::Protocol };
                    self.note(source, why, &mut asked);
                }
            }
        }
        if strict && partial {
            return Made::plain(missing(asked));
        }
        let Some(sum) = totals.sum() else { return Made::plain(no_merge(&Broken::Nothing, asked)) };
        let mut response = Response::new(AnswerBody::full(sum));
        *response.headers_mut() = first_head(&answer, heads);
        as_merged(response.headers_mut(), "link", partial);
        said::put(response.headers_mut(), &asked);
        Made { response, merged: true, partial }
    }

    /// These were no lists but readings of one resource. The nearest answers for all, and says so; but where exactly one
    /// may have it, there must be one, and who is strict wants to know that it is one.
    async fn one_resource(
        &self,
        answer: &Answer,
        mut merging: Merging,
        heads: Vec<(Leg, usize, http::response::Parts)>,
        asked: Vec<Asked>,
        Reading { strict, patience }: Reading,
    ) -> Response<AnswerBody> {
        if has_conflict(answer) {
            return Problem::failed(Failure::Conflict, asked).into_response();
        }
        let several = heads.len() > 1;
        if several && strict && !merging.merger.is_one_resource() {
            return unlike_a_list(asked);
        }
        let nearest = heads.into_iter().next();
        let Some((source, head, body)) = nearest
            .and_then(|(_, source, head)| Some((source, head, merging.bodies.get_mut(source)?.take()?)))
        else {
            return no_merge(&Broken::Nothing, asked);
        };
        let mut body = body.after(merging.merger.take_raw(source));
        if several && body.size_hint().exact().is_none() {
            // One site's stream is not all of them.
            let until = Instant::now() + patience;
            body = match body.ends_or_goes_on(Limits::default().probe_bytes, until).await {
                Ok(body) => body,
                Err(Stalled) => return stream().asked(asked).into_response(),
            };
        }
        let mut response = Response::from_parts(head, body);
        let from = self.sites.get(source).filter(|_| several);
        said::put_from(response.headers_mut(), &asked, from);
        response
    }

    /// Says what is wrong with a site's answer.
    fn note(&self, source: usize, why: Why, asked: &mut [Asked]) {
        let Some(site) = self.sites.get(source) else { return };
        if let Some(asked) = asked.iter_mut().find(|asked| asked.site == *site) {
            asked.said = Said::Error(why);
        }
    }
}

/// The empty list of what was looked up, where no site has any of it; nothing where more sites failed than a list may
/// lack.
pub(crate) fn found_nothing(
    reply: Reply,
    failure: Failure,
    asked: &[Asked],
    is_list: bool,
    strict: bool,
) -> Option<Response<AnswerBody>> {
    let partial = !matches!(failure, Failure::Nothing | Failure::NotFound);
    if partial && (strict || !is_list || !matches!(failure, Failure::Unavailable | Failure::TimedOut)) {
        return None;
    }
    let mut response = reply.answer;
    if is_list {
        as_merged(response.headers_mut(), "link", partial);
    }
    said::put_from(response.headers_mut(), asked, Some(&reply.site));
    Some(response)
}

/// What becomes of answers without a body: the nearest's, which says if a site is missing.
fn nothing(chosen: Chosen, strict: bool) -> Made {
    let Chosen { legs, partial, asked, .. } = chosen;
    if strict && partial {
        return Made::plain(missing(asked));
    }
    let several = legs.len() > 1;
    let Some(Reply { answer: mut response, site, .. }) = legs.into_iter().next() else {
        return Made::plain(no_merge(&Broken::Nothing, asked));
    };
    if partial {
        lacks_a_site(response.headers_mut());
    }
    said::put_from(response.headers_mut(), &asked, several.then_some(&site));
    Made { response, merged: false, partial }
}

/// Reads one document to its end, or as far as it is of use.
async fn read_whole(totals: &mut Totals, source: usize, mut body: AnswerBody) {
    loop {
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        match frame {
            Some(Ok(frame)) => {
                if let Ok(bytes) = frame.into_data() {
                    totals.push(source, bytes);
                }
                if totals.failures().any(|(failed, _)| failed == source) {
                    return;
                }
            }
            Some(Err(_)) => return totals.fail(source),
            None => return totals.end(source),
        }
    }
}

/// The numbers that all of these heads have under these names, each summed.
fn summed(names: &[String], heads: &[(Leg, usize, http::response::Parts)]) -> HeaderMap {
    let mut sums = HeaderMap::new();
    for name in names {
        let number = |head: &http::response::Parts| text_of(&head.headers, name)?.trim().parse::<u64>().ok();
        let sum = heads.iter().try_fold(0_u64, |sum, (_, _, head)| sum.checked_add(number(head)?));
        if let (Some(sum), Ok(name)) = (sum.filter(|_| !heads.is_empty()), name.parse::<HeaderName>()) {
            sums.insert(name, HeaderValue::from(sum));
        }
    }
    sums
}

/// The headers of the first site, in the order of the plan, whose answer is in it.
fn first_head(answer: &Answer, heads: Vec<(Leg, usize, http::response::Parts)>) -> HeaderMap {
    let order: BTreeMap<Leg, usize> = answer.legs().into_iter().zip(0..).collect();
    let agree_on = |name: &HeaderName| {
        heads.windows(2).all(|two| match two {
            [(_, _, one), (_, _, other)] => one.headers.get(name) == other.headers.get(name),
            _ => true,
        })
    };
    let (agreed, one_language) = (agree_on(&header::CACHE_CONTROL), agree_on(&header::CONTENT_LANGUAGE));
    let first = heads.into_iter().min_by_key(|(leg, ..)| order.get(leg).copied().unwrap_or(usize::MAX));
    let mut headers = first.map(|(_, _, head)| head.headers).unwrap_or_default();
    if !one_language {
        headers.remove(header::CONTENT_LANGUAGE);
    }
    if !agreed {
        // What one site lets others keep may have items of one that does not.
        headers.insert(header::CACHE_CONTROL, NO_STORE);
    }
    headers
}

/// Several bodies on their way to become one.
pub(crate) struct Merging {
    merger: Merger,
    /// By source.
    bodies: Vec<Option<AnswerBody>>,
    /// One of them, without a length, neither ended nor went on.
    stalled: bool,
}

impl Merging {
    /// Whether nothing is left to tell.
    pub(crate) fn is_done(&self) -> bool {
        self.merger.is_done()
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
        let has_length = body.size_hint().exact().is_some();
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
            Poll::Ready(Some(Err(error))) => {
                self.stalled |= error.is::<Stalled>() && !has_length;
                self.merger.fail(source);
                true
            }
        }
    }
}

/// The declared list of several sites whose head alone is asked for. One site's says nothing of them all.
pub(crate) fn list_of_several(plan: &Plan, profile: &Profile, service: &str, head: &Parts) -> Option<List> {
    let asks = head.method == http::Method::HEAD && joins(plan);
    asks.then(|| profile.lists.of(service, head.uri.path())).flatten().filter(|list| list.declared)
}

/// Takes off what one site says of its own list.
pub(crate) fn drop_own(list: &List, headers: &mut HeaderMap) {
    as_merged(headers, "link", false);
    for name in &list.sum_headers {
        headers.remove(name.as_str());
    }
}

/// Takes off what was true of one site's answer only, and says what is missing.
fn as_merged(headers: &mut HeaderMap, link: &str, partial: bool) {
    for name in OF_ONE_SITE {
        headers.remove(name);
    }
    headers.remove(link);
    if partial {
        lacks_a_site(headers);
    }
}

fn lacks_a_site(headers: &mut HeaderMap) {
    headers.insert(header::WARNING, HeaderValue::from_static(LACKS_A_SITE));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
}

fn missing(asked: Vec<Asked>) -> Response<AnswerBody> {
    Problem::new(StatusCode::GATEWAY_TIMEOUT, "incomplete", "A site is missing from this list")
        .detail("the request, or this listener, wants all of it or nothing")
        .asked(asked)
        .into_response()
}

/// A stream of several sites: one of them would look like all, and nothing says how they become one.
fn stream() -> Problem {
    let title = "Streams of several sites cannot be merged";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "stream", title)
        .detail("the answer is one that services keep open, such as a watch or events: open one at each site that you need")
}

/// Several sites answered with what may be a list, and the profile does not say how it looks.
fn unlike_a_list(asked: Vec<Asked>) -> Response<AnswerBody> {
    let title = "The answers of these sites are not known to be one resource, nor to be lists";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-merged", title)
        .detail(
            "several sites answered, and the request, or this listener, wants all of it or nothing: name one site, say in \
             [[lists.kinds]] of the profile how this list looks (or `merge = false`), or send `X-Scope-Strict: false` for the \
             nearest site's answer",
        )
        .asked(asked)
        .into_response()
}

fn no_merge(broken: &Broken, asked: Vec<Asked>) -> Response<AnswerBody> {
    let status = match broken {
        Broken::Nothing | Broken::Late { .. } => StatusCode::BAD_GATEWAY,
        Broken::UniqueItems
        | Broken::UniquePaged { .. }
        | Broken::Held
        | Broken::NotAList
        | Broken::SameName { .. }
        | Broken::NextUnknown { .. }
        | Broken::Window { .. }
        | Broken::Values
        | Broken::ValuesPaged => StatusCode::UNPROCESSABLE_ENTITY,
    };
    Problem::new(status, "not-merged", "The lists of these sites could not be merged")
        .detail(broken.to_string())
        .asked(asked)
        .into_response()
}

fn head_of<'h>(headers: &'h HeaderMap, link: &str) -> Head<'h> {
    Head {
        content_type: text(headers, &header::CONTENT_TYPE),
        content_encoding: text(headers, &header::CONTENT_ENCODING),
        link: headers.get(link).and_then(|value| value.to_str().ok()),
        // One that is no text is there, and cannot be read.
        unconfirmed: headers.get(&copies::UNCONFIRMED).map(|word| word.to_str().unwrap_or_default()),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    text_of(headers, name.as_str())
}

fn text_of<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}
