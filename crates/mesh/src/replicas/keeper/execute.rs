//! This site's service executes an operation.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, LOCATION};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Limited};
use ids::is_uuid;
use plan::Sent;
use profile::{IdForm, Kind};
use replica::{Authority, Body, Class, Execution, How, Level, LocalId, Operation, Outcome, Who};
use scope::Site;
use serde_json::Value;
use spool::{Id, Spool};

use super::awaited::{Waits, are_made};
use super::book::is_provisional;
use super::contents::ServiceAnswer;
use super::credentials::{as_archipel, is_by_login, is_known, is_of_the_credential, is_of_the_moment, under};
use super::naming::{created, note_unnamed};
use super::probe::{mark, probe_of};
use super::replay::{self, Replay, Target};
use super::vault::{Table, Vault};
use super::vouch::is_signed;
use crate::body::{AnswerBody, LegBody};
use crate::core::{Core, State};
use crate::identity::{self, Unvouched};
use crate::leg::{self, Carried};
use crate::problem::UNSENT;
use crate::replicas::Held;
use crate::replicas::declared::Declared;
use crate::replicas::references::addressed;
use crate::replicas::request::{Content, Kept, Name, Scoped};
use crate::replicas::understand::{has_dots, is_part, plain};
use crate::upstream::Alone;

/// The longest answer that is read: it is held as a whole until its operation is durable.
pub(super) const ANSWER_BYTES: usize = 16 << 20;

/// The longest body, headers and name of a write that are kept: records of the store are larger than all of them.
const LONGEST_WRITE: usize = 32 << 20;
const LONGEST_HEADERS: usize = 1 << 20;
pub(super) const LONGEST_NAME: usize = 4 << 10;

/// About what an operation takes in memory, whatever its body.
const REMEMBERED: u64 = 1 << 10;

/// One execution of an operation.
pub(super) struct Job {
    pub(super) core: Rc<Core>,
    pub(super) vault: Vault,
    pub(super) spool: Spool,
    pub(super) operation: Operation,
    pub(super) execution: Execution,
    pub(super) local: Option<LocalId>,
    pub(super) authority: Authority,
    /// Whether every site's service has the resource under the same id.
    pub(super) chosen: bool,
    /// Whether an earlier attempt may have been executed.
    pub(super) doubted: bool,
    pub(super) level: Level,
    pub(super) waits: Rc<Waits>,
    /// What the client sent, where this is its own request.
    pub(super) sender: Option<(Box<Parts>, Option<Scoped>)>,
}

/// What a service said.
pub(super) struct Said {
    pub(super) outcome: Outcome,
    /// Its answer, where a client may wait for it and it could be read.
    pub(super) response: Option<Response<Bytes>>,
    /// The body, if it was to be in the spool and is not.
    pub(super) lacking: Option<Box<Lacking>>,
    /// Why it was not executed, where somebody can do something about that.
    pub(super) held: Option<Held>,
}

/// A body that is to be in the spool.
#[derive(Clone, Copy)]
pub(super) struct Lacking {
    pub(super) id: Id,
    pub(super) length: u64,
    pub(super) digest: [u8; 32],
}

impl From<Outcome> for Said {
    fn from(outcome: Outcome) -> Said {
        Said { outcome, response: None, lacking: None, held: None }
    }
}

impl From<Held> for Said {
    fn from(held: Held) -> Said {
        Said { held: Some(held), ..Outcome::NotExecuted.into() }
    }
}

impl Job {
    /// Has the service execute it.
    pub(super) async fn execute(mut self) -> Said {
        let Some(kept) = self.kept().await else { return Outcome::NotExecuted.into() };
        let state = self.core.state();
        let named = (kept.names.as_slice(), &self.operation.id.site);
        if !are_made(&self.core, &state, &self.waits, &self.operation.resource, named).await {
            return Outcome::NotExecuted.into();
        }
        if let Err(outcome) = self.claim(&state, &kept).await {
            return outcome.into();
        }
        if self.is_anothers() {
            return self.refused(&kept, 404, false).into();
        }
        let (mut head, mut body, carried) = match self.request(&state, &kept).await {
            Ok(request) => request,
            Err(said) => return said,
        };
        // The id of what was made is looked for in the answer, and others may have to be replaced.
        head.headers.insert(http::header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if let (Some(id), Content::Spooled { length, digest }) = (spooled(&kept), &kept.content) {
            let Ok(reader) = self.spool.reader(id, 0) else {
                let lacking = Box::new(Lacking { id, length: *length, digest: *digest });
                return Said { lacking: Some(lacking), ..Outcome::NotExecuted.into() };
            };
            body = LegBody::stored(reader, state.settings().timeouts.body_idle);
        }
        // Who reads the service's log, having to say what became of it, finds it there.
        if let Ok(name) = HeaderValue::try_from(self.execution.op.to_string()) {
            head.headers.insert(OPERATION, name);
        }
        let answer = self.answer(&state, &kept, (head, body, carried)).await;
        let ServiceAnswer { head, body, lacks } = match answer {
            Ok(answer) => answer,
            Err(said) => return said,
        };
        let status = head.status.as_u16();
        let unsent = head.headers.contains_key(UNSENT);
        let response = body.map(|body| Response::from_parts(head.clone(), body));
        let gone = matches!(status, 404 | 410) && !unsent && self.has_no_such_part(&state, &kept).await;
        let lingers = matches!(status, 200..=299 | 303) && self.is_held(&state, &kept).await;
        let outcome = match status {
            200..=299 | 303 if lingers => Outcome::Begun { status },
            200..=299 | 303 => self.done(&state, &kept, &head, response.as_ref()),
            _ if unsent || self.waits_for_contents(&kept, lacks) => Outcome::NotExecuted,
            300..=499 => self.refused(&kept, status, gone),
            _ => Outcome::Unknown,
        };
        let reason = (outcome == Outcome::NotExecuted && !unsent).then_some(Held::Status(status));
        Said { outcome, response, lacking: None, held: reason }
    }

    /// What becomes of a write that the service answered with a refusal.
    fn refused(&self, kept: &Kept, status: u16, gone: bool) -> Outcome {
        let deletes = self.execution.how == How::Delete;
        match status {
            // Its client was told that it will be executed, and cannot come again.
            status if self.level == Level::Weak && is_of_the_moment(status) => Outcome::NotExecuted,
            status if self.is_as_sent(kept) => Outcome::Refused { status },
            // What is to be gone is gone.
            404 | 410 if deletes || gone => Outcome::Done { status, local: None },
            status if is_of_the_credential(status) => Outcome::NotExecuted,
            // What was deleted elsewhere is not there any more: it goes when the service lets it.
            _ if deletes && self.authority == Authority::Site => Outcome::NotExecuted,
            status => Outcome::Refused { status },
        }
    }

    /// True where the service has given the id that this resource had to another one since: the service has it no more.
    fn is_anothers(&self) -> bool {
        let (meta, local) = (Name::from(&self.operation.resource), self.local.as_ref().map(Name::from));
        let replicas = self.core.shared.replicas.as_ref();
        local.zip(replicas).is_some_and(|(local, replicas)| replicas.known.is_anothers(&meta, &local))
    }

    /// Whether the service is asked as the sender asked: with the sender's credential, or without any as the sender.
    pub(super) fn is_as_sent(&self, kept: &Kept) -> bool {
        match self.authority {
            Authority::Sender => true,
            Authority::Unproven => kept.is_anonymous(),
            Authority::Site => false,
        }
    }

    /// Sees to it that a name which the client chose at another site takes the place of nothing that this site's
    /// service has under it. What an earlier attempt may have made is not told from that only where it cannot be read.
    async fn claim(&self, state: &State, kept: &Kept) -> Result<(), Outcome> {
        let elsewhere = self.authority == Authority::Site && self.execution.how == How::Create;
        let Some(local) = self.local.as_ref().filter(|_| self.chosen && elsewhere).map(Name::from) else {
            return Ok(());
        };
        let path = item_path(kept, &self.operation.class, &local);
        match look(&self.core, state, &local, &path).await {
            Some((404 | 410, _)) => Ok(()),
            Some((200..=299, found)) if self.doubted || is_exact(state, kept) => {
                let same = self.agrees(state, kept, &How::Create, &found);
                if same == Some(false) { Err(TAKEN) } else { Ok(()) }
            }
            Some((200..=299, _)) => Err(TAKEN),
            // It may be there: nothing is done before that is known.
            Some(_) | None => Err(Outcome::NotExecuted),
        }
    }

    /// Whether what a write sets is so in what the service has. `None`: it cannot be told.
    pub(super) fn agrees(&self, state: &State, kept: &Kept, how: &How, found: &[u8]) -> Option<bool> {
        let (own, ids) = (self.local.as_ref().map(Name::from), self.ids(&kept.service));
        let declared = self.declared(state, kept);
        let target = target(state, kept, own.as_ref(), self.chosen, (&ids, declared.as_ref()));
        let written = replay::replay(kept, &self.operation.class, how, &target)?.body;
        if target.kind.is_some_and(|kind| kind.exact) {
            return Some(written == found);
        }
        let written: Value = serde_json::from_slice(&written).ok()?;
        let found: Value = serde_json::from_slice(found).ok()?;
        let envelope = target.kind.map_or("", |kind| &kind.document);
        replay::agrees(&written, found.pointer(envelope)?)
    }

    pub(super) async fn kept(&self) -> Option<Kept> {
        let Body(id) = self.operation.body.as_ref()?;
        self.vault.get(Table::Kept, id.as_bytes()).await.ok()?
    }

    /// The request: the client's own, or the kept one under this site's credential.
    async fn request(
        &mut self,
        state: &State,
        kept: &Kept,
    ) -> Result<(Box<Parts>, LegBody, Option<Carried>), Said> {
        let meta = Name::from(&self.operation.resource);
        let (local, ids) = (self.local.as_ref().map(Name::from), self.ids(&kept.service));
        let declared = self.declared(state, kept);
        let target = target(state, kept, local.as_ref(), self.chosen, (&ids, declared.as_ref()));
        let (class, how) = (&self.operation.class, &self.execution.how);
        if !is_of(class, kept, &meta) {
            return Err(Outcome::NotExecuted.into());
        }
        let kind = kind(state, &kept.service, &kept.kind, &kept.path);
        let probe = kind.and_then(|kind| probe_of(kind, kept, how));
        if let Some((mut head, scoped)) = self.sender.take() {
            let carried = scoped.map(|scoped| carried(state, &scoped)).transpose()?;
            let (method, path) = replay::path(kept, class, how, &target);
            head.method = method;
            // The client's own query: the kept one lacks credentials.
            head.uri = target.address(&path, head.uri.query()).ok_or(Outcome::NotExecuted)?;
            let mut body = replay::body(kept, how, &target, &mut head.headers);
            mark(probe, &self.execution.op, &mut head.headers, &mut body);
            return Ok((head, full(body), carried));
        }
        if !state.notary().is_none_or(|notary| is_signed(notary, &self.operation, kept)) {
            self.core.shared.audit.write(&serde_json::json!({
                "replicas": "a write is not as the site that accepted it signed it, and is not executed",
                "operation": self.operation.id.to_string(),
            }));
            // What is this site's own was acknowledged: it stays, and waits.
            let own = self.authority == Authority::Unproven;
            return Err(if own { Held::Unsigned.into() } else { Outcome::Refused { status: 403 }.into() });
        }
        let on_behalf_of = Some((&self.operation.id.site, &self.operation.on_behalf_of));
        let mut replay = replay::replay(kept, class, how, &target).ok_or(Outcome::NotExecuted)?;
        mark(probe, &self.execution.op, &mut replay.headers, &mut replay.body);
        if self.is_as_sent(kept) && meta.owner().is_none() {
            let (head, body) = under(&[], replay);
            return Ok((head, body, None));
        }
        if self.authority == Authority::Unproven && !is_known(state, &kept.service) {
            return Err(self.without_credential());
        }
        let own = as_archipel(&self.core, state, &kept.service, &meta, replay, on_behalf_of).await;
        // Without, it waits, and is shown: somebody has to say who the sender is here. As anybody else it is not executed.
        let (credentials, replay) = own.map_err(|Unvouched| Held::NoCredential)?;
        let (head, body) = under(&credentials, replay);
        Ok((head, body, None))
    }

    /// Nobody vouches for the sender, whose token is gone: it waits. Where writes have one order that is so when the leader
    /// changes, and no word of the service on the write; but one that was tried before would hold up all after it.
    fn without_credential(&self) -> Said {
        if self.level.order() == replica::order::Order::Log && self.doubted {
            return Outcome::Refused { status: 403 }.into();
        }
        Held::NoCredential.into()
    }

    /// The ids of the service here, its own for this resource among them.
    fn ids(&self, service: &str) -> ids::Table {
        let mut ids = ids_of(&self.core, service);
        let local = self.local.as_ref().map(Name::from).filter(|local| !self.chosen && is_uuid(local.id()));
        if let Some(local) = local {
            let _ = ids.insert(Name::from(&self.operation.resource).id(), local.id());
        }
        ids
    }

    /// The ids of the service here that are replaced in declared places only, its own for this resource among them.
    fn declared(&self, state: &State, kept: &Kept) -> Option<Declared> {
        let known = &self.core.shared.replicas.as_ref()?.known;
        let (meta, local) = (Name::from(&self.operation.resource), self.local.as_ref().map(Name::from));
        let path = plain(kept.path.trim_end_matches('/'));
        let within = if kept.method == "POST" { format!("{path}/x") } else { path.into_owned() };
        let items = state.settings().profile.kinds.items(&kept.service, &within);
        let collection = Name::new(&kept.service, items.first()?.name).with_id("");
        let collection = if is_provisional(&self.operation.resource) { collection } else { meta.with_id("") };
        let kind = kind(state, &kept.service, &kept.kind, &kept.path);
        let kind = kind.filter(|_| kept.below.trim_matches('/').is_empty());
        let own = local.as_ref().filter(|_| !self.chosen).map(|local| (&meta, local));
        Declared::of_documents(known, state, kind, &collection, own)
    }

    fn done(
        &self,
        state: &State,
        kept: &Kept,
        head: &http::response::Parts,
        response: Option<&Response<Bytes>>,
    ) -> Outcome {
        let status = head.status.as_u16();
        if self.execution.how != How::Create || self.chosen {
            return Outcome::Done { status, local: None };
        }
        let meta =
            Some(Name::from(&self.operation.resource)).filter(|_| !is_provisional(&self.operation.resource));
        match created(state, kept, meta.as_ref(), head.headers.get(LOCATION), response.map(Response::body)) {
            Some(name) => {
                let form =
                    kind(state, &kept.service, &kept.kind, &kept.path).and_then(|kind| kind.ids.clone());
                if let Some(replicas) = &self.core.shared.replicas {
                    let form = form.unwrap_or_else(|| IdForm::of_meta(name.id()));
                    let audit = &self.core.shared.audit;
                    replicas.known.note_given(audit, &name.with_id(""), &form, name.id());
                }
                Outcome::Done { status, local: Some(LocalId::from(&name)) }
            }
            // Half an answer does not say what was made.
            None if response.is_none() => Outcome::Unknown,
            None => {
                note_unnamed(&self.core, &self.execution.op);
                Outcome::Done { status, local: None }
            }
        }
    }
}

/// The service has something else under the name that a client chose at another site.
const TAKEN: Outcome = Outcome::Refused { status: 409 };

/// Names the operation to the service that executes it, and to the client.
pub(super) const OPERATION: HeaderName = HeaderName::from_static("scope-operation");

pub(super) fn full(body: Bytes) -> LegBody {
    if body.is_empty() { LegBody::Empty } else { LegBody::Full(body) }
}

/// The scope that the service's own calls carry, for this core.
fn carried(state: &State, scoped: &Scoped) -> Result<Carried, Outcome> {
    // A reload may have changed what can be said: then it is as if the service could not be asked.
    let scope = state.scope(&scoped.text).map_err(|_| Outcome::NotExecuted)?;
    let (entered, hops) = (scoped.entered.clone(), scoped.hops);
    Ok(Carried { scope, entered, hops, sender: scoped.sender, token: scoped.token })
}

/// The kind of what a write is to.
pub(super) fn kind<'s>(state: &'s State, service: &str, name: &str, path: &str) -> Option<&'s Kind> {
    let (kinds, path) = (&state.settings().profile.kinds, &*plain(path));
    let collection = || kinds.collection(service, path).filter(|kind| kind.name == name);
    let item = || kinds.items(service, path).into_iter().map(|item| item.kind).find(|kind| kind.name == name);
    collection().or_else(item)
}

/// True where its documents go byte for byte.
fn is_exact(state: &State, kept: &Kept) -> bool {
    kind(state, &kept.service, &kept.kind, &kept.path).is_some_and(|kind| kind.exact)
}

fn target<'t>(
    state: &'t State,
    kept: &Kept,
    local: Option<&'t Name>,
    chosen: bool,
    (ids, declared): (&'t ids::Table, Option<&'t Declared>),
) -> Target<'t> {
    let kind = kind(state, &kept.service, &kept.kind, &kept.path);
    let data = kind.is_some_and(|kind| kind.exact || is_part(kind, &kept.below));
    Target { local, chosen, kind, ids, declared, data }
}

/// The ids that a service here has for replicated resources.
pub(super) fn ids_of(core: &Core, service: &str) -> ids::Table {
    core.shared.replicas.as_ref().and_then(|replicas| replicas.known.table(service)).unwrap_or_default()
}

/// The path of a resource that a write is to, or made.
pub(super) fn item_path(kept: &Kept, class: &Class, local: &Name) -> String {
    let path = kept.path.trim_end_matches('/');
    let collection = if *class == Class::Create && kept.method == "POST" {
        path
    } else {
        path.rsplit_once('/').map_or("", |(collection, _)| collection)
    };
    format!("{collection}/{}", local.id())
}

/// Sends a request of Archipel's own, about a resource, to its service here.
pub(super) async fn ask(
    core: &Core,
    state: &State,
    name: &Name,
    replay: Replay,
    on_behalf_of: Option<(&Site, &Who)>,
) -> Option<Response<Bytes>> {
    ask_with(core, state, name, replay, on_behalf_of, None).await
}

/// The same, with a body from the spool.
pub(super) async fn ask_with(
    core: &Core,
    state: &State,
    name: &Name,
    replay: Replay,
    on_behalf_of: Option<(&Site, &Who)>,
    stored: Option<LegBody>,
) -> Option<Response<Bytes>> {
    asked(core, state, name, replay, on_behalf_of, stored).await.ok()
}

/// The same. Without an answer, whether the service may have been asked.
pub(super) async fn asked(
    core: &Core,
    state: &State,
    name: &Name,
    replay: Replay,
    on_behalf_of: Option<(&Site, &Who)>,
    stored: Option<LegBody>,
) -> Result<Response<Bytes>, Sent> {
    let answer = open(core, state, name, replay, on_behalf_of, stored).await?;
    let (head, body) = answer.into_parts();
    let body = Limited::new(body, ANSWER_BYTES).collect().await.map_err(|_| Sent::Maybe)?.to_bytes();
    Ok(Response::from_parts(head, body))
}

async fn open(
    core: &Core,
    state: &State,
    name: &Name,
    replay: Replay,
    on_behalf_of: Option<(&Site, &Who)>,
    stored: Option<LegBody>,
) -> Result<Response<AnswerBody>, Sent> {
    let own = state.service(name.service()).ok_or(Sent::No)?;
    let uri = addressed_here(core, state, name.service(), &replay.uri);
    let uri = uri.ok_or(Sent::No)?;
    let mut replay = Replay { uri, ..replay };
    accept(state, name.service(), &mut replay);
    let makes = !matches!(replay.method, Method::GET | Method::HEAD | Method::DELETE);
    let read = (replay.method == Method::GET).then(|| plain(replay.uri.path()).into_owned());
    let (credentials, replay) =
        as_archipel(core, state, name.service(), name, replay, on_behalf_of).await.map_err(|_| Sent::No)?;
    if makes && on_behalf_of.is_none() && is_by_login(state, name.service()) {
        // It would be the login's own, and not its owner's.
        return Err(Sent::No);
    }
    let (mut head, body) = under(&credentials, replay);
    if head.method == Method::GET {
        // By what is read here, replicas are made and judged: it has to be the answer to this.
        head.extensions.insert(Alone);
    }
    let asked = head.headers.clone();
    let answer = Box::pin(leg::local(core, state, &own, head, stored.unwrap_or(body), None, None)).await;
    let mut answer = answer.map_err(|failure| failure.sent)?;
    if answer.status() == StatusCode::UNAUTHORIZED {
        identity::ended(core, &asked);
    }
    if read.is_some_and(|path| is_absence(state, name.service(), &path, answer.status())) {
        *answer.status_mut() = StatusCode::NOT_FOUND;
    }
    Ok(answer)
}

/// A read of one resource says which media types it takes, where its kind knows them.
fn accept(state: &State, service: &str, replay: &mut Replay) {
    if !matches!(replay.method, Method::GET | Method::HEAD) {
        return;
    }
    let path = plain(replay.uri.path()).into_owned();
    let items = state.settings().profile.kinds.items(service, &path);
    let own = items.first().filter(|item| item.below.is_empty()).and_then(|item| item.kind.accept.as_ref());
    if let Some(own) = own.and_then(|own| HeaderValue::try_from(own).ok()) {
        replay.headers.insert(http::header::ACCEPT, own);
    }
}

/// Whether an answer to a read of one resource, or of something below it, says in its service's own way that it is not there.
fn is_absence(state: &State, service: &str, path: &str, status: StatusCode) -> bool {
    let items = state.settings().profile.kinds.items(service, path);
    items.first().is_some_and(|item| item.kind.is_absence(status.as_u16()))
}

/// An address for the service here.
fn addressed_here(core: &Core, state: &State, service: &str, uri: &Uri) -> Option<Uri> {
    let ids = ids_of(core, service);
    let known = core.shared.replicas.as_ref().map(|replicas| &replicas.known);
    match known.and_then(|known| Declared::of(known, state, service, &Method::GET, uri.path())) {
        Some(declared) => {
            let (path, query) = declared.local_target(uri.path(), uri.query());
            addressed(&ids, &path, query.as_deref())
        }
        None => addressed(&ids, uri.path(), uri.query()),
    }
}

/// Reads something of a resource from a service of this site, as it comes.
pub(in crate::replicas) async fn stream(
    core: &Core,
    state: &State,
    name: &Name,
    path: &str,
) -> Option<Response<AnswerBody>> {
    open(core, state, name, get(path)?, None, None).await.ok()
}

/// Reads something of a resource from a service of this site.
pub(super) async fn look(core: &Core, state: &State, name: &Name, path: &str) -> Option<(u16, Bytes)> {
    let answer = ask(core, state, name, get(path)?, None).await?;
    Some((answer.status().as_u16(), answer.into_body()))
}

fn get(path: &str) -> Option<Replay> {
    let (method, uri) = (Method::GET, path.try_into().ok()?);
    let mut headers = http::HeaderMap::new();
    headers.insert(http::header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Some(Replay { method, uri, headers, body: Bytes::new() })
}

/// Where the body of a write is, if it is in the spool.
pub(super) fn spooled(kept: &Kept) -> Option<Id> {
    match &kept.content {
        Content::Spooled { .. } => kept.id.parse().ok(),
        Content::Inline(_) => None,
    }
}

/// The body of a write, where it is at hand.
pub(super) fn inline(kept: &Kept) -> usize {
    match &kept.content {
        Content::Inline(bytes) => bytes.len(),
        Content::Spooled { .. } => 0,
    }
}

/// What a write counts for in the quota: its body, its headers, and what is remembered of any.
pub(super) fn weight(kept: &Kept) -> u64 {
    let body = match &kept.content {
        Content::Inline(bytes) => bytes.len() as u64,
        Content::Spooled { length, .. } => *length,
    };
    let headers: usize = kept.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    body.saturating_add(headers as u64).saturating_add(REMEMBERED)
}

/// Whether a write fits in the store. What does not would be tried for ever, and all that comes after it.
pub(in crate::replicas) fn is_storable(kept: &Kept) -> bool {
    let headers: usize = kept.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
    let query = kept.query.as_ref().map_or(0, String::len);
    let texts = kept.path.len() + kept.below.len() + query + kept.id.len();
    let others: usize = kept.names.iter().map(|other| other.meta.0.len() + 64 * other.sites.len()).sum();
    let named = matches!(kept.content, Content::Inline(_)) || spooled(kept).is_some();
    named
        && inline(kept) <= LONGEST_WRITE
        && headers <= LONGEST_HEADERS
        && others <= LONGEST_HEADERS
        && texts <= LONGEST_NAME
}

/// Whether a write is to this resource, or makes it in its collection: for a resource nothing else is executed,
/// whatever another site says that its write is.
pub(super) fn is_to(kept: &Kept, meta: &replica::Meta) -> bool {
    let (name, path) = (Name::from(meta), plain(kept.path.trim_end_matches('/')));
    let collection = name.path().rsplit_once('/').map_or("", |(collection, _)| collection);
    let made_there = || if collection.is_empty() { path.is_empty() } else { path.ends_with(collection) };
    let there = is_at(kept, &name) || kept.method == "POST" && made_there();
    kept.service == name.service() && there && !has_dots(&path) && !has_dots(&kept.below)
}

/// Whether a write of this class can be sent so: only what makes a resource is sent to its collection, whatever another
/// site says that its write is. Of anything else the path would become one beside the resource.
fn is_of(class: &Class, kept: &Kept, name: &Name) -> bool {
    *class == Class::Create || is_at(kept, name)
}

/// Whether a write is to the resource itself, and not to its collection.
fn is_at(kept: &Kept, name: &Name) -> bool {
    plain(kept.path.trim_end_matches('/')).ends_with(name.path())
}

/// A request of Archipel's own with a body.
pub(super) fn request(method: Method, path: &str, kind: Option<&[u8]>, body: Bytes) -> Option<Replay> {
    let mut headers = http::HeaderMap::new();
    if let Some(kind) = kind.and_then(|kind| HeaderValue::from_bytes(kind).ok()) {
        headers.insert(http::header::CONTENT_TYPE, kind);
    }
    if !body.is_empty() {
        headers.insert(CONTENT_LENGTH, body.len().into());
    }
    Some(Replay { method, uri: path.try_into().ok()?, headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_to_its_resource_or_makes_it_and_to_nothing_else() {
        let write = |service: &str, method: &str, path: &str, below: &str| Kept {
            id: "1".into(),
            service: service.to_owned(),
            kind: "image".to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            below: below.to_owned(),
            query: None,
            headers: Vec::new(),
            content: Content::Inline(Vec::new()),
            names: Vec::new(),
            signed: None,
        };
        let meta = replica::Meta("image:/v2/images/7".into());
        let is = |service, method, path, below| is_to(&write(service, method, path, below), &meta);
        assert!(is("image", "PUT", "/v2/images/7", "") && is("image", "PUT", "/glance/v2/images/7", "/file"));
        assert!(is("image", "POST", "/glance/v2/images/", ""));
        assert!(!is("identity", "PUT", "/v2/images/7", ""));
        assert!(!is("image", "PUT", "/v2/images/8", "") && !is("image", "DELETE", "/v2/images", ""));
        assert!(!is("image", "POST", "/v2/users", "") && !is("image", "POST", "/v2/myimages", ""));
        assert!(!is("image", "PUT", "/v2/images/7", "/../8"));
        // What is sent to the collection makes something, whatever its sender calls it.
        let sent = |class, path| is_of(&class, &write("image", "POST", path, ""), &Name::from(&meta));
        assert!(sent(Class::Create, "/v2/images") && sent(Class::Replace, "/glance/v2/images/7"));
        assert!(!sent(Class::Replace, "/v2/images") && !sent(Class::Delete, "/v2/images/"));
    }
}
