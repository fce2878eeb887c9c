//! Certificates issued anew for the keys that sites have: no private key leaves its site, so that what is carried is no secret.

use std::path::Path;
use std::time::SystemTime;

use rcgen::SubjectPublicKeyInfo;
use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::error::{Fault, IdentityError};
use super::{Authority, BACKDATED, CA, Identity, Pem, SITE, SITE_KEY, SITE_VALIDITY, crypto, files};
use super::{certificate_params, parse_certificate};
use crate::certificate::Certificate;
use crate::tls;

/// A site's certificate, as it is carried to the authority and back. It is no secret.
#[derive(Clone, PartialEq, Eq)]
pub struct SiteCertificate {
    der: CertificateDer<'static>,
    site: String,
    issued: SystemTime,
}

/// Without the bytes.
impl std::fmt::Debug for SiteCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SiteCertificate").field("site", &self.site).finish_non_exhaustive()
    }
}

impl SiteCertificate {
    /// Reads the bytes of one.
    pub fn from_der(bytes: Vec<u8>) -> Result<SiteCertificate, IdentityError> {
        let der = CertificateDer::from(bytes);
        X509Certificate::from_der(&der)
            .map_err(|error| IdentityError::new(Fault::Malformed).because(error))?;
        let read = Certificate::read(&der).ok_or_else(|| IdentityError::new(Fault::NoSite))?;
        Ok(SiteCertificate { site: read.site, issued: read.issued, der })
    }

    /// Reads the file of one.
    pub fn load(path: &Path) -> Result<SiteCertificate, IdentityError> {
        let der = parse_certificate(&files::read(path)?, path)?;
        SiteCertificate::from_der(der.to_vec()).map_err(|error| error.at(path))
    }

    /// The site that it names.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.site
    }

    /// When it was issued.
    #[must_use]
    pub fn issued(&self) -> SystemTime {
        self.issued
    }

    /// Its bytes.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Puts it in the place of the file of an earlier one, whole or not at all.
    pub fn replace(&self, path: &Path) -> Result<(), IdentityError> {
        files::replace(path, &to_pem(&self.der))
    }
}

impl Authority {
    /// Issues a certificate anew for the site and the key of one that this authority issued, also if that has expired. It
    /// is valid for a year from now, and no longer than the authority.
    pub fn renew(&self, old: &SiteCertificate) -> Result<SiteCertificate, IdentityError> {
        let authority = parse_certificate(&self.pem, Path::new(CA))?;
        tls::check_issued(&old.der, &authority)
            .map_err(|error| IdentityError::new(Fault::NotIssuedHere).because(error))?;
        let (_, parsed) = X509Certificate::from_der(&old.der)
            .map_err(|error| IdentityError::new(Fault::Malformed).because(error))?;
        let key = SubjectPublicKeyInfo::from_der(parsed.public_key().raw).map_err(crypto)?;
        let now = SystemTime::now();
        let until = (now + SITE_VALIDITY).min(self.until);
        let params = certificate_params(&old.site, now - BACKDATED, until)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(crypto)?;
        SiteCertificate::from_der(certificate.der().to_vec())
    }
}

impl Identity {
    /// Puts a renewed certificate beside the key that it is for. Nothing is written unless the outcome is an identity of the
    /// same site that this site's authority issued later.
    pub fn install(dir: &Path, renewed: &SiteCertificate) -> Result<Identity, IdentityError> {
        let path = dir.join(SITE);
        let old = SiteCertificate::load(&path)?;
        let text = to_pem(&renewed.der);
        let pem = Pem {
            authority: files::read(&dir.join(CA))?,
            certificate: text.clone(),
            key: files::read(&dir.join(SITE_KEY))?,
        };
        let identity = Identity::parse(pem, dir)?.trusted(dir)?;
        if old.site != renewed.site {
            return Err(IdentityError::new(Fault::OtherSite(renewed.site.clone(), old.site)).at(&path));
        }
        if old.issued > renewed.issued {
            return Err(IdentityError::new(Fault::Older).at(&path));
        }
        files::replace(&path, &text)?;
        Ok(identity)
    }
}

/// As other tools write it.
fn to_pem(certificate: &[u8]) -> String {
    let lines = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    pem::encode_config(&pem::Pem::new("CERTIFICATE", certificate), lines)
}
