//! The state of a resource, as one site's service gives it. Another's is given it by `install`.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use http::Method;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use ids::Direction;
use profile::{Deletion, Kind};
use replica::{Content, Meta, ReplicaMap, Snapshot};
use scope::Site;
use serde::{Deserialize, Serialize};
use spool::Id;

use super::execute::{self, ask, ids_of, inline, look, request, spooled, stream};
use super::presence::is_absent;
use super::shapes::Shape;
use super::vault::{Table, Vault};
use crate::body::AnswerBody;
use crate::core::{Core, State};
use crate::replicas::declared::Declared;
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
        let kind = execute::kind(&state, service, &self.shape.kind, &path)?;
        let (status, document) = look(&self.core, &state, local, &path).await?;
        if status != 200 {
            return None;
        }
        let mut read = Vec::new();
        for part in kind.parts.clone() {
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
        for (below, _) in kind.maps() {
            let (status, map) = look(&self.core, &state, local, &format!("{path}{below}")).await?;
            match status {
                200 => read
                    .push((below.to_owned(), Part::Inline(for_clients(&self.core, service, map).to_vec()))),
                204 | 404 | 409 | 410 => {}
                _ => return None,
            }
        }
        let document = for_clients_of(&self.core, &state, kind, local, document);
        let known = self.core.shared.replicas.as_ref().map(|replicas| &replicas.known);
        let mut names = known.map(|known| known.named(service, [].iter(), &document)).unwrap_or_default();
        if let Some(declared) = declared(&self.core, &state, Some(kind), local) {
            names.extend(declared.named("", &document));
        }
        let by = state.settings().site.clone();
        Some(Represented { document: document.to_vec(), parts: read, names, by })
    }
}

/// A document of a service here, as any site can read it.
pub(super) fn for_clients(core: &Core, service: &str, document: Bytes) -> Bytes {
    replaced(&ids_of(core, service), document, Direction::ToClient)
}

/// The same, of a resource whose document may have ids in declared places only.
pub(super) fn for_clients_of(core: &Core, state: &State, kind: &Kind, name: &Name, document: Bytes) -> Bytes {
    if kind.exact {
        return document;
    }
    let document = for_clients(core, name.service(), document);
    match declared(core, state, Some(kind), name) {
        Some(declared) => declared.body("", document.clone(), Direction::ToClient).unwrap_or(document),
        None => document,
    }
}

/// What in the documents beside this one, of the same kind, may be an id in declared places only.
pub(super) fn declared(core: &Core, state: &State, kind: Option<&Kind>, name: &Name) -> Option<Declared> {
    let known = &core.shared.replicas.as_ref()?.known;
    Declared::of_documents(known, state, kind, &name.with_id(""), None)
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
    add(&portable(&for_clients_of(core, &state, kind, local, document), kind));
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
    for (below, at) in kind.maps() {
        match look(core, &state, local, &format!("{path}{below}")).await {
            Some((200, map)) => {
                let mut map = Exact::read(&for_clients(core, service, map));
                let elements = map.as_mut().and_then(|map| map.at(at));
                let Some(elements) = elements else { return Content::Unread };
                add(elements.to_string().as_bytes());
            }
            Some((204 | 404 | 409 | 410, _)) => add(&[]),
            _ => return Content::Unread,
        }
    }
    let bytes = digest.finish();
    bytes.as_ref().try_into().map_or(Content::Unread, |bytes| Content::Is(replica::Digest(bytes)))
}

/// The digest of a body as it comes, however long.
pub(super) async fn hash(mut body: AnswerBody) -> Option<ring::digest::Digest> {
    let mut digest = ring::digest::Context::new(&ring::digest::SHA256);
    while let Some(frame) = body.frame().await {
        if let Ok(bytes) = frame.ok()?.into_data() {
            digest.update(&bytes);
        }
    }
    Some(digest.finish())
}

/// Removes a replica that is none any more.
pub(super) async fn release(core: Rc<Core>, shape: Shape, local: Name) -> bool {
    let state = core.state();
    let Some(delete) = request(Method::DELETE, &shape.path(&local), None, Bytes::new()) else { return true };
    let path = shape.path(&local);
    let answer = ask(&core, &state, &local, delete, None).await;
    let Some(status) = answer.map(|answer| answer.status().as_u16()) else { return false };
    let kind = execute::kind(&state, local.service(), &shape.kind, &path);
    match status {
        404 | 410 => true,
        200..=299 if kind.is_some_and(|kind| kind.deletion == Deletion::Absent) => {
            is_absent(&core, &state, &local, &path).await
        }
        status => (200..=299).contains(&status),
    }
}

/// A representation without what each site's service makes up itself, and without the envelope that writes do not have.
pub(super) fn portable(document: &[u8], kind: &Kind) -> Bytes {
    if kind.exact {
        return Bytes::copy_from_slice(document);
    }
    let Some(mut value) = Exact::read(document) else { return Bytes::copy_from_slice(document) };
    for pointer in kind.generated.iter().chain([&kind.id]) {
        if let Some((members, last)) = value.around(pointer) {
            members.remove(&last);
        }
    }
    let written = if kind.document.is_empty() { Some(&mut value) } else { value.at(&kind.document) };
    written.map_or_else(|| Bytes::copy_from_slice(document), |written| Bytes::from(written.to_string()))
}
