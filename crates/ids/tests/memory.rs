//! A body of any size, and a string of any size in it, takes a few chunks' memory.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use bytes::Bytes;
use drive::{UUIDS, table};
use ids::{Direction, Refused, Rewriter};
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// Pushes one chunk many times, and says how much came out and how much memory it took.
fn push(start: &str, chunk: &str, times: usize) -> (usize, usize, Result<(), Refused>) {
    let mut rewriter = Rewriter::new(table(&UUIDS), Direction::ToClient);
    let chunk = Bytes::from(chunk.to_owned());
    let mut out: Vec<Bytes> = Vec::new();
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    let mut passed = 0;
    let mut end = rewriter.push(Bytes::from(start.to_owned()), &mut out);
    for _ in 0..times {
        end = end.and_then(|()| rewriter.push(chunk.clone(), &mut out));
        passed += out.drain(..).map(|chunk| chunk.len()).sum::<usize>();
    }
    (passed, ALLOCATED.peak_usage().saturating_sub(before), end)
}

// One test: what is allocated is counted for the whole process.
#[test]
fn memory_does_not_grow_with_the_body() {
    let local = UUIDS[0].1;
    for (start, chunk) in [
        ("[", format!("{{\"id\": \"{local}\", \"a\": 1}},").repeat(1_000)),
        ("[\"", format!("{local}/").repeat(1_000)),
        ("[\"", "0123456789abcdef".repeat(2_000)),
        ("[\"", "\\n\\\\\\u00e9".repeat(4_000)),
        ("[\"", "\\".repeat(40_000)),
    ] {
        let (passed, peak, end) = push(start, &chunk, 50);
        assert_eq!(end, Ok(()));
        assert!(start.len() + 50 * chunk.len() - passed <= Rewriter::MOST_HELD);
        assert!(peak < 512 << 10, "{peak} bytes for {}", &chunk.get(..40).unwrap());
    }
    // The spaces that are owed after such a string would be as many as it is long.
    let (_, peak, end) = push("[\"", &"\\u0061".repeat(5_000), 50);
    assert_eq!(end, Err(Refused::Spelling));
    assert!(peak < 512 << 10, "{peak}");
}
