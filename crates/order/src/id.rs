//! Groups, and the places of their members.

use std::collections::BTreeSet;

use scope::Site;
use serde::{Deserialize, Serialize};

/// A set of sites that agree on one order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub struct GroupId {
    /// Its members.
    pub sites: BTreeSet<Site>,
    /// Which of the groups of these sites: another one, after a member lost what it had promised.
    pub incarnation: u32,
}

/// A site's place in a group, from 1.
pub(crate) fn member(id: &GroupId, site: &Site) -> Option<u64> {
    let place = id.sites.iter().position(|member| member == site)?;
    u64::try_from(place).ok()?.checked_add(1)
}

/// The site at a place.
pub(crate) fn site(id: &GroupId, member: u64) -> Option<Site> {
    id.sites.iter().nth(usize::try_from(member.checked_sub(1)?).ok()?).cloned()
}
