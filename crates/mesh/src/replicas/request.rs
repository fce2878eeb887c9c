//! Writes to replicated resources, as they are understood by a core and kept by the keeper.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use replica::{LocalId, Meta, Write};
use scope::Site;
use serde::{Deserialize, Serialize};

use super::references::Named;
use super::write_name::WriteName;
use crate::carry::Sender;

/// What names a resource of a service, at one site or for clients: the service, and the path without what stands
/// before its kind's own. `image:/v2/images/7f…`. Of what belongs to a user the user too, as `domain/name`, which paths
/// do not say: `compute:Default%2Falice/os-keypairs/mine`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name(Arc<str>);

impl Name {
    pub(crate) fn new(service: &str, path: &str) -> Name {
        Name(format!("{service}:{path}").into())
    }

    /// Of a resource of one user's.
    pub(crate) fn owned(service: &str, path: &str, owner: &str) -> Name {
        let mut plain = String::with_capacity(owner.len());
        for byte in owner.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                plain.push(char::from(byte));
            } else {
                plain.push_str(&format!("%{byte:02X}"));
            }
        }
        Name(format!("{service}:{plain}{path}").into())
    }

    /// The user whose it is, if it is one user's.
    pub(crate) fn owner(&self) -> Option<String> {
        let (_, rest) = self.0.split_once(':')?;
        let (owner, _) = rest.split_once('/').filter(|(owner, _)| !owner.is_empty())?;
        let mut parts = owner.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            let (digits, plain) = part.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            bytes.extend_from_slice(plain.as_bytes());
        }
        String::from_utf8(bytes).ok()
    }

    pub(crate) fn service(&self) -> &str {
        self.0.split_once(':').map_or("", |(service, _)| service)
    }

    pub(crate) fn path(&self) -> &str {
        let Some((_, path)) = self.0.split_once(':') else { return &self.0 };
        path.find('/').and_then(|start| path.get(start..)).unwrap_or(path)
    }

    /// The last segment.
    pub(crate) fn id(&self) -> &str {
        self.0.rsplit_once('/').map_or("", |(_, id)| id)
    }

    /// Whether it is this, or below it.
    pub(crate) fn begins_with(&self, other: &Name) -> bool {
        self.0.starts_with(&*other.0)
    }

    /// The same with another id.
    pub(crate) fn with_id(&self, id: &str) -> Name {
        let collection = self.0.rsplit_once('/').map_or("", |(collection, _)| collection);
        Name([collection, "/", id].concat().into())
    }
}

impl From<&Meta> for Name {
    fn from(meta: &Meta) -> Name {
        Name(Arc::clone(&meta.0))
    }
}

impl From<&LocalId> for Name {
    fn from(local: &LocalId) -> Name {
        Name(Arc::clone(&local.0))
    }
}

impl From<&Name> for Meta {
    fn from(name: &Name) -> Meta {
        Meta(Arc::clone(&name.0))
    }
}

impl From<&Name> for LocalId {
    fn from(name: &Name) -> LocalId {
        LocalId(Arc::clone(&name.0))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A write as it is kept until every replica has executed it: what [`replica::Body`] names. No credential is in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Random, in hexadecimal: what [`replica::Body`] holds.
    pub(crate) id: Arc<str>,
    pub(crate) service: String,
    /// The name of the resource's kind in the profile.
    pub(crate) kind: String,
    pub(crate) method: String,
    /// The path of the resource for clients, with its prefix; of the collection where the service names what is
    /// made.
    pub(crate) path: String,
    /// What follows that path: what of the resource is written.
    pub(crate) below: String,
    pub(crate) query: Option<String>,
    /// Headers that the service needs; no credentials, no conditions, nothing of one hop.
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) content: Content,
    /// Other replicated resources that it names.
    pub(crate) names: Vec<Named>,
    /// The word of the site that accepted it, on this and on whose behalf it is. None before it is accepted.
    pub(crate) signed: Option<link::Signed>,
}

/// Marks a kept write whose client sent no credential: as such it can be sent again. No client sets a header of this name.
const ANONYMOUS: &str = "archipel-anonymous";

impl Kept {
    /// Notes that its client sent no credential.
    pub(crate) fn mark_anonymous(&mut self) {
        self.headers.push((ANONYMOUS.to_owned(), Vec::new()));
    }

    /// Whether its client is known to have sent no credential.
    pub(crate) fn is_anonymous(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == ANONYMOUS)
    }

    /// The headers that the service is sent.
    pub(crate) fn sent_headers(&self) -> impl Iterator<Item = &(String, Vec<u8>)> {
        self.headers.iter().filter(|(name, _)| name != ANONYMOUS)
    }

    pub(crate) fn content_type(&self) -> &str {
        let said = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        said.and_then(|(_, value)| std::str::from_utf8(value).ok()).unwrap_or_default()
    }
}

/// The body of a kept write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Content {
    /// Small.
    Inline(#[serde(with = "super::octets")] Vec<u8>),
    /// In the spool, by the kept write's id.
    Spooled {
        /// How long.
        length: u64,
        /// SHA-256 of it.
        digest: [u8; 32],
    },
}

/// The scope of a request, fit to be handed to another thread.
#[derive(Clone, Debug)]
pub(crate) struct Scoped {
    pub(crate) text: Box<str>,
    pub(crate) entered: Site,
    pub(crate) hops: u8,
    pub(crate) sender: Sender,
    pub(crate) token: Option<Sender>,
}

/// A client's write to a replicated resource.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// As the machine takes it.
    pub(crate) write: Write,
    /// What is kept of it.
    pub(crate) kept: Kept,
    /// The head as the client sent it, credentials, conditions and all, with names for clients: what the first
    /// replica executes. Never stored.
    pub(crate) head: Box<Parts>,
    /// The scope that the service's own calls carry.
    pub(crate) scoped: Option<Scoped>,
    /// Where its name is said once it is recorded.
    pub(crate) named: WriteName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_users_is_named_apart_from_what_has_the_same_path() {
        let path = "/os-keypairs/mine";
        for owner in ["Default/alice", "Default/bob", "a:b/50%/é", "/"] {
            let name = Name::owned("compute", path, owner);
            assert_eq!(name.owner().as_deref(), Some(owner));
            assert_eq!((name.service(), name.path(), name.id()), ("compute", path, "mine"));
            assert_eq!(name.with_id("other"), Name::owned("compute", "/os-keypairs/other", owner));
        }
        let nobodys = Name::new("compute", path);
        assert_eq!((nobodys.owner(), nobodys.path()), (None, path));
    }
}
