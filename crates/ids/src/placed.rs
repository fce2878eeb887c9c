//! Which identifier is which, of those that are replaced in declared places only.

use crate::table::{Direction, Found, Pairs, Table, Unfit};

/// The identifiers of one site's replicas of one collection, both ways. Numbers are kept as such: a body has many.
///
/// A copy is a snapshot, as of a [`Table`].
#[derive(Clone, Debug, Default)]
pub struct PlacedTable {
    numbers: Pairs<u128>,
    others: Table,
}

impl PlacedTable {
    /// Nothing is mapped.
    #[must_use]
    pub fn new() -> PlacedTable {
        PlacedTable::default()
    }

    /// Whether there is nothing to rewrite.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.len() == 0 && self.others.is_empty()
    }

    /// The resource `meta` is `local` here, and no longer what it was. A pair of equals is no pair.
    pub fn insert(&mut self, meta: &str, local: &str) -> Result<(), Unfit> {
        match (number(meta), number(local)) {
            (Some(meta), Some(local)) => self.numbers.insert::<u128>(meta, local).map(drop),
            _ => self.others.insert(meta, local),
        }
    }

    /// The resource has no replica here any more, or was let go. False if there was none.
    pub fn remove(&mut self, meta: &str) -> bool {
        let number = number(meta).and_then(|meta| self.numbers.remove(&meta));
        number.is_some() || self.others.remove(meta)
    }

    /// What one identifier is.
    #[must_use]
    pub fn find(&self, id: &str, direction: Direction) -> Found {
        match number(id).and_then(|id| self.numbers.find(&id, direction)) {
            // None is longer; short ones are written faster.
            Some(Ok(id)) => {
                Found::Mapped(u64::try_from(*id).map_or_else(|_| id.to_string(), |id| id.to_string()))
            }
            Some(Err(())) => Found::Hidden,
            None if self.others.is_empty() => Found::Unknown,
            None => self.others.find(id, direction),
        }
    }
}

/// The number that a text is, in its one spelling.
#[inline]
fn number(text: &str) -> Option<u128> {
    let bytes = text.as_bytes();
    if bytes.is_empty() || bytes.len() > 19 || bytes.len() > 1 && bytes.first() == Some(&b'0') {
        return None;
    }
    let digit = |number: u64, byte: &u8| byte.is_ascii_digit().then(|| number * 10 + u64::from(byte - b'0'));
    bytes.iter().try_fold(0, digit).map(u128::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToService};

    #[test]
    fn numbers_and_texts_are_found_both_ways_and_locals_are_hidden() {
        let mut table = PlacedTable::new();
        for (meta, local) in [("4503599627370497", "7"), ("usr_0ABC", "usr_1"), ("01ARZ3", "8")] {
            table.insert(meta, local).unwrap();
            assert_eq!(table.find(meta, ToService), Found::Mapped(local.to_owned()));
            assert_eq!(table.find(local, ToClient), Found::Mapped(meta.to_owned()));
            assert_eq!(table.find(local, ToService), Found::Hidden);
            assert_eq!(table.find(meta, ToClient), Found::Unknown);
        }
        for other in ["07", "", "70", "99999999999999999999999999", "-7", "usr_", "a b"] {
            assert_eq!(table.find(other, ToClient), Found::Unknown, "{other}");
        }
        assert_eq!(table.insert("4503599627370498", "7"), Err(Unfit::Taken));
        let before = table.clone();
        assert!(table.remove("4503599627370497") && !table.remove("4503599627370497"));
        assert_eq!(
            (table.find("7", ToService), before.find("7", ToService)),
            (Found::Unknown, Found::Hidden)
        );
        assert!(table.remove("usr_0ABC") && table.remove("01ARZ3") && table.is_empty());
    }
}
