//! Bounds on every wait and every size.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::table::Table;

/// A larger number is a slip of the keyboard: nothing here is counted in billions.
const MOST: usize = 1 << 30;
/// The language is read by recursion, and zones multiply this by four: it stays well inside a stack.
const DEEPEST: usize = 128;

/// How much of each thing there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's or an answer's head.
    pub header_bytes: usize,
    /// Headers of a request or an answer.
    pub headers: usize,
    /// Connections of one listener.
    pub connections: usize,
    /// Requests in flight to this site's own services.
    pub requests: usize,
    /// Requests in flight to one peer: a slow one takes no more.
    pub requests_per_peer: usize,
    /// What one scope may ask for.
    pub scope: scope::Limits,
    /// Recorded scopes of one sender.
    pub records_per_sender: usize,
    /// How long a recorded scope is kept.
    pub record_lifetime: Duration,
    /// Bytes of a request's body that are kept, to send it to a second site if the first fails.
    pub replay_bytes: usize,
    /// Answers without a length that may be kept open, however long they pause.
    pub streams: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            header_bytes: 64 << 10,
            headers: 100,
            connections: 10_000,
            requests: 4096,
            requests_per_peer: 1024,
            scope: scope::Limits::default(),
            records_per_sender: 1024,
            record_lifetime: Duration::from_mins(10),
            replay_bytes: 64 << 10,
            streams: 1024,
        }
    }
}

impl Limits {
    pub(super) fn read(mut table: Table<'_>) -> Limits {
        let default = Limits::default();
        let some: RangeInclusive<usize> = 1..=MOST;
        let mut count = |key, default| table.count(key, some.clone(), default);
        let limits = Limits {
            header_bytes: count("header_bytes", default.header_bytes),
            headers: count("headers", default.headers),
            connections: count("connections", default.connections),
            requests: count("requests", default.requests),
            requests_per_peer: count("requests_per_peer", default.requests_per_peer),
            records_per_sender: count("records_per_sender", default.records_per_sender),
            // None at all is sensible: then each pause of an answer is limited.
            streams: table.count("streams", 0..=MOST, default.streams),
            // Likewise: then no request with a body is sent a second time.
            replay_bytes: table.count("replay_bytes", 0..=MOST, default.replay_bytes),
            scope: scope::Limits {
                text_bytes: table.count("scope_text_bytes", 1..=MOST, default.scope.text_bytes),
                depth: table.count("scope_depth", 1..=DEEPEST, default.scope.depth),
                sites: table.count("scope_sites", 1..=MOST, default.scope.sites),
                steps: table.count("scope_steps", 1..=MOST, default.scope.steps),
            },
            record_lifetime: table.duration("record_lifetime", default.record_lifetime),
        };
        table.finish();
        limits
    }
}

/// How long each thing may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A client's, to send the head of a request.
    pub header: Duration,
    /// A connection's, between requests.
    pub idle: Duration,
    /// To connect, to an upstream or a peer.
    pub connect: Duration,
    /// To the first byte of an answer of this site's own service.
    pub response: Duration,
    /// To the first byte of a peer's answer.
    pub peer_response: Duration,
    /// Between two pieces of a body.
    pub body_idle: Duration,
    /// For requests to finish, once the process was told to stop.
    pub drain: Duration,
    /// To the next site of `A | B`, while the first has not answered.
    pub hedge: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts {
            header: Duration::from_secs(10),
            idle: Duration::from_mins(1),
            connect: Duration::from_secs(2),
            response: Duration::from_mins(1),
            peer_response: Duration::from_mins(1),
            body_idle: Duration::from_mins(1),
            drain: Duration::from_secs(30),
            hedge: Duration::from_millis(100),
        }
    }
}

impl Timeouts {
    pub(super) fn read(mut table: Table<'_>) -> Timeouts {
        let default = Timeouts::default();
        let timeouts = Timeouts {
            header: table.duration("header", default.header),
            idle: table.duration("idle", default.idle),
            connect: table.duration("connect", default.connect),
            response: table.duration("response", default.response),
            peer_response: table.duration("peer_response", default.peer_response),
            body_idle: table.duration("body_idle", default.body_idle),
            drain: table.duration("drain", default.drain),
            hedge: table.duration("hedge", default.hedge),
        };
        table.finish();
        timeouts
    }
}
