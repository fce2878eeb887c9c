//! What each site said: the `Scope-Sites` header, an RFC 9651 list of strings with parameters.

use std::fmt::Write;

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};
use plan::{Asked, Said};
use scope::Site;
use serde_json::{Value, json};

use crate::replicas::{Held, Stand};

/// Past this only failures are listed: proxies refuse headers that are too long.
const LONGEST: usize = 4096;

pub(crate) const SCOPE_SITES: HeaderName = HeaderName::from_static("scope-sites");

/// Says that the mesh which answered has told what each replica did. Only peers may set it, and only peers see it.
pub(crate) const TOLD: HeaderName = HeaderName::from_static("archipel-told");

/// Adds the header, if any site was asked. What was told of replicas stays.
pub(crate) fn put(headers: &mut HeaderMap, asked: &[Asked]) {
    put_from(headers, asked, None);
}

/// The same, and says whose answer it is, where several were asked for one and were not merged.
pub(crate) fn put_from(headers: &mut HeaderMap, asked: &[Asked], from: Option<&Site>) {
    let told = if headers.contains_key(TOLD) { headers.get(SCOPE_SITES) } else { None };
    let told = told.and_then(|told| told.to_str().ok()).unwrap_or_default().to_owned();
    let is_told = |asked: &&Asked| !told.is_empty() && told.contains(&format!("\"{}\"", asked.site));
    let asked = || asked.iter().filter(|asked| !is_told(asked));
    let mut text = list(asked(), from);
    if text.len() + told.len() > LONGEST {
        text = list(asked().filter(|asked| failed(asked) || from == Some(&asked.site)), from);
    }
    if !text.is_empty() && !told.is_empty() {
        text.push_str(", ");
    }
    text.push_str(&told);
    set(headers, text);
}

/// Tells what each replica did.
pub(crate) fn tell(headers: &mut HeaderMap, sites: &[(Site, Stand)]) {
    let words = sites.iter().map(|(site, stand)| match stand {
        Stand::Done(Some(status)) => format!("\"{site}\";status={status}"),
        Stand::Done(None) => format!("\"{site}\";done"),
        Stand::Pending | Stand::Held(Held::NoCredential | Held::Unsigned | Held::Probing | Held::Lacking) => {
            format!("\"{site}\";pending")
        }
        Stand::Diverged(status) => format!("\"{site}\";diverged;status={status}"),
        Stand::InDoubt => format!("\"{site}\";in-doubt"),
        Stand::Held(Held::Status(status)) => format!("\"{site}\";pending;status={status}"),
        Stand::Refused(status) => format!("\"{site}\";refused;status={status}"),
        Stand::Answered => format!("\"{site}\";answered"),
    });
    set(headers, words.collect::<Vec<_>>().join(", "));
    headers.insert(TOLD, HeaderValue::from_static("1"));
}

fn set(headers: &mut HeaderMap, mut text: String) {
    if text.len() > LONGEST {
        text.truncate(LONGEST);
        text.truncate(text.rfind(", ").unwrap_or(0));
    }
    if let Some(value) = HeaderValue::try_from(text).ok().filter(|value| !value.is_empty()) {
        headers.insert(SCOPE_SITES, value);
    }
}

/// What one replica did, in a document.
pub(crate) fn stand_json(site: &Site, stand: Stand) -> Value {
    let (state, status) = match stand {
        Stand::Done(status) => ("done", status),
        Stand::Pending => ("pending", None),
        Stand::Diverged(status) => ("diverged", Some(status)),
        Stand::InDoubt => ("in-doubt", None),
        Stand::Held(held) => ("pending", held.status()),
        Stand::Refused(status) => ("refused", Some(status)),
        Stand::Answered => ("answered", None),
    };
    let mut entry = json!({ "site": site.name(), "state": state, "status": status });
    if let (Value::Object(fields), Stand::Held(held)) = (&mut entry, stand) {
        fields.insert("reason".to_owned(), held.to_string().into());
    }
    entry
}

fn failed(asked: &Asked) -> bool {
    match asked.said {
        Said::Status(status) => status >= 400,
        Said::Error(_) => true,
    }
}

fn list<'a>(asked: impl Iterator<Item = &'a Asked>, from: Option<&Site>) -> String {
    let mut text = String::with_capacity(64);
    for asked in asked {
        if !text.is_empty() {
            text.push_str(", ");
        }
        // The names of sites are letters, digits, spaces, `.`, `_` and `-`: nothing to escape.
        text.extend(["\"", asked.site.name()]);
        let _ = match asked.said {
            Said::Status(status) => write!(text, "\";status={status}"),
            Said::Error(why) => write!(text, "\";error={}", why.word()),
        };
        if let Some(elapsed) = asked.elapsed {
            let _ = write!(text, ";ms={}", elapsed.as_millis());
        }
        if from == Some(&asked.site) {
            text.push_str(";answer");
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

    #[test]
    fn what_was_told_of_replicas_stays_beside_what_failed_before() {
        let site = |name| Site::new(name).unwrap();
        let mut headers = HeaderMap::new();
        let stands = [(site("B"), Stand::Done(Some(201))), (site("C"), Stand::Pending)];
        tell(&mut headers, &stands);
        let asked = |name, said| Asked { site: site(name), said, elapsed: None };
        put(&mut headers, &[asked("A", Said::Error(Why::Reset)), asked("B", Said::Status(201))]);
        assert_eq!(headers[SCOPE_SITES], "\"A\";error=reset, \"B\";status=201, \"C\";pending");
    }
}
