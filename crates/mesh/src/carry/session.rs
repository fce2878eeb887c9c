//! The site of a session, as the address of the session has it: a parameter of the query that the service never sees.

use http::Uri;

use super::percent;

const PARAMETER: &str = "scope-session";

/// Whether a target may be the address of a session, with its site.
pub(super) fn is_marked(target: &[u8]) -> bool {
    let mut after = target.splitn(2, |byte| *byte == b'?').skip(1);
    after.any(|query| query.windows(PARAMETER.len()).any(|part| part == PARAMETER.as_bytes()))
}

/// Takes the site out of an address, if it is that of a session. None: it has none.
pub(crate) fn take(uri: &mut Uri, is_session: impl Fn(&str) -> bool) -> Option<String> {
    let query = uri.query().filter(|query| query.contains(PARAMETER))?;
    if !is_session(uri.path()) {
        return None;
    }
    let (mut site, mut kept) = (None, Vec::new());
    for pair in query.split('&') {
        match pair.split_once('=') {
            Some((PARAMETER, value)) => site = percent::decode(value.as_bytes()).ok(),
            _ => kept.push(pair),
        }
    }
    let site = site?;
    let mut target = uri.path().to_owned();
    if !kept.is_empty() {
        target.push('?');
        target.push_str(&kept.join("&"));
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(target.parse().ok()?);
    *uri = Uri::from_parts(parts).ok()?;
    Some(site)
}

/// The same address with a site, if it is that of a session.
pub(crate) fn mark(address: &str, site: &str, is_session: impl Fn(&str) -> bool) -> Option<String> {
    let uri: Uri = address.parse().ok()?;
    if !is_session(uri.path()) {
        return None;
    }
    let (address, fragment) = address.split_at(address.find('#').unwrap_or(address.len()));
    let separator = if uri.query().is_some() { '&' } else { '?' };
    Some(format!("{address}{separator}{PARAMETER}={}{fragment}", percent::encode_query(site)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UPLOAD: &str = "/v2/a/blobs/uploads/7f0c";

    fn is_upload(path: &str) -> bool {
        path == UPLOAD
    }

    fn taken(target: &str) -> (Option<String>, String) {
        let mut uri: Uri = target.parse().unwrap();
        let site = take(&mut uri, is_upload);
        (site, uri.to_string())
    }

    #[test]
    fn an_address_goes_to_the_service_as_it_was_given_out() {
        let absolute = format!("http://here:80{UPLOAD}?_state=1");
        for address in [UPLOAD, &format!("{UPLOAD}?_state=a%2Bb%3D&x"), &absolute] {
            for site in ["Site2", "DC 1"] {
                let marked = mark(address, site, is_upload).unwrap();
                assert!(is_marked(marked.as_bytes()) && !marked.contains(' '), "{marked}");
                assert_eq!(taken(&marked), (Some(site.to_owned()), address.to_owned()));
                let with_digest = format!("{marked}&digest=sha256%3A00");
                let separator = if address.contains('?') { '&' } else { '?' };
                let expected = format!("{address}{separator}digest=sha256%3A00");
                assert_eq!(taken(&with_digest), (Some(site.to_owned()), expected));
            }
        }
    }

    #[test]
    fn other_addresses_stay_as_they_are() {
        for address in ["/v2/a/blobs/sha256:00?x=1", "http://elsewhere/", "not an address"] {
            assert_eq!(mark(address, "Site2", is_upload), None);
        }
        let similar = format!("{UPLOAD}?scope-sessions=Site2");
        for target in ["/v2/a/tags/list?scope-session=Site2", UPLOAD, &similar] {
            assert_eq!(taken(target), (None, target.to_owned()));
        }
        assert!(!is_marked(b"/scope-session/x?y") && !is_marked(b"/"));
    }
}
