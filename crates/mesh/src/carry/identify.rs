//! Ids for requests that bring none, in `mode = "observe"`: by them it is seen what services hand on.

use http::HeaderMap;
use http::header::{HeaderName, HeaderValue};

use super::names::{self, TRACEPARENT};
use super::{Carry, key, trace};

impl Carry {
    /// Puts an id on a request wherever services hand one on and it has none; nothing that it has is changed. The names of
    /// what was put there.
    ///
    /// No id is a key: it stands for no scope, whatever the mode is when it comes back.
    pub(crate) fn identify(
        &self,
        headers: &mut HeaderMap,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Vec<HeaderName> {
        let mut added = Vec::new();
        // Who hands on `baggage` hands on this too: both are of one library.
        let traced = self.names.tracestate || self.names.baggage;
        if traced && !headers.contains_key(TRACEPARENT) {
            let fresh = HeaderValue::from_bytes(&trace::fresh(random));
            added.extend(fresh.ok().and_then(|value| put(headers, &TRACEPARENT, value)));
        }
        for (name, form) in &self.names.headers {
            if !names::spellings(headers, name).is_empty() {
                continue;
            }
            let mut bits = [0; 16];
            random(&mut bits);
            let value = HeaderValue::try_from(key::write(u128::from_be_bytes(bits), *form));
            added.extend(value.ok().and_then(|value| put(headers, name, value)));
        }
        added
    }
}

/// Sets a header, if there is room for one more.
fn put(headers: &mut HeaderMap, name: &HeaderName, value: HeaderValue) -> Option<HeaderName> {
    headers.try_insert(name.clone(), value).ok()?;
    Some(name.clone())
}
