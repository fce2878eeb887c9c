//! The query of a URL: finding, taking and adding parameters, with the others left as they are.

use std::borrow::Cow;

/// All values of a parameter.
pub(crate) fn all(query: &str, name: &str) -> Vec<String> {
    pairs(query).filter(|(own, _, _)| own == name).map(|(_, value, _)| value.into_owned()).collect()
}

/// The first value of a parameter.
pub(crate) fn first(query: &str, name: &str) -> Option<String> {
    pairs(query).find(|(own, _, _)| own == name).map(|(_, value, _)| value.into_owned())
}

/// The query without some parameters.
pub(crate) fn without(query: &str, names: &[&str]) -> String {
    let kept = pairs(query).filter(|(own, _, _)| !names.contains(&own.as_ref())).map(|(_, _, raw)| raw);
    kept.collect::<Vec<_>>().join("&")
}

/// Adds a parameter.
pub(crate) fn add(query: &mut String, name: &str, value: &str) {
    if !query.is_empty() {
        query.push('&');
    }
    encode(name, query);
    query.push('=');
    encode(value, query);
}

/// The value of a parameter of a URL.
pub(crate) fn of_url(url: &str, name: &str) -> Option<String> {
    let (_, query) = url.split_once('?')?;
    first(query.split('#').next()?, name)
}

fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>, &str)> {
    query.split('&').filter(|raw| !raw.is_empty()).map(|raw| {
        let (name, value) = raw.split_once('=').unwrap_or((raw, ""));
        (decode(name), decode(value), raw)
    })
}

fn decode(text: &str) -> Cow<'_, str> {
    if !text.contains(['%', '+']) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        let hex = |digit: &u8| char::from(*digit).to_digit(16);
        match (byte, tail) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) if hex(high).is_some() && hex(low).is_some() => {
                let value = hex(high).unwrap_or_default() * 16 + hex(low).unwrap_or_default();
                bytes.push(u8::try_from(value).unwrap_or_default());
                rest = after;
            }
            _ => bytes.push(byte),
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_read_again_and_the_rest_stays_as_it_was() {
        let mut query = without("a=%20x&limit=2&b&li%6Dit=3&c=+", &["limit"]);
        assert_eq!(query, "a=%20x&b&c=+");
        add(&mut query, "marker", "a&b=c d/é%");
        assert_eq!(query, "a=%20x&b&c=+&marker=a%26b%3Dc%20d/%C3%A9%25");
        assert_eq!(first(&query, "marker").as_deref(), Some("a&b=c d/é%"));
        assert_eq!(of_url(&format!("/x?{query}#marker=y"), "marker").as_deref(), Some("a&b=c d/é%"));
        assert_eq!(of_url("/x", "marker"), None);
        assert_eq!(all("a=%zz&a=%4&a&a=%4z&a=%z4", "a"), ["%zz", "%4", "", "%4z", "%z4"]);
        assert_eq!(first("a+b=c+d%2B", "a b").as_deref(), Some("c d+"));
    }
}
