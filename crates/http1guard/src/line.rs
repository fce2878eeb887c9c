//! Lines: CR LF ends one, nothing else does.

use memchr::memchr;

use crate::ascii;
use crate::violation::Rule;

/// A place among bytes that are presented again, with more after them, until a line is complete.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lines {
    /// Where the next line starts.
    pub(crate) start: usize,
    /// No LF stands between `start` and here: a line that comes byte by byte is searched only once.
    searched: usize,
}

impl Lines {
    /// The next line without its CR LF, or `None` while it is incomplete. It is `too_long` unless it ends
    /// within the first `limit` of `bytes`: the verdict depends on the bytes, not on how they arrive.
    pub(crate) fn next<'b>(
        &mut self,
        bytes: &'b [u8],
        limit: usize,
        too_long: Rule,
    ) -> Result<Option<&'b [u8]>, Rule> {
        let window = bytes.get(..limit).unwrap_or(bytes);
        let Some(found) = memchr(b'\n', window.get(self.searched..).unwrap_or_default()) else {
            self.searched = window.len();
            return if bytes.len() >= limit { Err(too_long) } else { Ok(None) };
        };
        let end = self.searched + found;
        let line = bytes.get(self.start..end).unwrap_or_default();
        self.start = end + 1;
        self.searched = self.start;
        line.strip_suffix(b"\r").map(Some).ok_or(Rule::BareLf)
    }
}

/// A field's name and its value; the value still with the whitespace around it.
pub(crate) fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Rule> {
    let end = line.iter().position(|&byte| !ascii::is_token_byte(byte)).ok_or(Rule::FieldName)?;
    let (name, rest) = line.split_at(end);
    match rest {
        [b' ' | b'\t', ..] if name.is_empty() => Err(Rule::Folding),
        [b' ' | b'\t', ..] => Err(Rule::SpaceBeforeColon),
        [b':', value @ ..] if !name.is_empty() => {
            if ascii::is_field_text(value) {
                Ok((name, value))
            } else {
                Err(Rule::Control)
            }
        }
        _ => Err(Rule::FieldName),
    }
}

/// Whatever else a line broke, a CR inside it is what its sender should hear of.
pub(crate) fn blame(line: &[u8], rule: Rule) -> Rule {
    if line.contains(&b'\r') { Rule::BareCr } else { rule }
}

/// Whether a field's name is `name`, in any case. `_` counts as `-`: a server that hands fields to programs as
/// variables (CGI, WSGI) cannot tell `Content_Length` from `Content-Length`.
pub(crate) fn is_name(given: &[u8], name: &[u8]) -> bool {
    let same = |(&a, &b): (&u8, &u8)| a.to_ascii_lowercase() == b || (a == b'_' && b == b'-');
    given.len() == name.len() && given.iter().zip(name).all(same)
}
