//! The service here is given the state of another replica.
//!
//! What it has is changed, which can be repeated. What it has not is made: under a name that clients chose, that can be
//! repeated too. Where the service names what it makes, the machine is told first (`Unfinished::ToMake`), records that it is
//! going to be made, and has it made by a name of its own (`make`).

use std::rc::Rc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, LOCATION};
use http::{HeaderValue, Method};
use ids::Direction;
use plan::Sent;
use profile::{Deletion, Kind, NamedBy};
use replica::{Class, Doubt, LocalId, Meta, OpId, Outcome, Who};
use scope::Site;
use serde_json::Value;
use spool::Spool;

use super::awaited::{Waits, are_made};
use super::book::is_provisional;
use super::contents::{Contents, sources};
use super::copy::{Copied, Part, Represented, declared, for_clients, for_clients_of, hash, portable};
use super::execute::{self, OPERATION, ask, ask_with, asked, ids_of, look, request, stream};
use super::naming::{named, note_unnamed, said_id};
use super::presence::is_absent;
use super::probe::mark;
use super::shapes::Shape;
use super::vault::{Table, Vault};
use crate::body::{AnswerBody, LegBody};
use crate::core::{Core, State};
use crate::problem::UNSENT;
use crate::replicas::exact::Exact;
use crate::replicas::references::replaced;
use crate::replicas::request::Name;
use crate::replicas::understand;

/// What is known here of a replica that is given a state.
pub(super) struct Given {
    pub(super) meta: Meta,
    pub(super) local: Option<LocalId>,
    pub(super) own: Option<Shape>,
    /// Whether the service has it from this site's own executions.
    pub(super) made: bool,
    /// Whether it was just made of this state, so that only what is below it is missing.
    pub(super) whole: bool,
    pub(super) waits: Rc<Waits>,
}

/// Why a service has not got a state.
pub(super) enum Unfinished {
    /// It could not be given it, or not all of it: later, once more.
    Failed,
    /// It has to make it, and to name it. Nothing was asked for yet.
    ToMake {
        /// What its kind says of a creation in doubt.
        doubt: Doubt,
        /// How it will be addressed.
        shape: Shape,
    },
}

/// Gives the service here a state that was fetched. The name that it has here then; `Err`: it has not got it.
pub(super) async fn install(
    core: Rc<Core>,
    vault: Vault,
    spool: Spool,
    Given { meta, local, own, made, whole, waits }: Given,
) -> Result<(Option<LocalId>, Copied), Unfinished> {
    let copied = fetched(&vault, &meta).await.ok_or(Unfinished::Failed)?;
    let (state, name) = (core.state(), name(&meta, local.as_ref()));
    // What is nowhere else is addressed as it is here.
    let unknown = copied.shape == Shape::default();
    let shape = own.filter(|_| unknown).unwrap_or_else(|| copied.shape.clone());
    if unknown && local.is_some() && shape == Shape::default() {
        return Err(Unfinished::Failed);
    }
    let to =
        Installer { core: &core, state: &state, spool: &spool, copied: &copied, shape: &shape, name: &name };
    let local = local.as_ref().map(Name::from);
    // Under a name that clients choose, the service may have what is no replica.
    let foreign = copied.map.chosen && !made;
    let installed = if let Some(content) = &copied.content {
        let named = (content.names.as_slice(), &content.by);
        if !are_made(&core, &state, &waits, &meta, named).await {
            return Err(Unfinished::Failed);
        }
        if foreign && !to.is_free(content).await {
            return Err(Unfinished::Failed);
        }
        Some(to.put(local, content, whole).await?)
    } else if foreign {
        local
    } else {
        if let Some(local) = &local {
            to.delete(local).await.ok_or(Unfinished::Failed)?;
        }
        local
    };
    Ok((installed.as_ref().map(LocalId::from), copied))
}

/// Has the service here make what was fetched, by this name.
pub(super) async fn make(core: Rc<Core>, vault: Vault, spool: Spool, meta: Meta, op: OpId) -> Outcome {
    let Some(copied) = fetched(&vault, &meta).await else { return Outcome::NotExecuted };
    let (state, name) = (core.state(), Name::from(&meta));
    let shape = &copied.shape;
    let to = Installer { core: &core, state: &state, spool: &spool, copied: &copied, shape, name: &name };
    to.make(&op).await
}

/// The state that was fetched.
pub(super) async fn fetched(vault: &Vault, meta: &Meta) -> Option<Copied> {
    vault.get(Table::Copy, meta.0.as_bytes()).await.ok()?
}

/// By which name a resource is spoken of at its service here. What never had one for clients has its own there only.
fn name(meta: &Meta, local: Option<&LocalId>) -> Name {
    let own = local.filter(|_| is_provisional(meta)).map(Name::from);
    own.unwrap_or_else(|| Name::from(meta))
}

struct Installer<'i> {
    core: &'i Core,
    state: &'i State,
    spool: &'i Spool,
    copied: &'i Copied,
    shape: &'i Shape,
    /// For clients.
    name: &'i Name,
}

impl Installer<'_> {
    fn kind(&self) -> Option<&Kind> {
        let path = self.shape.path(self.name);
        execute::kind(self.state, self.name.service(), &self.shape.kind, &path)
    }

    async fn put(&self, local: Option<Name>, content: &Represented, whole: bool) -> Result<Name, Unfinished> {
        let kind = self.kind().ok_or(Unfinished::Failed)?;
        if kind.exact {
            return self.put_exact(content).await.ok_or(Unfinished::Failed);
        }
        let document = portable(&content.document, kind);
        let local = match local {
            Some(local) if whole => local,
            Some(local) => {
                let local = self.replace(local, &document, kind).await?;
                self.without_others(local, content, &document, kind).await?
            }
            None => self.create(&document, kind).await?,
        };
        self.put_parts(&local, content).await.ok_or(Unfinished::Failed)?;
        Ok(local)
    }

    /// The document as the site has it that gives the state, with its media type and after what it names.
    async fn put_exact(&self, content: &Represented) -> Option<Name> {
        let Installer { core, state, spool, name, .. } = *self;
        let sources = sources(core, state, name, &content.by);
        let contents = Contents { core, state, spool, name, sources, on_behalf_of: self.owner() };
        let copied = contents.copy_document(&self.shape.path(name), &content.document).await;
        copied.then(|| name.clone())
    }

    /// Takes the parts away that the state does not have. Where the service cannot do that, the resource is made anew.
    async fn without_others(
        &self,
        local: Name,
        content: &Represented,
        document: &Bytes,
        kind: &Kind,
    ) -> Result<Name, Unfinished> {
        let has = |part: &String| content.parts.iter().any(|(name, _)| name == part);
        for part in kind.parts.iter().filter(|part| !has(part)) {
            let path = format!("{}{part}", self.shape.path(&local));
            let found = stream(self.core, self.state, self.name, &path).await;
            match found.map(|answer| answer.status().as_u16()) {
                Some(200) => {}
                Some(204 | 404 | 409 | 410) => continue,
                Some(_) | None => return Err(Unfinished::Failed),
            }
            match self.send(Method::DELETE, &path, None, Bytes::new()).await {
                Some(status) if is_done(status) || matches!(status, 404 | 410) => {}
                Some(400 | 405 | 409 | 415 | 422 | 501) if kind.json_patch.is_none() => {
                    self.delete(&local).await.ok_or(Unfinished::Failed)?;
                    return self.create(document, kind).await;
                }
                Some(_) | None => return Err(Unfinished::Failed),
            }
        }
        Ok(local)
    }

    async fn put_parts(&self, local: &Name, content: &Represented) -> Option<()> {
        for (name, part) in &content.parts {
            let path = format!("{}{name}", self.shape.path(local));
            let map = self.kind().and_then(|kind| kind.maps().find(|(below, _)| below == name));
            if let (Some((_, at)), Part::Inline(bytes)) = (map, part) {
                self.put_map(&path, at, bytes).await?;
                continue;
            }
            let status = self.put_part(&path, part).await?;
            // Some services take a part once. If it is the same, all is well.
            let is_there = is_done(status) || status == 409 && self.has_part(&path, part).await?;
            is_there.then_some(())?;
        }
        Some(())
    }

    /// Whose it is, as far as it is still known: who made it, or else wrote to it, at the site that let them in.
    fn owner(&self) -> Option<(&Site, &Who)> {
        let ops = &self.copied.snapshot.ops;
        let made = ops.iter().find(|op| op.class == Class::Create);
        made.or_else(|| ops.last()).map(|op| (&op.id.site, &op.on_behalf_of))
    }

    /// Whether the service has nothing under the name of what is to be installed, or has that already.
    async fn is_free(&self, content: &Represented) -> bool {
        let path = self.shape.path(self.name);
        let Some(kind) = self.kind() else { return false };
        match look(self.core, self.state, self.name, &path).await {
            Some((404 | 410, _)) => true,
            Some((200..=299, found)) => {
                let found = for_clients_of(self.core, self.state, kind, self.name, found);
                portable(&found, kind) == portable(&content.document, kind)
            }
            Some(_) | None => false,
        }
    }

    async fn put_part(&self, path: &str, part: &Part) -> Option<u16> {
        let kind: Option<&[u8]> = Some(b"application/octet-stream");
        match part {
            Part::Inline(bytes) => self.send(Method::PUT, path, kind, Bytes::from(bytes.clone())).await,
            Part::Apart => None,
            Part::Spooled { id, length } => {
                let reader = self.spool.reader(id.parse().ok()?, 0).ok()?;
                let body = LegBody::stored(reader, self.state.settings().timeouts.body_idle);
                let mut put = request(Method::PUT, path, kind, Bytes::new())?;
                put.headers.insert(CONTENT_LENGTH, (*length).into());
                let answer =
                    ask_with(self.core, self.state, self.name, put, self.owner(), Some(body)).await?;
                Some(answer.status().as_u16())
            }
        }
    }

    /// Sets what differs of elements that are read as one map and written one by one.
    async fn put_map(&self, path: &str, at: &str, wanted: &[u8]) -> Option<()> {
        let found = match look(self.core, self.state, self.name, path).await? {
            (200, found) => for_clients(self.core, self.name.service(), found),
            _ => return None,
        };
        let (mut found, mut wanted) = (Exact::read(&found)?, Exact::read(wanted)?);
        let (Exact::Object(found), Exact::Object(wanted)) = (found.at(at)?, wanted.at(at)?) else {
            return None;
        };
        for name in found.keys().filter(|name| !wanted.contains_key(*name)) {
            let path = format!("{path}/{}", as_segment(name));
            let status = self.send(Method::DELETE, &path, None, Bytes::new()).await?;
            (is_done(status) || matches!(status, 404 | 410)).then_some(())?;
        }
        for (name, value) in wanted.iter().filter(|(name, value)| found.get(*name) != Some(*value)) {
            let path = format!("{path}/{}", as_segment(name));
            let element = Exact::Object([(name.clone(), value.clone())].into()).to_string();
            let status = self.ask(Method::PUT, &path, Some(b"application/json"), element.into()).await?;
            is_done(status).then_some(())?;
        }
        Some(())
    }

    /// Whether the service here has this part already.
    async fn has_part(&self, path: &str, part: &Part) -> Option<bool> {
        let answer = stream(self.core, self.state, self.name, path).await?;
        if answer.status() != 200 {
            return Some(false);
        }
        let found = hash(answer.into_body()).await?;
        let wanted = match part {
            Part::Inline(bytes) => ring::digest::digest(&ring::digest::SHA256, bytes),
            Part::Apart => return None,
            Part::Spooled { id, .. } => {
                hash(AnswerBody::stored(self.spool.reader(id.parse().ok()?, 0).ok()?)).await?
            }
        };
        Some(found.as_ref() == wanted.as_ref())
    }

    /// By a JSON Patch of what differs.
    async fn patch(
        &self,
        local: Name,
        document: &Bytes,
        kind: &Kind,
        media_type: &str,
    ) -> Result<Name, Unfinished> {
        let path = self.shape.path(&local);
        match look(self.core, self.state, self.name, &path).await {
            Some((404 | 410, _)) => self.create(document, kind).await,
            Some((status, found)) if is_done(status) => {
                let patched = self.patch_found(&path, &found, document, kind, media_type).await;
                patched.map(|()| local).ok_or(Unfinished::Failed)
            }
            Some(_) | None => Err(Unfinished::Failed),
        }
    }

    async fn patch_found(
        &self,
        path: &str,
        found: &Bytes,
        document: &Bytes,
        kind: &Kind,
        media_type: &str,
    ) -> Option<()> {
        let found = portable(&for_clients_of(self.core, self.state, kind, self.name, found.clone()), kind);
        let steps = steps(Exact::read(&found)?, Exact::read(document)?, &kind.fields)?;
        if steps.is_empty() {
            return Some(());
        }
        let steps = Bytes::from(Exact::Array(steps).to_string());
        let status = self.ask(Method::PATCH, path, Some(media_type.as_bytes()), steps).await?;
        is_done(status).then_some(())
    }

    /// In one step where the service can, else in two.
    async fn replace(&self, local: Name, document: &Bytes, kind: &Kind) -> Result<Name, Unfinished> {
        if let Some(media_type) = &kind.json_patch {
            return self.patch(local, document, kind, media_type).await;
        }
        let path = self.shape.path(&local);
        for method in [Method::PUT, Method::PATCH] {
            match self.ask(method, &path, Some(b"application/json"), document.clone()).await {
                Some(status) if is_done(status) => return Ok(local),
                // Some services say so of methods that they do not have, too.
                Some(404 | 410) if is_absent(self.core, self.state, self.name, &path).await => {
                    return self.create(document, kind).await;
                }
                Some(400 | 404 | 405 | 409 | 410 | 415 | 422 | 501) => {}
                Some(_) | None => return Err(Unfinished::Failed),
            }
        }
        self.delete(&local).await.ok_or(Unfinished::Failed)?;
        self.create(document, kind).await
    }

    /// Under the name that clients chose; what the service names is for the machine to record first.
    async fn create(&self, document: &Bytes, kind: &Kind) -> Result<Name, Unfinished> {
        if kind.named_by != NamedBy::Body && !self.copied.map.chosen {
            let shape = Shape { local: None, ..self.shape.clone() };
            return Err(Unfinished::ToMake { doubt: understand::doubt(kind.create_doubt()), shape });
        }
        self.create_chosen(document, kind).await.ok_or(Unfinished::Failed)
    }

    async fn create_chosen(&self, document: &Bytes, kind: &Kind) -> Option<Name> {
        let own = self.shape.path(self.name);
        if kind.named_by == NamedBy::Body {
            let collection = own.rsplit_once('/').map(|(collection, _)| collection)?;
            let document = with_id(document, kind, self.name.id())?;
            let post = self.ask(Method::POST, collection, Some(b"application/json"), document).await;
            return post.filter(|status| is_done(*status)).map(|_| self.name.clone());
        }
        let put = self.ask(Method::PUT, &own, Some(b"application/json"), document.clone()).await;
        put.filter(|status| is_done(*status)).map(|_| self.name.clone())
    }

    /// In its collection, by this name, which its log has then.
    async fn make(&self, op: &OpId) -> Outcome {
        let own = self.shape.path(self.name);
        let document = self.copied.content.as_ref().zip(self.kind());
        let (Some((content, kind)), Some((collection, _))) = (document, own.rsplit_once('/')) else {
            return Outcome::NotExecuted;
        };
        let document = self.for_service(portable(&content.document, kind));
        let Some(mut post) = request(Method::POST, collection, Some(b"application/json"), document) else {
            return Outcome::NotExecuted;
        };
        mark(kind.probe.as_ref(), op, &mut post.headers, &mut post.body);
        if let Ok(name) = HeaderValue::try_from(op.to_string()) {
            post.headers.insert(OPERATION, name);
        }
        let answer = match asked(self.core, self.state, self.name, post, self.owner(), None).await {
            Ok(answer) => answer,
            Err(Sent::No) => return Outcome::NotExecuted,
            Err(_) => return Outcome::Unknown,
        };
        let status = answer.status().as_u16();
        match status {
            _ if answer.headers().contains_key(UNSENT) => Outcome::NotExecuted,
            200..=299 => {
                let id = said_id(kind, answer.headers().get(LOCATION), Some(answer.body()));
                let name = |id: &str| {
                    named(self.state, (self.name.service(), &kind.name), Some(self.name), collection, id)
                };
                let made = id.as_deref().and_then(name);
                if made.is_none() {
                    note_unnamed(self.core, op);
                }
                Outcome::Done { status, local: made.as_ref().map(LocalId::from) }
            }
            300..=499 => Outcome::Refused { status },
            _ => Outcome::Unknown,
        }
    }

    async fn delete(&self, local: &Name) -> Option<()> {
        let path = self.shape.path(local);
        let status = self.ask(Method::DELETE, &path, None, Bytes::new()).await?;
        let held = is_done(status) && self.kind().is_some_and(|kind| kind.deletion == Deletion::Absent);
        let gone = match status {
            404 | 410 => true,
            _ if held => is_absent(self.core, self.state, self.name, &path).await,
            _ => is_done(status),
        };
        gone.then_some(())
    }

    /// A document, or a patch, with the ids of the service here.
    async fn ask(&self, method: Method, path: &str, kind: Option<&[u8]>, body: Bytes) -> Option<u16> {
        self.send(method, path, kind, self.for_service(body)).await
    }

    fn for_service(&self, document: Bytes) -> Bytes {
        let document = replaced(&ids_of(self.core, self.name.service()), document, Direction::ToService);
        match declared(self.core, self.state, self.kind(), self.name) {
            Some(own) => own.body("", document.clone(), Direction::ToService).unwrap_or(document),
            None => document,
        }
    }

    async fn send(&self, method: Method, path: &str, kind: Option<&[u8]>, body: Bytes) -> Option<u16> {
        let request = request(method, path, kind, body)?;
        let answer = ask(self.core, self.state, self.name, request, self.owner()).await?;
        Some(answer.status().as_u16())
    }
}

/// A name as one segment of a path.
fn as_segment(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    name.bytes().map(one).collect()
}

fn is_done(status: u16) -> bool {
    (200..300).contains(&status)
}

/// The steps of a JSON Patch that make one document of another, member by member. `None`: they are no objects.
fn steps(mut from: Exact, mut to: Exact, fields: &str) -> Option<Vec<Exact>> {
    let (Exact::Object(from), Exact::Object(to)) = (from.at(fields)?, to.at(fields)?) else { return None };
    let step = |operation: &str, name: &str, value: Option<&Exact>| {
        let path = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        let members =
            [("op", Some(operation.into())), ("path", Some(path.as_str().into())), ("value", value.cloned())];
        let members = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Exact::Object(members.collect())
    };
    let gone = from.keys().filter(|name| !to.contains_key(*name));
    let gone = gone.map(|name| step("remove", name, None));
    let set = to.iter().filter_map(|(name, value)| match from.get(name) {
        Some(same) if same == value => None,
        Some(_) => Some(step("replace", name, Some(value))),
        None => Some(step("add", name, Some(value))),
    });
    Some(gone.chain(set).collect())
}

/// A representation with an id, without members that say nothing: a service that shows them may not take them.
fn with_id(document: &[u8], kind: &Kind, id: &str) -> Option<Bytes> {
    let mut document = Exact::read(document)?;
    let (members, last) = document.around(&kind.id)?;
    members.retain(|_, value| *value != Exact::Plain(Value::Null) && *value != "".into());
    members.insert(last, id.into());
    Some(Bytes::from(document.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_got_a_name_is_removed_from_the_service_that_made_it() {
        let (meta, local) = (Meta("~C/2".into()), LocalId("image:/images/7".into()));
        assert_eq!(name(&meta, Some(&local)).service(), "image");
        let named = Meta("image:/images/1".into());
        assert_eq!(name(&named, Some(&local)), Name::from(&named));
    }

    #[test]
    fn what_differs_is_set_member_by_member_to_the_last_digit() {
        let read = |text: &str| Exact::read(text.as_bytes()).unwrap();
        let from =
            read(r#"{"name": "a", "size": 100000000000000000001, "gone": true, "a/b": 1, "same": 1e400}"#);
        let to =
            read(r#"{"name": "b", "size": 100000000000000000002, "new~": [1], "a/b": 2, "same": 1e400}"#);
        let expected = read(
            r#"[{"op": "remove", "path": "/gone"},
                {"op": "replace", "path": "/a~1b", "value": 2},
                {"op": "replace", "path": "/name", "value": "b"},
                {"op": "add", "path": "/new~0", "value": [1]},
                {"op": "replace", "path": "/size", "value": 100000000000000000002}]"#,
        );
        assert_eq!(steps(from.clone(), to.clone(), "").map(Exact::Array), Some(expected));
        assert_eq!(steps(from.clone(), from, ""), Some(Vec::new()));
        assert_eq!(steps(read("[1]"), to, ""), None);
    }
}
