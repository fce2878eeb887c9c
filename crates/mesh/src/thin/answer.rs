//! The head of an answer, as leniently as hyper reads it, and as the client gets it.

use std::mem::MaybeUninit;

use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue};
use http1guard::{name_len, text_len};
use httparse::{EMPTY_HEADER, Error, Header, ParserConfig, Response, Status};

use super::wire::{CHUNKED, put_field, put_fields, put_length};
use crate::headers::{self, HEADERS_ON_STACK, is_named};
use crate::upstream::{self, decimal};

/// What the first bytes of an answer are.
pub(super) enum Read {
    /// Too few to tell.
    More,
    /// No answer.
    Bad,
    /// An interim answer of so many bytes, and what it says, if it is as plain as one that is passed on must be.
    Interim(usize, Option<(StatusCode, HeaderMap)>),
    /// The final one.
    Final(Answer),
}

/// A final answer.
pub(super) struct Answer {
    /// Bytes of its head.
    pub(super) len: usize,
    pub(super) status: StatusCode,
    pub(super) framing: Framing,
    /// The service keeps the connection.
    pub(super) keep: bool,
    /// What the audit notes of it.
    pub(super) sites: Option<HeaderValue>,
}

/// How long the body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    None,
    Length(u64),
    Chunked,
    /// It ends with the connection.
    Close,
}

/// Reads a head. A final one is written to `out` as the client gets it, but for the empty line.
pub(super) fn read(bytes: &[u8], is_head: bool, most: usize, out: &mut Vec<u8>) -> Read {
    read_plain(bytes, is_head, out).unwrap_or_else(|| read_any(bytes, is_head, most, out))
}

/// Reads a final head that is complete and written as most are, at one pass: names of letters, digits and hyphens, and
/// values with one space before them and none after. Whatever is not, the parser is to judge: it would take what is
/// read here for the same.
fn read_plain(bytes: &[u8], is_head: bool, out: &mut Vec<u8>) -> Option<Read> {
    let (status, mut rest) = plain_status(bytes)?;
    let (mut seen, mut kept) = (Seen::default(), 0);
    out.clear();
    for _ in 0..=HEADERS_ON_STACK {
        let at = bytes.len() - rest.len();
        let (name, after) = rest.split_at_checked(name_len(rest))?;
        let [b':', b' ', after @ ..] = after else {
            if !rest.starts_with(b"\r\n") || seen.names_others {
                return None;
            }
            out.extend_from_slice(bytes.get(kept..at)?);
            return Some(seen.end(1, status, is_head, at + 2, out));
        };
        let (value, after) = after.split_at_checked(text_len(after))?;
        let ([b'\r', b'\n', next @ ..], [first, ..], [.., last]) = (after, value, value) else { return None };
        if name.is_empty() || *first == b' ' || *last == b' ' {
            return None;
        }
        if !seen.is_for_the_client(name, value) {
            // Lines that stay are copied together.
            out.extend_from_slice(bytes.get(kept..at)?);
            kept = bytes.len() - next.len();
        }
        rest = next;
    }
    None
}

/// The status of a final answer with a reason in ASCII, and what follows its line.
fn plain_status(bytes: &[u8]) -> Option<(StatusCode, &[u8])> {
    let (digits, after) = bytes.strip_prefix(b"HTTP/1.1 ")?.split_first_chunk::<3>()?;
    let (reason, after) = after.split_at_checked(text_len(after))?;
    let ([b'2'..=b'9', ..], [b' ', _, ..], [b'\r', b'\n', rest @ ..]) = (digits, reason, after) else {
        return None;
    };
    Some((StatusCode::from_bytes(digits).ok().filter(|_| reason.is_ascii())?, rest))
}

fn read_any(bytes: &[u8], is_head: bool, most: usize, out: &mut Vec<u8>) -> Read {
    let mut on_stack = [const { MaybeUninit::<Header<'_>>::uninit() }; HEADERS_ON_STACK];
    let mut response = Response::new(&mut []);
    let config = ParserConfig::default();
    let parsed = config.parse_response_with_uninit_headers(&mut response, bytes, &mut on_stack);
    match parsed {
        Ok(Status::Complete(len)) => judge(&response, bytes, len, is_head, out),
        Ok(Status::Partial) => Read::More,
        Err(Error::TooManyHeaders) if most > HEADERS_ON_STACK => {
            let mut fields = vec![EMPTY_HEADER; most];
            let mut response = Response::new(&mut fields);
            match response.parse(bytes) {
                Ok(Status::Complete(len)) => judge(&response, bytes, len, is_head, out),
                Ok(Status::Partial) => Read::More,
                Err(_) => Read::Bad,
            }
        }
        Err(_) => Read::Bad,
    }
}

fn judge(response: &Response<'_, '_>, bytes: &[u8], len: usize, is_head: bool, out: &mut Vec<u8>) -> Read {
    let (Some(version), Some(code)) = (response.version, response.code) else { return Read::Bad };
    let Ok(status) = StatusCode::from_u16(code) else { return Read::Bad };
    if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
        return Read::Interim(len, upstream::interim(bytes.get(..len).unwrap_or_default()));
    }
    out.clear();
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(status.as_str().as_bytes());
    out.push(b' ');
    let reason = response.reason.filter(|reason| !reason.is_empty()).or(status.canonical_reason());
    out.extend_from_slice(reason.unwrap_or_default().as_bytes());
    out.extend_from_slice(b"\r\n");
    let fields_start = out.len();
    let mut seen = Seen::default();
    for field in response.headers.iter() {
        if seen.is_for_the_client(field.name.as_bytes(), field.value) {
            match line(field, bytes) {
                Some(line) => out.extend_from_slice(line),
                None => put_field(out, field.name.as_bytes(), field.value),
            }
        }
    }
    if seen.names_others {
        // What `Connection` names has to be looked for.
        let Some(mut fields) = all(response.headers) else { return Read::Bad };
        headers::end_of_hop(&mut fields);
        headers::drop_peers_only(&mut fields);
        fields.remove(CONTENT_LENGTH);
        out.truncate(fields_start);
        put_fields(out, &fields);
    }
    seen.end(version, status, is_head, len, out)
}

/// The line of a field, if it is written as it would be here: one copy instead of four. The parser gives slices of
/// these bytes, so that their places say where they are.
fn line<'b>(field: &Header<'_>, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let place = |part: &[u8]| (part.as_ptr() as usize).checked_sub(bytes.as_ptr() as usize);
    let (name, value) = (place(field.name.as_bytes())?, place(field.value)?);
    let (name_end, value_end) = (name + field.name.len(), value + field.value.len());
    let is_plain =
        bytes.get(name_end..value) == Some(b": ") && bytes.get(value_end..value_end + 2) == Some(b"\r\n");
    bytes.get(name..value_end + 2).filter(|_| is_plain)
}

fn all(fields: &[Header<'_>]) -> Option<HeaderMap> {
    let mut map = HeaderMap::with_capacity(fields.len());
    for field in fields {
        let name = HeaderName::from_bytes(field.name.as_bytes()).ok()?;
        map.try_append(name, HeaderValue::from_bytes(field.value).ok()?).ok()?;
    }
    Some(map)
}

/// What the fields say of the message and of the connection.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is said or not said by itself")]
struct Seen {
    close: bool,
    keep_alive: bool,
    /// `Connection` names fields, or the sender wants trailers: neither is usual for an answer.
    names_others: bool,
    length: Option<u64>,
    bad_length: bool,
    chunked: bool,
    other_coding: bool,
    sites: Option<HeaderValue>,
}

impl Seen {
    /// All fields were seen, and those for the client are written.
    fn end(self, version: u8, status: StatusCode, is_head: bool, len: usize, out: &mut Vec<u8>) -> Read {
        let Some(framing) = self.framing(version, status, is_head) else { return Read::Bad };
        self.write_framing(framing, status, out);
        let keep = self.keeps(version) && framing != Framing::Close;
        Read::Final(Answer { len, status, framing, keep, sites: self.sites })
    }

    fn is_for_the_client(&mut self, name: &[u8], value: &[u8]) -> bool {
        match name.len() {
            14 if is_named(name, b"Content-Length") => {
                if let (None, Some(length)) = (self.length, decimal(value)) {
                    // As most are; one that was bad stays so.
                    self.length = Some(length);
                    return false;
                }
                for length in value.split(|byte| *byte == b',') {
                    let length = decimal(length.trim_ascii());
                    self.bad_length |= length.is_none() || self.length.is_some_and(|l| Some(l) != length);
                    self.length = length;
                }
                false
            }
            17 if is_named(name, b"Transfer-Encoding") => {
                self.other_coding |= self.chunked || !value.eq_ignore_ascii_case(b"chunked");
                self.chunked = true;
                false
            }
            10 if is_named(name, b"Connection") => {
                if value == b"keep-alive" {
                    self.keep_alive = true;
                    return false;
                }
                for option in value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    if is_named(option, b"keep-alive") {
                        self.keep_alive = true;
                    } else if is_named(option, b"close") {
                        self.close = true;
                    } else {
                        self.names_others = true;
                    }
                }
                false
            }
            2 if is_named(name, b"TE") => {
                self.names_others = true;
                false
            }
            11 if is_named(name, b"Scope-Sites") => {
                self.sites = HeaderValue::from_bytes(value).ok();
                true
            }
            // An application must not speak for a mesh.
            _ => !headers::is_of_one_hop(name) && !headers::is_of_peers(name),
        }
    }

    fn keeps(&self, version: u8) -> bool {
        // With two framings, the service may think of another end than the one that was read.
        !self.close && (version == 1 || self.keep_alive) && !(self.chunked && self.length.is_some())
    }

    /// None if the message cannot be read.
    fn framing(&self, version: u8, status: StatusCode, is_head: bool) -> Option<Framing> {
        if is_head || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
            return Some(Framing::None);
        }
        if self.chunked {
            return (version == 1 && !self.other_coding).then_some(Framing::Chunked);
        }
        match self.length {
            _ if self.bad_length => None,
            Some(length) => Some(Framing::Length(length)),
            None => Some(Framing::Close),
        }
    }

    fn write_framing(&self, framing: Framing, status: StatusCode, out: &mut Vec<u8>) {
        match framing {
            // What the answer to a GET would have.
            Framing::None => {
                if let Some(length) = self.length.filter(|_| !self.bad_length && !self.chunked)
                    && status != StatusCode::NO_CONTENT
                {
                    put_length(out, length);
                }
            }
            Framing::Length(length) => put_length(out, length),
            Framing::Chunked | Framing::Close => out.extend_from_slice(CHUNKED),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A line of a head, and what the client gets of it.
    fn line() -> impl Strategy<Value = (String, String)> {
        let name = "[a-zA-Z]{1,8}-x";
        let plain = (name, "[a-z0-9]{0,9}", prop::sample::select(&[": ", ":", ":  ", ":\t"][..]));
        let plain = plain.prop_map(|(name, value, colon)| {
            (format!("{name}{colon}{value}\r\n"), format!("{name}: {value}\r\n"))
        });
        let spaced = (name, "[a-z]{1,3}")
            .prop_map(|(name, value)| (format!("{name}: {value} \r\n"), format!("{name}: {value}\r\n")));
        let others = prop::sample::select(
            &[
                "Content-Length: 7\r\n",
                "Connection: keep-alive\r\n",
                "Archipel-X: 1\r\n",
                "keep-alive: 5\r\n",
            ][..],
        );
        prop_oneof![6 => plain, 1 => spaced, 2 => others.prop_map(|gone| (gone.to_owned(), String::new()))]
    }

    /// Bytes of heads of which many are plain, and many nearly so.
    fn head() -> impl Strategy<Value = Vec<u8>> {
        let start = prop::sample::select(
            &[
                "HTTP/1.1 200 OK\r\n",
                "HTTP/1.1 200 OK\n",
                "HTTP/1.1 200\r\n",
                "HTTP/1.1 200 \r\n",
                "HTTP/1.1  200 OK\r\n",
                "HTTP/1.1 299 \tO\tK \r\n",
                "HTTP/1.1 404 \u{e9}\r\n",
                "HTTP/1.1 2000 OK\r\n",
                "HTTP/1.1 099 OK\r\n",
                "HTTP/1.1 103 OK\r\n",
                "HTTP/1.0 200 OK\r\n",
                "\r\nHTTP/1.1 200 OK\r\n",
                "HTTP/1.1 304 Not Modified\r\n",
            ][..],
        );
        let line = prop::sample::select(
            &[
                "A: b\r\n",
                "A:b\r\n",
                "A: \r\n",
                "A:\r\n",
                "A : b\r\n",
                "A:  b \r\n",
                "A: b\tc\r\n",
                "A: b\n",
                "A: b\r",
                "A: \u{e9}\r\n",
                "A: \u{7f}\r\n",
                "A_b!: c\r\n",
                ": b\r\n",
                " folded\r\n",
                "Content-Length: 5\r\n",
                "content-length: 5, 5\r\n",
                "Content-Length: 6\r\n",
                "Content-Length: +5\r\n",
                "Transfer-Encoding: chunked\r\n",
                "transfer-encoding: gzip, chunked\r\n",
                "Connection: close\r\n",
                "Connection: A\r\n",
                "Scope-Sites: A\r\n",
                "Archipel-A: b\r\n",
                "Keep-Alive: 5\r\n",
            ][..],
        );
        let odd = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
        let parts = (start, prop::collection::vec(line, 0..6), odd, prop::bool::weighted(0.9));
        parts.prop_map(|(start, lines, odd, whole)| {
            let end = if whole { "\r\nbody" } else { "" };
            let mut bytes = [start, &lines.concat(), end].concat().into_bytes();
            if let Some((place, byte)) = odd {
                let place = place.index(bytes.len());
                bytes[place] = byte;
            }
            bytes
        })
    }

    fn shown(read: &Read, out: &[u8]) -> String {
        match read {
            Read::Final(Answer { len, status, framing, keep, sites }) => {
                format!("{len} {status} {framing:?} {keep} {sites:?} {}", out.escape_ascii())
            }
            Read::Bad => "bad".to_owned(),
            Read::More => "more".to_owned(),
            Read::Interim(..) => "interim".to_owned(),
        }
    }

    proptest! {
        #[test]
        fn a_head_that_is_plain_says_the_same_to_the_parser(bytes in head(), is_head: bool) {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            if let Some(plain) = read_plain(&bytes, is_head, &mut ours) {
                let any = read_any(&bytes, is_head, 100, &mut theirs);
                prop_assert_eq!(shown(&plain, &ours), shown(&any, &theirs));
            }
        }

        /// However much of it is copied at once.
        #[test]
        fn the_client_gets_every_line_that_is_for_it_in_order(
            lines in prop::collection::vec(line(), 0..12),
            (start, status_line) in prop::sample::select(&[
                ("HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n"),
                ("HTTP/1.1 201 All  right\r\n", "HTTP/1.1 201 All  right\r\n"),
                ("HTTP/1.1 404 \r\n", "HTTP/1.1 404 Not Found\r\n"),
                ("HTTP/1.1 404\r\n", "HTTP/1.1 404 Not Found\r\n"),
                ("HTTP/1.0 500 Oh\r\n", "HTTP/1.1 500 Oh\r\n"),
            ][..]),
        ) {
            let sent: String = lines.iter().map(|(sent, _)| sent.as_str()).collect();
            let expected: String = lines.iter().map(|(_, got)| got.as_str()).collect();
            let bytes = format!("{start}{sent}\r\nbody of it");
            let mut out = b"something else".to_vec();
            let Read::Final(answer) = read(bytes.as_bytes(), false, 100, &mut out) else {
                return Err(TestCaseError::fail("no answer"));
            };
            let framing = match answer.framing {
                Framing::Length(length) => format!("content-length: {length}\r\n"),
                _ => "transfer-encoding: chunked\r\n".to_owned(),
            };
            prop_assert_eq!(String::from_utf8_lossy(&out), format!("{status_line}{expected}{framing}"));
            prop_assert_eq!(answer.len, bytes.len() - "body of it".len());
        }
    }
}
