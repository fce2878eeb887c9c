//! Which items of merged lists are copies of one resource.

use std::sync::Arc;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use merge::Same;
use profile::Kinds;

use super::{Known, Name, Replicas, Seen};

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
