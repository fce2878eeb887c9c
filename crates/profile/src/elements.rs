//! What is below a resource and what its document says may be the same data: the tags of an image are written one by one
//! at `…/tags/lts`, and all at once as the member `tags`.

use serde::Deserialize;

use crate::kinds::Kind;

/// Elements of a member of the document that are written by themselves, below the resource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Elements {
    /// Each is at one path below this one, which is below the resource: `/tags`.
    pub below: String,
    /// The member that has them all, as a JSON pointer into the document of the resource.
    pub member: String,
    /// Where the answer to a GET of `below` has them all, each by its name, as a JSON pointer. They are then compared and copied by
    /// themselves: the document need not show them.
    pub map: Option<String>,
}

/// Elements that a write sets by the names that they have in its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Members {
    /// The field that they are elements of.
    pub of: String,
    /// Where the body has them, as a JSON pointer.
    pub at: String,
}

/// The name of the field that a path below a resource is: nothing in it is spelled in two ways.
#[must_use]
pub fn field_at(below: &str) -> String {
    let segments = crate::path::segments(below);
    segments.fold(String::new(), |field, segment| element(&field, &decoded(segment)))
}

/// The name of an element of a field.
#[must_use]
pub fn element(field: &str, name: &str) -> String {
    format!("{field}/{}", name.replace('%', "%25").replace('/', "%2F"))
}

/// A segment of a path as what it stands for. One that stands for no text stays as it is.
pub(crate) fn decoded(segment: &str) -> String {
    let mut parts = segment.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let byte = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (byte, part.get(2..)) {
            (Some(byte), Some(rest)) => {
                bytes.push(byte);
                bytes.extend_from_slice(rest.as_bytes());
            }
            _ => return segment.to_owned(),
        }
    }
    String::from_utf8(bytes).unwrap_or_else(|_| segment.to_owned())
}

impl Kind {
    /// The name of the field that a member of the document is, where patches have theirs. A path below the resource that has
    /// the same name is the same field, unless the profile says that it is apart.
    #[must_use]
    pub fn field_of(&self, member: &str) -> String {
        let pointer = format!("{}/{}", self.fields, member.replace('~', "~0").replace('/', "~1"));
        if let Some(elements) = self.elements.iter().find(|elements| elements.member == pointer) {
            return field_at(&elements.below);
        }
        let apart = self.apart.iter().any(|path| path.strip_prefix('/') == Some(member));
        if apart { format!("#{member}") } else { member.to_owned() }
    }

    /// The elements that have their own map at a path below the resource, and where that has them.
    pub fn maps(&self) -> impl Iterator<Item = (&str, &str)> {
        self.elements.iter().filter_map(|elements| Some((elements.below.as_str(), elements.map.as_deref()?)))
    }

    /// What is said of parts and members that cannot be meant, or has to be said and is not.
    pub(crate) fn overlap(&self) -> Option<String> {
        let is_path = |path: &str| path.starts_with('/') && !path.ends_with('/') && !path.contains('*');
        for Elements { below, member, map } in &self.elements {
            if !is_path(below) {
                return Some(format!(
                    "elements are below a path of the resource such as `/tags`, not `{below}`"
                ));
            }
            let pointers = [Some(member), map.as_ref()];
            if pointers.into_iter().flatten().any(|pointer| !pointer.starts_with('/')) {
                return Some("a JSON pointer starts with `/`".to_owned());
            }
            if self.apart.contains(below) {
                return Some(format!("`{below}` is either a member's (`elements`) or no member's (`apart`)"));
            }
            if self.generated.contains(member) {
                return Some(format!(
                    "`{member}` is set by writes to `{below}`, so that it is not `generated`: take it out there"
                ));
            }
        }
        if let Some(path) = self.apart.iter().find(|path| !is_path(path)) {
            return Some(format!("`apart` has paths below the resource, such as `/file`, not `{path}`"));
        }
        self.undeclared()
    }

    /// A path below the resource and a member that look like the same data, of which nothing is said.
    fn undeclared(&self) -> Option<String> {
        let mentioned = self.generated.iter().map(|pointer| (pointer, true));
        let mentioned = mentioned.chain(self.needs.keys().map(|pointer| (pointer, false)));
        for (pointer, generated) in mentioned {
            let Some(member) = pointer.strip_prefix(&self.fields).and_then(|rest| rest.strip_prefix('/'))
            else {
                continue;
            };
            let member = member.split('/').next().unwrap_or_default();
            let said = |path: &str| {
                let own = |elements: &Elements| elements.below == path;
                self.apart.iter().any(|apart| apart == path) || self.elements.iter().any(own)
            };
            let paths = self.written_below();
            let Some(path) = paths.iter().find(|path| is_alike(path, member) && !said(path)) else {
                continue;
            };
            let first = if generated {
                format!("`{pointer}` is `generated`, and writes to `{path}` may set it")
            } else {
                format!("`{pointer}` and `{path}` may be the same data")
            };
            return Some(format!(
                "{first}: if they do, write `elements = [{{ below = \"{path}\", member = \"{pointer}\" }}]` and do not list it as \
                 generated; if it is other data, `apart = [\"{path}\"]`"
            ));
        }
        None
    }
}

/// Whether a path below a resource has the name of a member, or one that ends so after a prefix: `/os-extra_specs`.
pub(crate) fn is_alike(path: &str, member: &str) -> bool {
    let path = path.trim_start_matches('/').to_ascii_lowercase();
    let member = member.to_ascii_lowercase();
    let prefixed = |rest: &str| rest.ends_with(['-', '_', ':', '.']);
    !member.is_empty()
        && path.strip_suffix(member.as_str()).is_some_and(|rest| rest.is_empty() || prefixed(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    fn read(text: &str) -> Result<Profile, String> {
        let text = format!("description = 'x'\n[[kinds]]\nname = 'x'\npath = '/x'\n{text}");
        Profile::read(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_below_has_one_name_however_it_is_spelled() {
        assert_eq!(field_at("/tags/lts/"), "/tags/lts");
        assert_eq!(field_at("/specs/hw%3Acpu%2fa"), "/specs/hw:cpu%2Fa");
        assert_eq!(field_at("/specs/hw%3Acpu%2fa"), element("/specs", "hw:cpu/a"));
        assert_eq!(field_at("/specs/50%25"), element("/specs", "50%"));
        assert_eq!(field_at("/a/%zz"), "/a/%25zz");
        assert_eq!(field_at("/a/%ff"), "/a/%25ff");
    }

    #[test]
    fn a_member_is_the_field_of_its_elements_or_of_its_own_name() {
        let profile = read(
            "fields = '/flavor'\napart = ['/file']\n\
             elements = [{ below = '/os-extra_specs', member = '/flavor/extra_specs', map = '/extra_specs' }]",
        )
        .unwrap();
        let kind = profile.kinds.collection("any", "/x").unwrap();
        assert_eq!(kind.field_of("extra_specs"), "/os-extra_specs");
        assert_eq!(kind.field_of("name"), "name");
        assert_eq!(kind.field_of("file"), "#file");
        assert_eq!(kind.maps().collect::<Vec<_>>(), [("/os-extra_specs", "/extra_specs")]);
    }

    #[test]
    fn a_member_that_a_write_below_may_set_is_not_generated_unless_the_profile_says_that_it_is_apart() {
        for (text, why) in [
            (
                "generated = ['/file']\nparts = ['/file']",
                "`/file` is `generated`, and writes to `/file` may set it",
            ),
            (
                "fields = '/flavor'\ngenerated = ['/flavor/extra_specs']\noperations = [\n\
                 { method = 'POST', below = '/os-extra_specs', class = 'patch', field = '/os-extra_specs' }]",
                "if they do, write `elements = [{ below = \"/os-extra_specs\", member = \"/flavor/extra_specs\" }]`",
            ),
            (
                "named_by = 'body'\nneeds = { '/labels' = 'why' }\noperations = [\n\
                 { method = 'PUT', below = '/labels/*', class = 'patch' }]",
                "`/labels` and `/labels` may be the same data",
            ),
            ("generated = ['/tags']\nelements = [{ below = '/t', member = '/tags' }]", "is not `generated`"),
            ("apart = ['/t']\nelements = [{ below = '/t', member = '/tags' }]", "is either a member's"),
            ("elements = [{ below = 't', member = '/tags' }]", "below a path of the resource"),
            ("elements = [{ below = '/t', member = 'tags' }]", "a JSON pointer starts with `/`"),
            ("apart = ['t']", "`apart` has paths below the resource"),
            (
                "operations = [{ method = 'POST', below = '/t', class = 'patch', field = '/t', members = '' }]",
                "either one `field` or the `members`",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        read("generated = ['/file']\nparts = ['/file']\napart = ['/file']").unwrap();
        read("generated = ['/profile']\nparts = ['/file']").unwrap();
    }
}
