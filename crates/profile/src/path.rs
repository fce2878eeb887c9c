//! Patterns of paths: `/v2/images`, `/v3/*/volumes`, and `/**/servers` for any path that ends so.

use serde::{Deserialize, Deserializer, de};

/// A pattern of a path. A `*` is any one segment; `**`, at the start only, any number of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    anywhere: bool,
    segments: Vec<String>,
}

impl Pattern {
    fn read(text: &str) -> Result<Pattern, &'static str> {
        let rest = text.strip_prefix('/').ok_or("a path starts with `/`")?;
        let (anywhere, rest) = match rest.strip_prefix("**") {
            Some(rest) => (true, rest.strip_prefix('/').unwrap_or(rest)),
            None => (false, rest),
        };
        if rest.contains("**") {
            return Err("`**` can only stand at the start of a path");
        }
        Ok(Pattern { anywhere, segments: segments(rest).map(str::to_owned).collect() })
    }

    /// Whether a path is of this pattern. A slash at its end counts for nothing.
    pub(crate) fn fits(&self, path: &str) -> bool {
        let parts: Vec<&str> = segments(path).collect();
        let Some(extra) = parts.len().checked_sub(self.segments.len()) else { return false };
        (extra == 0 || self.anywhere)
            && parts.iter().skip(extra).zip(&self.segments).all(|(part, own)| own == "*" || part == own)
    }

    /// The one path that it is known to fit, without a prefix; nothing, if any segment may be there.
    pub(crate) fn concrete(&self) -> Option<String> {
        let known = !self.segments.is_empty() && self.segments.iter().all(|own| own != "*");
        known.then(|| format!("/{}", self.segments.join("/")))
    }

    /// Its first segment, if that is one word.
    pub(crate) fn first(&self) -> Option<&str> {
        let first = self.segments.first().filter(|first| !self.anywhere && *first != "*");
        first.map(String::as_str)
    }

    /// What stands before the pattern's own segments, in a path that fits. Where the pattern has none of its
    /// own, nothing does.
    pub(crate) fn prefix<'p>(&self, path: &'p str) -> &'p str {
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
        ] {
            assert_eq!(Pattern::read(pattern).unwrap().fits(path), fits, "{pattern} {path}");
        }
        assert!(Pattern::read("/a/**/b").is_err());
    }
}
