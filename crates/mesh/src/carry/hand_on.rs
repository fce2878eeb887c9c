//! Handing a scope on to a service, so that the calls it makes come back with it.

use std::time::Duration;

use http::HeaderMap;
use http::header::{Entry, HeaderName, HeaderValue};
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

/// A key as it is written on requests, for as many as share it.
#[derive(Clone, Debug)]
pub struct Marks {
    key: Key,
    /// The member of both lists that is the key.
    member: HeaderValue,
    /// The same, and the scope behind it.
    member_and_scope: HeaderValue,
}

impl Marks {
    /// The key of requests with this scope.
    pub fn new(key: Key, scope: &str) -> Result<Marks, Error> {
        let member = [KEY_MEMBER, "=", &key.write(Form::Hex)].concat();
        let both = [&member, ",", SCOPE_MEMBER, "=", &percent::encode(scope)].concat();
        let value = |text: String| HeaderValue::try_from(text).map_err(|_| Error::TooManyHeaders);
        Ok(Marks { key, member: value(member)?, member_and_scope: value(both)? })
    }

    /// The key.
    #[must_use]
    pub fn key(&self) -> Key {
        self.key
    }
}

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
    ) -> Result<Marks, Error> {
        let mut nonce = [0; 8];
        random(&mut nonce);
        let scope = record.scope.clone();
        let nonce = self.records.insert(record, u64::from_be_bytes(nonce), now);
        let key = self.secret.key(nonce.map_err(Error::TooManyRecords)?);
        let written = Marks::new(key, &scope).and_then(|marks| {
            self.hand_on_again(parts, &marks, random)?;
            Ok(marks)
        });
        written.inspect_err(|_| self.records.forget(key))
    }

    /// Puts a key on a request that it stands for as well: one of the same sender, with the same scope, as far
    /// from the client.
    pub fn hand_on_again(
        &self,
        parts: &mut Parts,
        marks: &Marks,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Error> {
        let headers = &mut parts.headers;
        for (name, form) in &self.names.headers {
            // A second spelling would be joined to ours by the service, and make an id that it refuses.
            for spelling in names::spellings(headers, name) {
                headers.remove(spelling);
            }
            let value = HeaderValue::try_from(marks.key.write(*form)).map_err(|_| Error::TooManyHeaders)?;
            headers.try_insert(name.clone(), value).map_err(|_| Error::TooManyHeaders)?;
        }
        if self.names.tracestate {
            trace::ensure(headers, random)?;
            if !put_alone(headers, TRACESTATE, &marks.member)? {
                members::take(headers, &TRACESTATE, &[KEY_MEMBER], |_| true);
                members::put_first(headers, &TRACESTATE, &marks.member, TRACESTATE_MEMBERS - 1)?;
            }
        }
        if self.names.baggage && !put_alone(headers, BAGGAGE, &marks.member_and_scope)? {
            members::take(headers, &BAGGAGE, &[KEY_MEMBER, SCOPE_MEMBER], |_| true);
            // What is too long for some would be dropped whole: then the key alone goes.
            let length = members::length(headers, &BAGGAGE) + marks.member_and_scope.len();
            let fits = length <= BAGGAGE_BYTES;
            let first = if fits { &marks.member_and_scope } else { &marks.member };
            members::put_first(headers, &BAGGAGE, first, usize::MAX)?;
        }
        Ok(())
    }

    /// The `traceparent` that a request gets for the one that it has, if any, when a key is put on it: nothing if
    /// that one stays.
    pub(crate) fn new_trace(
        &self,
        own: Option<&[u8]>,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Option<[u8; 55]> {
        (self.names.tracestate && !own.is_some_and(trace::is_valid)).then(|| trace::fresh(random))
    }
}

/// Sets a list, unless the request has one to which its members must be added.
fn put_alone(headers: &mut HeaderMap, list: HeaderName, first: &HeaderValue) -> Result<bool, Error> {
    if first.len() > BAGGAGE_BYTES {
        return Ok(false);
    }
    match headers.try_entry(list).map_err(|_| Error::TooManyHeaders)? {
        Entry::Occupied(_) => Ok(false),
        Entry::Vacant(free) => {
            free.try_insert(first.clone()).map_err(|_| Error::TooManyHeaders)?;
            Ok(true)
        }
    }
}
