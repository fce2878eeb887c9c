//! Operations on replicated resources, as they are recorded and sent.

use std::{collections::BTreeSet, fmt, str::FromStr, sync::Arc};

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::{clock::Stamp, epoch::Epoch, version::Version};

/// A resource's identifier that clients see, the same at every site.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub struct Meta(pub Arc<str>);

/// A resource's identifier in one site's own service. No client sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub struct LocalId(pub Arc<str>);

/// Identifies an operation, everywhere and for ever: a run of a site never gives a counter twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub struct OpId {
    /// The site that accepted it.
    pub site: Site,
    /// In which of its runs.
    pub epoch: Epoch,
    /// Counts all operations that this site accepted, from 1.
    pub counter: u64,
}

impl fmt::Display for OpId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.site, self.epoch, self.counter)
    }
}

/// A text that names no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoOperation;

impl FromStr for OpId {
    type Err = NoOperation;

    fn from_str(text: &str) -> Result<OpId, NoOperation> {
        let mut parts = text.split('/');
        let (site, epoch, counter) = (parts.next(), parts.next(), parts.next());
        let site = site.and_then(Site::new).ok_or(NoOperation)?;
        let epoch = epoch.and_then(Epoch::read).ok_or(NoOperation)?;
        let counter = counter.filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let counter = counter.and_then(|text| text.parse().ok()).ok_or(NoOperation)?;
        let id = OpId { site, epoch, counter };
        // One operation has one name.
        (parts.next().is_none() && id.to_string() == text).then_some(id).ok_or(NoOperation)
    }
}

/// A field of a resource that a patch sets, as the profile names it: a member of its document (`tags`), or a path below the
/// resource (`/tags`, `/tags/lts`). A member and the path of its name are one field; what is below a path is an element of it.
pub type Field = Arc<str>;

/// The names that lead to a field: an element's begins with that of the field that it is in.
pub(crate) fn names(field: &Field) -> Vec<&str> {
    match field.strip_prefix('/') {
        Some(path) => path.split('/').collect(),
        None => vec![field],
    }
}

/// Whether setting a field sets another as well: the same, or an element of it.
pub(crate) fn sets(field: &Field, other: &Field) -> bool {
    names(other).starts_with(&names(field))
}

/// How an operation behaves beside concurrent ones. A profile gives it for each kind of operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Class {
    /// Makes the resource, also anew after it was deleted.
    Create,
    /// Sets the whole resource.
    Replace,
    /// Removes the resource.
    Delete,
    /// Commutes with adds, patches and actions; not idempotent.
    Add,
    /// Sets these fields and no other.
    Patch(BTreeSet<Field>),
    /// Anything else. At `@eventual` it must be idempotent, and commute as an add does.
    Action {
        /// Whether executing it twice is the same as once.
        idempotent: bool,
    },
}

impl Class {
    /// Whether it sets the whole resource.
    pub(crate) fn sets_all(&self) -> bool {
        matches!(self, Class::Create | Class::Replace)
    }
}

/// What to do where nobody knows whether the service executed it. A profile says so for each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Doubt {
    /// Execute it again: that is harmless (a full replace, a delete, a create by PUT).
    Repeat,
    /// Ask the service whether it was executed.
    Probe,
    /// Show it to the operator until it is settled.
    Ask,
}

/// When the client is answered, and what orders concurrent writes. Fixed when a resource is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub enum Level {
    /// Answered when recorded here. Each site executes in its own order: replicas may stay different.
    Weak,
    /// Answered when recorded and executed at one replica. Every site ends in the same state.
    Eventual,
    /// One order, by a majority: see [`crate::order`].
    Quorum,
    /// One order, by all: see [`crate::order`].
    Strong,
}

/// On whose behalf an operation is executed. No token, password or cookie.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Who {
    /// The site that authenticated the user.
    pub site: Site,
    /// The user, as that site names it.
    pub user: Arc<str>,
    /// The project, as that site names it.
    pub project: Option<Arc<str>>,
    /// The roles at that time.
    pub roles: Vec<Arc<str>>,
    /// When the site authorised it, in milliseconds of its wall clock.
    pub time_ms: u64,
}

/// Names the stored request that an operation executes. The driver keeps it, encrypted, and erases it
/// on [`crate::Effect::Erase`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Body(pub Arc<str>);

/// One write to a replicated resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub struct Operation {
    /// Its identity.
    pub id: OpId,
    /// What it writes to.
    pub resource: Meta,
    /// How it behaves beside concurrent ones.
    pub class: Class,
    /// What to do where its execution is in doubt.
    pub doubt: Doubt,
    /// What came before it: executed at the accepting site when it was accepted, or accepted there
    /// earlier (a site executes what it accepted in that order).
    pub seen: Version,
    /// Breaks ties.
    pub stamp: Stamp,
    /// On whose behalf.
    pub on_behalf_of: Who,
    /// What is executed. None once every replica has: it is never needed again.
    pub body: Option<Body>,
}

impl Operation {
    /// Whether `other` came before it.
    #[must_use]
    pub fn saw(&self, other: &Operation) -> bool {
        self.seen.covers(&other.id)
    }

    /// The order of concurrent operations.
    pub(crate) fn rank(&self) -> (Stamp, &OpId) {
        (self.stamp, &self.id)
    }
}
