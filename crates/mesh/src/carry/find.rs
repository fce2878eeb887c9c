//! Finding the scope that a request carries, and taking it out of the request.

use std::time::Duration;

use http::HeaderMap;
use http::request::Parts;
use profile::Form;

use crate::headers::drop_peers_only;

use super::error::{Carrier, Error, Fault};
use super::key::Key;
use super::names::{self, BAGGAGE, KEY_MEMBER, SCOPE_MEMBER, TRACESTATE, X_SCOPE};
use super::records::Record;
use super::{Carry, members, path, percent};

/// Who can reach a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listener {
    /// Anybody: a key that a client sends is not honoured.
    Public,
    /// The site's own services.
    Internal,
}

/// Where a request came in.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Who can reach the listener.
    pub listener: Listener,
    /// The scope that its configuration gives to a request without one.
    pub default: Option<&'a str>,
}

/// What a request carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// No scope.
    Nothing,
    /// A scope, not parsed yet. If it is empty the request has none, and no default either: its sender
    /// said so.
    Written {
        /// Its text.
        text: String,
        /// Where it was written.
        carrier: Carrier,
    },
    /// A key of ours: the request was caused by the one that was recorded.
    Caused(Record),
}

impl Carry {
    /// Finds the scope of a request and takes out of it all that carried one. First found wins: `X-Scope`,
    /// the prefix of the path, a key of ours, `scope` in `baggage`, the listener's default.
    ///
    /// A key wins over `baggage` because its record also knows where the client entered, and how far the
    /// request has come since. An id in a key's place that is not ours stays: it is somebody else's.
    ///
    /// After an error the request may have lost some of its headers: it is not to be forwarded.
    pub fn find(&self, parts: &mut Parts, entry: &Entry<'_>, now: Duration) -> Result<Found, Error> {
        drop_peers_only(&mut parts.headers);
        // All of them are taken out, also those behind the one that wins.
        let present = Present::among(&parts.headers);
        let header = if present.scope { take_header(&mut parts.headers)? } else { None };
        let path = path::take(&mut parts.uri)?;
        let key = self.take_keys(&mut parts.headers, &present, entry.listener);
        let baggage = if present.baggage { take_baggage(&mut parts.headers) } else { None };

        let written = |text, carrier| Ok(Found::Written { text, carrier });
        if let Some(text) = header {
            return written(text, Carrier::Header);
        }
        if let Some(text) = path {
            return written(text, Carrier::Path);
        }
        if let Some(key) = key {
            let record = self.records.get(key, now).ok_or(Error::ScopeLost)?;
            let yours = self.may_be_caused(&record, &parts.headers, now);
            return if yours { Ok(Found::Caused(record)) } else { Err(Error::NotYours) };
        }
        if let Some(text) = baggage {
            let text = text.map_err(|fault| Error::Malformed { carrier: Carrier::Baggage, fault })?;
            return written(text, Carrier::Baggage);
        }
        match entry.default {
            Some(text) => written(text.to_owned(), Carrier::Default),
            None => Ok(Found::Nothing),
        }
    }

    /// Takes out every key of ours, and returns the first if it is to be honoured.
    fn take_keys(&self, headers: &mut HeaderMap, present: &Present, listener: Listener) -> Option<Key> {
        let mut first = None;
        for (name, form) in &self.names.headers {
            for spelling in names::spellings(headers, name) {
                let ours = |value: &http::HeaderValue| self.secret.read(*form, value.as_bytes());
                if let Some(key) = headers.get_all(&spelling).iter().find_map(ours) {
                    first.get_or_insert(key);
                    headers.remove(spelling);
                }
            }
        }
        let tracestate = (&TRACESTATE, self.names.tracestate && present.tracestate);
        for (list, used) in [tracestate, (&BAGGAGE, self.names.baggage && present.baggage)] {
            if used {
                members::take(headers, list, &[KEY_MEMBER], |value| {
                    let key = self.secret.read(Form::Hex, value);
                    first = first.or(key);
                    // The name is ours: from the public, whatever it holds has no business there. Behind,
                    // it can be the key of another site.
                    key.is_some() || listener == Listener::Public
                });
            }
        }
        first.filter(|_| listener == Listener::Internal)
    }
}

/// Which of the headers that carry anything a request has: most have none, and one look at all headers
/// costs less than to look for each.
struct Present {
    scope: bool,
    tracestate: bool,
    baggage: bool,
}

impl Present {
    fn among(headers: &HeaderMap) -> Present {
        let mut present = Present { scope: false, tracestate: false, baggage: false };
        for name in headers.keys() {
            match name.as_str() {
                "x-scope" => present.scope = true,
                "tracestate" => present.tracestate = true,
                "baggage" => present.baggage = true,
                _ => {}
            }
        }
        present
    }
}

fn take_header(headers: &mut HeaderMap) -> Result<Option<String>, Error> {
    let malformed = |fault| Error::Malformed { carrier: Carrier::Header, fault };
    let mut values = headers.get_all(X_SCOPE).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(malformed(Fault::Twice));
    }
    let text = std::str::from_utf8(value.as_bytes()).map_err(|_| malformed(Fault::Utf8))?.to_owned();
    headers.remove(X_SCOPE);
    Ok(Some(text))
}

/// A scope in `baggage` is a fault only where it is used: hence the result inside.
fn take_baggage(headers: &mut HeaderMap) -> Option<Result<String, Fault>> {
    let mut found: Option<Result<String, Fault>> = None;
    members::take(headers, &BAGGAGE, &[SCOPE_MEMBER], |value| {
        let text = percent::decode_form(value);
        found = Some(match found.take() {
            // Libraries that merge baggage may repeat a member: that is no second scope.
            Some(first) if first != text => Err(Fault::Twice),
            _ => text,
        });
        true
    });
    found
}
