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

/// Reads one head after the other as [`Guard`](crate::Guard) does, with the same code, and tells what is in
/// them.
#[derive(Clone, Debug)]
pub struct Heads {
    scan: HeadScan,
    limits: Limits,
}

impl Heads {
    /// For the requests of one connection.
    #[must_use]
    pub fn new(limits: Limits) -> Heads {
        Heads { scan: HeadScan::default(), limits: limits.capped() }
    }

    /// Reads on. `bytes` starts where the head starts, in each call until it is complete; each field is told
    /// once. `None`: it is not complete.
    pub fn read<'b>(
        &mut self,
        bytes: &'b [u8],
        mut each: impl FnMut(Field<'b>),
    ) -> Result<Option<Head>, Violation> {
        let head = self.scan.read(bytes, &self.limits, &mut each);
        let head = head.map_err(|rule| Violation { rule, part: Part::Head })?;
        if head.is_some() {
            self.scan = HeadScan::default();
        }
        Ok(head)
    }
}

/// A head of which some lines have been read. Places are counted from its first byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeadScan {
    lines: Lines,
    blank_line: bool,
    request: Option<RequestLine>,
    fields: usize,
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
}

impl HeadScan {
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
                return self.finish(bytes).map(Some);
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
                let request = plain_request(request, start).map_or_else(|| request_line(request, start), Ok);
                self.request = Some(request?);
                return Ok(true);
            }
            let Some(line) = self.lines.next(bytes, limit, Rule::TargetTooLong)? else {
                return Ok(false);
            };
            if line.is_empty() {
                self.blank_line = true;
                continue;
            }
            self.request = Some(request_line(line, start).map_err(|rule| line::blame(line, rule))?);
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
                if self.host.is_some() {
                    return Err(Rule::TwoHosts);
                }
                if target::host_and_port(host).is_none() {
                    return Err(Rule::HostValue);
                }
                let spaces = value.iter().take_while(|&&byte| byte == b' ').count();
                let from = start + before + spaces;
                self.host = Some(from..from + host.len());
            }
            7 if is(b"upgrade") => self.upgrade = true,
            14 if is(b"content-length") => {
                if name.contains(&b'_') {
                    return Err(Rule::Underscore);
                }
                if self.content_length.is_some() {
                    return Err(Rule::TwoLengths);
                }
                self.content_length = Some(length(ascii::trim_spaces(value)).ok_or(Rule::LengthValue)?);
            }
            17 if is(b"transfer-encoding") => {
                if name.contains(&b'_') {
                    return Err(Rule::Underscore);
                }
                if self.chunked {
                    return Err(Rule::TwoEncodings);
                }
                // The name of a coding has no case, but only those who probe for a parser that thinks
                // otherwise write it in another.
                if ascii::trim_spaces(value) != b"chunked" {
                    return Err(Rule::EncodingValue);
                }
                self.chunked = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// What only the whole head shows.
    fn finish(&mut self, bytes: &[u8]) -> Result<Head, Rule> {
        let request = self.request.take().ok_or(Rule::RequestLine)?;
        let part = |range: &Range<usize>| bytes.get(range.clone()).unwrap_or_default();
        let method = part(&request.method);
        let is_connect = method == b"CONNECT";
        match &self.host {
            None if request.is_http_1_1 => return Err(Rule::NoHost),
            Some(host) if request.names_host => {
                let named = target::read(method, part(&request.target))?;
                if !target::agree(named, part(host)) {
                    return Err(Rule::HostMismatch);
                }
            }
            _ => {}
        }
        let body = match (self.content_length, self.chunked) {
            (Some(_), true) => return Err(Rule::LengthAndEncoding),
            (_, true) if !request.is_http_1_1 => return Err(Rule::EncodingVersion),
            (None, true) => Body::Chunked,
            (Some(length), false) => Body::Length(length),
            (None, false) => Body::None,
        };
        if is_connect && (self.chunked || self.content_length.is_some()) {
            return Err(Rule::ConnectBody);
        }
        let switches = is_connect || (self.upgrade && request.is_http_1_1);
        let RequestLine { method, target, is_http_1_1, .. } = request;
        Ok(Head { len: self.lines.start, method, target, is_http_1_1, body, switches })
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
