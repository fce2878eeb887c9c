//! Bounds on what a request may cost, whoever sends it.

/// How large the parts of a request may be. Past a limit it is refused, never cut.
///
/// The server behind the guard must not be stricter, or it answers in its own words. The defaults are
/// within hyper's: 100 fields, 16 KiB of chunk extensions in a body, 16 KiB of trailers, and a read buffer that
/// can grow beyond a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a head, from the request line to the empty line.
    pub head_bytes: usize,
    /// Bytes of a request line.
    pub request_line_bytes: usize,
    /// Fields in a head, and fields in a trailer section.
    pub fields: usize,
    /// Bytes of the line that says a chunk's size.
    pub chunk_line_bytes: usize,
    /// Bytes of chunk extensions in one body: nobody reads them, so they only cost.
    pub extension_bytes: usize,
    /// Bytes of a trailer section.
    pub trailer_bytes: usize,
}

impl Limits {
    /// The longest head that `http` and hyper can hold: names and targets are counted in 16 bits there.
    const LARGEST_HEAD_BYTES: usize = 65_534;

    /// The same limits, none above what the parsers behind can hold.
    pub(crate) fn capped(mut self) -> Limits {
        self.head_bytes = self.head_bytes.min(Limits::LARGEST_HEAD_BYTES);
        self
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            // Tokens of OpenStack and Kubernetes take up to 8 KiB each, and a request may carry two.
            head_bytes: 32 * 1024,
            // What RFC 9112 asks every recipient to support at least.
            request_line_bytes: 8000,
            fields: 100,
            chunk_line_bytes: 256,
            extension_bytes: 4096,
            trailer_bytes: 8 * 1024,
        }
    }
}
