//! Answers that are failures although their status alone does not say so: a quota that is used up.

use serde::Deserialize;
use serde_json::Value;

use crate::lists::List;
use crate::path::Pattern;

/// Answers that are failures.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fails {
    /// Whose. None: any service's.
    service: Option<String>,
    /// To which requests. None: to any.
    #[serde(default)]
    methods: Vec<String>,
    #[serde(default)]
    paths: Vec<Pattern>,
    status: Vec<u16>,
    /// What the body says, where that tells such an answer from others with the same status.
    says: Option<Says>,
    /// It proves that a write had no effect. Without, it is a failure of reads only.
    #[serde(default)]
    no_effect: bool,
}

/// What a body must say.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Says {
    /// Where in a JSON body, as a JSON pointer. Without, the body is any text.
    at: Option<String>,
    /// The text there.
    is: Option<String>,
    /// A part of it.
    contains: Option<String>,
}

impl Fails {
    pub(crate) fn fits(&self, service: &str, method: &str, path: &str) -> bool {
        self.service.as_deref().is_none_or(|own| own == service)
            && (self.methods.is_empty() || self.methods.iter().any(|own| own == method))
            && (self.paths.is_empty() || self.paths.iter().any(|own| own.fits(path)))
    }

    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|service| !known(service))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        if self.status.is_empty() || self.status.iter().any(|status| !(400..600).contains(status)) {
            return Some("`status` is a list of statuses from 400 to 599");
        }
        let says = self.says.as_ref()?;
        match (&says.at, &says.is, &says.contains) {
            (Some(at), _, _) if !at.starts_with('/') => Some("a JSON pointer starts with `/`"),
            (None, Some(_), _) => Some("`is` needs `at`, the place of a text in a JSON body"),
            (_, None, None) => Some("`says` needs `is` or `contains`"),
            _ => None,
        }
    }
}

impl Says {
    fn are_in(&self, body: &[u8]) -> bool {
        let Some(at) = &self.at else {
            let part = self.contains.as_deref().unwrap_or_default().as_bytes();
            return part.is_empty() || body.windows(part.len()).any(|window| window == part);
        };
        let Ok(document) = serde_json::from_slice::<Value>(body) else { return false };
        let Some(text) = document.pointer(at).and_then(Value::as_str) else { return false };
        self.is.as_ref().is_none_or(|whole| text == whole)
            && self.contains.as_ref().is_none_or(|part| text.contains(part.as_str()))
    }
}

/// What is said of the answers to one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judge {
    rules: Vec<Fails>,
    /// The list that the request looks something up in.
    looked_up: Option<Box<List>>,
}

impl Judge {
    pub(crate) fn of<'f>(rules: impl Iterator<Item = &'f Fails>, looked_up: Option<List>) -> Option<Judge> {
        let rules: Vec<Fails> = rules.cloned().collect();
        let looked_up = looked_up.map(Box::new);
        (!rules.is_empty() || looked_up.is_some()).then_some(Judge { rules, looked_up })
    }

    fn with(&self, status: u16) -> impl Iterator<Item = &Fails> {
        self.rules.iter().filter(move |rule| rule.status.contains(&status))
    }

    /// Whether any answer is told by its body.
    #[must_use]
    pub fn reads_bodies(&self) -> bool {
        self.looked_up.is_some() || self.rules.iter().any(|rule| rule.says.is_some())
    }

    /// Whether the body is needed to judge an answer with this status.
    #[must_use]
    pub fn needs_body(&self, status: u16) -> bool {
        self.looks_up(status) || self.with(status).any(|rule| rule.says.is_some())
    }

    fn looks_up(&self, status: u16) -> bool {
        self.looked_up.is_some() && status == 200
    }

    /// Whether an answer says that there is nothing of what was looked up.
    #[must_use]
    pub fn finds_nothing(&self, status: u16, body: Option<&[u8]>) -> bool {
        let list = self.looked_up.as_ref().filter(|_| self.looks_up(status));
        list.zip(body).is_some_and(|(list, body)| list.is_empty(body))
    }

    /// Whether an answer is a failure, and then whether it proves that a write had no effect. Where there is no
    /// body, or it is not known as a whole, nothing is told by it.
    #[must_use]
    pub fn fails(&self, status: u16, body: Option<&[u8]>) -> Option<bool> {
        let so = |rule: &&Fails| match &rule.says {
            None => true,
            Some(says) => body.is_some_and(|body| says.are_in(body)),
        };
        self.with(status).filter(so).map(|rule| rule.no_effect).max()
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    /// What the profile of OpenStack says of an answer.
    fn said(service: &str, request: &str, status: u16, body: &str) -> Option<bool> {
        let (method, path) = request.split_once(' ').unwrap();
        let judge = Profile::named("openstack").unwrap().judge(service, method, path, None)?;
        judge.fails(status, Some(body.as_bytes()))
    }

    #[test]
    fn quotas_of_openstack_are_failures_without_effect() {
        let nova = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 10 of 10 instances"}}"#;
        let ports = r#"{"forbidden": {"code": 403, "message": "Maximum number of ports exceeded"}}"#;
        let neutron = r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['network'].", "detail": ""}}"#;
        let cinder = r#"{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: Maximum number of volumes allowed (10) exceeded for quota 'volumes'.", "retryAfter": "0"}}"#;
        for (service, request, status, body) in [
            ("compute", "POST /v2.1/servers", 403, nova),
            ("compute", "POST /compute/v2.1/servers", 403, ports),
            ("network", "POST /v2.0/networks", 409, neutron),
            ("network", "POST /networking/v2.0/ports", 409, neutron),
            ("volume", "POST /v3/5f0c/volumes", 413, cinder),
            ("image", "POST /v2/images", 413, "<html><title>413 Request Entity Too Large</title></html>"),
        ] {
            assert_eq!(said(service, request, status, body), Some(true), "{request}");
        }
    }

    #[test]
    fn a_refusal_that_is_no_quota_stays_the_answer() {
        let policy = r#"{"forbidden": {"code": 403, "message": "Policy doesn't allow os_compute_api:servers:create to be performed."}}"#;
        let in_use = r#"{"NeutronError": {"type": "IpAddressInUse", "message": "Quota exceeded for nobody", "detail": ""}}"#;
        for (service, request, status, body) in [
            ("compute", "POST /v2.1/servers", 403, policy),
            ("compute", "POST /v2.1/servers", 403, ""),
            ("compute", "POST /v2.1/servers", 409, "Quota exceeded"),
            ("network", "POST /v2.0/ports", 409, in_use),
            ("identity", "POST /v3/users", 403, "Quota exceeded"),
            ("image", "PUT /v2/images/7f/file", 413, ""),
        ] {
            assert_eq!(said(service, request, status, body), None, "{request} {body}");
        }
    }

    #[test]
    fn what_a_body_must_say_is_not_guessed_where_there_is_none() {
        let judge =
            Profile::named("openstack").unwrap().judge("compute", "POST", "/v2.1/servers", None).unwrap();
        assert!(judge.needs_body(403) && !judge.needs_body(202));
        assert_eq!(judge.fails(403, None), None);
    }

    #[test]
    fn rules_that_cannot_be_meant_are_refused() {
        for (rule, why) in [
            ("status = []", "`status` is a list"),
            ("status = [200]", "`status` is a list"),
            ("status = [403]\nsays = {}", "needs `is` or `contains`"),
            ("status = [403]\nsays = { is = 'x' }", "`is` needs `at`"),
            ("status = [403]\nsays = { at = 'x', is = 'x' }", "starts with `/`"),
            ("status = [403]\nbody = 'x'", "unknown field `body`"),
            ("status = [403]\nservice = 'y'", "names `y`, which is no service"),
        ] {
            let text = format!("description = 'x'\n[services]\nz = []\n[[fails]]\n{rule}");
            let error = Profile::read(&text).unwrap_err().to_string();
            assert!(error.contains(why), "{rule}: {error}");
        }
    }
}
