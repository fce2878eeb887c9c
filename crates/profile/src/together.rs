//! Services that work only with one another's at the same site.

use serde::Deserialize;

/// Services that must be at one site, wherever a scope places more than one of them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Together {
    /// By their canonical names.
    pub services: Vec<String>,
    /// Why, for the client.
    pub because: String,
}

impl Together {
    /// The service that is named, if it is none of the application's.
    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.services.iter().find(|name| !known(name))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let twice =
            |(at, name): (usize, &String)| self.services.iter().skip(at + 1).any(|other| other == name);
        let wrong = self.services.len() < 2 || self.services.iter().enumerate().any(twice);
        wrong.then_some("it names two services or more, each once")
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn services_are_together_with_others_of_the_application() {
        let read = |services: &str| {
            let text = format!(
                "description = 'x'\n[services]\na = []\nb = []\n[[together]]\nservices = [{services}]\nbecause = 'x'"
            );
            Profile::read(&text).map_or_else(|error| error.to_string(), |_| "fine".to_owned())
        };
        assert_eq!(read("'a', 'b'"), "fine");
        assert_eq!(read("'a', 'c'"), "`together` names `c`, which is no service");
        for few in ["'a'", "'a', 'a'", ""] {
            assert_eq!(read(few), "`together`: it names two services or more, each once");
        }
    }
}
