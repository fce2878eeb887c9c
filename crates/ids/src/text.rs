//! Rewrites the identifiers in URLs and in the values of headers.

use std::borrow::Cow;

use crate::find::{self, Text};
use crate::id::is_id;
use crate::rewriter::Refused;
use crate::table::{Direction, Seen, Table};

impl Table {
    /// Rewrites the identifiers in a path, a query, a URL, or a header's value that has some (`Location`,
    /// `Content-Location`, `Link` and those that a profile marks).
    ///
    /// An identifier is also found where some of its characters are written as `%31`, which is the same to a
    /// service. What is not an identifier of ours stays to the byte.
    pub fn rewrite<'a>(&self, text: &'a str, direction: Direction) -> Result<Cow<'a, str>, Refused> {
        let decoded = Decoded::read(text);
        let whole = Text { bytes: decoded.bytes(), before: 0, json: false };
        let hits = find::hits(self, direction, whole, usize::MAX);
        if hits.is_empty() {
            return Ok(Cow::Borrowed(text));
        }
        let mut written = Vec::with_capacity(text.len());
        let mut copied = 0;
        for hit in hits {
            let found = decoded.bytes().get(hit.start..hit.end).unwrap_or_default();
            let Seen::Mapped(id) = hit.seen else {
                return Err(Refused::Hidden(String::from_utf8_lossy(found).into_owned()));
            };
            let before = text.as_bytes().get(copied..decoded.origin(hit.start)).unwrap_or_default();
            written.extend_from_slice(before);
            written.extend_from_slice(found);
            id.replace(found, &mut written);
            copied = decoded.origin(hit.end);
        }
        written.extend_from_slice(text.as_bytes().get(copied..).unwrap_or_default());
        // Cut only beside ASCII, so it stays UTF-8.
        Ok(Cow::Owned(String::from_utf8_lossy(&written).into_owned()))
    }
}

/// A text in which `%XX` is decoded where it may be of an identifier.
pub(crate) struct Decoded<'a> {
    text: &'a str,
    /// None: nothing is coded.
    bytes: Option<Vec<u8>>,
    /// Where in the text each of the bytes comes from, and its end.
    origins: Vec<usize>,
}

impl<'a> Decoded<'a> {
    pub(crate) fn read(text: &'a str) -> Decoded<'a> {
        if !text.contains('%') {
            return Decoded { text, bytes: None, origins: Vec::new() };
        }
        let (mut bytes, mut origins) = (Vec::with_capacity(text.len()), Vec::with_capacity(text.len() + 1));
        let mut at = 0;
        while let Some(byte) = text.as_bytes().get(at) {
            origins.push(at);
            if let Some(decoded) = text.as_bytes().get(at..).and_then(coded) {
                bytes.push(decoded);
                at += 3;
            } else {
                bytes.push(*byte);
                at += 1;
            }
        }
        origins.push(at);
        Decoded { text, bytes: Some(bytes), origins }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.bytes.as_deref().unwrap_or(self.text.as_bytes())
    }

    fn origin(&self, at: usize) -> usize {
        if self.bytes.is_none() { at } else { self.origins.get(at).copied().unwrap_or(self.text.len()) }
    }
}

/// The identifier's character that `%XX` at the start of this is.
fn coded(text: &[u8]) -> Option<u8> {
    let [b'%', high, low] = text.first_chunk()? else { return None };
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = u8::try_from(digit(high)? * 16 + digit(low)?).ok()?;
    is_id(byte).then_some(byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Direction::{ToClient, ToService};

    const META: &str = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9";
    const LOCAL: &str = "ffffffff-4e5f-6071-8293-000000000001";

    fn table() -> Table {
        let mut table = Table::new();
        table.insert(META, LOCAL).unwrap();
        table.insert("cart-1", "7").unwrap();
        table
    }

    fn coded(text: &str) -> String {
        text.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02x}"))
    }

    #[test]
    fn paths_queries_and_links_are_rewritten_both_ways() {
        for (client, service) in [
            ("/v2/images/M/file", "/v2/images/L/file"),
            ("/images/M.json;v=M?marker=M&sort=%2FM", "/images/L.json;v=L?marker=L&sort=%2FL"),
            ("<http://h:80/a/M?x=M>; rel=\"next\", </b/M>", "<http://h:80/a/L?x=L>; rel=\"next\", </b/L>"),
            ("/carts/cart-1/items", "/carts/7/items"),
            ("/é/M/é", "/é/L/é"),
        ] {
            let client = client.replace('M', META);
            let service = service.replace('L', LOCAL);
            assert_eq!(table().rewrite(&client, ToService).unwrap(), service);
            assert_eq!(table().rewrite(&service, ToClient).unwrap(), client);
        }
    }

    #[test]
    fn what_is_not_ours_stays_to_the_byte() {
        let other = "12345678-4e5f-6071-8293-a4b5c6d7e8f9";
        for text in [
            "/".to_owned(),
            format!("/x/{other}?a=%31%2f%zz%"),
            format!("/x/a{META}"),
            format!("/x/{META}0"),
            "/carts/cart-1.bak/17/7x".to_owned(),
        ] {
            let rewritten = table().rewrite(&text, ToService).unwrap();
            assert!(matches!(rewritten, Cow::Borrowed(_)), "{rewritten}");
        }
        let around = format!("/%7a/{META}?q=%31%zz%%31");
        assert_eq!(table().rewrite(&around, ToService).unwrap(), around.replace(META, LOCAL));
    }

    #[test]
    fn a_local_id_is_refused_however_it_is_spelled() {
        for spelling in [
            LOCAL.to_owned(),
            LOCAL.to_uppercase(),
            LOCAL.replace('-', ""),
            coded(LOCAL),
            LOCAL.replace('-', "%2D"),
            LOCAL.replacen('f', "%66", 1),
        ] {
            for text in [format!("/v2/images/{spelling}"), format!("/i?id={spelling}&a"), spelling.clone()] {
                let refused = table().rewrite(&text, ToService);
                assert!(matches!(refused, Err(Refused::Hidden(_))), "{text}: {refused:?}");
            }
        }
        assert!(table().rewrite("/carts/%37", ToService).is_err());
        assert_eq!(
            table().rewrite(&format!("/i/{}/f", coded(META)), ToService).unwrap(),
            format!("/i/{LOCAL}/f")
        );
    }
}
