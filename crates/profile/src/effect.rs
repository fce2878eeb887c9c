//! Requests that change nothing, although their methods would: what an application calls a dry run.

use serde::Deserialize;

use crate::elements::decoded;

/// A parameter of the query by which a request asks for nothing to be done.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DryRun {
    /// Of which service. None: any.
    pub(crate) service: Option<String>,
    /// The parameter: `dryRun`.
    parameter: String,
    /// With one of these values. Empty: whatever it has.
    #[serde(default)]
    values: Vec<String>,
}

impl DryRun {
    pub(crate) fn fits(&self, service: &str, query: &str) -> bool {
        let own = self.service.as_ref().is_none_or(|own| own == service);
        let said = |pair: &str| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value);
            decoded(name) == self.parameter && (self.values.is_empty() || self.values.contains(&value))
        };
        own && query.split('&').any(said)
    }

    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|service| !known(service))
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    #[test]
    fn a_dry_run_is_told_by_its_parameter_and_value() {
        let profile = Profile::read(
            "description = 'x'\n[services]\nkube = []\nother = []\n\
             [[dry_runs]]\nservice = 'kube'\nparameter = 'dryRun'\nvalues = ['All']\n\
             [[dry_runs]]\nparameter = 'validate-only'",
        )
        .unwrap();
        for (service, query, dry) in [
            ("kube", "dryRun=All", true),
            ("kube", "a=b&dry%52un=%41ll", true),
            ("kube", "dryRun=", false),
            ("kube", "dryrun=All", false),
            ("other", "dryRun=All", false),
            ("other", "validate-only", true),
            ("other", "validate-only=no", true),
        ] {
            assert_eq!(profile.is_dry_run(service, Some(query)), dry, "{service} {query}");
        }
        assert!(!profile.is_dry_run("kube", None));
        let error = Profile::read(
            "description = 'x'\n[services]\na = []\n[[dry_runs]]\nservice = 'b'\nparameter = 'p'",
        );
        assert!(error.unwrap_err().to_string().contains("`dry_runs` names `b`"));
    }
}
