//! The state of a resource, from one site's service to another's.

use std::rc::Rc;

use bytes::Bytes;
use http::Method;
use profile::Kind;
use replica::{Content, LocalId, Meta, ReplicaMap, Snapshot};
use scope::Site;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::book::Shape;
use super::execute::{self, ask, inline, is_storable, is_to, look, request};
use super::peers;
use super::vault::{Table, Vault};
use crate::core::{Core, State};
use crate::replicas::request::{Kept, Name};
use crate::replicas::understand::has_dots;
use crate::replicas::wire;

/// Bytes of writes that come along with a state.
const WRITES_BYTES: usize = 16 << 20;
/// The longest state that is taken over, with its writes: it is one record of the store.
const LONGEST: usize = 60 << 20;

/// A replica's state, with what its site knows of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Copied {
    pub(super) map: ReplicaMap,
    pub(super) snapshot: Snapshot,
    pub(super) shape: Shape,
    /// Its representation and its parts. None: it was deleted.
    content: Option<Represented>,
    /// Writes that the snapshot's operations name.
    pub(super) writes: Vec<Kept>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Represented {
    #[serde(with = "crate::replicas::octets")]
    document: Vec<u8>,
    parts: Vec<(String, Part)>,
}

/// Something below a resource. Long ones will be spooled, as the bodies of writes are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Part {
    Inline(#[serde(with = "crate::replicas::octets")] Vec<u8>),
}

impl Copied {
    /// About how long it is.
    fn bytes(&self) -> usize {
        let content = self.content.iter().flat_map(|content| &content.parts);
        let parts: usize = content.map(|(_, Part::Inline(bytes))| bytes.len()).sum();
        let document = self.content.as_ref().map_or(0, |content| content.document.len());
        parts + document + self.writes.iter().map(inline).sum::<usize>()
    }
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
        let (status, document) = look(&self.core, &state, service, &path).await?;
        if status != 200 {
            return None;
        }
        let mut read = Vec::new();
        for part in parts {
            match look(&self.core, &state, service, &format!("{path}{part}")).await? {
                (200, bytes) => read.push((part, Part::Inline(bytes.to_vec()))),
                // It has none.
                (204 | 404 | 409 | 410, _) => {}
                _ => return None,
            }
        }
        Some(Represented { document: document.to_vec(), parts: read })
    }
}

/// What the service here has of a resource: the same digest wherever the same is there.
pub(super) async fn digest(core: &Core, shape: &Shape, local: &Name) -> Content {
    let state = core.state();
    let (service, path) = (local.service(), shape.path(local));
    let Some(kind) = execute::kind(&state, service, &shape.kind, &path) else { return Content::Unread };
    let document = match look(core, &state, service, &path).await {
        Some((200, document)) => document,
        Some((404 | 410, _)) => return Content::Gone,
        _ => return Content::Unread,
    };
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    let mut add = |bytes: &[u8]| {
        digest.update(&(bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    };
    add(&portable(&document, kind));
    for part in &kind.parts {
        match look(core, &state, service, &format!("{path}{part}")).await {
            Some((200, bytes)) => add(&bytes),
            Some((204 | 404 | 409 | 410, _)) => add(&[]),
            _ => return Content::Unread,
        }
    }
    let bytes = digest.finish();
    bytes.as_ref().try_into().map_or(Content::Unread, |bytes| Content::Is(replica::Digest(bytes)))
}

/// Asks another site for the state of a resource.
pub(super) async fn fetch(core: Rc<Core>, from: Site, meta: Meta) -> Option<Copied> {
    let name = Bytes::copy_from_slice(meta.0.as_bytes());
    let (status, body) = peers::exchange(&core, &from, Method::POST, wire::STATE, name).await?;
    let mut copied: Copied = postcard::from_bytes(&body).ok().filter(|_| status.is_success())?;
    for op in &copied.snapshot.ops {
        let Some(replica::Body(id)) = &op.body else { continue };
        if !copied.writes.iter().any(|kept| kept.id == *id) {
            copied.writes.push(peers::fetch(&core, &from, id).await??);
        }
    }
    let fits = copied.bytes() <= LONGEST && copied.writes.iter().all(is_storable);
    // All of it is of this resource: another has its own sites, who tell of it.
    let own = copied.map.meta == meta
        && copied.snapshot.ops.iter().all(|op| op.resource == meta)
        && copied.writes.iter().all(|kept| is_to(kept, &meta))
        && !has_dots(&copied.shape.prefix);
    (own && fits).then_some(copied)
}

/// Gives the service here a state that was fetched. The name that it has here then; `Err`: it has not got it.
pub(super) async fn install(
    core: Rc<Core>,
    vault: Vault,
    meta: Meta,
    local: Option<LocalId>,
    own: Option<Shape>,
) -> Result<(Option<LocalId>, Copied), ()> {
    let copied: Option<Copied> = vault.get(Table::Copy, meta.0.as_bytes()).await.map_err(drop)?;
    let copied = copied.ok_or(())?;
    let (state, name) = (core.state(), Name::from(&meta));
    // What is nowhere else is addressed as it is here.
    let unknown = copied.shape == Shape::default();
    let shape = own.filter(|_| unknown).unwrap_or_else(|| copied.shape.clone());
    if unknown && local.is_some() && shape == Shape::default() {
        return Err(());
    }
    let to = Installer { core: &core, state: &state, copied: &copied, shape: &shape, name: &name };
    let local = local.as_ref().map(Name::from);
    let installed = if let Some(content) = &copied.content {
        Some(to.put(local, content).await.ok_or(())?)
    } else {
        if let Some(local) = &local {
            to.delete(local).await.ok_or(())?;
        }
        local
    };
    Ok((installed.as_ref().map(LocalId::from), copied))
}

/// Removes a replica that is none any more.
pub(super) async fn release(core: Rc<Core>, shape: Shape, local: Name) -> bool {
    let state = core.state();
    let Some(delete) = request(Method::DELETE, &shape.path(&local), None, Bytes::new()) else { return true };
    let answer = ask(&core, &state, local.service(), delete).await;
    answer.is_some_and(|answer| matches!(answer.status().as_u16(), 200..=299 | 404 | 410))
}

struct Installer<'i> {
    core: &'i Core,
    state: &'i State,
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
            Some(local) => self.replace(local, &document, kind).await?,
            None => self.create(&document, kind).await?,
        };
        for (part, Part::Inline(bytes)) in &content.parts {
            let path = format!("{}{part}", shape.path(&local));
            let body = Bytes::from(bytes.clone());
            self.ask(Method::PUT, &path, Some(b"application/octet-stream"), body)
                .await
                .filter(|status| is_done(*status))?;
        }
        Some(local)
    }

    /// In one step where the service can, else in two.
    async fn replace(&self, local: Name, document: &Bytes, kind: &Kind) -> Option<Name> {
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
        if self.copied.map.chosen {
            let put = self.ask(Method::PUT, &own, Some(b"application/json"), document.clone()).await;
            return put.filter(|status| is_done(*status)).map(|_| self.name.clone());
        }
        let collection = own.rsplit_once('/').map(|(collection, _)| collection)?;
        let post = request(Method::POST, collection, Some(b"application/json"), document.clone())?;
        let answer = ask(self.core, self.state, self.name.service(), post).await?;
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

    async fn ask(&self, method: Method, path: &str, kind: Option<&[u8]>, body: Bytes) -> Option<u16> {
        let request = request(method, path, kind, body)?;
        let answer = ask(self.core, self.state, self.name.service(), request).await?;
        Some(answer.status().as_u16())
    }
}

fn is_done(status: u16) -> bool {
    (200..300).contains(&status)
}

/// A representation without what each site's service makes up itself.
fn portable(document: &[u8], kind: &Kind) -> Bytes {
    let Ok(mut value) = serde_json::from_slice::<Value>(document) else {
        return Bytes::copy_from_slice(document);
    };
    for pointer in kind.generated.iter().chain([&kind.id]) {
        if let Some((above, last)) = pointer.rsplit_once('/')
            && let Some(Value::Object(members)) = value.pointer_mut(above)
        {
            members.remove(&last.replace("~1", "/").replace("~0", "~"));
        }
    }
    Bytes::from(value.to_string())
}
