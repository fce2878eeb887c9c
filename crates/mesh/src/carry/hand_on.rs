//! Handing a scope on to a service, so that the calls it makes come back with it.

use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderValue;
use http::request::Parts;
use profile::Form;

use super::error::Error;
use super::key::Key;
use super::names::{self, BAGGAGE, KEY_MEMBER, SCOPE_MEMBER, TRACESTATE};
use super::records::Record;
use super::{Carry, members, percent, trace};

/// W3C Trace Context: a `tracestate` has at most 32 members; the oldest, at its end, go first.
const TRACESTATE_MEMBERS: usize = 32;

/// W3C Baggage: what every participant must be able to hand on.
const BAGGAGE_BYTES: usize = 8192;

impl Carry {
    /// Records a request that goes to a service of this site, and puts its key on it. A `Connection` header
    /// must have been obeyed before: it could name the headers that are set here.
    ///
    /// After an error nothing is recorded.
    pub fn hand_on(
        &self,
        parts: &mut Parts,
        record: Record,
        now: Duration,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<Key, Error> {
        let mut nonce = [0; 8];
        random(&mut nonce);
        let scope = record.scope.clone();
        let nonce = self.records.insert(record, u64::from_be_bytes(nonce), now);
        let key = self.secret.key(nonce.map_err(Error::TooManyRecords)?);
        match self.write(&mut parts.headers, key, &scope, random) {
            Ok(()) => Ok(key),
            Err(error) => {
                self.records.forget(key);
                Err(error)
            }
        }
    }

    /// Puts a key on a request that it stands for as well: one of the same sender, with the same scope, as far
    /// from the client.
    pub fn hand_on_again(
        &self,
        parts: &mut Parts,
        key: Key,
        scope: &str,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Error> {
        self.write(&mut parts.headers, key, scope, random)
    }

    fn write(
        &self,
        headers: &mut HeaderMap,
        key: Key,
        scope: &str,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Error> {
        for (name, form) in &self.names.headers {
            // A second spelling would be joined to ours by the service, and make an id that it refuses.
            for spelling in names::spellings(headers, name) {
                headers.remove(spelling);
            }
            let value = HeaderValue::try_from(key.write(*form)).map_err(|_| Error::TooManyHeaders)?;
            headers.try_insert(name.clone(), value).map_err(|_| Error::TooManyHeaders)?;
        }
        let member = [KEY_MEMBER, "=", &key.write(Form::Hex)].concat();
        if self.names.tracestate {
            trace::ensure(headers, random)?;
            members::take(headers, &TRACESTATE, &[KEY_MEMBER], |_| true);
            members::put_first(headers, &TRACESTATE, &member, TRACESTATE_MEMBERS - 1)?;
        }
        if self.names.baggage {
            members::take(headers, &BAGGAGE, &[KEY_MEMBER, SCOPE_MEMBER], |_| true);
            let both = [member.as_str(), ",", SCOPE_MEMBER, "=", &percent::encode(scope)].concat();
            // What is too long for some would be dropped whole: then the key alone goes.
            let fits = members::length(headers, &BAGGAGE) + both.len() <= BAGGAGE_BYTES;
            members::put_first(headers, &BAGGAGE, if fits { &both } else { &member }, usize::MAX)?;
        }
        Ok(())
    }
}
