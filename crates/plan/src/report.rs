//! Which sites were asked, and what came of it.

use std::collections::BTreeMap;
use std::time::Duration;

use scope::Site;

use crate::event::{Leg, Why};
use crate::leg::Record;

/// One site whose turn it was: `"Site2";error=unreachable;ms=1000`.
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

/// A site whose turn it was, and that was not sent anything.
#[derive(Debug)]
pub(crate) struct Skipped {
    /// The first leg after it, if there is one.
    pub(crate) before: Leg,
    pub(crate) site: Site,
    pub(crate) why: Why,
}

/// Each site once, in the order of their turns, without those that have not said anything yet.
pub(crate) fn report(legs: &[Record], skipped: &[Skipped]) -> Vec<Asked> {
    let mut report = Report::default();
    let mut skipped = skipped.iter().peekable();
    for (number, record) in legs.iter().enumerate() {
        while let Some(skipped) = skipped.next_if(|skipped| skipped.before.0 <= number) {
            report.add(&skipped.site, Said::Error(skipped.why), None);
        }
        if let Some(said) = record.said {
            report.add(&record.site, said, record.elapsed);
        }
    }
    for skipped in skipped {
        report.add(&skipped.site, Said::Error(skipped.why), None);
    }
    report.asked
}

#[derive(Default)]
struct Report<'r> {
    positions: BTreeMap<&'r Site, usize>,
    asked: Vec<Asked>,
}

impl<'r> Report<'r> {
    /// What a site said later counts.
    fn add(&mut self, site: &'r Site, said: Said, elapsed: Option<Duration>) {
        let entry = Asked { site: site.clone(), said, elapsed };
        let position = *self.positions.entry(site).or_insert(self.asked.len());
        match self.asked.get_mut(position) {
            Some(earlier) => *earlier = entry,
            None => self.asked.push(entry),
        }
    }
}
