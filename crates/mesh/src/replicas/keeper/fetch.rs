//! Fetching the state of a resource from another site.

use std::collections::BTreeMap;
use std::rc::Rc;

use bytes::Bytes;
use http::Method;
use replica::Meta;
use scope::Site;
use spool::{Id, Spool};

use super::copy::{Copied, LONGEST, Part};
use super::execute::{is_storable, is_to, spooled};
use super::peers;
use super::pull::{self, Progress};
use crate::core::Core;
use crate::replicas::request::{Content, Kept};
use crate::replicas::understand::has_dots;
use crate::replicas::wire;

/// Fetches the state of a resource from another site.
pub(super) struct Fetch {
    pub(super) core: Rc<Core>,
    pub(super) spool: Spool,
    pub(super) from: Site,
    pub(super) meta: Meta,
    pub(super) progress: Progress,
}

impl Fetch {
    /// All of it, long parts and bodies in the spool. What came of them goes again if not all does.
    pub(super) async fn run(self) -> Option<Copied> {
        let mut came = Vec::new();
        let copied = self.all(&mut came).await;
        if copied.is_none() {
            for id in came {
                let _ = self.spool.erase(id).await;
            }
        }
        copied
    }

    async fn all(&self, came: &mut Vec<Id>) -> Option<Copied> {
        let mut copied = self.state().await?;
        let parts = self.parts(&copied, came).await?;
        if !parts.is_empty() {
            // What was executed between the parts is in some of them only.
            let now = self.state().await?;
            let executed = |copied: &Copied| copied.snapshot.progress.done.clone();
            let document = |copied: &Copied| copied.content.as_ref().map(|content| content.document.clone());
            if executed(&now) != executed(&copied) || document(&now) != document(&copied) {
                return None;
            }
            copied = now;
            for (name, part) in copied.content.iter_mut().flat_map(|content| &mut content.parts) {
                if let Some(spooled) = parts.get(name) {
                    *part = spooled.clone();
                }
            }
        }
        let apart = copied.content.iter().flat_map(|content| &content.parts);
        let complete = !apart.clone().any(|(_, part)| *part == Part::Apart);
        for op in &copied.snapshot.ops {
            let Some(replica::Body(id)) = &op.body else { continue };
            if !copied.writes.iter().any(|kept| kept.id == *id) {
                copied.writes.push(peers::fetch(&self.core, &self.from, id).await??);
            }
        }
        for kept in &copied.writes {
            self.body(kept, came).await?;
        }
        let fits = copied.bytes() <= LONGEST && copied.writes.iter().all(is_storable);
        // All of it is of this resource: another has its own sites, who tell of it.
        let own = copied.map.meta == self.meta
            && copied.snapshot.ops.iter().all(|op| op.resource == self.meta)
            && copied.writes.iter().all(|kept| is_to(kept, &self.meta))
            && !has_dots(&copied.shape.prefix);
        (complete && own && fits).then_some(copied)
    }

    async fn state(&self) -> Option<Copied> {
        let name = Bytes::copy_from_slice(self.meta.0.as_bytes());
        let (status, body) = peers::exchange(&self.core, &self.from, Method::POST, wire::STATE, name).await?;
        let copied: Copied = postcard::from_bytes(&body).ok().filter(|_| status.is_success())?;
        // Its spool is not this one.
        let apart = copied.content.iter().flat_map(|content| &content.parts);
        let spooled = apart.clone().any(|(_, part)| matches!(part, Part::Spooled { .. }));
        (!spooled).then_some(copied)
    }

    /// The long parts, one after another.
    async fn parts(&self, copied: &Copied, came: &mut Vec<Id>) -> Option<BTreeMap<String, Part>> {
        let mut parts = BTreeMap::new();
        let listed = copied.content.iter().flat_map(|content| &content.parts);
        for (name, _) in listed.filter(|(_, part)| *part == Part::Apart) {
            let asked = postcard::to_allocvec(&(&*self.meta.0, name)).ok()?;
            let stored =
                pull::part(&self.core, &self.spool, &self.from, asked.into(), &self.progress).await??;
            came.push(stored.id);
            parts.insert(name.clone(), Part::Spooled { id: stored.id.to_string(), length: stored.len });
        }
        Some(parts)
    }

    /// The long body of a write that the state names, unless it is here.
    async fn body(&self, kept: &Kept, came: &mut Vec<Id>) -> Option<()> {
        let (Some(id), Content::Spooled { length, digest }) = (spooled(kept), &kept.content) else {
            return Some(());
        };
        if self.spool.stored_len(id) == Some(*length) {
            return Some(());
        }
        let sources = [self.from.clone()];
        let stored = pull::body(&self.core, &self.spool, id, Some(*length), &sources, &self.progress).await?;
        came.push(id);
        (stored.sha256 == *digest).then_some(())
    }
}
