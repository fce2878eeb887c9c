//! Entity tags of answers whose identifiers were rewritten.
//!
//! Each site's answer differs in what its service generated, so a tag is only good at the site that gave it.
//! Ours is the service's with a mark before it: `W/"33a6"` of Site2 is `W/"Site2.33a6"`. A tag with another
//! mark, or none, matches nothing here.

use std::fmt;

/// The tags of one site.
#[derive(Clone, Debug)]
pub struct Etags {
    /// With the point after it.
    mark: String,
}

/// What is left of an `If-Match` or `If-None-Match`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `*`: it goes on as it is.
    Any,
    /// The service's own tags, as they are to be sent.
    These(String),
    /// None of them is of this site. An `If-Match` is a 412; an `If-None-Match` is left out.
    Nothing,
}

/// A list of tags that cannot be read: a 400.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of entity tags is expected: \"tag\", W/\"tag\"")
    }
}

impl std::error::Error for Malformed {}

impl Etags {
    /// Tags with this mark: the site's name, and whatever else makes its answers differ.
    #[must_use]
    pub fn new(mark: &str) -> Etags {
        // No point is left in it, so that no mark is the start of another.
        let coded = mark.bytes().map(|byte| {
            let same = byte.is_ascii_alphanumeric() || byte == b'-';
            if same { char::from(byte).to_string() } else { format!("_{byte:02x}") }
        });
        Etags { mark: coded.collect::<String>() + "." }
    }

    /// Our tag for the service's. Weak stays weak; one without quotes, which some services write, stays so.
    #[must_use]
    pub fn own(&self, upstream: &str) -> String {
        let upstream = upstream.trim();
        let (weak, tag) = upstream.split_at(if upstream.starts_with("W/") { 2 } else { 0 });
        match tag.strip_prefix('"') {
            Some(opaque) => format!("{weak}\"{}{opaque}", self.mark),
            None => format!("{weak}{}{tag}", self.mark),
        }
    }

    /// The service's tag for ours, or none if it is not of this site.
    #[must_use]
    pub fn upstream(&self, own: &str) -> Option<String> {
        let own = own.trim();
        let (weak, tag) = own.split_at(if own.starts_with("W/") { 2 } else { 0 });
        match tag.strip_prefix('"') {
            Some(opaque) => Some(format!("{weak}\"{}", opaque.strip_prefix(&self.mark)?)),
            None => Some(format!("{weak}{}", tag.strip_prefix(&self.mark)?)),
        }
    }

    /// An `If-Match` or `If-None-Match`, as the service is to get it.
    pub fn condition(&self, list: &str) -> Result<Condition, Malformed> {
        if list.trim() == "*" {
            return Ok(Condition::Any);
        }
        let mut ours = Vec::new();
        let mut rest = list;
        loop {
            rest = rest.trim_start_matches([' ', '\t', ',']);
            if rest.is_empty() {
                break;
            }
            let (tag, after) = rest.split_at(length(rest)?);
            ours.extend(self.upstream(tag));
            rest = after.trim_start_matches([' ', '\t']);
            if !rest.is_empty() && !rest.starts_with(',') {
                return Err(Malformed);
            }
        }
        Ok(if ours.is_empty() { Condition::Nothing } else { Condition::These(ours.join(", ")) })
    }
}

/// How long the tag at the start of a list is. Within quotes a comma is a part of it.
fn length(list: &str) -> Result<usize, Malformed> {
    let tag = list.strip_prefix("W/").unwrap_or(list);
    let weak = list.len() - tag.len();
    let length = match tag.strip_prefix('"') {
        Some(opaque) => opaque.find('"').ok_or(Malformed)? + 2,
        None => tag.find([' ', '\t', ',', '"']).unwrap_or(tag.len()),
    };
    Ok(weak + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_back_as_it_was_at_its_own_site_only() {
        let (here, there) = (Etags::new("Site1"), Etags::new("Site1.b"));
        for tag in ["\"33a6\"", "W/\"33a6\"", "\"\"", "\"a,b. c\"", "5d41402a", "\"Site1.x\""] {
            let own = here.own(tag);
            assert_ne!(own, tag);
            assert_eq!(own.starts_with("W/"), tag.starts_with("W/"));
            assert_eq!(here.upstream(&own).as_deref(), Some(tag));
            assert_eq!(there.upstream(&own), None);
            assert_eq!(here.upstream(&there.own(tag)), None);
        }
        assert_eq!(here.own("W/\"33a6\""), "W/\"Site1.33a6\"");
    }

    #[test]
    fn a_mark_of_any_characters_makes_a_tag_that_a_header_can_carry() {
        let own = Etags::new("Zürich \"1\"\\,").own("\"x\"");
        assert_eq!(own.matches('"').count(), 2);
        assert!(own.bytes().all(|byte| byte.is_ascii_graphic() && byte != b','));
    }

    #[test]
    fn a_condition_keeps_what_is_of_this_site() {
        let here = Etags::new("A");
        let these = |text: &str| Ok(Condition::These(text.to_owned()));
        assert_eq!(here.condition(" * "), Ok(Condition::Any));
        assert_eq!(here.condition("\"A.x\""), these("\"x\""));
        assert_eq!(here.condition("\"B.x\", W/\"A.y,z\" ,,\"A.w\",x"), these("W/\"y,z\", \"w\""));
        assert_eq!(here.condition("A.x, \"A.y\""), these("x, \"y\""));
        for none in ["\"B.x\"", "\"x\"", "", "W/\"B.A.x\""] {
            assert_eq!(here.condition(none), Ok(Condition::Nothing), "{none}");
        }
        for malformed in ["\"A.x", "\"A.x\" \"A.y\"", "\"A.x\"y", "x\"A.y\""] {
            assert_eq!(here.condition(malformed), Err(Malformed), "{malformed}");
        }
    }
}
