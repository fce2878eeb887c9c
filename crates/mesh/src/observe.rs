//! `mode = "observe"`: everything is forwarded to this site's own services, and it is written down which calls could be
//! told to belong to which request, by what the application hands on by itself. So an operator learns, before anything is
//! routed, whether scopes would follow. A request that brings no id is given one (`carry/identify.rs`), as a scoped one would
//! be: else nothing of what services hand on would be known.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use http::header::{HeaderMap, HeaderName};
use http::request::Parts;
use profile::Propagation;
use serde_json::{Value, json};

use crate::carry::Listener;

/// Requests of clients that are remembered. The oldest is forgotten for a new one.
const REMEMBERED: usize = 4096;

/// Longer ids are nobody's, and longer paths are cut: what is remembered comes from anyone.
const LONGEST: usize = 256;

/// The requests of clients, and how many calls were told to be theirs.
#[derive(Default)]
pub(crate) struct Observer {
    seen: Mutex<Seen>,
    attributed: AtomicU64,
    unattributed: AtomicU64,
}

#[derive(Default)]
struct Seen {
    requests: HashMap<String, String>,
    order: VecDeque<String>,
}

impl Observer {
    /// What to write down of a request, in which these headers were added.
    pub(crate) fn look(
        &self,
        head: &Parts,
        added: &[HeaderName],
        listener: Listener,
        service: &str,
        propagation: &Propagation,
    ) -> Value {
        let marks = marks(&head.headers, propagation);
        let path: String = head.uri.path().chars().take(LONGEST).collect();
        let what = format!("{} {path} at {service}", head.method);
        if listener == Listener::Public {
            let by: Vec<&str> = marks.iter().map(|(name, _)| name.as_str()).collect();
            let added: Vec<&str> = added.iter().map(HeaderName::as_str).collect();
            let line = json!({ "observed": "request", "request": what, "could_be_recognised_by": by, "added": added });
            self.remember(marks, &what);
            return line;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let found = marks.iter().find_map(|(name, mark)| Some((name, seen.requests.get(mark)?)));
        if let Some((name, request)) = found {
            self.attributed.fetch_add(1, Ordering::Relaxed);
            return json!({ "observed": "call", "call": what, "caused_by": request, "recognised_by": name });
        }
        self.unattributed.fetch_add(1, Ordering::Relaxed);
        let why =
            if marks.is_empty() { "it carries no id" } else { "its ids are those of no client's request" };
        json!({ "observed": "call", "call": what, "caused_by": null, "why": why })
    }

    fn remember(&self, marks: Vec<(String, String)>, what: &str) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, mark) in marks {
            if seen.requests.insert(mark.clone(), what.to_owned()).is_none() {
                seen.order.push_back(mark);
            }
            if seen.order.len() > REMEMBERED
                && let Some(oldest) = seen.order.pop_front()
            {
                seen.requests.remove(&oldest);
            }
        }
    }

    /// How many calls of services could be told to belong to a request, and how many not.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.attributed.load(Ordering::Relaxed), self.unattributed.load(Ordering::Relaxed))
    }
}

/// What an application may hand on, and its value: the trace's id, and the headers that the profile names.
fn marks(headers: &HeaderMap, propagation: &Propagation) -> Vec<(String, String)> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let trace = text("traceparent").and_then(|value| value.split('-').nth(1));
    let trace = trace.map(|id| ("traceparent".to_owned(), format!("traceparent {id}")));
    let named = propagation
        .headers
        .iter()
        .filter_map(|header| Some((header.name.clone(), format!("{} {}", header.name, text(&header.name)?))));
    trace.into_iter().chain(named).filter(|(_, mark)| mark.len() <= LONGEST).collect()
}
