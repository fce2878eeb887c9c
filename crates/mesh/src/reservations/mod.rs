//! Reservations of names. A write to `A ^ B` makes what exactly one site has: before it makes a new name, that name is
//! reserved at every site of the group, durably, and for this request alone.
//!
//! The site at which the client entered records the claim first, and keeps it until every site of the group has released
//! the name. It releases it once the outcome of the write is known. In doubt it asks each site of the group what became of
//! the write, and the names stay reserved until all have said so: see `replicas/keeper/reservations.rs`.
//!
//! `claim`: the entry site's end. `reserved`: the end of the site whose service executes the write.

mod claim;
mod reserved;

pub(crate) use claim::{Claim, encode};
pub(crate) use reserved::{execute, read_holder};

use std::fmt;
use std::str::FromStr;

use http::{HeaderName, HeaderValue, StatusCode};
use scope::Site;
use serde::{Deserialize, Serialize};

use crate::problem::Problem;
use crate::replicas::understand::has_dots;

/// The claim that a leg is part of, where its name is reserved.
const HOLDER: HeaderName = HeaderName::from_static("archipel-reservation");

/// The longest name that is reserved.
const MAX_NAME_BYTES: usize = 4 << 10;

/// A request that reserves a name: the site at which it entered, and a random number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Holder {
    pub(crate) site: Site,
    pub(crate) number: u128,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:032x}", self.site, self.number)
    }
}

impl FromStr for Holder {
    type Err = ();

    fn from_str(text: &str) -> Result<Holder, ()> {
        let (site, number) = text.rsplit_once('/').ok_or(())?;
        let number = u128::from_str_radix(number, 16).map_err(|_| ())?;
        Ok(Holder { site: Site::new(site).ok_or(())?, number })
    }
}

impl Holder {
    /// Names the claim in a leg.
    pub(crate) fn write(&self, headers: &mut http::HeaderMap) {
        // The names of sites are printable ASCII.
        if let Ok(value) = HeaderValue::try_from(self.to_string()) {
            headers.insert(HOLDER, value);
        }
    }
}

/// What the entry site asks another of a name, or that one of the entry site. New ones come last: sites of another version
/// know the first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Reserve the name for this claim of the asking site.
    Reserve { name: String, number: u128 },
    /// What became of the write of this claim. From now on none of it is executed.
    Inquire { name: String, number: u128 },
    /// Release the name.
    Release { name: String, number: u128 },
    /// Which of these claims of the asked site are not over.
    AreOpen { numbers: Vec<u128> },
}

/// What a site says to that. New ones come last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// It is reserved for this claim.
    Held,
    /// Another claim has it.
    Taken,
    /// The asking site has as many as it may.
    Full,
    /// Nothing of the write was begun here.
    NotBegun,
    /// It is being executed.
    Running,
    /// The service answered it, or provably never saw it.
    Known,
    /// The service was asked, and gave no answer.
    InDoubt,
    /// It is not reserved for this claim any more.
    Released,
    /// Those that are not over, of those that were named.
    Open(Vec<u128>),
}

/// The name that a request chose: its service and path, in one spelling. `Err`: it cannot be reserved.
pub(crate) fn name_of(service: &str, path: &str) -> Result<String, Problem> {
    let bad = |status, kind, title: &'static str, detail: &'static str| {
        Err(Problem::new(status, kind, title).detail(detail).unsent())
    };
    if has_dots(path) {
        let title = "A name that is reserved has no `.` and no `..` in its path";
        return bad(StatusCode::BAD_REQUEST, "bad-path", title, "write the path out");
    }
    let name = format!("{service}:{}", one_spelling(path.trim_end_matches('/')));
    if name.len() > MAX_NAME_BYTES {
        let title = "The path is too long to be reserved";
        return bad(StatusCode::URI_TOO_LONG, "too-long", title, "4 KiB can be");
    }
    Ok(name)
}

/// Decodes what needs no percent-encoding, and writes the rest of it in capitals (RFC 3986, 6.2.2).
fn one_spelling(path: &str) -> String {
    let mut parts = path.split('%');
    let mut spelt = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (digits, part.get(2..)) {
            (Some(byte), Some(rest)) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                spelt.push(char::from(byte));
                spelt.push_str(rest);
            }
            (Some(byte), Some(rest)) => spelt.push_str(&format!("%{byte:02X}{rest}")),
            _ => {
                spelt.push('%');
                spelt.push_str(part);
            }
        }
    }
    spelt
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_path_is_one_name() {
        let name = |path: &str| name_of("image", path).ok();
        assert_eq!(name("/v2/a-b"), Some("image:/v2/a-b".to_owned()));
        assert_eq!(name("/v2/%61%2db/"), name("/v2/a-b"));
        assert_eq!(name("/v2/a%2fb"), name("/v2/a%2Fb"));
        assert_ne!(name("/v2/a%2fb"), name("/v2/a/b"));
        assert_eq!(name("/50%"), Some("image:/50%".to_owned()));
        assert_eq!(name("/%é"), Some("image:/%é".to_owned()));
        assert_eq!(name("/a/../b"), None);
        assert_eq!(name(&"/a".repeat(3_000)), None);
    }

    #[test]
    fn a_holder_is_read_as_it_is_written() {
        let holder = Holder { site: Site::new("DC 1").unwrap(), number: 7 << 100 };
        assert_eq!(holder.to_string().parse(), Ok(holder));
        for text in ["", "A", "A/", "A/x", "/1"] {
            assert!(text.parse::<Holder>().is_err(), "{text}");
        }
    }
}
