//! The head of a request: what concerns the mesh, as headers; and the rest, which is handed on as it was written.

use http::header::{HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Uri};
use http1guard::{Body, Field, Head};

use super::wire::{CHUNKED, put_fields, put_length};
use crate::carry::Carry;
use crate::handle::{SETTLE, STRICT};
use crate::headers;

/// What was read of a head so far. Places are counted from its first byte.
#[derive(Default)]
pub(super) struct Reading {
    /// The lines that concern nobody on the way.
    plain: Vec<(usize, usize)>,
    /// All that decides the way, or is changed on it.
    headers: HeaderMap,
    /// The client wants no more than this answer.
    pub(super) close: bool,
    /// Something that the thin path leaves to the other.
    odd: bool,
    /// The target is among the parts, and may have changed.
    target: bool,
}

impl Reading {
    /// A new head begins.
    pub(super) fn clear(&mut self) {
        self.plain.clear();
        self.headers.clear();
        (self.close, self.odd) = (false, false);
    }

    pub(super) fn field(&mut self, field: &Field<'_>, carry: &Carry) {
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
            _ if is(SETTLE.as_bytes()) => self.odd = true,
            7 if is(b"trailer") || is(b"upgrade") => self.odd = true,
            _ if headers::is_of_one_hop(name)
                || headers::is_of_peers(name)
                || carry.concerns(name)
                || is(STRICT.as_bytes()) =>
            {
                let value = HeaderValue::from_bytes(field.value.trim_ascii());
                match (HeaderName::from_bytes(name), value) {
                    (Ok(name), Ok(value)) => self.odd |= self.headers.try_append(name, value).is_err(),
                    _ => self.odd = true,
                }
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

    /// The head as far as it concerns the mesh; none if it is not for the thin path. Its target is left out if it
    /// concerns nobody.
    pub(super) fn parts(&mut self, bytes: &[u8], head: &Head, wants_target: bool) -> Option<Parts> {
        let target = bytes.get(head.target.clone())?;
        if self.odd || head.switches || !head.is_http_1_1 || !target.starts_with(b"/") {
            return None;
        }
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.method = Method::from_bytes(bytes.get(head.method.clone())?).ok()?;
        if head.body == Body::Chunked && matches!(parts.method, Method::GET | Method::HEAD) {
            // hyper drops such a body; one path must not do what the other does not.
            return None;
        }
        self.target = wants_target || Carry::is_in_target(target);
        if self.target {
            parts.uri = Uri::try_from(target).ok()?;
        }
        parts.headers = std::mem::take(&mut self.headers);
        Some(parts)
    }

    /// Writes the head for the service: `parts` as they have become, and the rest.
    pub(super) fn write(&self, bytes: &[u8], head: &Head, parts: &Parts, out: &mut Vec<u8>) {
        out.extend_from_slice(parts.method.as_str().as_bytes());
        out.push(b' ');
        let target = match parts.uri.path_and_query().filter(|_| self.target) {
            Some(target) => target.as_str().as_bytes(),
            None => bytes.get(head.target.clone()).unwrap_or_default(),
        };
        out.extend_from_slice(target);
        out.extend_from_slice(b" HTTP/1.1\r\n");
        for (start, end) in &self.plain {
            out.extend_from_slice(bytes.get(*start..*end).unwrap_or_default());
        }
        put_fields(out, &parts.headers);
        match head.body {
            Body::None => {}
            Body::Length(length) => put_length(out, length),
            Body::Chunked => out.extend_from_slice(CHUNKED),
        }
        out.extend_from_slice(b"\r\n");
    }
}
