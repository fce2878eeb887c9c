//! A map that is cheap to copy: copies share what neither changed.
//!
//! A fixed tree: 64 nodes of 64 leaves, by a hash, and in each leaf the entries in order. A change copies two
//! lists of 64 pointers and one leaf, of 25 entries where there are 100,000. Whatever the keys are, a leaf is
//! searched by halves.

use std::{array, borrow::Borrow, sync::Arc};

const FAN: usize = 64;

type Leaf<K> = Arc<Vec<(K, K)>>;
type Node<K> = Arc<[Leaf<K>; FAN]>;

/// Keys and values of one type.
#[derive(Clone, Debug)]
pub(crate) struct Trie<K> {
    nodes: Arc<[Node<K>; FAN]>,
    entries: usize,
}

/// Spreads keys over the leaves. The same in every run.
pub(crate) trait Spread {
    fn spread(&self) -> u64;
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

fn mix(one: u64, two: u64) -> u64 {
    let (high, low) = halves(u128::from(one ^ ODD) * u128::from(two ^ ODD.rotate_left(32)));
    high ^ low
}

#[allow(clippy::cast_possible_truncation, reason = "a half is what is wanted")]
fn halves(number: u128) -> (u64, u64) {
    ((number >> 64) as u64, number as u64)
}

impl Spread for u128 {
    fn spread(&self) -> u64 {
        let (high, low) = halves(*self);
        mix(high, low)
    }
}

impl Spread for [u8] {
    fn spread(&self) -> u64 {
        self.chunks(8).fold(self.len() as u64, |spread, part| {
            let word = part.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            mix(spread, word)
        })
    }
}

impl<K> Default for Trie<K> {
    fn default() -> Self {
        let leaf: Leaf<K> = Arc::default();
        let node: Node<K> = Arc::new(array::from_fn(|_| leaf.clone()));
        Trie { nodes: Arc::new(array::from_fn(|_| node.clone())), entries: 0 }
    }
}

impl<K: Ord + Clone> Trie<K> {
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    pub(crate) fn get<Q: Ord + Spread + ?Sized>(&self, key: &Q) -> Option<&K>
    where
        K: Borrow<Q>,
    {
        let (node, leaf) = place(key);
        let leaf = self.nodes.get(node)?.get(leaf)?;
        let at = leaf.binary_search_by(|(own, _)| own.borrow().cmp(key)).ok()?;
        leaf.get(at).map(|(_, value)| value)
    }

    /// Sets the value of a key. Gives the one that it had.
    pub(crate) fn insert<Q: Ord + Spread + ?Sized>(&mut self, key: K, value: K) -> Option<K>
    where
        K: Borrow<Q>,
    {
        let leaf = self.leaf(key.borrow())?;
        match leaf.binary_search_by(|(own, _)| own.cmp(&key)) {
            Ok(at) => leaf.get_mut(at).map(|(_, old)| std::mem::replace(old, value)),
            Err(at) => {
                leaf.insert(at, (key, value));
                self.entries += 1;
                None
            }
        }
    }

    pub(crate) fn remove<Q: Ord + Spread + ?Sized>(&mut self, key: &Q) -> Option<K>
    where
        K: Borrow<Q>,
    {
        self.get(key)?;
        let leaf = self.leaf(key)?;
        let at = leaf.binary_search_by(|(own, _)| own.borrow().cmp(key)).ok()?;
        let (_, value) = leaf.remove(at);
        self.entries -= 1;
        Some(value)
    }

    /// The leaf of a key, copied from here on if others share it. There is always one.
    fn leaf<Q: Spread + ?Sized>(&mut self, key: &Q) -> Option<&mut Vec<(K, K)>> {
        let (node, leaf) = place(key);
        let node = Arc::make_mut(&mut self.nodes).get_mut(node)?;
        Arc::make_mut(node).get_mut(leaf).map(Arc::make_mut)
    }
}

/// The node and the leaf of a key.
fn place<Q: Spread + ?Sized>(key: &Q) -> (usize, usize) {
    let spread = key.spread();
    ((spread % 64) as usize, (spread / 64 % 64) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn it_is_a_map_and_an_older_copy_stays_as_it_was() {
        let (mut trie, mut model) = (Trie::default(), BTreeMap::new());
        let mut kept = Vec::new();
        for round in 0..20_000_u128 {
            let key = round.wrapping_mul(0x2545_f491_4f6c_dd1d) % 5_000;
            if round % 3 == 0 {
                assert_eq!(trie.remove(&key), model.remove(&key));
            } else {
                assert_eq!(trie.insert::<u128>(key, round), model.insert(key, round));
            }
            if round % 5_000 == 0 {
                kept.push((trie.clone(), model.clone()));
            }
        }
        kept.push((trie, model));
        for (trie, model) in kept {
            assert_eq!(trie.len(), model.len());
            for key in 0..5_000 {
                assert_eq!(trie.get(&key), model.get(&key));
            }
        }
    }

    #[test]
    fn keys_that_count_upwards_are_spread() {
        let mut trie: Trie<u128> = Trie::default();
        for number in 0..100_000_u128 {
            // As UUIDs that are made of the time are: alike but for a few digits.
            trie.insert::<u128>(0x0190_0000_0000_7000_8000_0000_0000_0000 | number << 80, number);
        }
        let largest = trie.nodes.iter().flat_map(|node| node.iter()).map(|leaf| leaf.len()).max();
        assert!(largest < Some(100), "{largest:?}");
    }
}
