//! Patterns of paths: `/v2/images`, `/v3/*/volumes`, `/**/servers` for any path that ends so, and `/v2/**/tags` for any that
//! begins and ends so.

use serde::{Deserialize, Deserializer, de};

/// A pattern of a path. A `*` is any one segment; `**`, once, any number of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// Its segments before a `**`.
    before: Vec<String>,
    anywhere: bool,
    /// Its segments after that; all, where it has none.
    segments: Vec<String>,
}

impl Pattern {
    fn read(text: &str) -> Result<Pattern, &'static str> {
        let rest = text.strip_prefix('/').ok_or("a path starts with `/`")?;
        let (before, anywhere, rest) = match rest.split_once("**") {
            Some((before, rest)) => (before, true, rest),
            None => ("", false, rest),
        };
        if rest.contains("**") {
            return Err("`**` can only stand once in a path");
        }
        let whole =
            (before.is_empty() || before.ends_with('/')) && (rest.is_empty() || rest.starts_with('/'));
        if anywhere && !whole {
            return Err("`**` stands for whole segments of a path");
        }
        let read = |text: &str| segments(text).map(str::to_owned).collect();
        Ok(Pattern { before: read(before), anywhere, segments: read(rest) })
    }

    /// Whether a path is of this pattern. A slash at its end counts for nothing.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let parts: Vec<&str> = segments(path).collect();
        let Some(extra) = parts.len().checked_sub(self.before.len() + self.segments.len()) else {
            return false;
        };
        let is_one = |(part, own): (&&str, &String)| own == "*" || part == own;
        (extra == 0 || self.anywhere)
            && parts.iter().zip(&self.before).all(is_one)
            && parts.iter().skip(self.before.len() + extra).zip(&self.segments).all(is_one)
    }

    /// The one path that it is known to fit, without a prefix; nothing, if any segment may be there.
    pub(crate) fn concrete(&self) -> Option<String> {
        let known = self.before.is_empty() && !self.segments.is_empty();
        let known = known && self.segments.iter().all(|own| own != "*");
        known.then(|| format!("/{}", self.segments.join("/")))
    }

    /// Its first segment, if that is one word.
    pub(crate) fn first(&self) -> Option<&str> {
        let first = self.before.first().or_else(|| self.segments.first().filter(|_| !self.anywhere));
        first.filter(|first| *first != "*").map(String::as_str)
    }

    /// Its last segment, if that is one word.
    pub(crate) fn last(&self) -> Option<&str> {
        self.segments.last().filter(|last| *last != "*").map(String::as_str)
    }

    /// What stands before the pattern's own segments, in a path that fits. Where the pattern has none of its
    /// own, or begins with one, nothing does.
    pub(crate) fn prefix<'p>(&self, path: &'p str) -> &'p str {
        if !self.before.is_empty() {
            return "";
        }
        let mut end = path.trim_end_matches('/').len();
        for _ in &self.segments {
            end = path.get(..end).and_then(|rest| rest.rfind('/')).unwrap_or(0);
        }
        if self.segments.is_empty() { "" } else { path.get(..end).unwrap_or_default() }
    }
}

/// The segments of a path; empty ones count for nothing.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pattern, D::Error> {
        Pattern::read(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_whole_segments_only() {
        for (pattern, path, fits) in [
            ("/v2/images", "/v2/images", true),
            ("/v2/images", "/v2/images/", true),
            ("/v2/images", "/v2/images/1", false),
            ("/v2/images", "/x/v2/images", false),
            ("/v3/*/volumes", "/v3/42/volumes", true),
            ("/v3/*/volumes", "/v3/volumes", false),
            ("/**/servers", "/compute/v2.1/servers", true),
            ("/**/servers", "/servers", true),
            ("/**/servers", "/myservers", false),
            ("/", "", true),
            ("/", "/v3", false),
            ("/v2/**/tags", "/v2/tags", true),
            ("/v2/**/tags", "/v2/a/b/tags", true),
            ("/v2/**/tags", "/v2/a/tags/b", false),
            ("/v2/**/tags", "/v3/a/tags", false),
            ("/v2/**/*/tags", "/v2/tags", false),
            ("/v2/**", "/v2/a", true),
        ] {
            assert_eq!(Pattern::read(pattern).unwrap().fits(path), fits, "{pattern} {path}");
        }
        for wrong in ["/a/**/b/**", "/a**/b", "/**b", "a"] {
            assert!(Pattern::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prefixes_stand_before_a_pattern_that_may_begin_anywhere() {
        for (pattern, path, prefix) in [
            ("/**/images", "/glance/v2/images", "/glance/v2"),
            ("/**", "/a/b", ""),
            ("/v2/**/tags", "/v2/a/b/tags", ""),
            ("/images", "/images", ""),
        ] {
            assert_eq!(Pattern::read(pattern).unwrap().prefix(path), prefix, "{pattern}");
        }
        let pattern = Pattern::read("/v2/**/tags").unwrap();
        assert_eq!((pattern.first(), pattern.last(), pattern.concrete()), (Some("v2"), Some("tags"), None));
    }
}
