//! Pairs, bodies and ways to push them.

#![allow(dead_code, reason = "each test file uses some")]

use bytes::Bytes;
use ids::{Direction, Refused, Rewriter, Table};

pub(crate) const UUIDS: [(&str, &str); 3] = [
    ("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "ffffffff-4e5f-6071-8293-000000000001"),
    ("6e8d6d6a-0f4b-4d9e-9d3c-3f2b8f3a1c11", "b1946ac9-2492-4d23-a47c-235b4d2611b8"),
    // Without hyphens, these are numbers.
    ("12345678-9012-3456-7890-123456789012", "98765432-1098-7654-3210-987654321098"),
];

pub(crate) const TOKENS: [(&str, &str); 3] = [("cart-1", "7"), ("abcd", "f00d"), ("~x.y_z", "u1234567890")];

pub(crate) fn table(pairs: &[(&str, &str)]) -> Table {
    let mut table = Table::new();
    for (meta, local) in pairs {
        table.insert(meta, local).unwrap();
    }
    table
}

pub(crate) fn all() -> Vec<(&'static str, &'static str)> {
    UUIDS.into_iter().chain(TOKENS).collect()
}

/// Numbers that depend on a seed only.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 33) as usize % sides
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) body: Vec<u8>,
    pub(crate) end: Result<u64, Refused>,
}

/// Pushes a body in chunks of these lengths, over and over.
pub(crate) fn rewrite(
    table: &Table,
    direction: Direction,
    body: &[u8],
    mut cut: impl FnMut() -> usize,
) -> Outcome {
    let mut rewriter = Rewriter::new(table.clone(), direction);
    let mut out: Vec<Bytes> = Vec::new();
    let mut rest = body;
    let mut end = Ok(());
    while !rest.is_empty() && end.is_ok() {
        let (chunk, after) = rest.split_at(cut().clamp(1, rest.len()));
        end = rewriter.push(Bytes::copy_from_slice(chunk), &mut out);
        assert!(rewriter.held() <= Rewriter::MOST_HELD);
        if matches!(chunk, [.., b'}' | b']' | b'\n' | b' ']) {
            assert_eq!(rewriter.held(), 0, "nothing is held without a reason");
        }
        rest = after;
    }
    let end = end.and_then(|()| rewriter.finish(&mut out));
    if let Err(refused) = &end {
        let passed = out.len();
        assert_eq!(rewriter.push(Bytes::from_static(b"1"), &mut out).as_ref(), Err(refused));
        assert_eq!(rewriter.finish(&mut out).as_ref(), Err(refused));
        assert_eq!(out.len(), passed, "a refusal is final");
    }
    Outcome { body: out.concat(), end: end.map(|()| rewriter.rewritten()) }
}

pub(crate) fn whole(table: &Table, direction: Direction, body: &[u8]) -> Outcome {
    rewrite(table, direction, body, || usize::MAX)
}
