//! Whether this site's identity can be used: one answer for `check`, `run` and a reload.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use link::{Identity, Standing};
use scope::Site;
use serde_json::{Value, json};

use crate::config::Link;

/// Anybody of the machine may read or write it.
const EVERYBODY: u32 = 0o006;

const DAY: Duration = Duration::from_hours(24);

/// An identity that is this site's own. It need not count now.
#[derive(Debug)]
pub struct CheckedIdentity {
    /// The identity.
    pub identity: Arc<Identity>,
    /// The key, if everybody may read it.
    open_key: Option<String>,
}

/// Reads the identity of a site, and refuses what no other site would ever believe to be this one. An identity that is out
/// of its dates is none of that: the site serves its own clients without the others.
pub fn check(link: &Link, site: &Site) -> Result<CheckedIdentity, String> {
    let identity = Identity::load_of_any_date(&link.identity).map_err(|error| error.to_string())?;
    if identity.site() != site.name() {
        return Err(format!(
            "the identity in `{}` is that of `{}`, not of `{site}`: `archipel init` makes one",
            link.identity.display(),
            identity.site(),
        ));
    }
    let key = link.key();
    let open_key = is_open(&key).then(|| key.display().to_string());
    Ok(CheckedIdentity { identity: Arc::new(identity), open_key })
}

fn is_open(key: &Path) -> bool {
    std::fs::metadata(key).is_ok_and(|about| about.permissions().mode() & EVERYBODY != 0)
}

impl CheckedIdentity {
    /// Why the link is closed at a moment, if it is.
    #[must_use]
    pub fn closed(&self, now: SystemTime) -> Option<String> {
        self.identity.validity().fault(now)
    }

    /// What an operator should see to.
    #[must_use]
    pub fn warnings(&self, now: SystemTime) -> Vec<String> {
        let mut warnings = Vec::new();
        let validity = self.identity.validity();
        if let Some(why) = self.closed(now) {
            let local = "the link to other sites is closed, and this site serves its own clients alone";
            let renew = match validity.standing(now) {
                Standing::Expired => ". Renew it: `archipel renew --help`",
                _ => "",
            };
            warnings.push(format!("{why}: {local}{renew}"));
        } else if validity.standing(now) == Standing::Expiring {
            let left = validity.until.duration_since(now).unwrap_or_default();
            warnings.push(format!(
                "this site's identity expires on {}, in {}. Renew it: `archipel renew --help`",
                validity.until_date(),
                Left(left)
            ));
        }
        if let Some(key) = &self.open_key {
            warnings.push(format!(
                "everybody on this machine can read the key `{key}`, and so be this site: `chmod 600 {key}`; if somebody \
                 may have, revoke it and make the site anew"
            ));
        }
        warnings
    }
}

/// A time that is left, in the unit that people use for it.
struct Left(Duration);

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        for (unit, length) in [("days", DAY.as_secs()), ("hours", 3600), ("minutes", 60)] {
            if seconds >= 2 * length {
                return write!(f, "{} {unit}", seconds / length);
            }
        }
        write!(f, "{seconds} seconds")
    }
}

/// The identity that is in force. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct IdentityInForce(Arc<RwLock<Option<Arc<CheckedIdentity>>>>);

impl IdentityInForce {
    /// Takes on another one, or none where there is no link.
    pub fn set(&self, identity: Option<Arc<CheckedIdentity>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = identity;
    }

    /// The one that is in force; nothing without a link.
    #[must_use]
    pub fn get(&self) -> Option<Arc<CheckedIdentity>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How the link is, as `GET /v1/status` shows it.
    #[must_use]
    pub fn status(&self, now: SystemTime) -> Value {
        let Some(own) = self.get() else { return json!({ "state": "none", "warnings": [] }) };
        let (validity, closed) = (own.identity.validity(), own.closed(now));
        json!({
            "state": if closed.is_some() { "closed" } else { "open" },
            "why": closed,
            "valid_until": validity.until_date(),
            "valid_for_seconds": validity.until.duration_since(now).map_or(0, |left| left.as_secs()),
            "warnings": own.warnings(now),
        })
    }

    /// The same, in the text format of Prometheus.
    #[must_use]
    pub fn metrics(&self, now: SystemTime) -> String {
        let Some(own) = self.get() else { return String::new() };
        let validity = own.identity.validity();
        let until = validity.until.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let closed = u8::from(own.closed(now).is_some());
        let expiring = u8::from(validity.standing(now) == Standing::Expiring);
        let gauge = |name: &str, help: &str, value: &dyn fmt::Display| {
            format!("# HELP archipel_{name} {help}\n# TYPE archipel_{name} gauge\narchipel_{name} {value}\n")
        };
        gauge("identity_expires_timestamp_seconds", "When this site's identity expires.", &until)
            + &gauge("identity_expiring", "A third of the identity's lifetime or less is left.", &expiring)
            + &gauge(
                "link_closed",
                "This site's identity is out of its dates: no other site believes it.",
                &closed,
            )
    }
}

/// Tells in the log what becomes of the identity: when its standing changes, and once a day while it is to be seen to.
#[derive(Debug)]
pub struct IdentityLog {
    identity: IdentityInForce,
    told: Vec<String>,
    closed: bool,
    again: SystemTime,
}

impl IdentityLog {
    /// Tells of this.
    #[must_use]
    pub fn new(identity: IdentityInForce) -> IdentityLog {
        IdentityLog { identity, told: Vec::new(), closed: false, again: SystemTime::UNIX_EPOCH }
    }

    /// What is new at a moment.
    pub fn news(&mut self, now: SystemTime) -> Vec<String> {
        let own = self.identity.get();
        let closed = own.as_ref().is_some_and(|own| own.closed(now).is_some());
        let mut lines = Vec::new();
        if std::mem::replace(&mut self.closed, closed) && !closed {
            lines.push("this site's identity counts again: the link to other sites is open".to_owned());
        }
        let warnings = own.map(|own| own.warnings(now)).unwrap_or_default();
        // What is left grows less from one look to the next, and is no news.
        let kinds = warnings.iter().map(|line| line.chars().take_while(|c| *c != ',').collect()).collect();
        if self.told != kinds || (now >= self.again && !warnings.is_empty()) {
            self.told = kinds;
            self.again = now + DAY;
            lines.extend(warnings.into_iter().map(|line| format!("warning: {line}")));
        }
        lines
    }

    /// How long nothing changes.
    #[must_use]
    pub fn rest(&self, now: SystemTime) -> Duration {
        /// A clock may be set meanwhile.
        const LONGEST: Duration = Duration::from_mins(10);
        let own = self.identity.get();
        let change = own.and_then(|own| own.identity.validity().changes_in(now));
        change.map_or(LONGEST, |change| change.min(LONGEST))
    }
}
