//! Which items of merged lists are copies of one resource.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::header::{self, HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Response};
use http_body::{Body, Frame};
use merge::{Limits, Mark, Marking, Same};
use profile::{Kinds, List};
use scope::Site;
use tokio::time::Instant;

use super::rewrite::{content_type, drop_digests, is_json};
use super::{Known, Name, Replicas, Seen};
use crate::BoxError;
use crate::body::AnswerBody;

/// Says that a site has replicated resources of the service that answers. Only peers may set it, and only peers
/// see it.
const SOME: HeaderName = HeaderName::from_static("archipel-copies");

/// Notes on an answer that its list may have items that other sites have too.
pub(crate) fn note(headers: &mut HeaderMap) {
    headers.insert(SOME, HeaderValue::from_static("1"));
}

/// Whether an answer says so.
pub(crate) fn has_some(headers: &HeaderMap) -> bool {
    headers.contains_key(SOME)
}

/// On a leg for a list of several sites: a secret, and the sites.
const LISTED: HeaderName = HeaderName::from_static("archipel-listed");

/// On the answer, where the items of replicated resources are marked: of which the others are not known to have theirs.
pub(crate) const UNCONFIRMED: HeaderName = HeaderName::from_static("archipel-unconfirmed");

/// The list of several sites that a request is for. Each says of its items which of the sites have them, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    secret: String,
    sites: Vec<Site>,
}

impl Listed {
    pub(crate) fn new(secret: String, sites: Vec<Site>) -> Listed {
        Listed { secret, sites }
    }

    /// As another site said it.
    pub(crate) fn read(head: &Parts) -> Option<Listed> {
        let (secret, sites) = head.headers.get(LISTED)?.to_str().ok()?.split_once(' ')?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        let sites = sites.split(',').map(|site| Site::new(site.trim().trim_matches('"')));
        secret.bytes().all(is_plain).then_some(())?;
        Some(Listed { secret: secret.to_owned(), sites: sites.collect::<Option<_>>()? })
    }

    /// Tells another site. One of an earlier version passes it over.
    pub(crate) fn write(&self, head: &mut Parts) {
        let sites: Vec<String> = self.sites.iter().map(|site| format!("\"{site}\"")).collect();
        // The names of sites are printable ASCII.
        if let Ok(value) = HeaderValue::try_from(format!("{} {}", self.secret, sites.join(", "))) {
            head.headers.insert(LISTED, value);
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark::new(&self.secret, self.sites.len())
    }
}

/// How the items of one answer are marked.
pub(crate) struct Marked {
    marking: Marking,
    items: Items,
    word: String,
}

/// What is known of the items of one list, by their ids.
struct Items {
    known: Arc<Known>,
    collection: Name,
    sites: Vec<Site>,
}

impl Items {
    /// The sites of the list that have an item, if several do.
    fn sources(&self, id: &str) -> Option<Vec<usize>> {
        let Seen::Replicated(place) = self.known.look_up(&self.collection.with_id(id)) else { return None };
        let has = |(_, site): &(usize, &Site)| place.members.contains(*site);
        let sources: Vec<usize> =
            self.sites.iter().enumerate().filter(has).map(|(source, _)| source).collect();
        (sources.len() > 1).then_some(sources)
    }
}

impl Marked {
    /// Marks an answer of the service, if it can be a list.
    pub(crate) fn answer(self, response: Response<AnswerBody>) -> Response<AnswerBody> {
        let (mut head, body) = response.into_parts();
        let coding = head.headers.get(header::CONTENT_ENCODING);
        let is_coded = coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        if !head.status.is_success() || is_coded || !is_json(content_type(&head.headers)) {
            return Response::from_parts(head, body);
        }
        // It is of letters, digits and hyphens.
        if let Ok(word) = HeaderValue::try_from(&self.word) {
            head.headers.insert(UNCONFIRMED, word);
        }
        drop_digests(&mut head.headers);
        head.headers.remove(header::CONTENT_LENGTH);
        if body.is_end_stream() {
            return Response::from_parts(head, body);
        }
        let (marking, items) = (self.marking, self.items);
        let marked =
            MarkedBody { marking, items, body: Box::new(body), ready: VecDeque::new(), ended: false };
        Response::from_parts(head, AnswerBody::marked(marked))
    }
}

/// A list on its way to whoever merges it. What comes behind its data is not for that one.
pub(crate) struct MarkedBody {
    marking: Marking,
    items: Items,
    body: Box<AnswerBody>,
    ready: VecDeque<Bytes>,
    ended: bool,
}

impl MarkedBody {
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            if self.ended {
                return Poll::Ready(None);
            }
            let items = &self.items;
            let sources = |id: &str| items.sources(id);
            let outcome = match ready!(Pin::new(&mut *self.body).poll_frame(context)) {
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => self.marking.push(bytes, &sources, &mut self.ready),
                    Err(_) => continue,
                },
                None => {
                    self.ended = true;
                    self.marking.finish(&sources, &mut self.ready)
                }
            };
            if let Err(fault) = outcome {
                return Poll::Ready(Some(Err(BoxError::from(fault.to_string()))));
            }
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        self.ended && self.ready.is_empty()
    }
}

/// What is known of the items of one list.
pub(crate) struct Copies {
    known: Arc<Known>,
    /// Whose they are, where they are a user's.
    owner: Option<String>,
}

impl Copies {
    /// Nothing where nothing in this list can be replicated. What belongs to users is this one's.
    pub(crate) fn of(
        kinds: &Kinds,
        replicas: &Replicas,
        service: &str,
        owner: Option<&str>,
    ) -> Option<Copies> {
        let copies = || Copies { known: Arc::clone(&replicas.known), owner: owner.map(str::to_owned) };
        kinds.any(service).then(copies)
    }

    /// The name of an item of a list but for its id, if these can be replicated.
    fn collection(&self, kinds: &Kinds, service: &str, path: &str) -> Option<Name> {
        let item = format!("{}/x", path.trim_end_matches('/'));
        let item = kinds.items(service, &item).into_iter().next().filter(|item| item.below.is_empty())?;
        match (&item.kind.owner, &self.owner) {
            (None, _) => Some(Name::new(service, item.name)),
            (Some(_), Some(owner)) => Some(Name::owned(service, item.name, owner)),
            (Some(_), None) => None,
        }
    }

    /// How the items of a list are marked; nothing where none can be replicated.
    pub(crate) fn marked(
        &self,
        kinds: &Kinds,
        service: &str,
        path: &str,
        list: List,
        listed: &Listed,
    ) -> Option<Marked> {
        let collection = self.collection(kinds, service, path)?;
        let word = self.known.unconfirmed(&collection, &listed.sites, Instant::now()).to_header();
        let items = Items { known: Arc::clone(&self.known), collection, sites: listed.sites.clone() };
        Some(Marked { marking: Marking::new(list, listed.mark(), Limits::default()), items, word })
    }

    /// What the items with an id are. What is replicated is known at the sites that have it: where several say that
    /// they have some, equal UUIDs are no chance. Nothing where no item can be a copy: most lists are told without.
    pub(crate) fn rule(
        &self,
        kinds: &Kinds,
        service: &str,
        path: &str,
        several: bool,
    ) -> Option<impl Fn(&str) -> Same + use<>> {
        if !several && !self.known.may_have(service) {
            return None;
        }
        let (known, collection) = (Arc::clone(&self.known), self.collection(kinds, service, path)?);
        Some(move |id: &str| match known.look_up(&collection.with_id(id)) {
            Seen::Replicated(place) => {
                let sites: Vec<&str> = place.members.iter().map(scope::Site::name).collect();
                Same::Yes { sites: Some(sites.join(" & ")) }
            }
            Seen::Hidden | Seen::Ordinary if several && is_uuid(id) => Same::Yes { sites: None },
            Seen::Hidden | Seen::Ordinary => Same::No,
        })
    }
}

fn is_uuid(id: &str) -> bool {
    let digits = id.bytes().filter(u8::is_ascii_hexdigit).count();
    digits == 32 && (id.len() == 32 || id.len() == 36 && id.bytes().filter(|byte| *byte == b'-').count() == 4)
}
