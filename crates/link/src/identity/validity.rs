//! When an identity counts, by the dates of its certificate and of the authority that issued it.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::prelude::ASN1Time;

/// A warning comes once so much of a lifetime is left: a third.
const WARNED_SHARE: u32 = 3;

/// From when until when an identity counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub from: SystemTime,
    /// The last moment.
    pub until: SystemTime,
}

/// Whether an identity counts at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It counts, for long.
    Valid,
    /// It counts, and a third of its lifetime or less is left: renew it.
    Expiring,
    /// It counts no more.
    Expired,
    /// It does not count yet: most likely the clock of this machine is wrong.
    NotYetValid,
}

impl Standing {
    /// Whether other sites believe the identity.
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, Standing::Valid | Standing::Expiring)
    }
}

impl Validity {
    /// Whether an identity of these dates counts now.
    #[must_use]
    pub fn standing(&self, now: SystemTime) -> Standing {
        if now < self.from {
            Standing::NotYetValid
        } else if now > self.until {
            Standing::Expired
        } else if now < self.warned_from() {
            Standing::Valid
        } else {
            Standing::Expiring
        }
    }

    /// How long until the standing changes; nothing, once it does not any more.
    #[must_use]
    pub fn changes_in(&self, now: SystemTime) -> Option<Duration> {
        // The last moment still counts: certificates have whole seconds.
        let after = self.until + Duration::from_millis(1);
        let mut moments = [self.from, self.warned_from(), after].into_iter();
        moments.find(|moment| *moment > now)?.duration_since(now).ok()
    }

    /// From when on to warn.
    fn warned_from(&self) -> SystemTime {
        let lifetime = self.until.duration_since(self.from).unwrap_or_default();
        self.until - lifetime / WARNED_SHARE
    }

    /// The same, but no longer than what it depends on.
    pub(super) fn no_longer_than(self, other: Validity) -> Validity {
        Validity { until: self.until.min(other.until), ..self }
    }

    /// Why an identity of these dates does not count now, in words for an operator.
    #[must_use]
    pub fn fault(&self, now: SystemTime) -> Option<String> {
        match self.standing(now) {
            Standing::Valid | Standing::Expiring => None,
            Standing::Expired => Some(format!("this site's identity expired on {}", Date(self.until))),
            Standing::NotYetValid => Some(format!(
                "this site's identity is valid from {} only: check the clock of this machine",
                Date(self.from)
            )),
        }
    }

    /// Until when, as people write it.
    #[must_use]
    pub fn until_date(&self) -> String {
        Date(self.until).to_string()
    }
}

/// A moment as certificates show it.
struct Date(SystemTime);

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match ASN1Time::from_timestamp(i64::try_from(seconds).unwrap_or(i64::MAX)) {
            Ok(time) => time.fmt(f),
            Err(_) => write!(f, "{seconds} s after 1970"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_lifetime_before_its_end_an_identity_is_expiring() {
        let day = Duration::from_hours(24);
        let from = UNIX_EPOCH + 20_000 * day;
        let validity = Validity { from, until: from + 30 * day };
        for (after, standing) in [
            (0, Standing::Valid),
            (19, Standing::Valid),
            (20, Standing::Expiring),
            (30, Standing::Expiring),
            (31, Standing::Expired),
        ] {
            assert_eq!(validity.standing(from + after * day), standing, "after {after} days");
        }
        assert_eq!(validity.standing(from - day), Standing::NotYetValid);
        assert_eq!(validity.changes_in(from - day), Some(day));
        assert_eq!(validity.changes_in(from), Some(20 * day));
        assert_eq!(validity.changes_in(from + 31 * day), None);
        assert!(validity.fault(from + 31 * day).unwrap().contains("expired on"));
    }
}
