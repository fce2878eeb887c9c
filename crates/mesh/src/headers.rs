//! Headers that are not for the other side (RFC 9110, 7.6.1), and those that only peers may set.

use http::header::{
    CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION,
    TE, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::uri::{PathAndQuery, Uri};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// What peers tell each other starts with this.
pub(crate) const PEERS_ONLY: &str = "archipel-";

/// Takes away what concerns one connection only. Says which protocol the sender wants to switch to.
pub(crate) fn end_of_hop(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let mut upgrade = None;
    if headers.contains_key(CONNECTION) {
        let mut named = Vec::new();
        for value in headers.get_all(CONNECTION) {
            let Ok(text) = value.to_str() else { continue };
            named.extend(text.split(',').filter_map(|name| HeaderName::try_from(name.trim()).ok()));
        }
        if named.contains(&UPGRADE) {
            upgrade = headers.get(UPGRADE).cloned();
        }
        for name in named {
            // A sender may not have us drop what frames or addresses the message.
            if name != HOST && name != http::header::CONTENT_LENGTH {
                headers.remove(name);
            }
        }
        headers.remove(CONNECTION);
    }
    let trailers = headers.get(TE).is_some_and(wants_trailers);
    for name in [KEEP_ALIVE, PROXY_CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, UPGRADE] {
        headers.remove(name);
    }
    headers.remove(TRANSFER_ENCODING);
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    upgrade
}

fn wants_trailers(te: &HeaderValue) -> bool {
    te.to_str().is_ok_and(|te| te.split(',').any(|coding| coding.trim().eq_ignore_ascii_case("trailers")))
}

/// The hop's own headers, for a sender that switches protocols.
pub(crate) fn switch(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(UPGRADE, protocol);
}

/// Takes away what only peers may set.
pub(crate) fn drop_peers_only(headers: &mut HeaderMap) {
    let names: Vec<HeaderName> =
        headers.keys().filter(|name| name.as_str().starts_with(PEERS_ONLY)).cloned().collect();
    for name in names {
        headers.remove(name);
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
    head.version = http::Version::HTTP_11;
    // We answer `100 Continue` ourselves, when the upstream begins to read.
    head.headers.remove(EXPECT);
}
