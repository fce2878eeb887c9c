//! A parser that is as simple as the specification allows, to compare with. It reads only what the guard
//! passed, so it may panic on everything that the guard must not pass.

use super::notation;

type Fields = Vec<(String, Vec<u8>)>;

/// What a stream of bytes holds.
#[derive(Debug, Default)]
pub struct Stream {
    /// The complete requests, in the tests' notation.
    pub requests: Vec<String>,
    /// The connection ends after the last of them, whatever follows.
    pub closes: bool,
    /// Bytes of an incomplete request follow.
    pub is_cut: bool,
}

/// The complete requests in `bytes`.
pub fn read(mut bytes: &[u8]) -> Stream {
    let mut stream = Stream::default();
    while !stream.closes {
        let Some((request, closes, rest)) = request(bytes) else { break };
        stream.requests.push(request);
        stream.closes = closes;
        bytes = rest;
    }
    stream.is_cut = !bytes.is_empty();
    stream
}

fn request(bytes: &[u8]) -> Option<(String, bool, &[u8])> {
    let bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
    let (line, rest) = line(bytes)?;
    let line = std::str::from_utf8(line).expect("a request line is ASCII");
    let [method, target, version] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
    assert!(matches!(version, "HTTP/1.1" | "HTTP/1.0"));
    let (mut fields, rest) = section(rest)?;
    let length = one(&fields, "content-length");
    let coding = one(&fields, "transfer-encoding");
    let (body, mut trailers, rest) = match (length, coding) {
        (None, None) => (Vec::new(), Fields::new(), rest),
        (Some(length), None) => {
            let length: usize = std::str::from_utf8(length).unwrap().parse().unwrap();
            let (body, rest) = rest.split_at_checked(length)?;
            (body.to_vec(), Fields::new(), rest)
        }
        (None, Some(b"chunked")) => chunks(rest)?,
        _ => panic!("two framings"),
    };
    let closes =
        connection(&fields, "close") || (version == "HTTP/1.0" && !connection(&fields, "keep-alive"));
    Some((notation(method, &normal(target), &mut fields, &body, &mut trailers), closes, rest))
}

fn connection(fields: &Fields, option: &str) -> bool {
    let values = fields.iter().filter(|field| field.0 == "connection" && field.1.is_ascii());
    let mut options = values.flat_map(|field| field.1.split(|&byte| byte == b','));
    options.any(|given| given.trim_ascii().eq_ignore_ascii_case(option.as_bytes()))
}

fn chunks(mut bytes: &[u8]) -> Option<(Vec<u8>, Fields, &[u8])> {
    let mut body = Vec::new();
    loop {
        let (size, rest) = line(bytes)?;
        let size = std::str::from_utf8(size).unwrap().split(';').next().unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            let (trailers, rest) = section(rest)?;
            return Some((body, trailers, rest));
        }
        let (data, rest) = rest.split_at_checked(size)?;
        body.extend_from_slice(data);
        let (end, rest) = rest.split_at_checked(2)?;
        assert_eq!(end, b"\r\n");
        bytes = rest;
    }
}

/// Fields up to an empty line.
fn section(mut bytes: &[u8]) -> Option<(Fields, &[u8])> {
    let mut fields = Fields::new();
    loop {
        let (field, rest) = line(bytes)?;
        bytes = rest;
        if field.is_empty() {
            return Some((fields, bytes));
        }
        let colon = field.iter().position(|&byte| byte == b':').expect("a colon");
        let name = std::str::from_utf8(&field[..colon]).unwrap().to_ascii_lowercase();
        assert!(!name.contains([' ', '\t']));
        fields.push((name, field[colon + 1..].trim_ascii().to_vec()));
    }
}

/// Up to the first CR LF. There must be no CR or LF before it.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.windows(2).position(|two| two == b"\r\n")?;
    let line = &bytes[..end];
    assert!(!line.contains(&b'\r') && !line.contains(&b'\n'), "{}", line.escape_ascii());
    Some((line, &bytes[end + 2..]))
}

fn one<'f>(fields: &'f Fields, name: &str) -> Option<&'f [u8]> {
    let mut found = fields.iter().filter(|field| field.0 == name);
    let first = found.next()?;
    assert!(found.next().is_none(), "{name} twice");
    Some(&first.1)
}

/// An absolute URI as RFC 3986 writes it: the scheme in small letters, and a path even if it is empty.
fn normal(target: &str) -> String {
    let Some((scheme, rest)) = target.split_once("://").filter(|_| !target.starts_with('/')) else {
        return target.to_owned();
    };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let slash = if path.starts_with('/') { "" } else { "/" };
    format!("{}://{authority}{slash}{path}", scheme.to_ascii_lowercase())
}
