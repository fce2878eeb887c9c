//! A map that is cheap to copy: copies share what neither changed.
//!
//! A fixed tree: 128 nodes of 128 leaves, by a hash, and in each leaf the entries in order. A change copies two
//! lists of 128 pointers and one leaf, of 6 entries where there are 100,000. Most keys that are not there are told
//! by a bit beside the leaf, which stays in a processor's cache while the leaves do not. The entries are in the
//! order of those bits, so that how many are set before a key's own says where it is, without a search: reading one
//! then waits for no other, and a processor reads many at once. Only where two keys have one bit is a leaf searched,
//! by halves, whatever the keys are.

use std::{array, borrow::Borrow, sync::Arc};

const FAN: usize = 128;

type Node<K> = Arc<[Leaf<K>; FAN]>;

/// Aligned: in one line of a processor's cache.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Leaf<K> {
    /// Each key has one bit here.
    bits: u128,
    /// By bit, then by key.
    entries: Arc<[Entry<K>]>,
}

/// Aligned, too.
#[derive(Clone, Debug)]
#[repr(align(32))]
struct Entry<K> {
    key: K,
    value: K,
}

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
        let (words, rest) = self.as_chunks::<8>();
        let spread =
            words.iter().fold(self.len() as u64, |spread, word| mix(spread, u64::from_le_bytes(*word)));
        let last = rest.iter().fold(0, |last, byte| last << 8 | u64::from(*byte));
        mix(spread, last)
    }
}

impl<K> Default for Trie<K> {
    fn default() -> Self {
        let leaf = Leaf { bits: 0, entries: Arc::from([]) };
        let copy = || Leaf { bits: leaf.bits, entries: Arc::clone(&leaf.entries) };
        let node: Node<K> = Arc::new(array::from_fn(|_| copy()));
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
        self.near(&place(key))?.get(key)
    }

    /// Where the key of this place is, if it is there at all. Reads none of the entries.
    #[inline]
    pub(crate) fn near(&self, place: &Place) -> Option<Near<'_, K>> {
        let leaf = self.leaf(place)?;
        if leaf.bits & place.bit == 0 {
            return None;
        }
        let rank = (leaf.bits & (place.bit - 1)).count_ones() as usize;
        Some(Near { leaf, entry: leaf.entries.get(rank)? })
    }

    /// Reads the same, and says nothing of use.
    #[inline]
    pub(crate) fn touch(&self, place: &Place) -> bool {
        self.leaf(place).is_some_and(|leaf| leaf.bits & 1 == 1)
    }

    #[inline]
    fn leaf(&self, place: &Place) -> Option<&Leaf<K>> {
        self.nodes.get(place.node)?.get(place.leaf)
    }

    /// Sets the value of a key. Gives the one that it had.
    pub(crate) fn insert<Q: Ord + Spread + ?Sized>(&mut self, key: K, value: K) -> Option<K>
    where
        K: Borrow<Q>,
    {
        let place = place(key.borrow());
        let leaf = self.own_leaf(&place)?;
        match leaf.at(place.bit, key.borrow()) {
            Ok(at) => {
                let old = Arc::make_mut(&mut leaf.entries).get_mut(at).map(|entry| &mut entry.value)?;
                Some(std::mem::replace(old, value))
            }
            Err(at) => {
                let (before, after) = leaf.entries.split_at(at);
                leaf.entries = before
                    .iter()
                    .cloned()
                    .chain([Entry { key, value }])
                    .chain(after.iter().cloned())
                    .collect();
                leaf.bits |= place.bit;
                self.entries += 1;
                None
            }
        }
    }

    pub(crate) fn remove<Q: Ord + Spread + ?Sized>(&mut self, key: &Q) -> Option<K>
    where
        K: Borrow<Q>,
    {
        let value = self.get(key)?.clone();
        let leaf = self.own_leaf(&place(key))?;
        leaf.entries = leaf.entries.iter().filter(|entry| entry.key.borrow() != key).cloned().collect();
        leaf.bits = leaf.entries.iter().fold(0, |bits, entry| bits | place(entry.key.borrow()).bit);
        self.entries -= 1;
        Some(value)
    }

    /// A leaf, whose node is copied from here on if others share it. There is always one.
    fn own_leaf(&mut self, place: &Place) -> Option<&mut Leaf<K>> {
        let node = Arc::make_mut(&mut self.nodes).get_mut(place.node)?;
        Arc::make_mut(node).get_mut(place.leaf)
    }
}

/// Where a key may be.
pub(crate) struct Near<'a, K> {
    leaf: &'a Leaf<K>,
    /// Its own, unless two keys of the leaf have one bit.
    entry: &'a Entry<K>,
}

impl<'a, K: Ord> Near<'a, K> {
    /// The value of the key that this was made for.
    #[inline]
    pub(crate) fn get<Q: Ord + Spread + ?Sized>(&self, key: &Q) -> Option<&'a K>
    where
        K: Borrow<Q>,
    {
        if self.is(key) { Some(&self.entry.value) } else { self.search(key) }
    }

    /// Whether the first entry that [`Near::get`] reads is its own.
    #[inline]
    pub(crate) fn is<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.entry.key.borrow() == key
    }

    /// Unless two keys of the leaf have one bit, it is not there.
    #[cold]
    fn search<Q: Ord + Spread + ?Sized>(&self, key: &Q) -> Option<&'a K>
    where
        K: Borrow<Q>,
    {
        if self.leaf.entries.len() == self.leaf.bits.count_ones() as usize {
            return None;
        }
        let at = self.leaf.at(place(key).bit, key).ok()?;
        self.leaf.entries.get(at).map(|entry| &entry.value)
    }
}

impl<K: Ord> Leaf<K> {
    /// Where a key is, or would be.
    fn at<Q: Ord + Spread + ?Sized>(&self, bit: u128, key: &Q) -> Result<usize, usize>
    where
        K: Borrow<Q>,
    {
        self.entries.binary_search_by(|entry| {
            let own = entry.key.borrow();
            place(own).bit.cmp(&bit).then_with(|| own.cmp(key))
        })
    }
}

/// Where a key is, if it is there.
pub(crate) struct Place {
    node: usize,
    leaf: usize,
    bit: u128,
}

#[inline]
pub(crate) fn place<Q: Spread + ?Sized>(key: &Q) -> Place {
    let spread = key.spread();
    Place {
        node: (spread & 127) as usize,
        leaf: (spread >> 7 & 127) as usize,
        bit: 1 << (spread >> 14 & 127),
    }
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
    fn keys_of_one_bit_are_told_apart() {
        let numbers = (0..u128::from(u32::MAX)).filter(|key| {
            let place = place(key);
            (place.node, place.leaf) == (0, 0) && place.bit < 1 << 4
        });
        let keys: Vec<u128> = numbers.take(16).collect();
        let mut trie: Trie<u128> = Trie::default();
        for key in keys.iter().rev().step_by(2) {
            trie.insert::<u128>(*key, key + 1);
        }
        let expected = |at: usize, key: &u128| (at % 2 == 1).then_some(key + 1);
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(trie.get(key).copied(), expected(at, key));
        }
        for (at, key) in keys.iter().enumerate() {
            assert_eq!(trie.remove(key), expected(at, key));
            assert_eq!(trie.get(key), None);
        }
        assert_eq!(trie.len(), 0);
    }

    #[test]
    fn keys_that_count_upwards_are_spread() {
        let mut trie: Trie<u128> = Trie::default();
        for number in 0..100_000_u128 {
            // As UUIDs that are made of the time are: alike but for a few digits.
            trie.insert::<u128>(0x0190_0000_0000_7000_8000_0000_0000_0000 | number << 80, number);
        }
        let largest = trie.nodes.iter().flat_map(|node| node.iter()).map(|leaf| leaf.entries.len()).max();
        assert!(largest < Some(30), "{largest:?}");
    }
}
