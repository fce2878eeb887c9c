//! What each site said: the `Scope-Sites` header, an RFC 9651 list of strings with parameters.

use std::fmt::Write;

use http::HeaderMap;
use http::header::HeaderValue;
use plan::{Asked, Said};
use serde_json::{Value, json};

/// Past this only failures are listed: proxies refuse headers that are too long.
const LONGEST: usize = 4096;

const SCOPE_SITES: &str = "scope-sites";

/// Adds the header, if any site was asked.
pub(crate) fn put(headers: &mut HeaderMap, asked: &[Asked]) {
    if asked.is_empty() {
        return;
    }
    let mut text = list(asked.iter());
    if text.len() > LONGEST {
        text = list(asked.iter().filter(|asked| failed(asked)));
    }
    if text.len() > LONGEST {
        text.truncate(LONGEST);
        text.truncate(text.rfind(", ").unwrap_or(0));
    }
    if let Ok(value) = HeaderValue::try_from(text) {
        headers.insert(SCOPE_SITES, value);
    }
}

fn failed(asked: &Asked) -> bool {
    match asked.said {
        Said::Status(status) => status >= 400,
        Said::Error(_) => true,
    }
}

fn list<'a>(asked: impl Iterator<Item = &'a Asked>) -> String {
    let mut text = String::new();
    for asked in asked {
        if !text.is_empty() {
            text.push_str(", ");
        }
        // The names of sites are letters, digits, spaces, `.`, `_` and `-`: nothing to escape.
        let _ = match asked.said {
            Said::Status(status) => write!(text, "\"{}\";status={status}", asked.site),
            Said::Error(why) => write!(text, "\"{}\";error={}", asked.site, why.word()),
        };
        if let Some(elapsed) = asked.elapsed {
            let _ = write!(text, ";ms={}", elapsed.as_millis());
        }
    }
    text
}

/// The same, in a problem document.
pub(crate) fn json(asked: &Asked) -> Value {
    let mut entry = match asked.said {
        Said::Status(status) => json!({ "site": asked.site.name(), "status": status }),
        Said::Error(why) => json!({ "site": asked.site.name(), "error": why.word() }),
    };
    if let (Value::Object(fields), Some(elapsed)) = (&mut entry, asked.elapsed) {
        let millis = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX);
        fields.insert("ms".to_owned(), millis.into());
    }
    entry
}

#[cfg(test)]
mod tests {
    use plan::Why;
    use scope::Site;

    use super::*;

    /// What is said of two hundred sites, of which these failed.
    fn said(failed: std::ops::Range<usize>) -> String {
        let asked = |index: usize| Asked {
            site: Site::new(&format!("Site-with-a-long-name-{index}")).unwrap(),
            said: if failed.contains(&index) { Said::Error(Why::Reset) } else { Said::Status(200) },
            elapsed: None,
        };
        let mut headers = HeaderMap::new();
        put(&mut headers, &(0..200).map(asked).collect::<Vec<_>>());
        headers[SCOPE_SITES].to_str().unwrap().to_owned()
    }

    #[test]
    fn among_many_sites_every_failure_is_named_as_long_as_there_is_room() {
        assert_eq!(said(7..8), "\"Site-with-a-long-name-7\";error=reset");
        assert_eq!(said(7..9).matches("error=reset").count(), 2);
        let all = said(0..200);
        assert!(all.len() <= LONGEST && all.len() > LONGEST - 100, "{}", all.len());
        assert!(all.ends_with(";error=reset"), "none is cut in two: {all}");
    }
}
