//! Which sites were asked, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use scope::Site;

use crate::event::Why;
use crate::leg::Record;

/// One site that was asked: `"Site2";error=unreachable;ms=1000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The site.
    pub site: Site,
    /// What it said last.
    pub said: Said,
    /// After which time, where that was measured.
    pub elapsed: Option<Duration>,
}

/// What a site said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Said {
    /// A status.
    Status(u16),
    /// Nothing, for this reason.
    Error(Why),
}

/// Each site once, in the order first asked, without those that have not said anything yet.
pub(crate) fn report(legs: &[Record]) -> Vec<Asked> {
    let mut positions = BTreeMap::new();
    let mut asked: Vec<Asked> = Vec::new();
    for record in legs {
        let Some(said) = record.said else { continue };
        let entry = Asked { site: record.site.clone(), said, elapsed: record.elapsed };
        let position = *positions.entry(&record.site).or_insert(asked.len());
        match asked.get_mut(position) {
            Some(earlier) => *earlier = entry,
            None => asked.push(entry),
        }
    }
    asked
}
