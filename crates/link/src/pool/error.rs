//! Why a request got no answer, and what that proves.

use std::error::Error;
use std::fmt;

use crate::BoxError;

/// A request got no answer.
#[derive(Debug)]
pub struct SendError {
    /// Whether the peer's application can have seen the request.
    pub sent: Sent,
    /// What happened.
    pub kind: Kind,
    site: String,
    source: Option<BoxError>,
}

/// Whether the peer's application can have seen a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It has not, and there is a proof: the request may go elsewhere.
    No,
    /// Nobody can tell. A write must not be repeated.
    Maybe,
}

/// What happened to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No peer has this name.
    UnknownSite,
    /// The request cannot be carried.
    Invalid,
    /// The peer has as many requests in flight as it may.
    TooMany,
    /// There is no connection, and none could be made.
    Unreachable,
    /// This site's own identity is out of its dates: it connects to nobody.
    Closed,
    /// The peer did not answer in time: to a handshake (never sent), or to a ping.
    Timeout,
    /// The peer refused the request before it looked at it.
    Refused,
    /// The connection or the stream was cut.
    Reset,
    /// The request's own body failed.
    Body,
}

impl SendError {
    /// Proof: what fails with this never left. For what happened before the request was handed to a
    /// connection, or to one that handed it back.
    pub(super) fn unsent(kind: Kind, site: &str) -> SendError {
        SendError { sent: Sent::No, kind, site: site.to_owned(), source: None }
    }

    pub(super) fn because(mut self, source: impl Into<BoxError>) -> SendError {
        self.source = Some(source.into());
        self
    }

    /// For a request that a connection took and did not hand back. It counts as seen, but for two cases
    /// in which the peer itself says that it was not; see [`refused`].
    pub(super) fn after_dispatch(error: hyper::Error, site: &str, body_failed: bool) -> SendError {
        let (sent, kind) = match find_h2(&error) {
            Some(cause) if refused(cause) => (Sent::No, Kind::Refused),
            _ if body_failed => (Sent::Maybe, Kind::Body),
            _ if error.is_timeout() => (Sent::Maybe, Kind::Timeout),
            _ => (Sent::Maybe, Kind::Reset),
        };
        SendError { sent, kind, site: site.to_owned(), source: Some(error.into()) }
    }

    /// The site to which the request should have gone.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.site
    }
}

fn find_h2(error: &hyper::Error) -> Option<&h2::Error> {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref() {
            return Some(error);
        }
        source = error.source();
    }
    None
}

/// Whether the peer says that its application never saw the stream. RFC 9113, section 8.7, has two ways:
///
/// - `RST_STREAM` with `REFUSED_STREAM`. Our server sends it only when h2 turns a stream away before
///   hyper sees it: services do not fail, and what fails in their bodies is opaque (`opaque` in `server`).
/// - `GOAWAY` with a last stream below this one. h2 gives a remote `GOAWAY` as a *stream's* error to the
///   streams above the last one only (`recv_go_away`), and to those that it never opened; those below
///   go on, and if the connection then ends they get an I/O error.
///
/// Only what came in a frame counts: the same reasons made up on this side prove nothing.
fn refused(error: &h2::Error) -> bool {
    error.is_remote()
        && (error.is_go_away() || (error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM)))
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::UnknownSite => "is not a known peer",
            Kind::Invalid => "cannot be sent this request",
            Kind::TooMany => "has as many requests in flight as its limit allows",
            Kind::Unreachable | Kind::Closed => "cannot be reached",
            Kind::Timeout => "did not answer in time",
            Kind::Refused => "refused the request",
            Kind::Reset => "cut the connection",
            Kind::Body => "was not sent the whole body of the request",
        };
        write!(f, "site {:?} {what}", self.site)?;
        // It is this site's own fault, and whoever asked is to tell its operator.
        if let (Kind::Closed, Some(why)) = (self.kind, &self.source) {
            write!(f, ": {why}")?;
        }
        match self.sent {
            Sent::No => f.write_str(" (not executed there)"),
            Sent::Maybe => f.write_str(" (it may have been executed there)"),
        }
    }
}

impl Error for SendError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
