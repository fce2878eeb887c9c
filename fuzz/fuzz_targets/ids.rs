//! Any body, cut anywhere: no panic, the same however it is cut, as long as it was, and JSON stays JSON in which
//! nothing but strings has changed.

#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use ids::{Direction, Refused, Rewriter, Table};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    for (meta, local) in [
        ("0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9", "ffffffff-4e5f-6071-8293-000000000001"),
        ("12345678-9012-3456-7890-123456789012", "98765432-1098-7654-3210-987654321098"),
        ("cart-1", "cart-2"),
        ("7", "8"),
    ] {
        table.insert(meta, local).expect("a pair");
    }
    assert!(table.keeps_length());
    table
});

// The first byte is the direction and the size of the cuts.
fuzz_target!(|input: &[u8]| {
    let Some((how, body)) = input.split_first() else { return };
    let direction = if how % 2 == 0 { Direction::ToClient } else { Direction::ToService };
    let (whole, end) = rewrite(direction, body, usize::MAX);
    if let Ok(text) = std::str::from_utf8(body) {
        let _ = TABLE.rewrite(text, direction);
    }
    if end == Err(Refused::Encoding) {
        return;
    }
    assert_eq!(rewrite(direction, body, 1 + usize::from(how / 2)), (whole.clone(), end.clone()));
    if end.is_err() {
        return;
    }
    assert_eq!(whole.len(), body.len());
    let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok();
    if let Some(before) = read(body) {
        let after = read(&whole).expect("JSON stays JSON");
        assert_eq!(structure(&before), structure(&after));
        // What went to the client and comes back is not refused.
        if direction == Direction::ToClient {
            assert!(rewrite(Direction::ToService, &whole, usize::MAX).1.is_ok());
        }
    }
});

fn rewrite(direction: Direction, body: &[u8], cut: usize) -> (Vec<u8>, Result<u64, Refused>) {
    let mut rewriter = Rewriter::new(TABLE.clone(), direction);
    let mut out: Vec<Bytes> = Vec::new();
    let mut end = Ok(());
    for chunk in body.chunks(cut) {
        end = end.and_then(|()| rewriter.push(Bytes::copy_from_slice(chunk), &mut out));
        assert!(rewriter.held() <= Rewriter::MOST_HELD);
    }
    let end = end.and_then(|()| rewriter.finish(&mut out));
    (out.concat(), end.map(|()| rewriter.rewritten()))
}

/// A value without the content of its strings. Keys that become equal are one, so members are not counted.
fn structure(value: &Value) -> Value {
    match value {
        Value::String(_) => Value::from(""),
        Value::Array(items) => items.iter().map(structure).collect(),
        Value::Object(_) => Value::from("{}"),
        other => other.clone(),
    }
}
