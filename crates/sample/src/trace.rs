//! Trace context, as the W3C and OpenTelemetry have it: what a request brings, its consequences carry.
//!
//! Only `traceparent`, `tracestate` and `baggage` go on. Nothing else that came with a request does.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::id::{hex, random};

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// The context of one incoming request.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    trace: String,
    flags: String,
    state: Vec<HeaderValue>,
    baggage: Vec<HeaderValue>,
}

impl Context {
    /// The context that a request brought; without a `traceparent` that can be read, a new trace.
    ///
    /// Trace state belongs to the `traceparent` beside it and goes away with it; baggage is on its own.
    pub(crate) fn of(headers: &HeaderMap) -> Context {
        let all = |name: &HeaderName| headers.get_all(name).iter().cloned().collect();
        let baggage = all(&BAGGAGE);
        let parent = headers.get(&TRACEPARENT).and_then(|value| value.to_str().ok());
        match parent.and_then(read_parent) {
            Some((trace, flags)) => {
                Context { trace: trace.into(), flags: flags.into(), state: all(&TRACESTATE), baggage }
            }
            None => Context { trace: hex(&random::<16>()), flags: "01".into(), state: Vec::new(), baggage },
        }
    }

    /// Puts the context on an outgoing request: the same trace, and a span of its own.
    pub(crate) fn put(&self, headers: &mut HeaderMap) {
        let span = hex(&random::<8>());
        let parent = format!("00-{}-{span}-{}", self.trace, self.flags);
        headers.insert(TRACEPARENT, parent.try_into().expect("hexadecimal digits and dashes"));
        for value in &self.state {
            headers.append(TRACESTATE, value.clone());
        }
        for value in &self.baggage {
            headers.append(BAGGAGE, value.clone());
        }
    }
}

/// The trace and the flags of a `traceparent`. A later version may say more after what version 00 says.
fn read_parent(text: &str) -> Option<(&str, &str)> {
    let mut parts = text.trim().split('-');
    let version = digits(parts.next()?, 2)?;
    let trace = digits(parts.next()?, 32)?;
    let span = digits(parts.next()?, 16)?;
    let flags = digits(parts.next()?, 2)?;
    let known = version != "ff" && (version != "00" || parts.next().is_none());
    let set = |id: &str| id.bytes().any(|digit| digit != b'0');
    (known && set(trace) && set(span)).then_some((trace, flags))
}

fn digits(text: &str, count: usize) -> Option<&str> {
    let lower_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == count && text.bytes().all(lower_hex)).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    fn passed_on(brought: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in brought {
            headers.append(*name, value.parse().unwrap());
        }
        let mut out = HeaderMap::new();
        Context::of(&headers).put(&mut out);
        out
    }

    #[test]
    fn a_trace_goes_on_with_a_new_span_and_all_that_belongs_to_it() {
        let parent = format!("00-{TRACE}-00f067aa0ba902b7-00");
        let out = passed_on(&[
            ("traceparent", &parent),
            ("tracestate", "a=1"),
            ("tracestate", "b=2"),
            ("baggage", "scope=x"),
            ("x-scope", "image: Site2"),
        ]);
        let sent = out["traceparent"].to_str().unwrap();
        assert!(sent.starts_with(&format!("00-{TRACE}-")) && sent.ends_with("-00"), "{sent}");
        assert_ne!(sent, parent);
        assert_eq!(out.get_all("tracestate").iter().collect::<Vec<_>>(), ["a=1", "b=2"]);
        assert_eq!(out["baggage"], "scope=x");
        assert_eq!(out.len(), 4);
    }

    #[test]
    fn without_a_readable_trace_a_new_one_starts_and_only_baggage_goes_on() {
        let zeros = "0".repeat(32);
        let unreadable = [
            String::from("nonsense"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
        ];
        for parent in &unreadable {
            let out = passed_on(&[("traceparent", parent), ("tracestate", "a=1"), ("baggage", "k=v")]);
            let sent = out["traceparent"].to_str().unwrap();
            assert!(read_parent(sent).is_some() && !sent.contains(TRACE), "{parent} became {sent}");
            assert!(!out.contains_key("tracestate"));
            assert_eq!(out["baggage"], "k=v");
        }
    }
}
