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

    /// The next line, if it is complete within `limit`, not empty, and text from its start to its end.
    pub(crate) fn plain<'b>(&mut self, bytes: &'b [u8], limit: usize) -> Option<&'b [u8]> {
        let rest = self.unsearched(bytes)?;
        let (line, after) = rest.split_at_checked(ascii::text_len(rest))?;
        (!line.is_empty() && self.ends(bytes, after, limit)).then_some(line)
    }

    /// What comes next, if nothing of it was searched: a line that comes byte by byte is searched only once.
    fn unsearched<'b>(&self, bytes: &'b [u8]) -> Option<&'b [u8]> {
        bytes.get(self.start..).filter(|_| self.searched == self.start)
    }

    /// Whether a line ends where `after` starts; then the next one is next.
    fn ends(&mut self, bytes: &[u8], after: &[u8], limit: usize) -> bool {
        let end = bytes.len() - after.len() + 2;
        let ends = after.starts_with(b"\r\n") && end <= limit;
        if ends {
            (self.start, self.searched) = (end, end);
        }
        ends
    }

    /// The next line as a field, found and judged at one pass, if it is complete within `limit` and written as most
    /// are. All else is for [`next`](Self::next) and [`field`], which would take this for the same.
    pub(crate) fn plain_field<'b>(&mut self, bytes: &'b [u8], limit: usize) -> Option<(&'b [u8], &'b [u8])> {
        let rest = self.unsearched(bytes)?;
        let (name, after) = rest.split_at_checked(ascii::name_len(rest))?;
        let [b':', after @ ..] = after else { return None };
        let (value, after) = after.split_at_checked(ascii::text_len(after))?;
        (!name.is_empty() && self.ends(bytes, after, limit)).then_some((name, value))
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
