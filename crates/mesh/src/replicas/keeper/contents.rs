//! Content that a document names, such as the layers of an image, is copied to this site's service before the document
//! is put there.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, LOCATION};
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Collected, Limited};
use link::Received;
use plan::Sent;
use profile::{Content, ContentUpload, Kind};
use replica::{How, Level, Outcome, Who};
use scope::Site;
use spool::{Spool, Stored};

use super::execute::{ANSWER_BYTES, Job, Said, ask, ask_with, kind, request};
use super::pull::{self, Progress};
use super::replay::Replay;
use crate::body::LegBody;
use crate::core::{Core, State};
use crate::identity;
use crate::leg::{self, Carried};
use crate::problem::UNSENT;
use crate::replicas::request::{Kept, Name};
use crate::replicas::understand::plain;
use crate::replicas::{Held, Seen};

/// A document may name documents that name others: so many deep at most.
const DEEPEST: usize = 4;

/// A service's answer to a write.
pub(super) struct ServiceAnswer {
    pub(super) head: http::response::Parts,
    pub(super) body: Option<Bytes>,
    /// It refuses a document, and something that the document names could not be copied here.
    pub(super) lacks: bool,
}

impl ServiceAnswer {
    /// True where it may be for want of something that the document names.
    fn is_refusal(&self) -> bool {
        let status = self.head.status.as_u16();
        let refused = (400..=499).contains(&status) && !matches!(status, 401 | 403 | 408 | 429);
        refused && !self.head.headers.contains_key(UNSENT)
    }
}

impl Job {
    /// Asks the service. What a document names is copied here before that; where its sender asks, who is the service's to
    /// judge, afterwards: then a document that was refused is sent once more.
    pub(super) async fn answer(
        &self,
        state: &State,
        kept: &Kept,
        (head, body, carried): (Box<Parts>, LegBody, Option<Carried>),
    ) -> Result<ServiceAnswer, Said> {
        let carried = carried.as_ref();
        let document = match &body {
            LegBody::Full(document) if self.names_contents(state, kept) => document.clone(),
            _ => return self.send(state, kept, head, body, carried).await,
        };
        if !self.is_as_sent(kept) {
            let copied = self.complete(state, kept, &document).await;
            if copied.unknown > 0 {
                return Err(Held::Lacking.into());
            }
            let answer = self.send(state, kept, head, body, carried).await?;
            let lacks = copied.nowhere > 0 && answer.is_refusal();
            return Ok(ServiceAnswer { lacks, ..answer });
        }
        let answer = self.send(state, kept, head.clone(), body, carried).await?;
        if !answer.is_refusal() && !answer.head.status.is_success() {
            return Ok(answer);
        }
        let copied = self.complete(state, kept, &document).await;
        if answer.head.status.is_success() {
            return Ok(answer);
        }
        let answer = match copied.made {
            0 => answer,
            _ => self.send(state, kept, head, LegBody::Full(document), carried).await?,
        };
        let lacks = copied.unknown + copied.nowhere > 0 && answer.is_refusal();
        Ok(ServiceAnswer { lacks, ..answer })
    }

    /// Copies what a document names.
    async fn complete(&self, state: &State, kept: &Kept, document: &[u8]) -> Copied {
        let name = Name::from(&self.operation.resource);
        let by = &self.operation.id.site;
        let (core, spool) = (&*self.core, &self.spool);
        let sources = sources(core, state, &name, by);
        let on_behalf_of = Some((by, &self.operation.on_behalf_of));
        let contents = Contents { core, state, spool, name: &name, sources, on_behalf_of };
        let path = plain(kept.path.trim_end_matches('/'));
        Box::pin(contents.complete(&path, document, DEEPEST)).await
    }

    /// True where a write is of a document that may name something by its content.
    fn names_contents(&self, state: &State, kept: &Kept) -> bool {
        let kind = kind(state, &kept.service, &kept.kind, &kept.path);
        let sets = matches!(self.execution.how, How::Create | How::Replace);
        sets && kept.below.trim_matches('/').is_empty() && kind.is_some_and(Kind::has_contents)
    }

    async fn send(
        &self,
        state: &State,
        kept: &Kept,
        head: Box<Parts>,
        body: LegBody,
        carried: Option<&Carried>,
    ) -> Result<ServiceAnswer, Said> {
        let Some(service) = state.service(&kept.service) else { return Err(Outcome::NotExecuted.into()) };
        let asked = head.headers.clone();
        let answer = Box::pin(leg::local(&self.core, state, &service, head, body, carried, None)).await;
        let response = match answer {
            Ok(response) => response,
            Err(failure) if failure.sent == Sent::No => return Err(Outcome::NotExecuted.into()),
            Err(_) => return Err(Outcome::Unknown.into()),
        };
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES).collect().await.ok().map(Collected::to_bytes);
        if head.status == StatusCode::UNAUTHORIZED {
            identity::ended(&self.core, &asked);
        }
        Ok(ServiceAnswer { head, body, lacks: false })
    }

    /// True where a refusal is not the last word: what the document names may come to a site that can be asked, and nobody waits
    /// who could send it once more.
    pub(super) fn waits_for_contents(&self, kept: &Kept, lacks: bool) -> bool {
        lacks && (!self.is_as_sent(kept) || self.level == Level::Weak)
    }
}

/// The other sites that may have what a document of this name is made of: the one that knows of it first.
pub(super) fn sources(core: &Core, state: &State, name: &Name, first: &Site) -> Vec<Site> {
    let known = core.shared.replicas.as_ref().map(|replicas| replicas.known.look_up(name));
    let members: Vec<Site> = match known {
        Some(Seen::Replicated(place)) => place.members.into_iter().collect(),
        _ => state.sites.members().to_vec(),
    };
    let (all, here) = (state.sites.members(), &state.settings().site);
    let others = members.into_iter().filter(|site| site != first);
    // Who is no member any more gives nothing.
    let sources = [first.clone()].into_iter().chain(others);
    sources.filter(|site| site != here && all.contains(site)).collect()
}

/// The outcome of copying all that a document names and is not here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Copied {
    /// So many were copied here.
    made: usize,
    /// Of so many every other site says that it has not got them: the service may want them, or not.
    nowhere: usize,
    /// So many may be at another site.
    unknown: usize,
}

/// The outcome of copying one of them.
enum Found {
    Made,
    Nowhere,
    Unknown,
}

/// Copies what documents name from other sites' services to the one of this site.
pub(super) struct Contents<'c> {
    pub(super) core: &'c Core,
    pub(super) state: &'c State,
    pub(super) spool: &'c Spool,
    /// The resource that is written, by its name for clients.
    pub(super) name: &'c Name,
    /// Where to look, in this order.
    pub(super) sources: Vec<Site>,
    pub(super) on_behalf_of: Option<(&'c Site, &'c Who)>,
}

impl Contents<'_> {
    /// Copies the document with this path, if it is this one.
    pub(super) async fn copy_document(&self, path: &str, document: &[u8]) -> bool {
        for source in &self.sources {
            let Some(Some(answer)) = self.pull(source, path).await else { continue };
            let Some((media_type, found)) = document_of(answer).await else { continue };
            if found == document {
                return self.put(path, media_type, found, DEEPEST).await;
            }
        }
        false
    }

    /// Copies what the service here has not got of what a document names.
    async fn complete(&self, path: &str, document: &[u8], depth: usize) -> Copied {
        let mut copied = Copied::default();
        let items = self.state.settings().profile.kinds.items(self.name.service(), path);
        let Some(kind) = items.first().map(|item| item.kind) else { return copied };
        for content in kind.contents_of(path, document) {
            let found = match self.is_here(&content.path).await {
                Some(true) => continue,
                Some(false) => Box::pin(self.copy(&content, depth)).await,
                None => Found::Unknown,
            };
            match found {
                Found::Made => copied.made += 1,
                Found::Nowhere => copied.nowhere += 1,
                Found::Unknown => copied.unknown += 1,
            }
        }
        copied
    }

    async fn is_here(&self, path: &str) -> Option<bool> {
        let (method, uri) = (Method::HEAD, path.try_into().ok()?);
        let head = Replay { method, uri, headers: HeaderMap::new(), body: Bytes::new() };
        let answer = ask(self.core, self.state, self.name, head, None).await?;
        match answer.status().as_u16() {
            // Some keep it elsewhere, and say where.
            200..=399 => Some(true),
            404 | 410 => Some(false),
            _ => None,
        }
    }

    /// Asks for the content that another site's service has there. `Some(None)`: it has nothing.
    async fn pull(&self, source: &Site, path: &str) -> Option<Option<Response<Received>>> {
        let asked = postcard::to_allocvec(&(self.name.service(), path)).ok()?;
        pull::content(self.core, source, asked.into()).await
    }

    /// From the first site that has it.
    async fn copy(&self, content: &Content<'_>, depth: usize) -> Found {
        let mut nowhere = true;
        for source in &self.sources {
            let answer = match self.pull(source, &content.path).await {
                Some(Some(answer)) => answer,
                Some(None) => continue,
                None => {
                    nowhere = false;
                    continue;
                }
            };
            nowhere = false;
            let made = match content.upload {
                Some(upload) => self.upload(content, upload, answer).await == Some(true),
                None => match document_of(answer).await {
                    Some((media_type, document)) if depth > 0 => {
                        self.put(&content.path, media_type, document, depth - 1).await
                    }
                    _ => false,
                },
            };
            if made {
                return Found::Made;
            }
        }
        if nowhere { Found::Nowhere } else { Found::Unknown }
    }

    /// Through the spool: the service is given all of it, or nothing.
    async fn upload(
        &self,
        content: &Content<'_>,
        upload: &ContentUpload,
        answer: Response<Received>,
    ) -> Option<bool> {
        let stored = pull::stored(self.core, self.spool, answer, &Progress::default()).await?;
        let made = self.upload_stored(content, upload, &stored).await;
        let _ = self.spool.erase(stored.id).await;
        made
    }

    async fn upload_stored(
        &self,
        content: &Content<'_>,
        upload: &ContentUpload,
        stored: &Stored,
    ) -> Option<bool> {
        let mut post = request(Method::POST, &upload.begin(content), None, Bytes::new())?;
        post.headers.insert(CONTENT_LENGTH, 0.into());
        let begun = ask(self.core, self.state, self.name, post, self.on_behalf_of).await?;
        if !begun.status().is_success() {
            return Some(false);
        }
        // Wherever it says that it is: this is the service here.
        let address: Uri = begun.headers().get(LOCATION)?.to_str().ok()?.parse().ok()?;
        let address = address.path_and_query()?.as_str();
        let octets: Option<&[u8]> = Some(b"application/octet-stream");
        let mut put = request(Method::PUT, &upload.end(address, content), octets, Bytes::new())?;
        put.headers.insert(CONTENT_LENGTH, stored.len.into());
        let reader = self.spool.reader(stored.id, 0).ok()?;
        let body = LegBody::stored(reader, self.state.settings().timeouts.body_idle);
        let ended = ask_with(self.core, self.state, self.name, put, self.on_behalf_of, Some(body)).await?;
        Some(ended.status().is_success())
    }

    /// Puts a document here, after what it names.
    async fn put(&self, path: &str, media_type: Option<HeaderValue>, document: Bytes, depth: usize) -> bool {
        if Box::pin(self.complete(path, &document, depth)).await.unknown > 0 {
            return false;
        }
        let kind = media_type.as_ref().map(HeaderValue::as_bytes);
        let Some(put) = request(Method::PUT, path, kind, document) else { return false };
        let answer = ask(self.core, self.state, self.name, put, self.on_behalf_of).await;
        answer.is_some_and(|answer| answer.status().is_success())
    }
}

/// A document, with its media type.
async fn document_of(answer: Response<Received>) -> Option<(Option<HeaderValue>, Bytes)> {
    let media_type = answer.headers().get(CONTENT_TYPE).cloned();
    let document = Limited::new(answer.into_body(), ANSWER_BYTES).collect().await.ok()?.to_bytes();
    Some((media_type, document))
}
