//! Why a request's scope cannot be carried.

use std::fmt;

use http::StatusCode;

use super::records::Full;

/// Where a scope was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// The `X-Scope` header.
    Header,
    /// A `/_scope/<scope>/` prefix of the path.
    Path,
    /// The member `scope` of W3C `baggage`.
    Baggage,
    /// The listener's configuration.
    Default,
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Carrier::Header => "the `X-Scope` header",
            Carrier::Path => "the `/_scope/` prefix of the path",
            Carrier::Baggage => "the member `scope` of `baggage`",
            Carrier::Default => "the listener's default",
        })
    }
}

/// What is wrong with a scope before anything reads its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is there more than once, and one would have to be ignored.
    Twice,
    /// A `%` is not followed by two hexadecimal digits.
    Percent,
    /// It is not UTF-8.
    Utf8,
    /// What is left of the request's target cannot be a target.
    Target,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Twice => "is there more than once: send one scope",
            Fault::Percent => "has a `%` that two hexadecimal digits do not follow: write `%25` for `%`",
            Fault::Utf8 => "is not UTF-8",
            Fault::Target => "leaves a target that is no path",
        })
    }
}

/// Why a request is refused. Nothing was recorded, and no service was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The sender wrote a scope that cannot be read.
    Malformed {
        /// Where.
        carrier: Carrier,
        /// What is wrong with it.
        fault: Fault,
    },
    /// The key is ours and its record is gone. To serve the call without its scope could put things at the
    /// wrong site without a word.
    ScopeLost,
    /// The key is ours, and the token beside it is another client's.
    NotYours,
    /// There is no room for a record.
    TooManyRecords(Full),
    /// The request has no room for another header.
    TooManyHeaders,
}

impl Error {
    /// The answer's status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Error::Malformed { .. } => StatusCode::BAD_REQUEST,
            Error::ScopeLost => StatusCode::SERVICE_UNAVAILABLE,
            Error::NotYours => StatusCode::FORBIDDEN,
            Error::TooManyRecords(_) => StatusCode::TOO_MANY_REQUESTS,
            Error::TooManyHeaders => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        }
    }

    /// A name that does not change, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Error::Malformed { .. } => "scope-malformed",
            Error::ScopeLost => "scope-lost",
            Error::NotYours => "scope-not-yours",
            Error::TooManyRecords(_) => "too-many-scoped-requests",
            Error::TooManyHeaders => "too-many-headers",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed { carrier, fault } => write!(f, "{carrier} {fault}"),
            Error::ScopeLost => f.write_str(
                "the request that caused this call is no longer known here, and neither is its scope: \
                 send that request again",
            ),
            Error::NotYours => f.write_str(
                "this call has the id of one client's request and the token of another client: a service \
                 hands on both, or has a token of its own",
            ),
            Error::TooManyRecords(Full::Sender) => f.write_str(
                "this sender has as many scoped requests on record as it may have: send fewer, or later",
            ),
            Error::TooManyRecords(Full::Site) => f.write_str(
                "this site has as many scoped requests on record as it may have: send this one later",
            ),
            Error::TooManyHeaders => f.write_str("the request has too many headers to carry its scope"),
        }
    }
}

impl std::error::Error for Error {}
