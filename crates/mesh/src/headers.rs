//! Headers that are not for the other side (RFC 9110, 7.6.1), and those that only peers may set.

use bytes::Bytes;
use http::header::{
    self, CONNECTION, CONTENT_LENGTH, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, TE, UPGRADE,
};
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};
use http_body::Frame;

/// So many headers hyper reads without allocating, which it does for each message if it is given a limit.
pub(crate) const HEADERS_ON_STACK: usize = 100;

/// What peers tell each other starts with this.
const PEERS_ONLY: &str = "archipel-";

/// What is true of a write only.
const OF_A_WRITE: [HeaderName; 11] = [
    CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONTENT_ENCODING,
    header::TRANSFER_ENCODING,
    EXPECT,
    header::TRAILER,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_MODIFIED_SINCE,
    header::IF_UNMODIFIED_SINCE,
    header::RANGE,
];

/// Makes the headers of a write those of a question about what it writes to.
pub(crate) fn only_ask(headers: &mut HeaderMap) {
    for name in OF_A_WRITE {
        headers.remove(name);
    }
}

/// Takes away what concerns one connection only. Says which protocol the sender wants to switch to.
pub(crate) fn end_of_hop(headers: &mut HeaderMap) -> Option<HeaderValue> {
    // Few are there, most often none, or `Connection` alone with nothing to do but to take it away: looking
    // for each would take longer than looking at all once.
    let mut hops = headers.keys().filter(|name| is_of_one_hop(name));
    let (first, second) = (hops.next()?, hops.next());
    if second.is_none() && *first == CONNECTION && headers.get_all(CONNECTION).iter().all(is_option) {
        headers.remove(CONNECTION);
        return None;
    }
    let present: Vec<HeaderName> = headers.keys().filter(|name| is_of_one_hop(name)).cloned().collect();
    let mut upgrade = None;
    // Before it goes: who sends it names it in `Connection`.
    let trailers = present.contains(&TE) && headers.get_all(TE).iter().any(wants_trailers);
    let named = named_in_connection(headers);
    if named.contains(&UPGRADE) {
        upgrade = headers.get(UPGRADE).cloned();
    }
    for name in named {
        // A sender may not have us drop what frames or addresses the message.
        if name != HOST && name != CONTENT_LENGTH {
            headers.remove(name);
        }
    }
    for name in present {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    upgrade
}

/// Whether a field has this name, in any case. Most write it like this, or in small letters.
pub(crate) fn is_named(name: &[u8], usual: &[u8]) -> bool {
    name == usual || name.eq_ignore_ascii_case(usual)
}

/// These two, of which most have one alone, are options and name no header but one that goes anyway.
pub(crate) fn is_option(name: impl AsRef<[u8]>) -> bool {
    is_named(name.as_ref(), b"keep-alive") || is_named(name.as_ref(), b"close")
}

fn named_in_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    let mut named = Vec::new();
    for value in headers.get_all(CONNECTION) {
        let Ok(text) = value.to_str() else { continue };
        let listed = text.split(',').map(str::trim).filter(|name| !is_option(name));
        named.extend(listed.filter_map(|name| HeaderName::try_from(name).ok()));
    }
    named
}

/// Whether a field concerns one connection only, by its name in any case.
pub(crate) fn is_of_one_hop(name: impl AsRef<[u8]>) -> bool {
    let is = |known: &[u8]| name.as_ref().eq_ignore_ascii_case(known);
    // The length rules most fields out at the cost of one comparison.
    match name.as_ref().len() {
        2 => is(b"te"),
        7 => is(b"upgrade"),
        10 => is(b"connection") || is(b"keep-alive"),
        16 => is(b"proxy-connection"),
        17 => is(b"transfer-encoding"),
        18 => is(b"proxy-authenticate"),
        19 => is(b"proxy-authorization"),
        _ => false,
    }
}

/// Whether only peers may set a field, by its name in any case.
pub(crate) fn is_of_peers(name: impl AsRef<[u8]>) -> bool {
    let name = name.as_ref();
    let start = name.get(..PEERS_ONLY.len());
    matches!(name, [b'a' | b'A', ..])
        && start.is_some_and(|start| start.eq_ignore_ascii_case(PEERS_ONLY.as_bytes()))
}

fn wants_trailers(te: &HeaderValue) -> bool {
    let coding = |text: &str| text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    te.to_str().is_ok_and(|te| te.split(',').any(|text| coding(text) == "trailers"))
}

/// On HTTP/1.1, who sends `TE` names it in `Connection` (RFC 9110, 10.1.4); on HTTP/2 there is no
/// `Connection`.
pub(crate) fn name_te(headers: &mut HeaderMap) {
    if headers.contains_key(TE) && !headers.contains_key(CONNECTION) {
        headers.insert(CONNECTION, HeaderValue::from_static("te"));
    }
}

/// The hop's own headers, for a sender that switches protocols.
pub(crate) fn switch(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
    headers.remove(TE);
}

/// Takes away what only peers may set.
pub(crate) fn drop_peers_only(headers: &mut HeaderMap) {
    // Most often there are none.
    if !headers.keys().any(is_of_peers) {
        return;
    }
    let names: Vec<HeaderName> = headers.keys().filter(|name| is_of_peers(name)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

/// Trailers without what only peers may set.
pub(crate) fn for_anyone(frame: Frame<Bytes>) -> Frame<Bytes> {
    match frame.into_trailers() {
        Ok(mut trailers) => {
            drop_peers_only(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    }
}

/// Gives a request the shape that HTTP/1.1 upstreams expect: a path, and a `Host`.
pub(crate) fn to_origin_form(head: &mut Parts) {
    if let Some(authority) = head.uri.authority()
        && !head.headers.contains_key(HOST)
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    if head.uri.scheme().is_some() || head.uri.authority().is_some() {
        let path = head.uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
        head.uri = Uri::from(path);
    }
    if head.version == http::Version::HTTP_2 {
        // There is no way to tell an HTTP/2 client to go on; such a client does not wait.
        head.headers.remove(EXPECT);
    }
    head.version = http::Version::HTTP_11;
}

/// Whether the client waits for the service's word before it sends the body.
pub(crate) fn expects_continue(headers: &HeaderMap) -> bool {
    headers.get(EXPECT).is_some_and(|expect| expect.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// What an HTTP/2 request says in two ways. It becomes HTTP/1.1, where a guard refuses the same.
pub(crate) fn ambiguity(head: &Parts) -> Option<&'static str> {
    let headers = &head.headers;
    if headers.get_all(HOST).iter().count() > 1 {
        return Some("A request has one host.");
    }
    if let (Some(host), Some(authority)) = (headers.get(HOST), head.uri.authority())
        && !host.as_bytes().eq_ignore_ascii_case(authority.as_str().as_bytes())
    {
        return Some("The authority and the Host field name different hosts.");
    }
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    if let Some(length) = lengths.next()
        && (lengths.next().is_some() || !is_plain_number(length.as_bytes()))
    {
        return Some("Content-Length is one decimal number.");
    }
    // Gateways of several languages take an underscore for a hyphen.
    let looks_like_framing =
        ["content_length", "transfer_encoding"].iter().any(|name| headers.contains_key(*name));
    looks_like_framing.then_some("A field has the name of one that frames messages, with an underscore.")
}

fn is_plain_number(bytes: &[u8]) -> bool {
    bytes == b"0"
        || (bytes.iter().all(u8::is_ascii_digit) && bytes.first().is_some_and(|first| *first != b'0'))
}
