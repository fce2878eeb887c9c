//! A limit on everything that a site's answer can make grow.

/// What merging may cost. Sizes are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// One item.
    pub item_bytes: usize,
    /// All members of an answer beside its items.
    pub envelope_bytes: usize,
    /// How much of the first answer is looked at to tell whether it is a list.
    pub probe_bytes: usize,
    /// How deep an item may nest. Below 128, which is as deep as values are read.
    pub depth: usize,
    /// How many items all operands of a `^` may have.
    pub unique_items: usize,
    /// How large the items of all operands of a `^` may be together.
    pub unique_bytes: usize,
    /// How much of a source is taken before it is needed.
    pub ahead_bytes: usize,
    /// How much of the answer is kept back at first: a source that fails meanwhile can still be left out.
    pub first_bytes: usize,
    /// A page that is told in a header, which is known only at the page's end.
    pub held_bytes: usize,
    /// One document of totals.
    pub totals_bytes: usize,
    /// How many times larger an answer may be than its compressed form.
    pub expansion: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            item_bytes: 1 << 20,
            envelope_bytes: 64 << 10,
            probe_bytes: 64 << 10,
            depth: 100,
            unique_items: 100_000,
            unique_bytes: 64 << 20,
            ahead_bytes: 16 << 10,
            first_bytes: 64 << 10,
            held_bytes: 8 << 20,
            totals_bytes: 1 << 20,
            // Lists of like items reach 100; a bomb, 1,000.
            expansion: 256,
        }
    }
}
