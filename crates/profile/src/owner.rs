//! Resources that belong to one user: how Archipel, which keeps them for others, says whose they are.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::propagation::is_header;

/// How a request says whose resource it is to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Where the document that makes one has the id of its user, as a JSON pointer.
    pub member: String,
    /// The parameter that has it in the query of every other request.
    pub parameter: String,
    /// The versions, by header, from which on a service understands both: `compute 2.10`. A request that says a lower
    /// one, or none, is sent with this one.
    #[serde(default)]
    pub at_least: BTreeMap<String, String>,
}

impl Owner {
    /// The versions to send instead of those that a request says: all that are lower, or not there.
    pub fn raised(&self, said: impl Fn(&str) -> Option<String>) -> impl Iterator<Item = (&str, &str)> {
        let low =
            move |(name, least): &(&String, &String)| said(name).is_none_or(|said| is_lower(&said, least));
        self.at_least.iter().filter(low).map(|(name, least)| (name.as_str(), least.as_str()))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.member.len() < 2 || !self.member.starts_with('/') {
            return Some("a JSON pointer starts with `/`");
        }
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if self.parameter.is_empty() || !self.parameter.bytes().all(plain) {
            return Some("the `parameter` of an owner is the name of one in a query");
        }
        if self.at_least.iter().any(|(name, least)| !is_header(name) || numbers(least).is_none()) {
            return Some("`at_least` has versions by the names of headers, such as `compute 2.10`");
        }
        None
    }
}

/// Whether a version is lower than another of the same thing. What is no version, such as `latest`, is not.
fn is_lower(said: &str, least: &str) -> bool {
    match (numbers(said), numbers(least)) {
        (Some((of, said)), Some((least_of, least))) => of.eq_ignore_ascii_case(least_of) && said < least,
        _ => false,
    }
}

/// What a version is of, and its numbers: `compute 2.10`.
fn numbers(version: &str) -> Option<(&str, Vec<u32>)> {
    let (of, numbers) = version.trim().rsplit_once(' ').unwrap_or(("", version.trim()));
    let numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    Some((of.trim(), numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_raised_where_it_is_lower_and_never_lowered() {
        let least = "compute 2.10".to_owned();
        let owner = Owner {
            member: "/k/user".into(),
            parameter: "user".into(),
            at_least: [("v".into(), least)].into(),
        };
        for (said, raised) in [
            (None, true),
            (Some("compute 2.1"), true),
            (Some("compute 2.9"), true),
            (Some("compute 2.10"), false),
            (Some("compute 2.92"), false),
            (Some("compute 3.0"), false),
            (Some("compute latest"), false),
        ] {
            let versions: Vec<_> = owner.raised(|_| said.map(str::to_owned)).collect();
            assert_eq!(!versions.is_empty(), raised, "{said:?}");
        }
    }

    #[test]
    fn an_owner_that_cannot_be_said_is_refused() {
        for (text, why) in [
            ("{ member = 'user', parameter = 'u' }", "a JSON pointer starts with `/`"),
            ("{ member = '/user', parameter = 'a&b' }", "the `parameter` of an owner"),
            ("{ member = '/user', parameter = 'u', at_least = { v = 'x y' } }", "`at_least` has versions"),
        ] {
            let text = format!(
                "description = 'x'\n[[kinds]]\nname = 'x'\npath = '/x'\nnamed_by = 'body'\nowner = {text}"
            );
            let error = crate::Profile::read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
