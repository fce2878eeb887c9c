//! Answers that services keep open: watches, events, logs that are followed.

use serde::Deserialize;

use crate::lookup::{LookupQuery, pairs};
use crate::path::Pattern;

/// Requests whose answers are streams.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamRule {
    service: Option<String>,
    paths: Vec<Pattern>,
    /// Any of these in the query makes it one. None: every GET of the path is.
    #[serde(default)]
    query: Vec<LookupQuery>,
}

impl StreamRule {
    pub(crate) fn fits(&self, service: &str, path: &str, query: Option<&str>) -> bool {
        let asks = || {
            let mut pairs = pairs(query.unwrap_or_default());
            self.query.is_empty()
                || pairs.any(|(name, value)| self.query.iter().any(|own| own.fits(&name, &value)))
        };
        self.service.as_deref().is_none_or(|own| own == service)
            && self.paths.iter().any(|own| own.fits(path))
            && asks()
    }

    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|name| !known(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn documented_streams_can_be_read() {
        let document = include_str!("../../../docs/requests.md");
        let text = document.split("```").find_map(|block| block.strip_prefix("toml")).unwrap();
        let profile = Profile::read(&format!("description = 'x'\n{text}")).unwrap();
        assert!(profile.is_stream("api", "/api/v1/pods/web/log", Some("follow=true")));
    }

    #[test]
    fn stream_is_told_by_its_path_and_query() {
        let text = "description = 'x'\n[[streams]]\npaths = ['/**/pods']\nquery = ['watch=true', 'watch=1']\n\
                    [[streams]]\nservice = 'log'\npaths = ['/tail']";
        let profile = Profile::read(text).unwrap();
        for (service, request, streams) in [
            ("api", "/api/v1/pods?limit=5&watch=true", true),
            ("api", "/api/v1/pods?watch=1", true),
            ("api", "/api/v1/pods?watch=false", false),
            ("api", "/api/v1/pods?", false),
            ("log", "/tail?", true),
            ("api", "/tail?", false),
        ] {
            let (path, query) = request.split_once('?').unwrap();
            assert_eq!(profile.is_stream(service, path, Some(query)), streams, "{request}");
        }
        assert!(!profile.is_stream("api", "/api/v1/pods", None));
        let error =
            Profile::read("description = 'x'\n[services]\na = []\n[[streams]]\nservice = 'b'\npaths = ['/']");
        assert!(error.unwrap_err().to_string().contains("`streams` names `b`, which is no service"));
    }
}
