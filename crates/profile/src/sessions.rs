//! Sessions of several requests, such as an upload in parts, that live at the site which began them.

use serde::Deserialize;

use crate::path::Pattern;

/// Addresses that a service gives out (`Location`) for the next requests of one session. Only the service that gave one out
/// knows it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Session {
    /// Of which service. None: any.
    pub(crate) service: Option<String>,
    /// The addresses, by their paths.
    paths: Vec<Pattern>,
    /// Where a POST begins one. It makes nothing yet that could be replicated.
    #[serde(default)]
    begin: Vec<Pattern>,
}

impl Session {
    pub(crate) fn is_of(&self, service: &str) -> bool {
        self.service.as_ref().is_none_or(|own| own == service)
    }

    pub(crate) fn fits(&self, service: &str, path: &str) -> bool {
        self.is_of(service) && self.paths.iter().any(|own| own.fits(path))
    }

    pub(crate) fn begins(&self, service: &str, path: &str) -> bool {
        self.is_of(service) && self.begin.iter().any(|own| own.fits(path))
    }

    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|service| !known(service))
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn a_session_is_told_by_the_path_of_its_address() {
        let registry = Profile::named("oci").unwrap();
        for (path, is) in [
            ("/v2/a/b/blobs/uploads/7f0c", true),
            ("/v2/a/b/blobs/uploads/", false),
            ("/v2/a/b/blobs/sha256:7f0c", false),
        ] {
            assert_eq!(registry.is_session("any", path), is, "{path}");
        }
        for (method, path, begins) in [
            ("POST", "/v2/a/b/blobs/uploads/", true),
            ("POST", "/v2/a/blobs/uploads", true),
            ("GET", "/v2/a/blobs/uploads/", false),
            ("POST", "/v2/a/blobs/uploads/7f0c", false),
            ("POST", "/v2/a/manifests/latest", false),
        ] {
            assert_eq!(registry.begins_session("any", method, path), begins, "{method} {path}");
        }
        assert!(registry.has_sessions("any") && !Profile::named("rest").unwrap().has_sessions("any"));
        let error = Profile::read(
            "description = 'x'\n[services]\na = []\n[[sessions]]\nservice = 'b'\npaths = ['/x']",
        );
        assert!(error.unwrap_err().to_string().contains("`sessions` names `b`"));
    }
}
