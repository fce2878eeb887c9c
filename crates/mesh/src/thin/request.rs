//! The head of a request: what concerns the mesh, as headers; and the rest, which is handed on as it was written.

use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Uri};
use http1guard::{Body, Field, Head};

use super::wire::{CHUNKED, put_field, put_fields, put_length};
use crate::carry::Carry;
use crate::handle::{SETTLE, STRICT};
use crate::headers;

/// What was read of a head so far. Places are counted from its first byte; those of a head with the same fields are as far
/// from where its fields start.
#[derive(Default)]
pub(super) struct Reading {
    /// Nothing was read of the head that comes next.
    is_new: bool,
    /// Where the fields started of the head that was read.
    base: usize,
    /// The lines that concern nobody on the way.
    plain: Vec<(usize, usize)>,
    /// The lines that decide the way, or are changed on it, one after the other.
    deciding: Vec<u8>,
    /// The line of `traceparent`, which decides nothing but may be changed.
    trace: Option<(usize, usize)>,
    /// The client wants no more than this answer.
    pub(super) close: bool,
    /// Something that the thin path leaves to the other.
    odd: bool,
}

impl Reading {
    /// A new head begins. Its fields may be those of the last one.
    pub(super) fn begin(&mut self) {
        self.is_new = true;
    }

    /// A head is complete.
    pub(super) fn end(&mut self, head: &Head) {
        if !head.again {
            self.clear_if_new();
            self.base = head.fields;
        }
    }

    fn clear_if_new(&mut self) {
        if !std::mem::take(&mut self.is_new) {
            return;
        }
        self.plain.clear();
        self.deciding.clear();
        self.trace = None;
        (self.close, self.odd) = (false, false);
    }

    pub(super) fn field(&mut self, field: &Field<'_>, bytes: &[u8], carry: &Carry) {
        self.clear_if_new();
        let name = field.name;
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            // The guard read them, and they are written anew.
            14 if is(b"content-length") => {}
            17 if is(b"transfer-encoding") => {}
            10 if is(b"connection") => self.connection(field.value),
            // They ask for more than an answer.
            2 if is(b"te") => self.odd = true,
            6 if is(b"expect") => self.odd = true,
            _ if is(SETTLE.as_str().as_bytes()) => self.odd = true,
            7 if is(b"trailer") || is(b"upgrade") => self.odd = true,
            11 if self.trace.is_none() && is(b"traceparent") => self.trace = Some((field.start, field.end)),
            _ if headers::is_of_one_hop(name)
                || headers::is_of_peers(name)
                || carry.concerns(name)
                || is(STRICT.as_str().as_bytes()) =>
            {
                self.deciding.extend_from_slice(bytes.get(field.start..field.end).unwrap_or_default());
            }
            _ => match self.plain.last_mut() {
                Some((_, end)) if *end == field.start => *end = field.end,
                _ => self.plain.push((field.start, field.end)),
            },
        }
    }

    /// Options alone concern nobody else; whatever else it names has to be looked for.
    fn connection(&mut self, value: &[u8]) {
        for option in value.split(|byte| *byte == b',') {
            let option = option.trim_ascii();
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.odd |= !headers::is_option(option);
        }
    }

    /// Whether a head is for the thin path at all.
    pub(super) fn is_simple(&self, bytes: &[u8], head: &Head) -> bool {
        let target = bytes.get(head.target.clone()).unwrap_or_default();
        // hyper drops such a body; one path must not do what the other does not.
        let drops = head.body == Body::Chunked && matches!(method(bytes, head), b"GET" | b"HEAD");
        !self.odd && !head.switches && head.is_http_1_1 && target.starts_with(b"/") && !drops
    }

    /// The lines that decide the way, if nothing else of the head does.
    pub(super) fn deciding(&self, bytes: &[u8], head: &Head) -> Option<&[u8]> {
        let in_target = Carry::is_in_target(bytes.get(head.target.clone())?);
        // Two of them would be told apart by their number.
        let traced_twice = self.trace.is_some() && self.lines().any(|(name, _)| name.len() == 11);
        (!in_target && !traced_twice).then_some(&self.deciding)
    }

    fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.deciding.split_inclusive(|byte| *byte == b'\n').filter_map(split_line)
    }

    /// The value of the `traceparent` that is there.
    pub(super) fn trace<'b>(&self, bytes: &'b [u8], head: &Head) -> Option<&'b [u8]> {
        Some(split_line(self.trace_line(bytes, head)?)?.1)
    }

    fn trace_line<'b>(&self, bytes: &'b [u8], head: &Head) -> Option<&'b [u8]> {
        self.trace.and_then(|line| self.line(line, bytes, head))
    }

    /// A line, or several, of the head.
    fn line<'b>(&self, (start, end): (usize, usize), bytes: &'b [u8], head: &Head) -> Option<&'b [u8]> {
        let place = |at: usize| Some(at.checked_sub(self.base)? + head.fields);
        bytes.get(place(start)?..place(end)?)
    }

    /// The head as far as it concerns the mesh; none if it is not for the thin path. Its target is left out if it
    /// concerns nobody.
    pub(super) fn parts(&self, bytes: &[u8], head: &Head, wants_target: bool) -> Option<Parts> {
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::from_bytes(method(bytes, head)).ok()?;
        let target = bytes.get(head.target.clone())?;
        if wants_target || Carry::is_in_target(target) {
            parts.uri = Uri::try_from(target).ok()?;
        }
        for (name, value) in self.trace_line(bytes, head).and_then(split_line).into_iter().chain(self.lines())
        {
            let (name, value) = (HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?);
            parts.headers.try_append(name, value).ok()?;
        }
        Some(parts)
    }

    /// Writes the head for the service: `parts` as they have become, and the rest. The target is theirs if it was
    /// wanted.
    pub(super) fn write(
        &self,
        bytes: &[u8],
        head: &Head,
        parts: &Parts,
        wants_target: bool,
        out: &mut Vec<u8>,
    ) {
        let own = bytes.get(head.target.clone()).unwrap_or_default();
        let theirs = parts.uri.path_and_query().filter(|_| wants_target || Carry::is_in_target(own));
        self.write_start(bytes, head, theirs.map_or(own, |target| target.as_str().as_bytes()), out);
        put_fields(out, &parts.headers);
        write_end(head, out);
    }

    /// Writes the head with these lines for those that decide, and this `traceparent`, or else the one it has.
    pub(super) fn write_again(
        &self,
        bytes: &[u8],
        head: &Head,
        lines: &[u8],
        trace: Option<&[u8]>,
        out: &mut Vec<u8>,
    ) {
        self.write_start(bytes, head, bytes.get(head.target.clone()).unwrap_or_default(), out);
        out.extend_from_slice(lines);
        match trace {
            Some(trace) => put_field(out, b"traceparent", trace),
            None => out.extend_from_slice(self.trace_line(bytes, head).unwrap_or_default()),
        }
        write_end(head, out);
    }

    fn write_start(&self, bytes: &[u8], head: &Head, target: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(method(bytes, head));
        out.push(b' ');
        out.extend_from_slice(target);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        for lines in &self.plain {
            out.extend_from_slice(self.line(*lines, bytes, head).unwrap_or_default());
        }
    }
}

fn write_end(head: &Head, out: &mut Vec<u8>) {
    match head.body {
        Body::None => {}
        Body::Length(length) => put_length(out, length),
        Body::Chunked => out.extend_from_slice(CHUNKED),
    }
    out.extend_from_slice(b"\r\n");
}

pub(super) fn method<'b>(bytes: &'b [u8], head: &Head) -> &'b [u8] {
    bytes.get(head.method.clone()).unwrap_or_default()
}

/// The name and the value of a line that the guard let pass.
pub(super) fn split_line(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let (name, value) = line.split_at_checked(line.iter().position(|byte| *byte == b':')?)?;
    Some((name, value.get(1..)?.trim_ascii()))
}
