//! The shape of a request between two sites: the same at both ends, whichever lane it took.
//!
//! Senders and receivers see a path and a `Host` header. In between, HTTP/2 has both in its own fields.

use http::header::{HOST, HeaderName};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Method, Request, Uri, Version};

/// Stands for the host of a request that names none, which HTTP/2 does not allow.
const NO_HOST: &str = "archipel.invalid";

/// Marks a request that is answered by the link itself. Nothing that is carried for others has it.
const PROBE: HeaderName = HeaderName::from_static("archipel-link-probe");

/// The number of a request whose interim answers its sender wants to hear.
const HEARS: HeaderName = HeaderName::from_static("archipel-link-hears");

/// Says that interim answers to it are heard under this number.
pub(crate) fn to_heard(headers: &mut HeaderMap, number: u32) {
    headers.insert(HEARS, HeaderValue::from(number));
}

/// Under which number its sender wants to hear interim answers, if it does.
pub(crate) fn take_heard(headers: &mut HeaderMap) -> Option<u32> {
    headers.remove(HEARS)?.to_str().ok()?.parse().ok()
}

/// A tiny request that shows that the peer is there.
pub(crate) fn to_probe<B>(request: &mut Request<B>) {
    *request.uri_mut() = Uri::from_static("https://archipel.invalid/");
    *request.version_mut() = Version::HTTP_2;
    request.headers_mut().insert(PROBE, HeaderValue::from_static("1"));
}

/// Whether this is one.
pub(crate) fn is_probe(headers: &HeaderMap) -> bool {
    headers.contains_key(PROBE)
}

/// As HTTP/2 wants it, or what is wrong with it.
pub(crate) fn to_http2(head: &mut Parts) -> Result<(), &'static str> {
    refuse_connect(head)?;
    let authority = match (head.uri.authority(), head.headers.get(HOST)) {
        (Some(authority), _) => authority.clone(),
        (None, Some(host)) => {
            Authority::try_from(host.as_bytes()).map_err(|_| "its Host header is not a host")?
        }
        (None, None) => Authority::from_static(NO_HOST),
    };
    let mut uri = http::uri::Parts::default();
    uri.scheme = Some(Scheme::HTTPS);
    uri.authority = Some(authority);
    uri.path_and_query = Some(path(&head.uri));
    head.uri = Uri::from_parts(uri).map_err(|_| "its target is not a path")?;
    head.headers.remove(HOST);
    head.headers.remove(PROBE);
    head.headers.remove(HEARS);
    head.version = Version::HTTP_2;
    Ok(())
}

/// As HTTP/1.1 wants it, or what is wrong with it.
pub(crate) fn to_http1(head: &mut Parts) -> Result<(), &'static str> {
    refuse_connect(head)?;
    to_path_and_host(head);
    head.headers.remove(PROBE);
    head.headers.remove(HEARS);
    if !head.headers.contains_key(HOST) {
        head.headers.insert(HOST, HeaderValue::from_static(NO_HOST));
    }
    head.version = Version::HTTP_11;
    Ok(())
}

/// As a receiver sees it, and as its sender had it.
pub(crate) fn to_path_and_host(head: &mut Parts) {
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::try_from(authority.as_str())
    {
        // What the target says wins over a header: RFC 9112, section 3.2.2.
        head.headers.insert(HOST, host);
    }
    head.uri = Uri::from(path(&head.uri));
    if head.headers.get(HOST).is_some_and(|host| host == NO_HOST) {
        head.headers.remove(HOST);
    }
}

fn path(uri: &Uri) -> PathAndQuery {
    uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"))
}

/// A tunnel has no path to carry.
fn refuse_connect(head: &Parts) -> Result<(), &'static str> {
    if head.method == Method::CONNECT { Err("CONNECT is not carried between sites") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Request;

    fn head(target: &str, host: Option<&str>) -> Parts {
        let mut request = Request::builder().uri(target);
        if let Some(host) = host {
            request = request.header(HOST, host);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_request_arrives_as_it_was_sent_on_both_lanes() {
        for host in [Some("glance.site1:9292"), None] {
            for target in ["/", "/v2/images?limit=2", "/a//b/../c", "*"] {
                for to_lane in [to_http1, to_http2] {
                    let mut sent = head(target, host);
                    to_lane(&mut sent).unwrap();
                    to_path_and_host(&mut sent);
                    assert_eq!(sent.uri.to_string(), target);
                    assert_eq!(sent.headers.get(HOST).map(|host| host.to_str().unwrap()), host);
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_carried_is_refused_before_it_is_sent() {
        let mut tunnel = head("glance:9292", None);
        tunnel.method = Method::CONNECT;
        assert!(to_http1(&mut tunnel).is_err());
        assert!(to_http2(&mut tunnel).is_err());
        assert!(to_http2(&mut head("/", Some("a host"))).is_err());
    }
}
