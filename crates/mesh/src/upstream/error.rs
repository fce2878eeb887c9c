//! Why there is no answer, and whether the request may have been executed.

use std::error::Error;
use std::fmt;

use http::Request;
use plan::Sent;

/// What a failure was caused by.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// What failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No target accepted a connection.
    Unreachable,
    /// No target accepted a connection in time.
    Timeout,
    /// The connection broke.
    Reset,
    /// What came back is not an HTTP/1 answer.
    Protocol,
    /// Every target that can be reached has as many connections as it may.
    TooMany,
    /// The request could not be sent to its end: its own body failed.
    Body,
}

/// A request without an answer.
///
/// `sent` is [`Sent::No`] only with a proof, and then the request is handed back whole.
pub struct SendError<B> {
    /// Whether any of the request may have left.
    pub sent: Sent,
    /// What failed, at the last target that was tried.
    pub kind: Kind,
    /// Its cause.
    pub source: BoxError,
    /// The request, exactly if it was not sent. Boxed, so that an answer does not carry its size.
    pub request: Option<Box<Request<B>>>,
}

impl Kind {
    /// Why a connection that took a request failed.
    pub(super) fn of(error: &hyper::Error) -> Kind {
        if error.is_parse() {
            Kind::Protocol
        } else if error.is_user() {
            Kind::Body
        } else {
            Kind::Reset
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Unreachable => "no instance of the service can be reached",
            Kind::Timeout => "no instance of the service accepted a connection in time",
            Kind::Reset => "the service closed the connection without an answer",
            Kind::Protocol => "the service's answer is not HTTP/1",
            Kind::TooMany => "every instance of the service has as many connections as it may",
            Kind::Body => "the body of the request could not be read to its end",
        })
    }
}

impl<B> fmt::Display for SendError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<B> fmt::Debug for SendError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendError")
            .field("sent", &self.sent)
            .field("kind", &self.kind)
            .field("source", &self.source)
            .finish_non_exhaustive()
    }
}

impl<B> Error for SendError<B> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
