//! The state of a resource, from one site's service to another's.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use http::Method;
use http::header::CONTENT_LENGTH;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ids::Direction;
use profile::{Kind, NamedBy};
use replica::{Class, Content, LocalId, Meta, ReplicaMap, Snapshot, Who};
use scope::Site;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use spool::{Id, Spool};

use super::awaited::{Waits, are_made};
use super::book::{Shape, is_provisional};
use super::execute::{self, ask, ask_with, ids_of, inline, look, request, spooled, stream};
use super::vault::{Table, Vault};
use crate::body::{AnswerBody, LegBody};
use crate::core::{Core, State};
use crate::replicas::exact::Exact;
use crate::replicas::references::{Named, replaced};
use crate::replicas::request::{Kept, Name};

/// A part above this comes apart from the state.
const PART_BYTES: usize = 64 << 10;
/// Bytes of writes that come along with a state.
const WRITES_BYTES: usize = 16 << 20;
/// The longest state that is taken over, with its writes: it is one record of the store.
pub(super) const LONGEST: usize = 60 << 20;

/// A replica's state, with what its site knows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Copied {
    pub(super) map: ReplicaMap,
    pub(super) snapshot: Snapshot,
    pub(super) shape: Shape,
    /// Its representation and its parts. None: it was deleted.
    pub(super) content: Option<Represented>,
    /// Writes that the snapshot's operations name.
    pub(super) writes: Vec<Kept>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Represented {
    #[serde(with = "crate::replicas::octets")]
    pub(super) document: Vec<u8>,
    pub(super) parts: Vec<(String, Part)>,
    /// Other replicated resources that the document names, by their ids for clients.
    pub(super) names: Vec<Named>,
    /// The site that gives it, and knows those.
    pub(super) by: Site,
}

/// Something below a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Part {
    Inline(#[serde(with = "crate::replicas::octets")] Vec<u8>),
    /// Long: asked for by itself.
    Apart,
    /// The same, once it is in the spool of the site that asked.
    Spooled {
        id: String,
        length: u64,
    },
}

impl Copied {
    /// About how long it is.
    pub(super) fn bytes(&self) -> usize {
        let content = self.content.iter().flat_map(|content| &content.parts);
        let length = |part: &Part| if let Part::Inline(bytes) = part { bytes.len() } else { 0 };
        let parts: usize = content.map(|(_, part)| length(part)).sum();
        let document = self.content.as_ref().map_or(0, |content| content.document.len());
        parts + document + self.writes.iter().map(inline).sum::<usize>()
    }
}

impl Copied {
    /// The bodies in this site's spool that it names.
    pub(super) fn spooled(&self) -> Vec<Id> {
        let parts = self.content.iter().flat_map(|content| &content.parts);
        let parts = parts.filter_map(|(_, part)| match part {
            Part::Spooled { id, .. } => id.parse().ok(),
            Part::Inline(_) | Part::Apart => None,
        });
        parts.chain(self.writes.iter().filter_map(spooled)).collect()
    }
}

/// The bodies that states on their way into the service name.
pub(super) async fn bodies(vault: &Vault) -> Result<BTreeMap<Meta, Vec<Id>>, store::Error> {
    let copies = vault.all::<Copied>(Table::Copy).await?;
    Ok(copies.into_iter().map(|(_, copied)| (copied.map.meta.clone(), copied.spooled())).collect())
}

/// What of a resource a copy is made of.
pub(super) struct Source {
    pub(super) core: Rc<Core>,
    pub(super) vault: Vault,
    pub(super) map: ReplicaMap,
    pub(super) snapshot: Snapshot,
    pub(super) shape: Shape,
    /// Its name in the service here; none where it was deleted.
    pub(super) local: Option<Name>,
}

impl Source {
    /// Reads it. Whether nothing changed meanwhile is for the caller to see.
    pub(super) async fn read(self) -> Option<Copied> {
        let (mut writes, mut bytes) = (Vec::new(), 0);
        for op in &self.snapshot.ops {
            let Some(replica::Body(id)) = &op.body else { continue };
            // The others are asked for one by one.
            if bytes > WRITES_BYTES {
                break;
            }
            let kept: Kept = self.vault.get(Table::Kept, id.as_bytes()).await.ok()??;
            bytes += inline(&kept);
            writes.push(kept);
        }
        let content = match &self.local {
            Some(local) => Some(self.content(local).await?),
            None => None,
        };
        Some(Copied { map: self.map, snapshot: self.snapshot, shape: self.shape, content, writes })
    }

    async fn content(&self, local: &Name) -> Option<Represented> {
        let state = self.core.state();
        let (service, path) = (local.service(), self.shape.path(local));
        let parts = execute::kind(&state, service, &self.shape.kind, &path)?.parts.clone();
        let (status, document) = look(&self.core, &state, local, &path).await?;
        if status != 200 {
            return None;
        }
        let mut read = Vec::new();
        for part in parts {
            let answer = stream(&self.core, &state, local, &format!("{path}{part}")).await?;
            match answer.status().as_u16() {
                200 => {
                    let short = Limited::new(answer.into_body(), PART_BYTES).collect().await;
                    read.push((
                        part,
                        match short {
                            Ok(bytes) => Part::Inline(bytes.to_bytes().to_vec()),
                            Err(error) if error.is::<LengthLimitError>() => Part::Apart,
                            Err(_) => return None,
                        },
                    ));
                }
                // It has none.
                204 | 404 | 409 | 410 => {}
                _ => return None,
            }
        }
        let document = for_clients(&self.core, service, document);
        let known = self.core.shared.replicas.as_ref().map(|replicas| &replicas.known);
        let names = known.map(|known| known.named(service, [].iter(), &document)).unwrap_or_default();
        let by = state.settings().site.clone();
        Some(Represented { document: document.to_vec(), parts: read, names, by })
    }
}

/// A document of a service here, as any site can read it.
fn for_clients(core: &Core, service: &str, document: Bytes) -> Bytes {
    replaced(&ids_of(core, service), document, Direction::ToClient)
}

/// What the service here has of a resource: the same digest wherever the same is there.
pub(super) async fn digest(core: &Core, shape: &Shape, local: &Name) -> Content {
    let state = core.state();
    let (service, path) = (local.service(), shape.path(local));
    let Some(kind) = execute::kind(&state, service, &shape.kind, &path) else { return Content::Unread };
    let document = match look(core, &state, local, &path).await {
        Some((200, document)) => document,
        Some((404 | 410, _)) => return Content::Gone,
        _ => return Content::Unread,
    };
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    let mut add = |bytes: &[u8]| {
        digest.update(&(bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    add(&portable(&for_clients(core, service, document), kind));
    for part in &kind.parts {
        let Some(answer) = stream(core, &state, local, &format!("{path}{part}")).await else {
            return Content::Unread;
        };
        match answer.status().as_u16() {
            200 => match hash(answer.into_body()).await {
                Some(hash) => add(hash.as_ref()),
                None => return Content::Unread,
            },
            204 | 404 | 409 | 410 => add(&[]),
            _ => return Content::Unread,
        }
    }
    let bytes = digest.finish();
    bytes.as_ref().try_into().map_or(Content::Unread, |bytes| Content::Is(replica::Digest(bytes)))
}

/// The digest of a body as it comes, however long.
async fn hash(mut body: AnswerBody) -> Option<ring::digest::Digest> {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.ok()?.into_data() {
            digest.update(&bytes);
        }
    }
    Some(digest.finish())
}

/// What is known here of a replica that is given a state.
pub(super) struct Given {
    pub(super) meta: Meta,
    pub(super) local: Option<LocalId>,
    pub(super) own: Option<Shape>,
    /// Whether the service has it from this site's own executions.
    pub(super) made: bool,
    pub(super) waits: Rc<Waits>,
}

/// Gives the service here a state that was fetched. The name that it has here then; `Err`: it has not got it.
pub(super) async fn install(
    core: Rc<Core>,
    vault: Vault,
    spool: Spool,
    Given { meta, local, own, made, waits }: Given,
) -> Result<(Option<LocalId>, Copied), ()> {
    let copied: Option<Copied> = vault.get(Table::Copy, meta.0.as_bytes()).await.map_err(drop)?;
    let copied = copied.ok_or(())?;
    let (state, name) = (core.state(), name(&meta, local.as_ref()));
    // What is nowhere else is addressed as it is here.
    let unknown = copied.shape == Shape::default();
    let shape = own.filter(|_| unknown).unwrap_or_else(|| copied.shape.clone());
    if unknown && local.is_some() && shape == Shape::default() {
        return Err(());
    }
    let to =
        Installer { core: &core, state: &state, spool: &spool, copied: &copied, shape: &shape, name: &name };
    let local = local.as_ref().map(Name::from);
    // Under a name that clients choose, the service may have what is no replica.
    let foreign = copied.map.chosen && !made;
    let installed = if let Some(content) = &copied.content {
        let named = (content.names.as_slice(), &content.by);
        if !are_made(&core, &state, &waits, &meta, named).await {
            return Err(());
        }
        if foreign && !to.is_free(content).await {
            return Err(());
        }
        Some(to.put(local, content).await.ok_or(())?)
    } else if foreign {
        local
    } else {
        if let Some(local) = &local {
            to.delete(local).await.ok_or(())?;
        }
        local
    };
    Ok((installed.as_ref().map(LocalId::from), copied))
}

/// By which name a resource is spoken of at its service here. What never had one for clients has its own there only.
fn name(meta: &Meta, local: Option<&LocalId>) -> Name {
    let own = local.filter(|_| is_provisional(meta)).map(Name::from);
    own.unwrap_or_else(|| Name::from(meta))
}

/// Removes a replica that is none any more.
pub(super) async fn release(core: Rc<Core>, shape: Shape, local: Name) -> bool {
    let state = core.state();
    let Some(delete) = request(Method::DELETE, &shape.path(&local), None, Bytes::new()) else { return true };
    let answer = ask(&core, &state, &local, delete, None).await;
    answer.is_some_and(|answer| matches!(answer.status().as_u16(), 200..=299 | 404 | 410))
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
    async fn put(&self, local: Option<Name>, content: &Represented) -> Option<Name> {
        let shape = self.shape;
        let path = shape.path(self.name);
        let kind = execute::kind(self.state, self.name.service(), &shape.kind, &path)?;
        let document = portable(&content.document, kind);
        let local = match local {
            Some(local) => {
                let local = self.replace(local, &document, kind).await?;
                self.without_others(local, content, &document, kind).await?
            }
            None => self.create(&document, kind).await?,
        };
        for (name, part) in &content.parts {
            let path = format!("{}{name}", shape.path(&local));
            let status = self.put_part(&path, part).await?;
            // Some services take a part once. If it is the same, all is well.
            let is_there = is_done(status) || status == 409 && self.has_part(&path, part).await?;
            is_there.then_some(())?;
        }
        Some(local)
    }

    /// Takes the parts away that the state does not have. Where the service cannot do that, the resource is made anew.
    async fn without_others(
        &self,
        local: Name,
        content: &Represented,
        document: &Bytes,
        kind: &Kind,
    ) -> Option<Name> {
        let has = |part: &String| content.parts.iter().any(|(name, _)| name == part);
        for part in kind.parts.iter().filter(|part| !has(part)) {
            let path = format!("{}{part}", self.shape.path(&local));
            match stream(self.core, self.state, self.name, &path).await?.status().as_u16() {
                200 => {}
                204 | 404 | 409 | 410 => continue,
                _ => return None,
            }
            match self.send(Method::DELETE, &path, None, Bytes::new()).await? {
                status if is_done(status) || matches!(status, 404 | 410) => {}
                400 | 405 | 409 | 415 | 422 | 501 if kind.json_patch.is_none() => {
                    self.delete(&local).await?;
                    return self.create(document, kind).await;
                }
                _ => return None,
            }
        }
        Some(local)
    }

    /// Whose it is, as far as it is still known: who made it, or else wrote to it, at the site that let them in.
    fn owner(&self) -> Option<(&Site, &Who)> {
        let ops = &self.copied.snapshot.ops;
        let made = ops.iter().find(|op| op.class == Class::Create);
        made.or_else(|| ops.last()).map(|op| (&op.id.site, &op.on_behalf_of))
    }

    /// Whether the service has nothing under the name of what is to be installed, or has that already.
    async fn is_free(&self, content: &Represented) -> bool {
        let (service, path) = (self.name.service(), self.shape.path(self.name));
        let Some(kind) = execute::kind(self.state, service, &self.shape.kind, &path) else { return false };
        match look(self.core, self.state, self.name, &path).await {
            Some((404 | 410, _)) => true,
            Some((200..=299, found)) => {
                portable(&for_clients(self.core, service, found), kind) == portable(&content.document, kind)
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
    async fn patch(&self, local: Name, document: &Bytes, kind: &Kind, media_type: &str) -> Option<Name> {
        let path = self.shape.path(&local);
        let (status, found) = look(self.core, self.state, self.name, &path).await?;
        if matches!(status, 404 | 410) {
            return self.create(document, kind).await;
        }
        let found = portable(&for_clients(self.core, self.name.service(), found), kind);
        let found = Exact::read(&found).filter(|_| is_done(status))?;
        let steps = steps(found, Exact::read(document)?, &kind.fields)?;
        if !steps.is_empty() {
            let steps = Bytes::from(Exact::Array(steps).to_string());
            let status = self.ask(Method::PATCH, &path, Some(media_type.as_bytes()), steps).await?;
            is_done(status).then_some(())?;
        }
        Some(local)
    }

    /// In one step where the service can, else in two.
    async fn replace(&self, local: Name, document: &Bytes, kind: &Kind) -> Option<Name> {
        if let Some(media_type) = &kind.json_patch {
            return self.patch(local, document, kind, media_type).await;
        }
        let path = self.shape.path(&local);
        for method in [Method::PUT, Method::PATCH] {
            match self.ask(method, &path, Some(b"application/json"), document.clone()).await? {
                status if is_done(status) => return Some(local),
                404 | 410 => return self.create(document, kind).await,
                400 | 405 | 409 | 415 | 422 | 501 => {}
                _ => return None,
            }
        }
        self.delete(&local).await?;
        self.create(document, kind).await
    }

    async fn create(&self, document: &Bytes, kind: &Kind) -> Option<Name> {
        let own = self.shape.path(self.name);
        if kind.named_by == NamedBy::Body {
            let collection = own.rsplit_once('/').map(|(collection, _)| collection)?;
            let document = with_id(document, kind, self.name.id())?;
            let post = self.ask(Method::POST, collection, Some(b"application/json"), document).await;
            return post.filter(|status| is_done(*status)).map(|_| self.name.clone());
        }
        if self.copied.map.chosen {
            let put = self.ask(Method::PUT, &own, Some(b"application/json"), document.clone()).await;
            return put.filter(|status| is_done(*status)).map(|_| self.name.clone());
        }
        let collection = own.rsplit_once('/').map(|(collection, _)| collection)?;
        let document = self.for_service(document.clone());
        let post = request(Method::POST, collection, Some(b"application/json"), document)?;
        let answer = ask(self.core, self.state, self.name, post, self.owner()).await?;
        let made: Value =
            serde_json::from_slice(answer.body()).ok().filter(|_| answer.status().is_success())?;
        let id = made.pointer(&kind.id)?.as_str()?;
        execute::named(self.state, self.name.service(), &kind.name, collection, id)
    }

    async fn delete(&self, local: &Name) -> Option<()> {
        let path = self.shape.path(local);
        let status = self.ask(Method::DELETE, &path, None, Bytes::new()).await?;
        (is_done(status) || matches!(status, 404 | 410)).then_some(())
    }

    /// A document, or a patch, with the ids of the service here.
    async fn ask(&self, method: Method, path: &str, kind: Option<&[u8]>, body: Bytes) -> Option<u16> {
        self.send(method, path, kind, self.for_service(body)).await
    }

    fn for_service(&self, document: Bytes) -> Bytes {
        replaced(&ids_of(self.core, self.name.service()), document, Direction::ToService)
    }

    async fn send(&self, method: Method, path: &str, kind: Option<&[u8]>, body: Bytes) -> Option<u16> {
        let request = request(method, path, kind, body)?;
        let answer = ask(self.core, self.state, self.name, request, self.owner()).await?;
        Some(answer.status().as_u16())
    }
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

/// A representation without what each site's service makes up itself.
fn portable(document: &[u8], kind: &Kind) -> Bytes {
    let Some(mut value) = Exact::read(document) else { return Bytes::copy_from_slice(document) };
    for pointer in kind.generated.iter().chain([&kind.id]) {
        if let Some((members, last)) = value.around(pointer) {
            members.remove(&last);
        }
    }
    Bytes::from(value.to_string())
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
