//! A sorted map of few entries. A `BTreeMap` has room for eleven in its first node, most of which a resource leaves empty:
//! it has one operation, one run and two or three sites.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Keys and values in the order of the keys. As a `BTreeMap` it is read and written.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Few<K, V>(Vec<(K, V)>);

impl<K, V> Default for Few<K, V> {
    fn default() -> Few<K, V> {
        Few(Vec::new())
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for Few<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Ord, V> Few<K, V> {
    fn place(&self, key: &K) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| own.cmp(key))
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.place(key).ok().and_then(|at| self.0.get(at)).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let at = self.place(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.place(key).is_ok()
    }

    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.place(&key) {
            Ok(at) => self.0.get_mut(at).map(|(_, own)| std::mem::replace(own, value)),
            Err(at) => {
                // No room for what seldom comes.
                self.0.reserve_exact(if self.0.len() < 4 { 1 } else { self.0.len() / 2 });
                self.0.insert(at, (key, value));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.place(key).ok()?;
        Some(self.0.remove(at).1)
    }
}

impl<K: Ord, V: Default> Few<K, V> {
    /// The value of a key, which is made if there is none.
    pub(crate) fn of(&mut self, key: K) -> &mut V {
        let at = self.place(&key).unwrap_or_else(|at| {
            self.insert(key, V::default());
            at
        });
        self.0.get_mut(at).map(|(_, value)| value).expect("it is there now")
    }
}

impl<K, V> Few<K, V> {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> + Clone {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn keys(&self) -> impl DoubleEndedIterator<Item = &K> + Clone {
        self.iter().map(|(key, _)| key)
    }

    pub(crate) fn values(&self) -> impl DoubleEndedIterator<Item = &V> + Clone {
        self.iter().map(|(_, value)| value)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn retain(&mut self, mut stays: impl FnMut(&K, &mut V) -> bool) {
        self.0.retain_mut(|(key, value)| stays(key, value));
    }
}

impl<K: Ord, V> Extend<(K, V)> for Few<K, V> {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, entries: I) {
        for (key, value) in entries {
            self.insert(key, value);
        }
    }
}

/// The last of several of one key counts.
impl<K: Ord, V> FromIterator<(K, V)> for Few<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Few<K, V> {
        let mut few = Few::default();
        few.extend(entries);
        few
    }
}

impl<K, V> IntoIterator for Few<K, V> {
    type Item = (K, V);
    type IntoIter = std::vec::IntoIter<(K, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<K: Serialize, V: Serialize> Serialize for Few<K, V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>> Deserialize<'de> for Few<K, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Few<K, V>, D::Error> {
        // As a map was read so far: whoever wrote it, it is in order then.
        let map = std::collections::BTreeMap::<K, V>::deserialize(deserializer)?;
        Ok(Few(map.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_few_entries_are_kept_read_and_written_as_a_map() {
        let mut few = Few::default();
        let mut map = BTreeMap::new();
        for number in [5_u64, 3, 9, 3, 1, 200, 7, 5] {
            assert_eq!(few.insert(number, number + 1), map.insert(number, number + 1));
        }
        assert_eq!(few.remove(&9), map.remove(&9));
        *few.of(3) += 1;
        *few.of(4) += 1;
        *map.entry(3).or_default() += 1;
        *map.entry(4).or_default() += 1;
        assert!(few.iter().eq(map.iter()));
        let bytes = postcard::to_allocvec(&map).unwrap();
        assert_eq!(postcard::to_allocvec(&few).unwrap(), bytes);
        assert_eq!(postcard::from_bytes::<Few<u64, u64>>(&bytes).unwrap(), few);
        let unsorted = postcard::to_allocvec(&[(2_u64, 1_u64), (1, 1)].to_vec()).unwrap();
        assert!(postcard::from_bytes::<Few<u64, u64>>(&unsorted).unwrap().keys().is_sorted());
    }
}
