//! How the sources of a list combine.

use std::collections::{BTreeMap, BTreeSet};

/// A list made of lists. Sources are numbered by the caller; the order here is the order of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Merged {
    /// The list of one source.
    Source(usize),
    /// `&`: the items of all.
    Union(Vec<Merged>),
    /// `^`: the items, by their ids, that exactly one operand has.
    Unique(Vec<Merged>),
}

impl Merged {
    /// The sources, in order, and whether each is under a `^`.
    pub(crate) fn leaves(&self) -> Vec<(usize, bool)> {
        match self {
            Merged::Source(source) => vec![(*source, false)],
            Merged::Union(parts) => parts.iter().flat_map(Merged::leaves).collect(),
            Merged::Unique(parts) => {
                parts.iter().flat_map(Merged::leaves).map(|(source, _)| (source, true)).collect()
            }
        }
    }

    /// Which of these ids each source keeps. Items without an id are no one's equal, and not in here.
    pub(crate) fn kept(&self, ids: &BTreeMap<usize, BTreeSet<String>>) -> BTreeMap<usize, BTreeSet<String>> {
        match self {
            Merged::Source(source) => {
                BTreeMap::from([(*source, ids.get(source).cloned().unwrap_or_default())])
            }
            Merged::Union(parts) => parts.iter().fold(BTreeMap::new(), |mut all, part| {
                all.extend(part.kept(ids));
                all
            }),
            Merged::Unique(parts) => {
                let parts: Vec<_> = parts.iter().map(|part| part.kept(ids)).collect();
                let mut owners: BTreeMap<String, usize> = BTreeMap::new();
                for part in &parts {
                    let had: BTreeSet<&String> = part.values().flatten().collect();
                    for id in had {
                        *owners.entry(id.clone()).or_default() += 1;
                    }
                }
                let mut kept: BTreeMap<usize, BTreeSet<String>> = parts.into_iter().flatten().collect();
                for ids in kept.values_mut() {
                    ids.retain(|id| owners.get(id) == Some(&1));
                }
                kept
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_keeps_what_one_operand_has_and_a_union_is_one_operand() {
        let source = Merged::Source;
        let tree = Merged::Unique(vec![Merged::Union(vec![source(0), source(1)]), source(2)]);
        let set = |ids: &str| ids.split(' ').filter(|id| !id.is_empty()).map(str::to_owned).collect();
        let ids = BTreeMap::from([(0, set("a b c")), (1, set("b d")), (2, set("c d e"))]);
        let kept = BTreeMap::from([(0, set("a b")), (1, set("b")), (2, set("e"))]);
        assert_eq!(tree.kept(&ids), kept);
        assert_eq!(tree.leaves(), [(0, true), (1, true), (2, true)]);
    }
}
