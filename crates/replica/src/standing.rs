//! What replicas say of themselves when they are compared, and which of them is good.

use std::collections::{BTreeMap, BTreeSet};

use scope::Site;
use serde::{Deserialize, Serialize};

use crate::record::Condition;
use crate::version::Version;

/// Stands for a service's representation of a resource, without its generated fields. How it is made is the
/// driver's, the same at every site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Digest(pub [u8; 32]);

/// What a service has of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Content {
    /// This.
    Is(Digest),
    /// Nothing: the service says that there is none.
    Gone,
    /// It could not be read.
    Unread,
    /// Nothing is to be there: it was deleted.
    Absent,
}

/// What a site says of its replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Standing {
    /// What it recorded.
    pub known: Version,
    /// What it executed or skipped.
    pub done: Version,
    /// Whether it is good.
    pub condition: Condition,
    /// What its service has, read while nothing was executed. None where something was, or nothing is to be
    /// there.
    pub content: Option<Content>,
}

/// What a comparison says to one of the sites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing differs that can be compared.
    Equal,
    /// The replica here is good, and these are not.
    Others(BTreeSet<Site>),
    /// The replica here is not, and these are.
    Outvoted(BTreeSet<Site>),
    /// They differ, and no majority says which is good: the operator has to.
    Undecided,
}

/// Compares what the replicas have. Only contents that were read at the version of the replica here count: at
/// another one they have to differ. Of several, what more than half of all replicas have is good; that a
/// service has nothing, where nobody deleted anything, never is.
#[must_use]
pub fn verdict(here: &Site, standings: &BTreeMap<Site, Option<Standing>>) -> Verdict {
    let Some(Some(ours)) = standings.get(here) else { return Verdict::Equal };
    let mut groups = BTreeMap::<Content, BTreeSet<Site>>::new();
    for (site, standing) in standings {
        let Some(standing) = standing else { continue };
        let rests = standing.condition == Condition::Good && standing.done == ours.done;
        if let Some(content @ (Content::Is(_) | Content::Gone)) = standing.content.filter(|_| rests) {
            groups.entry(content).or_default().insert(site.clone());
        }
    }
    let compared: BTreeSet<_> = groups.values().flatten().cloned().collect();
    let gone = groups.remove(&Content::Gone).unwrap_or_default();
    if !compared.contains(here) || (gone.is_empty() && groups.len() == 1) {
        return Verdict::Equal;
    }
    let voters = standings.len().saturating_sub(gone.len());
    match groups.into_values().find(|group| group.len().saturating_mul(2) > voters) {
        None => Verdict::Undecided,
        Some(good) if good.contains(here) => Verdict::Others(compared.difference(&good).cloned().collect()),
        Some(good) => Verdict::Outvoted(good),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str) -> Site {
        Site::new(name).unwrap()
    }

    /// Each site's content: a letter, `-` for none, `?` for no answer.
    fn standings(contents: &str) -> BTreeMap<Site, Option<Standing>> {
        let standing = |c: char| {
            let content = Some(if c == '-' { Content::Gone } else { Content::Is(Digest([c as u8; 32])) });
            let (known, done, condition) = (Version::default(), Version::default(), Condition::Good);
            (c != '?').then_some(Standing { known, done, condition, content })
        };
        contents.chars().zip('A'..).map(|(c, name)| (site(&name.to_string()), standing(c))).collect()
    }

    fn of(contents: &str) -> Verdict {
        verdict(&site("A"), &standings(contents))
    }

    #[test]
    fn the_majority_is_good_and_without_one_the_operator_decides() {
        let sites = |names: &[&str]| names.iter().map(|name| site(name)).collect::<BTreeSet<_>>();
        assert_eq!(of("xxx"), Verdict::Equal);
        assert_eq!(of("yxx"), Verdict::Outvoted(sites(&["B", "C"])));
        assert_eq!(of("xxy"), Verdict::Others(sites(&["C"])));
        assert_eq!(of("xy"), Verdict::Undecided);
        assert_eq!(of("xyz"), Verdict::Undecided);
    }

    #[test]
    fn who_did_not_answer_has_a_vote_too() {
        assert_eq!(of("xx?"), Verdict::Equal);
        assert_eq!(of("xy?"), Verdict::Undecided);
        assert_eq!(of("yxx??"), Verdict::Undecided);
    }

    #[test]
    fn nothing_is_never_good_whatever_the_majority() {
        assert_eq!(of("--x"), Verdict::Outvoted([site("C")].into()));
        assert_eq!(of("x--"), Verdict::Others([site("B"), site("C")].into()));
        assert_eq!(of("---"), Verdict::Undecided);
    }

    #[test]
    fn contents_at_another_version_are_not_compared() {
        let mut all = standings("xy");
        if let Some(Some(other)) = all.get_mut(&site("B")) {
            let epoch = crate::Epoch::default();
            other.done.add(&crate::OpId { site: site("B"), epoch, counter: 1 });
        }
        assert_eq!(verdict(&site("A"), &all), Verdict::Equal);
    }
}
