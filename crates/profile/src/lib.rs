//! What Archipel knows of an application, as data.
//!
//! A profile is a TOML file under `profiles/`, built into the binary. Today it says which services the
//! application has and what else they are called; nothing else in Archipel knows an application by name.

use std::collections::BTreeMap;
use std::fmt;

use scope::Services;
use serde::Deserialize;

/// The profiles that are built in, by name.
const BUILT_IN: [(&str, &str); 2] = [
    ("openstack", include_str!("../profiles/openstack.toml")),
    ("rest", include_str!("../profiles/rest.toml")),
];

/// One application.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The application, in a few words.
    pub description: String,
    /// Its services by their canonical names, each with its aliases. With none, every name is a
    /// service.
    #[serde(default)]
    pub services: BTreeMap<String, Vec<String>>,
}

impl Profile {
    /// A built-in profile by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<Profile> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        // A built-in profile that cannot be read fails the test below.
        Profile::read(text).ok()
    }

    /// The names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Reads a profile, and refuses one in which a name means two services.
    pub fn read(text: &str) -> Result<Profile, Error> {
        let profile: Profile = toml::from_str(text).map_err(|source| Error::Toml(source.to_string()))?;
        let mut owners = BTreeMap::new();
        for (service, aliases) in &profile.services {
            for name in aliases.iter().chain([service]) {
                if let Some(other) = owners.insert(name.to_ascii_lowercase(), service) {
                    return Err(Error::TwoServices {
                        name: name.clone(),
                        services: [other.clone(), service.clone()],
                    });
                }
            }
        }
        Ok(profile)
    }

    /// The services, as the scope language sees them.
    #[must_use]
    pub fn services(&self) -> Services {
        self.services.iter().fold(Services::open(), |services, (name, aliases)| {
            services.with(name, aliases.iter().map(String::as_str))
        })
    }
}

/// Why a profile cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The text is not TOML, or not of a profile's form.
    Toml(String),
    /// A name stands for two services.
    TwoServices {
        /// The name.
        name: String,
        /// The services.
        services: [String; 2],
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Toml(why) => f.write_str(why.trim_end()),
            Error::TwoServices { name, services: [first, second] } => {
                write!(f, "`{name}` means two services, `{first}` and `{second}`")
            }
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_profile_can_be_read() {
        for name in Profile::names() {
            assert!(Profile::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn the_services_of_openstack_go_by_their_project_names_too() {
        let services = Profile::named("openstack").unwrap().services();
        for (alias, service) in [
            ("nova", "compute"),
            ("Glance", "image"),
            ("keystone", "identity"),
            ("neutron", "network"),
            ("PLACEMENT", "placement"),
            ("cinder", "volume"),
            ("swift", "object-store"),
        ] {
            assert_eq!(services.canonical(alias).as_deref(), Some(service));
            assert_eq!(services.canonical(service).as_deref(), Some(service));
        }
        assert_eq!(services.canonical("imge"), None);
    }

    #[test]
    fn any_name_is_a_service_of_a_rest_application() {
        let services = Profile::named("rest").unwrap().services();
        assert_eq!(services.canonical("Shopping-Cart").as_deref(), Some("shopping-cart"));
    }

    #[test]
    fn a_name_for_two_services_is_refused() {
        let text = "description = 'x'\n[services]\nimage = ['store']\nobject = ['Store']";
        let error = Profile::read(text).unwrap_err();
        assert_eq!(error.to_string(), "`Store` means two services, `image` and `object`");
    }

    #[test]
    fn an_unknown_key_is_refused_with_its_line() {
        let error = Profile::read("description = 'x'\nservice = 1").unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("unknown field `service`"), "{error}");
    }
}
