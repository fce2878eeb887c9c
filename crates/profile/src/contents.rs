//! Content that documents name, and have to have at their site: the layers of an image.

use serde::Deserialize;
use serde_json::Value;

use crate::path::{Pattern, segments};

/// A document names at most so many.
const MOST_NAMES: usize = 10_000;

/// Content that documents of a kind name: at a site it is there before the document is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contents {
    /// Where a document names them, as JSON pointers in which `*` is each element of an array.
    at: Vec<String>,
    /// The collection that they are in, beside the document's own.
    beside: String,
    /// The two requests that put one there. None: a PUT does, as for a document of the kind.
    pub upload: Option<ContentUpload>,
}

/// The two requests that put content into a service: a POST begins, and a PUT to the address that it answers has all of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContentUpload {
    /// Where the POST goes, below the collection.
    begin: String,
    /// The parameter of the PUT that has the name.
    parameter: String,
}

/// One of them, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content<'c> {
    /// Where it is.
    pub path: String,
    /// Its name: the last segment of that.
    pub name: String,
    /// Its collection.
    pub collection: String,
    /// The requests that put it there.
    pub upload: Option<&'c ContentUpload>,
}

impl ContentUpload {
    /// Where an upload of this content begins.
    #[must_use]
    pub fn begin(&self, content: &Content<'_>) -> String {
        format!("{}/{}", content.collection, self.begin)
    }

    /// The target of the request that ends an upload, which this address was answered for.
    #[must_use]
    pub fn end(&self, address: &str, content: &Content<'_>) -> String {
        let address = address.split('#').next().unwrap_or_default();
        let separator = if address.contains('?') { '&' } else { '?' };
        format!("{address}{separator}{}={}", self.parameter, content.name.replace('+', "%2B"))
    }
}

impl Contents {
    pub(crate) fn fault(&self, kind: &Pattern) -> Option<&'static str> {
        if self.at.is_empty() || self.at.iter().any(|at| !at.starts_with('/')) {
            return Some("`at` of `contents` has JSON pointers, which start with `/`");
        }
        if kind.last().is_none() {
            return Some("`contents` are beside a collection: the last segment of its `path` is a word");
        }
        if self.beside.is_empty() || self.beside.contains(['/', '*', '?', '#', '%']) {
            return Some("`beside` is the name of a collection, one segment");
        }
        let upload = self.upload.as_ref()?;
        let begins = !upload.begin.is_empty() && !upload.begin.starts_with('/');
        if !begins || upload.begin.contains(['?', '#', '%']) || segments(&upload.begin).any(is_dots) {
            return Some("`begin` of an `upload` is a path below the collection, such as `uploads/`");
        }
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let named = !upload.parameter.is_empty() && upload.parameter.bytes().all(word);
        (!named).then_some("`parameter` of an `upload` is the name of a parameter")
    }

    /// True where a path is that of something that documents of a kind may name.
    pub(crate) fn has(&self, kind: &Pattern, path: &str) -> bool {
        let parts = path.rsplit_once('/').filter(|(_, name)| is_name(name));
        let place = parts.and_then(|(collection, _)| collection.rsplit_once('/'));
        let is_beside = |(above, own): (&str, &str)| {
            own == self.beside && kind.last().is_some_and(|last| kind.fits(&format!("{above}/{last}")))
        };
        place.is_some_and(is_beside)
    }

    /// The content that the document of a resource with this path names.
    pub(crate) fn of(&self, path: &str, document: &Value) -> Vec<Content<'_>> {
        let above = path.rsplit_once('/').and_then(|(collection, _)| collection.rsplit_once('/'));
        let Some((above, _)) = above else { return Vec::new() };
        let collection = format!("{above}/{}", self.beside);
        let mut found = Vec::new();
        for at in &self.at {
            let steps: Vec<&str> = at.split('/').skip(1).collect();
            texts(document, &steps, &mut found);
        }
        let content = |name: &str| Content {
            path: format!("{collection}/{name}"),
            name: name.to_owned(),
            collection: collection.clone(),
            upload: self.upload.as_ref(),
        };
        found.into_iter().filter(|name| is_name(name)).map(content).collect()
    }
}

/// The content that all of these name, each once.
pub(crate) fn named<'c>(all: &'c [Contents], path: &str, document: &[u8]) -> Vec<Content<'c>> {
    if all.is_empty() {
        return Vec::new();
    }
    let Ok(document) = serde_json::from_slice::<Value>(document) else { return Vec::new() };
    let mut seen = std::collections::BTreeSet::new();
    let named = all.iter().flat_map(|own| own.of(path, &document));
    named.filter(|content| seen.insert(content.path.clone())).take(MOST_NAMES).collect()
}

/// A name that means the same wherever it stands in an address.
fn is_name(name: &str) -> bool {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:+=".contains(&byte);
    !name.is_empty() && !is_dots(name) && name.bytes().all(bare)
}

fn is_dots(segment: &str) -> bool {
    matches!(segment, "." | "..")
}

fn texts<'d>(value: &'d Value, steps: &[&str], found: &mut Vec<&'d str>) {
    let Some((step, rest)) = steps.split_first() else {
        found.extend(value.as_str());
        return;
    };
    match value {
        Value::Array(elements) if *step == "*" => {
            for element in elements {
                texts(element, rest, found);
            }
        }
        Value::Object(members) => {
            let name = step.replace("~1", "/").replace("~0", "~");
            if let Some(value) = members.get(&name) {
                texts(value, rest, found);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::Profile;

    #[test]
    fn a_manifest_names_what_its_registry_has_to_have() {
        let profile = Profile::named("oci").unwrap();
        let document =
            br#"{"config": {"digest": "sha256:c"}, "layers": [{"digest": "sha256:l"}, {"digest": "sha256:l"},
            {"digest": "../../x"}, {"size": 1}], "manifests": [{"digest": "sha512:m"}]}"#;
        let items = profile.kinds.items("registry", "/v2/a/b/manifests/1.0");
        let [item] = &items[..] else { panic!("{items:?}") };
        assert_eq!((item.name, item.kind.exact), ("/v2/a/b/manifests/1.0", true));
        let named = item.kind.contents_of(item.path, document);
        let paths: Vec<&str> = named.iter().map(|content| content.path.as_str()).collect();
        assert_eq!(
            paths,
            ["/v2/a/b/blobs/sha256:c", "/v2/a/b/blobs/sha256:l", "/v2/a/b/manifests/sha512:m"],
            "{named:?}"
        );
        let upload = named[0].upload.unwrap();
        assert_eq!(upload.begin(&named[0]), "/v2/a/b/blobs/uploads/");
        assert_eq!(upload.end("/u/1?_state=x", &named[0]), "/u/1?_state=x&digest=sha256:c");
        assert_eq!(upload.end("/u/1#x", &named[0]), "/u/1?digest=sha256:c");
        assert!(named[2].upload.is_none());
        for (path, is) in [
            ("/v2/a/b/blobs/sha256:c", true),
            ("/v2/a/manifests/latest", true),
            ("/v2/a/blobs/uploads/7", false),
            ("/v2/a/blobs/..", false),
            ("/v2/a/blobs/x%2f..", false),
            ("/v2/a/tags/list", false),
            ("/x/a/blobs/sha256:c", false),
        ] {
            assert_eq!(profile.kinds.is_content("registry", path), is, "{path}");
        }
        assert!(!Profile::named("rest").unwrap().kinds.is_content("registry", "/v2/a/blobs/sha256:c"));
    }

    #[test]
    fn contents_that_cannot_be_meant_are_refused() {
        let exact = "named_by = 'client'\nexact = true\n";
        let one = |rest: &str| format!("{exact}contents = [{{ {rest} }}]");
        for (text, why) in [
            ("exact = true".to_owned(), "`exact` is for"),
            (format!("{exact}generated = ['/x']"), "`exact` is for"),
            ("contents = [{ at = ['/a'], beside = 'b' }]".to_owned(), "`contents` are of documents"),
            (one("at = [], beside = 'b'"), "has JSON pointers"),
            (one("at = ['a'], beside = 'b'"), "has JSON pointers"),
            (one("at = ['/a'], beside = 'b/c'"), "one segment"),
            (one("at = ['/a'], beside = 'b', upload = { begin = '/u', parameter = 'd' }"), "a path below"),
            (one("at = ['/a'], beside = 'b', upload = { begin = '../u', parameter = 'd' }"), "a path below"),
            (
                one("at = ['/a'], beside = 'b', upload = { begin = 'u/', parameter = 'd=' }"),
                "name of a parameter",
            ),
            ("accept = \"a\\nb\"".to_owned(), "a header cannot have"),
        ] {
            let text = format!("description = 'x'\n[[kinds]]\nname = 'x'\npath = '/x'\n{text}");
            let error = Profile::read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
        let text = format!(
            "description = 'x'\n[[kinds]]\nname = 'x'\npath = '/x/*'\n{}",
            one("at = ['/a'], beside = 'b'")
        );
        assert!(Profile::read(&text).unwrap_err().to_string().contains("is a word"));
    }

    proptest! {
        #[test]
        fn whatever_a_document_names_stays_in_its_collections(
            names in prop::collection::vec("\\PC{0,24}|[a-z0-9:./%?#+-]{0,24}", 0..8),
        ) {
            let profile = Profile::named("oci").unwrap();
            let layers: Vec<_> = names.iter().map(|name| serde_json::json!({ "digest": name })).collect();
            let document = serde_json::json!({ "layers": layers }).to_string();
            let items = profile.kinds.items("registry", "/v2/a/manifests/1");
            for content in items[0].kind.contents_of("/v2/a/manifests/1", document.as_bytes()) {
                prop_assert!(names.contains(&content.name));
                prop_assert!(profile.kinds.is_content("registry", &content.path), "{content:?}");
                prop_assert_eq!(content.path.rsplit_once('/'), Some(("/v2/a/blobs", &*content.name)));
                prop_assert!(!content.path.contains(['?', '#', '%']) && !content.path.ends_with("/.."));
            }
        }
    }
}
