//! What can be wrong with an identity, for the person who has to put it right.

use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::BoxError;

/// What is wrong with an identity, where, and what to do.
#[derive(Debug)]
pub struct IdentityError {
    fault: Fault,
    path: Option<PathBuf>,
    source: Option<BoxError>,
}

/// The ways in which an identity can be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The file does not exist.
    Missing,
    /// The file exists and cannot be read.
    Unreadable,
    /// The file is not the PEM that it should be.
    Malformed,
    /// The private key is not the certificate's.
    KeyMismatch,
    /// The certificate is past this date.
    Expired(String),
    /// The authority's own certificate is past this date.
    AuthorityExpired(String),
    /// The certificate is valid from this date only.
    NotYetValid(String),
    /// The certificate was not issued by the authority beside it.
    OtherAuthority,
    /// The certificate names no site.
    NoSite,
    /// No site can have this name, for this reason.
    BadName(String, &'static str),
    /// The certificate was not issued by the authority that is to issue it anew.
    NotIssuedHere,
    /// The certificate is of the first of these sites, and the one in its place of the second.
    OtherSite(String, String),
    /// The certificate in its place was issued later.
    Older,
    /// A file is already there: nothing was written.
    Exists,
    /// The file cannot be written.
    Unwritable,
    /// Keys or certificates could not be made or used.
    Crypto,
}

impl IdentityError {
    pub(crate) fn new(fault: Fault) -> IdentityError {
        IdentityError { fault, path: None, source: None }
    }

    /// The same, of an authority: nobody issues it anew.
    pub(crate) fn of_authority(self) -> IdentityError {
        match self.fault {
            Fault::Expired(date) => IdentityError { fault: Fault::AuthorityExpired(date), ..self },
            _ => self,
        }
    }

    pub(crate) fn at(mut self, path: &Path) -> IdentityError {
        self.path = Some(path.to_owned());
        self
    }

    pub(crate) fn because(mut self, source: impl Into<BoxError>) -> IdentityError {
        self.source = Some(source.into());
        self
    }

    /// What is wrong.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.fault
    }

    /// The file in question.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        self.fault.fmt(f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Missing => {
                f.write_str("this file does not exist; give the directory that `archipel init` wrote, or run it")
            }
            Fault::Unreadable => {
                f.write_str("this file cannot be read; give the user that runs archipel the right to read it")
            }
            Fault::Malformed => {
                f.write_str("this file is damaged or is not the expected PEM; restore it from a copy, or issue it again")
            }
            Fault::KeyMismatch => f.write_str(
                "this private key does not belong to the certificate beside it; put back the pair that was issued together",
            ),
            Fault::Expired(date) => write!(
                f,
                "this certificate expired on {date}; `archipel renew` issues a new one; or check the clock of this machine"
            ),
            Fault::AuthorityExpired(date) => write!(
                f,
                "this authority expired on {date}; make another with `archipel init --authority DIR`, and let `ca.pem` of \
                 each site have both while one replaces the other"
            ),
            Fault::NotYetValid(date) => {
                write!(f, "this certificate is valid from {date} only; check the clock of this machine")
            }
            Fault::OtherAuthority => f.write_str(
                "this certificate was not issued by the `ca.pem` beside it; use files of one authority, or issue the site again",
            ),
            Fault::NotIssuedHere => f.write_str(
                "this certificate was not issued by this authority; use the directory that the site was made with, or make \
                 the site anew with `archipel init`",
            ),
            Fault::OtherSite(found, expected) => write!(
                f,
                "the renewed certificate is that of `{found}`, and this is `{expected}`; ask for one with `archipel renew --request` here"
            ),
            Fault::Older => f.write_str(
                "the certificate that is here was issued later than the renewed one; ask for another with `archipel renew --request` here",
            ),
            Fault::NoSite => f.write_str("this certificate names no site; issue one with `archipel init`"),
            Fault::BadName(name, why) => write!(f, "no site can be called {name:?}: {why}; choose another name"),
            Fault::Exists => f.write_str(
                "this file exists and is never overwritten; choose another directory, or move the file away first",
            ),
            Fault::Unwritable => {
                f.write_str("this file cannot be written; check the rights on its directory and the space on its disk")
            }
            Fault::Crypto => f.write_str("the keys could not be made or used; please report this"),
        }
    }
}

impl Error for IdentityError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|source| source as &(dyn Error + 'static))
    }
}
