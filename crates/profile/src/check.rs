//! Every fault of a profile that can be found, each with its place in the text: for people who write one.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use crate::elements::is_alike;
use crate::path::Pattern;
use crate::{Error, Kind, Profile, Totals};

/// One thing that is wrong with a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileFault {
    /// Where it stands, in bytes.
    pub at: Range<usize>,
    /// What is wrong, in one line.
    pub message: String,
}

/// All that is wrong with a profile, in the order of the text; nothing, if it can be used.
#[must_use]
pub fn faults(text: &str) -> Vec<ProfileFault> {
    let (root, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let fault = |error: &toml::de::Error| ProfileFault {
            at: error.span().unwrap_or(0..0),
            message: format!("this is not TOML: {}", error.message()),
        };
        return errors.iter().map(fault).collect();
    }
    let profile = match toml::from_str::<Profile>(text) {
        Ok(profile) => profile,
        // Of keys and types, one at a time: what a key that is unknown was meant to be is not known.
        Err(error) => {
            let message = error.message().to_owned();
            return vec![ProfileFault { at: error.span().unwrap_or(0..0), message }];
        }
    };
    let mut found = Found { root: root.get_ref(), faults: Vec::new() };
    found.meanings(&profile);
    found.faults.sort_by_key(|fault| fault.at.start);
    // What reads a profile for use has the last word.
    if let (true, Err(error)) = (found.faults.is_empty(), Profile::read(text)) {
        let at = found.place_of(&error);
        found.faults.push(ProfileFault { at, message: error.to_string() });
    }
    found.faults
}

/// The paths of a service that a profile speaks of, for who compares it with the service.
impl Profile {
    /// Where it says that lists are, as far as that is one path each.
    #[must_use]
    pub fn list_paths(&self, service: &str) -> Vec<String> {
        concrete(self.lists.paths(service))
    }

    /// The documents whose numbers are summed, each with its path.
    pub fn total_paths<'p>(&'p self, service: &'p str) -> impl Iterator<Item = (String, &'p Totals)> {
        let own = self.totals.iter().filter(|totals| totals.is_of(service));
        own.flat_map(|totals| concrete(totals.paths()).into_iter().map(move |path| (path, totals)))
    }

    /// The kinds that can be replicated, each with the path of its collection, as far as that is one.
    pub fn kind_paths<'p>(
        &'p self,
        service: &'p str,
    ) -> impl Iterator<Item = (&'p Kind, Option<String>)> + use<'p> {
        let own = self.kinds.0.iter().filter(move |kind| kind.replicated && kind.is_of(service));
        own.map(|kind| (kind, kind.path().concrete()))
    }
}

fn concrete<'p>(patterns: impl Iterator<Item = &'p Pattern>) -> Vec<String> {
    patterns.filter_map(Pattern::concrete).collect()
}

impl Kind {
    /// A path below a resource that is written and looks like a member of its document, of which the profile says nothing.
    #[must_use]
    pub fn alike_below(&self, member: &str) -> Option<String> {
        let said = |path: &String| {
            self.apart.contains(path) || self.elements.iter().any(|elements| elements.below == *path)
        };
        self.written_below().into_iter().find(|path| is_alike(path, member) && !said(path))
    }
}

struct Found<'t> {
    root: &'t DeTable<'t>,
    faults: Vec<ProfileFault>,
}

impl Found<'_> {
    /// What is wrong with each part by itself, and with the names of services in it.
    fn meanings(&mut self, profile: &Profile) {
        let known = |name: &String| profile.services.is_empty() || profile.services.contains_key(name);
        let strangers: [(&'static str, Vec<Option<&String>>); 6] = [
            ("kinds", profile.kinds.0.iter().map(|own| own.stranger(known)).collect()),
            ("fails", profile.fails.iter().map(|own| own.stranger(known)).collect()),
            ("settles", profile.settles.iter().map(|own| own.stranger(known)).collect()),
            ("totals", profile.totals.iter().map(|own| own.stranger(known)).collect()),
            ("dry_runs", profile.dry_runs.iter().map(|own| own.stranger(known)).collect()),
            ("together", profile.together.iter().map(|own| own.stranger(known)).collect()),
        ];
        for (part, names) in strangers {
            for (index, name) in names.into_iter().enumerate() {
                let Some(name) = name else { continue };
                let error = Error::NoService { part, name: name.clone() };
                let key = if part == "together" { "services" } else { "service" };
                self.note(self.item(part, index, key), error.to_string());
            }
        }
        for (index, own) in profile.kinds.0.iter().enumerate() {
            if let Some(why) = own.fault() {
                let error = Error::Kind { name: own.name.clone(), why };
                self.note(self.item("kinds", index, "name"), error.to_string());
            }
        }
        for (index, own) in profile.fails.iter().enumerate() {
            if let Some(why) = own.fault() {
                self.note(self.item("fails", index, "status"), Error::Fails { why }.to_string());
            }
        }
        for (index, own) in profile.settles.iter().enumerate() {
            if let Some(why) = own.fault() {
                self.note(self.item("settles", index, "id"), Error::Settles { why }.to_string());
            }
        }
        for (index, own) in profile.together.iter().enumerate() {
            if let Some(why) = own.fault() {
                self.note(self.item("together", index, "services"), Error::Together { why }.to_string());
            }
        }
    }

    fn note(&mut self, at: Range<usize>, message: String) {
        self.faults.push(ProfileFault { at, message });
    }

    /// Where the item of a list of tables stands: the value of one of its keys, or else the whole.
    fn item(&self, part: &str, index: usize, key: &str) -> Range<usize> {
        let Some(item) = self.array(part).and_then(|items| items.get(index)) else { return self.part(part) };
        let value = item.get_ref().as_table().and_then(|table| table.get(key));
        value.map_or_else(|| item.span(), Spanned::span)
    }

    fn array(&self, part: &str) -> Option<&DeArray<'_>> {
        self.root.get(part)?.get_ref().as_array()
    }

    /// Where a part of the file begins.
    fn part(&self, part: &str) -> Range<usize> {
        let key = self.root.keys().find(|key| key.get_ref() == part);
        key.map_or(0..0, Spanned::span)
    }

    /// Where to point for an error that has no other place.
    fn place_of(&self, error: &Error) -> Range<usize> {
        match error {
            Error::Toml(_) => 0..0,
            Error::TwoServices { name, .. } | Error::Header { name, .. } => {
                self.text_of(name).unwrap_or_else(|| self.part("services"))
            }
            Error::Lists { .. } => self.part("lists"),
            Error::Fails { .. } => self.part("fails"),
            Error::Together { .. } => self.part("together"),
            Error::Settles { .. } => self.part("settles"),
            Error::Kind { .. } => self.part("kinds"),
            Error::Identity { .. } => self.part("identity"),
            Error::NoService { part, name } => self.text_of(name).unwrap_or_else(|| self.part(part)),
        }
    }

    /// Where a text stands as a value, the last time.
    fn text_of(&self, text: &str) -> Option<Range<usize>> {
        let mut open: Vec<&Spanned<DeValue<'_>>> = self.root.values().collect();
        let mut found: Option<Range<usize>> = None;
        while let Some(value) = open.pop() {
            match value.get_ref() {
                DeValue::String(own) if own == text => {
                    let later = found.as_ref().is_none_or(|found| found.start < value.span().start);
                    if later {
                        found = Some(value.span());
                    }
                }
                DeValue::Array(items) => open.extend(items.iter()),
                DeValue::Table(members) => open.extend(members.values()),
                _ => {}
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each fault with its line.
    fn lines(text: &str) -> Vec<(usize, String)> {
        let line = |at: usize| text.get(..at).unwrap_or_default().matches('\n').count() + 1;
        faults(text).into_iter().map(|fault| (line(fault.at.start), fault.message)).collect()
    }

    #[test]
    fn every_fault_has_its_line() {
        let text = "description = 'x'\n[services]\nimage = []\n[[fails]]\nstatus = [200]\n[[kinds]]\nname = 'a'\n\
                    service = 'imge'\npath = '/a'\n[[kinds]]\nname = 'b'\npath = '/b'\nunnamed = ['auto']\n";
        let found = lines(text);
        let numbers: Vec<usize> = found.iter().map(|(line, _)| *line).collect();
        assert_eq!(numbers, [5, 8, 11], "{found:?}");
        for (text, line, why) in [
            ("description = 'x'\nservice = 1", 2, "unknown field `service`"),
            ("description = 'x'\n[lists]\ntag = 7", 3, "invalid type"),
            ("description = 'x'\n[lists]\ntag = ''", 2, "a member has no name"),
            ("description = 'x'\n[propagation]\nsender = ['X Id']", 3, "is not the name of a header"),
            ("description = 'x'\n[services]\na = ['s']\nb = ['s']", 4, "means two services"),
            ("description = 'x'\n[origin]\nservices = ['a']\n[services]\nb = []", 3, "which is no service"),
            ("description = 'x'\nx = [", 2, "this is not TOML"),
        ] {
            let found = lines(text);
            let [(at, message)] = &found[..] else { panic!("{text}: {found:?}") };
            assert_eq!(*at, line, "{text}: {message}");
            assert!(message.contains(why), "{text}: {message}");
        }
    }

    #[test]
    fn a_profile_that_can_be_used_has_no_fault() {
        for (name, text) in crate::BUILT_IN {
            assert_eq!(faults(text), [], "{name}");
        }
    }
}
