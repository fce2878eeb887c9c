//! Outcomes that come after the answer: a server that was accepted, and finds no host.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::path::Pattern;

/// No id is longer.
const LONGEST_ID: usize = 256;

/// What is made by a request whose answer does not tell yet whether that succeeds. A mesh that is asked to waits for the
/// outcome.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settles {
    /// Whose. None: any service's.
    service: Option<String>,
    #[serde(default = "post")]
    method: String,
    /// The collections: what is made is one segment below.
    paths: Vec<Pattern>,
    /// Of the answers that do not tell yet.
    status: Vec<u16>,
    /// Where such an answer has the id, as a JSON pointer.
    id: String,
    /// Where what was made says how it is.
    state: String,
    /// The states in which it is there to stay.
    done: Vec<String>,
    /// The states in which it has failed.
    failed: Vec<String>,
    /// Where it then says why.
    fault: Option<String>,
    /// Where a request says, by a number or by `true`, that it makes several at once: these cannot be followed.
    #[serde(default)]
    several: Vec<String>,
    /// How soon it is asked; then less and less often.
    #[serde(default = "second", deserialize_with = "duration")]
    pub every: Duration,
    /// How long its outcome is waited for.
    #[serde(default = "five_minutes", deserialize_with = "duration")]
    pub within: Duration,
    /// How long a deletion is waited for.
    #[serde(default = "minute", deserialize_with = "duration")]
    pub gone_within: Duration,
}

/// What became of something that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing yet.
    Pending,
    /// It is there to stay.
    Done,
    /// It failed, for this reason.
    Failed(String),
}

impl Settles {
    pub(crate) fn fits(&self, service: &str, method: &str, path: &str) -> bool {
        self.service.as_deref().is_none_or(|own| own == service)
            && self.method == method
            && self.paths.iter().any(|own| own.fits(path))
    }

    pub(crate) fn stranger(&self, known: impl Fn(&String) -> bool) -> Option<&String> {
        self.service.as_ref().filter(|service| !known(service))
    }

    /// What is wrong with it.
    pub(crate) fn fault(&self) -> Option<&'static str> {
        let pointers = [&self.id, &self.state].into_iter().chain(&self.fault).chain(&self.several);
        if pointers.into_iter().any(|pointer| !pointer.starts_with('/')) {
            return Some("a JSON pointer starts with `/`");
        }
        if self.status.iter().any(|status| !(200..300).contains(status)) {
            return Some("`status` is a list of statuses from 200 to 299");
        }
        if self.done.is_empty() || self.failed.is_empty() {
            return Some("`done` and `failed` are lists of states");
        }
        if matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "DELETE") {
            return Some("`method` is of a request that makes something");
        }
        self.every.is_zero().then_some("`every` is longer than nothing")
    }

    /// Whether an answer with this status does not tell yet.
    #[must_use]
    pub fn follows(&self, status: u16) -> bool {
        self.status.contains(&status)
    }

    /// Whether a request makes several at once, or may: its body cannot be read.
    #[must_use]
    pub fn makes_several(&self, body: &[u8]) -> bool {
        if self.several.is_empty() {
            return false;
        }
        let Ok(document) = serde_json::from_slice::<Value>(body) else { return true };
        self.several.iter().filter_map(|pointer| document.pointer(pointer)).any(|value| match value {
            Value::Bool(several) => *several,
            Value::Number(count) => count.as_u64() != Some(1),
            Value::String(text) => !matches!(text.as_str(), "1" | "" | "false" | "False"),
            Value::Null => false,
            Value::Array(_) | Value::Object(_) => true,
        })
    }

    /// The id of what was made, if it can be a segment of a path as it is.
    #[must_use]
    pub fn id(&self, answer: &[u8]) -> Option<String> {
        let document: Value = serde_json::from_slice(answer).ok()?;
        let id = match document.pointer(&self.id)? {
            Value::String(id) => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => return None,
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        let is_plain = !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(plain);
        (is_plain && !matches!(id.as_str(), "." | "..")).then_some(id)
    }

    /// What it says of itself.
    #[must_use]
    pub fn outcome(&self, answer: &[u8]) -> Outcome {
        let Ok(document) = serde_json::from_slice::<Value>(answer) else { return Outcome::Pending };
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
        let Some(state) = text(&self.state) else { return Outcome::Pending };
        if self.failed.iter().any(|failed| failed == state) {
            let fault = self.fault.as_deref().and_then(text);
            return Outcome::Failed(fault.unwrap_or(state).to_owned());
        }
        if self.done.iter().any(|done| done == state) { Outcome::Done } else { Outcome::Pending }
    }
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    scope::parse_duration(&String::deserialize(deserializer)?).map_err(de::Error::custom)
}

fn post() -> String {
    "POST".to_owned()
}

fn second() -> Duration {
    Duration::from_secs(1)
}

fn minute() -> Duration {
    Duration::from_mins(1)
}

fn five_minutes() -> Duration {
    Duration::from_mins(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Profile;

    #[test]
    fn a_server_of_nova_settles_as_active_or_as_an_error_that_says_why() {
        let profile = Profile::named("openstack").unwrap();
        let rule = profile.settles("compute", "POST", "/compute/v2.1/servers").unwrap();
        assert!(rule.follows(202) && !rule.follows(403));
        let accepted = br#"{"server": {"id": "9168b536-cd40-4630-b43f-b259807c6e87", "adminPass": "x"}}"#;
        assert_eq!(rule.id(accepted).as_deref(), Some("9168b536-cd40-4630-b43f-b259807c6e87"));
        let building = br#"{"server": {"status": "BUILD"}}"#;
        assert_eq!(rule.outcome(building), Outcome::Pending);
        assert_eq!(rule.outcome(br#"{"server": {"status": "ACTIVE"}}"#), Outcome::Done);
        let failed = br#"{"server": {"status": "ERROR", "fault": {"code": 500, "message": "No valid host was found."}}}"#;
        assert_eq!(rule.outcome(failed), Outcome::Failed("No valid host was found.".to_owned()));
        assert_eq!(rule.outcome(b"<html>"), Outcome::Pending);
        for other in [("compute", "GET", "/v2.1/servers"), ("compute", "POST", "/v2.1/servers/1/action")] {
            assert!(profile.settles(other.0, other.1, other.2).is_none());
        }
    }

    #[test]
    fn several_servers_at_once_cannot_be_followed() {
        let profile = Profile::named("openstack").unwrap();
        let rule = profile.settles("compute", "POST", "/v2.1/servers").unwrap();
        for (server, several) in [
            (r#"{"server": {"name": "vm"}}"#, false),
            (r#"{"server": {"min_count": 1, "max_count": 1}}"#, false),
            (r#"{"server": {"min_count": 1, "max_count": 2}}"#, true),
            (r#"{"server": {"max_count": "3"}}"#, true),
            (r#"{"server": {"return_reservation_id": true}}"#, true),
            ("not JSON", true),
        ] {
            assert_eq!(rule.makes_several(server.as_bytes()), several, "{server}");
        }
    }

    #[test]
    fn an_id_that_is_no_plain_segment_is_none() {
        let profile = Profile::named("openstack").unwrap();
        let rule = profile.settles("compute", "POST", "/servers").unwrap();
        for id in ["\"\"", "\"..\"", "\"a/b\"", "\"a?b\"", "\"a%2fb\"", "[1]", "null"] {
            let answer = format!(r#"{{"server": {{"id": {id}}}}}"#);
            assert_eq!(rule.id(answer.as_bytes()), None, "{id}");
        }
        assert_eq!(rule.id(br#"{"server": {"id": 42}}"#).as_deref(), Some("42"));
    }

    #[test]
    fn rules_that_cannot_be_meant_are_refused() {
        let usual = "paths = ['/x']\nstatus = [202]\nid = '/id'\nstate = '/s'\ndone = ['a']\nfailed = ['b']";
        for (rule, why) in [
            (usual.replace("'/id'", "'id'"), "starts with `/`"),
            (usual.replace("202", "404"), "from 200 to 299"),
            (usual.replace("['b']", "[]"), "lists of states"),
            (format!("{usual}\nmethod = 'GET'"), "makes something"),
            (format!("{usual}\nevery = '0s'"), "longer than nothing"),
            (format!("{usual}\nevery = 'often'"), "a duration is digits"),
        ] {
            let error = Profile::read(&format!("description = 'x'\n[[settles]]\n{rule}"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(why), "{rule}: {error}");
        }
    }
}
