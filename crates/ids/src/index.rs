//! Which of many resources a text names.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::find::{self, Text};
use crate::id::Id;
use crate::rewriter::Refused;
use crate::spelling::Spelling;
use crate::table::{Direction, Seen, Table};
use crate::text::Decoded;

/// Resources by their identifiers, found wherever a [`crate::Rewriter`] or [`Table::rewrite`] would replace them.
#[derive(Clone, Debug)]
pub struct Index<V> {
    table: Table,
    values: BTreeMap<Id, V>,
}

impl<V> Default for Index<V> {
    fn default() -> Self {
        Index { table: Table::new(), values: BTreeMap::new() }
    }
}

impl<V> Index<V> {
    /// Whether nothing can be found.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// From now on this is found by this identifier. What no identifier looks like is never found.
    pub fn insert(&mut self, id: &str, value: V) {
        if let Some(id) = Id::read(id.as_bytes()) {
            self.table.mark(&id);
            self.values.insert(id, value);
        }
    }

    /// It is no longer.
    pub fn remove(&mut self, id: &str) {
        if let Some(id) = Id::read(id.as_bytes()) {
            self.table.unmark(&id);
            self.values.remove(&id);
        }
    }

    /// What a JSON text names, each once. Numbers count as well: nothing is replaced.
    pub fn in_json(&self, json: &Bytes) -> Result<Vec<&V>, Refused> {
        let plain = Spelling::default().push(json.clone(), true)?;
        Ok(self.found(Text { bytes: &plain, before: 0, json: true }))
    }

    /// What a path or a query names, each once.
    #[must_use]
    pub fn in_text(&self, text: &str) -> Vec<&V> {
        self.found(Text { bytes: Decoded::read(text).bytes(), before: 0, json: false })
    }

    fn found(&self, text: Text<'_>) -> Vec<&V> {
        let hits = find::hits(&self.table, Direction::ToService, text, usize::MAX);
        let ids = hits.into_iter().filter_map(|hit| match hit.seen {
            Seen::Mapped(id) => Some(id.id()),
            Seen::Hidden => None,
        });
        let ids: std::collections::BTreeSet<Id> = ids.collect();
        ids.iter().filter_map(|id| self.values.get(id)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    const TWO: &str = "ffffffff-4e5f-6071-8293-000000000001";

    fn index() -> Index<u8> {
        let mut index = Index::default();
        index.insert(ONE, 1);
        index.insert(&TWO.replace('-', ""), 2);
        index.insert("cart-1", 3);
        index
    }

    #[test]
    fn what_a_body_names_is_found_wherever_it_would_be_replaced() {
        let found = |json: String| -> Vec<u8> {
            index().in_json(&Bytes::from(json)).unwrap().into_iter().copied().collect()
        };
        assert_eq!(
            found(format!("{{\"a\": \"http://h/x/{ONE}?y\", \"{TWO}\": [\"cart-1\", \"{ONE}\"]}}")),
            [1, 2, 3]
        );
        let escaped = ONE.replacen('0', "\\u0030", 1).to_uppercase().replace("\\U", "\\u");
        assert_eq!(found(format!("[\"{escaped}\", \"{}\"]", TWO.replace('-', ""))), [1, 2]);
        assert!(found(format!("[\"a{ONE}\", \"cart-1.bak\", \"cart\", 17]")).is_empty());
    }

    #[test]
    fn what_a_path_names_is_found_until_it_is_removed() {
        let mut index = index();
        let text = format!("/x/{}/y?z=cart%2d1", ONE.replace('-', "%2d"));
        assert_eq!(index.in_text(&text), [&1, &3]);
        index.remove(&ONE.to_uppercase());
        index.remove("cart-1");
        assert!(index.in_text(&text).is_empty() && !index.is_empty());
        index.remove(TWO);
        assert!(index.is_empty());
    }
}
