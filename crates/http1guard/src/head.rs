//! A request's head: its request line and its fields, and what they say of the body.

use std::ops::Range;

use memchr::memchr;

use crate::limits::Limits;
use crate::line::{self, Lines};
use crate::target::Named;
use crate::violation::{Part, Rule, Violation};
use crate::{ascii, target};

/// A head that passed. Places are counted from the first byte that was presented.
#[derive(Clone, Debug)]
pub struct Head {
    /// How many bytes it has, the empty line included.
    pub len: usize,
    /// Where its method is.
    pub method: Range<usize>,
    /// Where its target is.
    pub target: Range<usize>,
    /// Where its fields start.
    pub fields: usize,
    /// Its fields are those of the head before it, to the byte: they were not told again.
    pub again: bool,
    /// HTTP/1.1, else HTTP/1.0.
    pub is_http_1_1: bool,
    /// What follows it.
    pub body: Body,
    /// The request asks for another protocol on this connection: CONNECT, or `Upgrade` in HTTP/1.1.
    pub switches: bool,
}

/// What follows a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing, and nothing is said of it.
    None,
    /// As many bytes as `Content-Length` says.
    Length(u64),
    /// Chunks.
    Chunked,
}

/// A field that passed. Places are counted from the first byte that was presented.
#[derive(Clone, Debug)]
pub struct Field<'b> {
    /// Where its line starts.
    pub start: usize,
    /// Where the next line starts.
    pub end: usize,
    /// Its name, as it was written.
    pub name: &'b [u8],
    /// Its value, with the whitespace around it.
    pub value: &'b [u8],
}

/// Fields up to this are remembered until the next head.
const REMEMBERED_BYTES: usize = 1024;

/// Reads one head after the other as [`Guard`](crate::Guard) does, with the same code, and tells what is in
/// them. Most clients send the same fields with every request of a connection: those are read once.
#[derive(Clone, Debug)]
pub struct Heads {
    scan: HeadScan,
    limits: Limits,
    last: Last,
}

/// The fields of the last head, with the empty line after them, and what they say.
#[derive(Clone, Debug, Default)]
struct Last {
    written: Vec<u8>,
    said: Said,
}

impl Heads {
    /// For the requests of one connection.
    #[must_use]
    pub fn new(limits: Limits) -> Heads {
        Heads { scan: HeadScan::default(), limits: limits.capped(), last: Last::default() }
    }

    /// Reads on. `bytes` starts where the head starts, in each call until it is complete; each field is told
    /// once. `None`: it is not complete.
    pub fn read<'b>(
        &mut self,
        bytes: &'b [u8],
        mut each: impl FnMut(Field<'b>),
    ) -> Result<Option<Head>, Violation> {
        let violation = |rule| Violation { rule, part: Part::Head };
        let again = self.scan.read_again(bytes, &self.limits, &self.last).map_err(violation)?;
        let head = match again {
            Some(head) => Some(head),
            None => self.scan.read(bytes, &self.limits, &mut each).map_err(violation)?,
        };
        if let Some(head) = &head {
            if !head.again {
                self.remember(bytes.get(head.fields..head.len).unwrap_or_default());
            }
            self.scan = HeadScan::default();
        }
        Ok(head)
    }

    fn remember(&mut self, written: &[u8]) {
        self.last.written.clear();
        if written.len() <= REMEMBERED_BYTES {
            self.last.written.extend_from_slice(written);
            self.last.said = self.scan.said.clone();
        }
    }
}

/// A head of which some lines have been read. Places are counted from its first byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadScan {
    lines: Lines,
    blank_line: bool,
    request: Option<RequestLine>,
    fields: usize,
    said: Said,
}

/// What fields say of the message.
#[derive(Clone, Debug, Default)]
struct Said {
    host: Option<Range<usize>>,
    content_length: Option<u64>,
    chunked: bool,
    upgrade: bool,
}

#[derive(Clone, Debug)]
struct RequestLine {
    method: Range<usize>,
    target: Range<usize>,
    is_http_1_1: bool,
    names_host: bool,
    /// Where the next line starts.
    end: usize,
}

impl HeadScan {
    /// Reads a head whose fields are the last one's, if it is complete.
    fn read_again(&mut self, bytes: &[u8], limits: &Limits, last: &Last) -> Result<Option<Head>, Rule> {
        if self.request.is_none() && !self.read_request_line(bytes, limits)? {
            return Ok(None);
        }
        let (Some(request), start) = (&self.request, self.lines.start) else { return Ok(None) };
        let end = start + last.written.len();
        // Where the host stands among the fields counts only for who names it twice.
        if request.end != start
            || request.names_host
            || last.written.is_empty()
            || end > limits.head_bytes
            || bytes.get(start..end) != Some(&*last.written)
        {
            return Ok(None);
        }
        self.said = last.said.clone();
        self.lines.start = end;
        self.finish(bytes, true).map(Some)
    }

    /// Reads on. `bytes` starts where the head starts, in each call; `None`: it is not complete.
    pub(crate) fn read<'b>(
        &mut self,
        bytes: &'b [u8],
        limits: &Limits,
        each: &mut impl FnMut(Field<'b>),
    ) -> Result<Option<Head>, Rule> {
        if self.request.is_none() && !self.read_request_line(bytes, limits)? {
            return Ok(None);
        }
        loop {
            let start = self.lines.start;
            if let Some((name, value)) = self.lines.plain_field(bytes, limits.head_bytes) {
                self.count_field(limits)?;
                self.note(name, value, start)?;
                each(Field { start, end: self.lines.start, name, value });
                continue;
            }
            let Some(line) = self.lines.next(bytes, limits.head_bytes, Rule::HeadTooLarge)? else {
                return Ok(None);
            };
            if line.is_empty() {
                return self.finish(bytes, false).map(Some);
            }
            self.count_field(limits)?;
            let (name, value) = self.read_field(line, start).map_err(|rule| line::blame(line, rule))?;
            each(Field { start, end: self.lines.start, name, value });
        }
    }

    /// Whether the request line is complete.
    fn read_request_line(&mut self, bytes: &[u8], limits: &Limits) -> Result<bool, Rule> {
        loop {
            let start = self.lines.start;
            // Before the line is complete: who speaks TLS, say, to this port may never send an LF.
            match bytes.get(start) {
                None => return Ok(false),
                Some(b' ' | b'\t') => return Err(Rule::LeadingSpace),
                Some(b'\n') => return Err(Rule::BareLf),
                Some(b'\r') if self.blank_line => return Err(Rule::BlankLines),
                Some(&first) if first != b'\r' && !ascii::is_token_byte(first) => return Err(Rule::Method),
                Some(_) => {}
            }
            let limit = limits.head_bytes.min(start + limits.request_line_bytes);
            if let Some(request) = self.lines.plain(bytes, limit) {
                let request =
                    plain_request(request, start).map_or_else(|| request_line(request, start), Ok)?;
                self.request = Some(RequestLine { end: self.lines.start, ..request });
                return Ok(true);
            }
            let Some(line) = self.lines.next(bytes, limit, Rule::TargetTooLong)? else {
                return Ok(false);
            };
            if line.is_empty() {
                self.blank_line = true;
                continue;
            }
            let request = request_line(line, start).map_err(|rule| line::blame(line, rule))?;
            self.request = Some(RequestLine { end: self.lines.start, ..request });
            return Ok(true);
        }
    }

    fn count_field(&mut self, limits: &Limits) -> Result<(), Rule> {
        self.fields += 1;
        if self.fields > limits.fields { Err(Rule::TooManyFields) } else { Ok(()) }
    }

    fn read_field<'l>(&mut self, line: &'l [u8], start: usize) -> Result<(&'l [u8], &'l [u8]), Rule> {
        let (name, value) = line::field(line)?;
        self.note(name, value, start)?;
        Ok((name, value))
    }

    /// What a field, whose line starts there, says of the message.
    fn note(&mut self, name: &[u8], value: &[u8], start: usize) -> Result<(), Rule> {
        let is = |known: &[u8]| line::is_name(name, known);
        // The length rules most fields out at the cost of one comparison.
        match name.len() {
            4 if is(b"host") => {
                let before = name.len() + 1;
                let host = ascii::trim_spaces(value);
                if self.said.host.is_some() {
                    return Err(Rule::TwoHosts);
                }
                if target::host_and_port(host).is_none() {
                    return Err(Rule::HostValue);
                }
                let spaces = value.iter().take_while(|&&byte| byte == b' ').count();
                let from = start + before + spaces;
                self.said.host = Some(from..from + host.len());
            }
            7 if is(b"upgrade") => self.said.upgrade = true,
            14 if is(b"content-length") => {
                if name.contains(&b'_') {
                    return Err(Rule::Underscore);
                }
                if self.said.content_length.is_some() {
                    return Err(Rule::TwoLengths);
                }
                self.said.content_length = Some(length(ascii::trim_spaces(value)).ok_or(Rule::LengthValue)?);
            }
            17 if is(b"transfer-encoding") => {
                if name.contains(&b'_') {
                    return Err(Rule::Underscore);
                }
                if self.said.chunked {
                    return Err(Rule::TwoEncodings);
                }
                // The name of a coding has no case, but only those who probe for a parser that thinks
                // otherwise write it in another.
                if ascii::trim_spaces(value) != b"chunked" {
                    return Err(Rule::EncodingValue);
                }
                self.said.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// What only the whole head shows.
    fn finish(&mut self, bytes: &[u8], again: bool) -> Result<Head, Rule> {
        let request = self.request.take().ok_or(Rule::RequestLine)?;
        let part = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        let method = part(&request.method);
        let is_connect = method == b"CONNECT";
        match &self.said.host {
            None if request.is_http_1_1 => return Err(Rule::NoHost),
            Some(host) if request.names_host => {
                let named = target::read(method, part(&request.target))?;
                if !target::agree(named, part(host)) {
                    return Err(Rule::HostMismatch);
                }
            }
            _ => {}
        }
        let body = match (self.said.content_length, self.said.chunked) {
            (Some(_), true) => return Err(Rule::LengthAndEncoding),
            (_, true) if !request.is_http_1_1 => return Err(Rule::EncodingVersion),
            (None, true) => Body::Chunked,
            (Some(length), false) => Body::Length(length),
            (None, false) => Body::None,
        };
        if is_connect && (self.said.chunked || self.said.content_length.is_some()) {
            return Err(Rule::ConnectBody);
        }
        let switches = is_connect || (self.said.upgrade && request.is_http_1_1);
        let RequestLine { method, target, is_http_1_1, end: fields, .. } = request;
        Ok(Head { len: self.lines.start, method, target, fields, again, is_http_1_1, body, switches })
    }
}

/// A request line as most are: a path of a server, in HTTP/1.1. All else is for [`request_line`], which would take
/// this for the same.
fn plain_request(line: &[u8], start: usize) -> Option<RequestLine> {
    let request = line.strip_suffix(b" HTTP/1.1")?;
    let (method, rest) = request.split_at_checked(ascii::name_len(request))?;
    let [b' ', target @ ..] = rest else { return None };
    if method.is_empty() || method == b"CONNECT" || !target.starts_with(b"/") || !ascii::is_target(target) {
        return None;
    }
    let target_start = start + method.len() + 1;
    Some(RequestLine {
        method: start..start + method.len(),
        target: target_start..target_start + target.len(),
        is_http_1_1: true,
        names_host: false,
        end: 0,
    })
}

fn request_line<'l>(line: &'l [u8], start: usize) -> Result<RequestLine, Rule> {
    let part = |rest: &'l [u8]| {
        let (part, rest) = rest.split_at_checked(memchr(b' ', rest)?)?;
        Some((part, rest.get(1..)?))
    };
    let (method, rest) = part(line).ok_or(Rule::RequestLine)?;
    let (target, version) = part(rest).ok_or(Rule::RequestLine)?;
    if !ascii::is_token(method) {
        return Err(Rule::Method);
    }
    if target.is_empty() {
        return Err(Rule::RequestLine);
    }
    let is_http_1_1 = match version {
        b"HTTP/1.1" => true,
        b"HTTP/1.0" => false,
        _ if version.contains(&b' ') => return Err(Rule::RequestLine),
        _ => return Err(Rule::Version),
    };
    let named = target::read(method, target)?;
    let target_start = start + method.len() + 1;
    Ok(RequestLine {
        method: start..start + method.len(),
        target: target_start..target_start + target.len(),
        is_http_1_1,
        names_host: named != Named::No,
        end: 0,
    })
}

/// A number that every parser reads alike: a leading zero is octal to some, and a number over 2^63 - 1 is
/// negative to others.
fn length(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || (digits.starts_with(b"0") && digits.len() > 1) {
        return None;
    }
    let value = digits.iter().try_fold(0_u64, |value, digit| match digit {
        b'0'..=b'9' => value.checked_mul(10)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })?;
    (value <= i64::MAX.unsigned_abs()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [&str; 8] = [
        "GET / HTTP/1.1\r\n",
        "POST /longer?x HTTP/1.1\r\n",
        "\r\nGET / HTTP/1.1\r\n",
        "GET / HTTP/1.0\r\n",
        "GET http://a/ HTTP/1.1\r\n",
        "GET http://b/ HTTP/1.1\r\n",
        "CONNECT a:1 HTTP/1.1\r\n",
        "GET /  HTTP/1.1\r\n",
    ];

    const FIELDS: [&str; 8] = [
        "Host: a\r\n\r\n",
        "Host: a\r\nX: 1\r\n\r\n",
        "Host: b\r\nContent-Length: 3\r\n\r\n",
        "Host: b\r\nContent-Length: 4\r\n\r\n",
        "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n",
        "Host: a\r\nUpgrade: x\r\n\r\n",
        "X: 1\r\n\r\n",
        "\r\n",
    ];

    type Told = (Option<String>, Vec<(Vec<u8>, Vec<u8>)>);

    /// What is read of a head, and the fields that are told; those of before if they are the same.
    fn told(heads: &mut Heads, bytes: &[u8], before: &[(Vec<u8>, Vec<u8>)], cut: usize) -> Told {
        let mut fields = Vec::new();
        for end in [cut.min(bytes.len()), bytes.len()] {
            let each = |field: Field<'_>| fields.push((field.name.to_vec(), field.value.to_vec()));
            match heads.read(&bytes[..end], each) {
                Ok(None) => {}
                Ok(Some(head)) => {
                    let fields = if head.again { before.to_vec() } else { fields };
                    let Head { len, method, target, fields: start, is_http_1_1, body, switches, .. } = head;
                    let shown = (len, method, target, start, is_http_1_1, body, switches);
                    return (Some(format!("{shown:?}")), fields);
                }
                Err(violation) => return (Some(violation.to_string()), Vec::new()),
            }
        }
        (None, Vec::new())
    }

    #[test]
    fn a_head_is_read_alike_whatever_came_before_it() {
        let heads = || LINES.iter().flat_map(|line| FIELDS.map(|fields| [*line, fields].concat()));
        let limits = Limits { head_bytes: 60, ..Limits::default() };
        let mut again = 0;
        for (first, second) in heads().flat_map(|first| heads().map(move |second| (first.clone(), second))) {
            for cut in [usize::MAX, second.len() - 1, 20] {
                let mut one = Heads::new(limits);
                let (_, before) = told(&mut one, first.as_bytes(), &[], usize::MAX);
                if one.scan.request.is_some() || one.scan.lines.start > 0 {
                    continue; // The first was refused, and is the last.
                }
                let with_rest = [second.as_bytes(), b"GET "].concat();
                let fresh = told(&mut Heads::new(limits), &with_rest, &[], cut);
                assert_eq!(told(&mut one, &with_rest, &before, cut), fresh, "{second:?} after {first:?}");
                again += usize::from(first == second && cut == usize::MAX && !one.last.written.is_empty());
            }
        }
        assert!(again > 10, "{again}");
    }
}
