//! Messages, read as strictly as can be, and written down so that two ways of sending the same are equal.

/// A message in one line. What concerns one connection, or frames the body, is left out; what is random is masked.
pub fn noted(line: &str, fields: &[(String, String)], body: &[u8]) -> String {
    let rewritten = ["connection", "content-length", "transfer-encoding", "keep-alive"];
    let kept = fields.iter().filter(|(name, _)| !rewritten.contains(&&**name));
    // Each path's service has a port of its own, which is the host of requests without one.
    let value = |value: &str| if value.starts_with("127.0.0.1:") { "here".to_owned() } else { masked(value) };
    let mut kept: Vec<String> = kept.map(|(name, text)| format!("{name}: {}", value(text))).collect();
    // Stable: equal names keep their order.
    kept.sort_by(|a, b| a.split(':').next().cmp(&b.split(':').next()));
    let message = format!("{line} {kept:?} {}", body.escape_ascii());
    let ours = ["urn:archipel:", "scope-sites: "].iter().any(|sign| message.contains(sign));
    if ours { timeless(&message) } else { message }
}

/// A document of the mesh's, and `Scope-Sites`, without how many milliseconds a site took: on a busy machine it is not
/// none on both paths. And without what became of asking B, which nobody reaches, beside A (`|`): whether it was asked at all
/// is a matter of when A answered.
fn timeless(message: &str) -> String {
    const ASKED: &str = r#", \"B\";error="#;
    let mut message = message.to_owned();
    while let Some(start) = message.find(ASKED) {
        let after = start + ASKED.len();
        let end = message[after..].find([',', '\\']).map_or(message.len(), |end| after + end);
        message.replace_range(start..end, "");
    }
    let mut parts = message.split("ms");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let value = part.trim_start_matches(['=', ':', '"', '\\']);
        let number = if value.len() < part.len() { value.trim_start_matches(char::is_numeric) } else { part };
        out.push_str("ms ");
        out.push_str(number);
    }
    out
}

/// Without runs of hexadecimal digits as long as a key's.
fn masked(value: &str) -> String {
    let mut out = String::new();
    let mut run = String::new();
    for letter in value.chars().chain(['\n']) {
        if letter.is_ascii_hexdigit() {
            run.push(letter);
            continue;
        }
        out.push_str(if run.len() >= 16 { "#" } else { &run });
        run.clear();
        out.push(letter);
    }
    out
}

/// The line and the fields of a head, if there is a whole one, and its length.
pub fn head(bytes: &[u8]) -> Option<(String, Vec<(String, String)>, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text: String = bytes[..end].iter().map(|byte| char::from(*byte)).collect();
    let mut lines = text.split("\r\n");
    let line = lines.next()?.to_owned();
    let fields = lines.map(|line| {
        assert!(!line.contains(['\r', '\n', '\0']), "two readings: {line:?}");
        let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field: {line:?}"));
        assert!(!name.is_empty() && !name.contains([' ', '\t']), "{line:?}");
        (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned())
    });
    Some((line, fields.collect(), end + 4))
}

/// The length of a chunked body with its frame, and the body; none if it is cut.
pub fn chunks(bytes: &[u8]) -> Option<(usize, Vec<u8>)> {
    let (mut at, mut body) = (0, Vec::new());
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let size = std::str::from_utf8(&bytes[at..at + line]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        at += line + 2;
        if size == 0 {
            let trailers = bytes[at..].starts_with(b"\r\n");
            return if trailers {
                Some((at + 2, body))
            } else {
                head(&bytes[at - 2..]).map(|h| (at - 2 + h.2, body))
            };
        }
        body.extend_from_slice(bytes.get(at..at + size)?);
        assert_eq!(bytes.get(at + size..at + size + 2)?, b"\r\n");
        at += size + 2;
    }
}
