//! Who a site is, and who says so: what `archipel init` makes and what every start reads.

mod error;
mod files;
mod renew;
mod validity;

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType, SigningKey,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

pub use error::{Fault, IdentityError};
use files::File;
pub use renew::SiteCertificate;
pub use validity::{Standing, Validity};

use crate::certificate::{self, Certificate, Fingerprint};
use crate::revoked::Revocation;
use crate::{name, tls};

const CA: &str = "ca.pem";
const CA_KEY: &str = "ca-key.pem";
const SITE: &str = "site.pem";
const SITE_KEY: &str = "site-key.pem";

const DAY: Duration = Duration::from_hours(24);
/// Clocks of sites differ: what is issued now is already valid where it is still yesterday.
const BACKDATED: Duration = DAY;
const CA_VALIDITY: Duration = DAY.saturating_mul(3650);
const SITE_VALIDITY: Duration = DAY.saturating_mul(365);

/// An operator's certificate authority: it says who the operator's sites are.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    key_pem: String,
    until: SystemTime,
}

impl Authority {
    /// Makes an authority for an operator, valid for ten years.
    pub fn create(operator: &str) -> Result<Authority, IdentityError> {
        let now = SystemTime::now();
        let until = now + CA_VALIDITY;
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::OrganizationName, operator);
        params.distinguished_name.push(DnType::CommonName, format!("{operator} (Archipel authority)"));
        // It issues sites, not authorities.
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.not_before = (now - BACKDATED).into();
        params.not_after = until.into();
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(crypto)?;
        let pem = params.self_signed(&key).map_err(crypto)?.pem();
        let key_pem = key.serialize_pem();
        Ok(Authority { issuer: Issuer::new(params, key), pem, key_pem, until })
    }

    /// Writes `ca.pem` and `ca-key.pem`, over no existing file.
    pub fn save(&self, dir: &Path) -> Result<(), IdentityError> {
        files::write(
            dir,
            &[
                File { name: CA_KEY, content: &self.key_pem, secret: true },
                File { name: CA, content: &self.pem, secret: false },
            ],
        )
    }

    /// Reads what [`Authority::save`] wrote.
    pub fn load(dir: &Path) -> Result<Authority, IdentityError> {
        let (path, key_path) = (dir.join(CA), dir.join(CA_KEY));
        let (pem, key_pem) = (files::read(&path)?, files::read(&key_path)?);
        let certificate = parse_certificate(&pem, &path)?;
        let until = check_validity(&certificate, &path).map_err(IdentityError::of_authority)?;
        check_key(&certificate, &parse_key(&key_pem, &key_path)?, &key_path)?;
        let malformed = |path: &Path, error| IdentityError::new(Fault::Malformed).at(path).because(error);
        let key = KeyPair::from_pem(&key_pem).map_err(|error| malformed(&key_path, error))?;
        let issuer = Issuer::from_ca_cert_der(&certificate, key).map_err(|error| malformed(&path, error))?;
        Ok(Authority { issuer, pem, key_pem, until })
    }

    /// Makes an identity for a site, valid for a year.
    pub fn issue(&self, site: &str) -> Result<Identity, IdentityError> {
        let now = SystemTime::now();
        self.issue_between(site, now - BACKDATED, now + SITE_VALIDITY)
    }

    /// Makes an identity for a site, valid between two moments, and no longer than the authority.
    pub fn issue_between(
        &self,
        site: &str,
        from: SystemTime,
        until: SystemTime,
    ) -> Result<Identity, IdentityError> {
        let params = certificate_params(site, from, until.min(self.until))?;
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(crypto)?;
        let pem = params.signed_by(&key, &self.issuer).map_err(crypto)?.pem();
        let files = Pem { authority: self.pem.clone(), certificate: pem, key: key.serialize_pem() };
        Identity::parse(files, Path::new(""))
    }

    /// Shuts out every identity of a site that was issued up to a moment; one that is issued later is
    /// believed again.
    pub fn revoke(&self, site: &str, at: SystemTime) -> Result<Revocation, IdentityError> {
        name::to_uri(site).map_err(|why| IdentityError::new(Fault::BadName(site.to_owned(), why)))?;
        let revocation = Revocation::sign(site, at, |said| self.issuer.key().sign(said)).map_err(crypto)?;
        // With a key of another kind than `create` makes, no site could read it.
        let authority = parse_certificate(&self.pem, Path::new(CA))?;
        Revocation::from_authorities(&revocation.to_bytes(), &[authority])
            .map_err(|error| IdentityError::new(Fault::Crypto).because(error))
    }
}

/// What the certificate of a site says.
fn certificate_params(
    site: &str,
    from: SystemTime,
    until: SystemTime,
) -> Result<CertificateParams, IdentityError> {
    let bad_name = |why| IdentityError::new(Fault::BadName(site.to_owned(), why));
    let uri = name::to_uri(site).map_err(bad_name)?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, site);
    params.subject_alt_names = vec![SanType::URI(uri.try_into().map_err(crypto)?)];
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    params.use_authority_key_identifier_extension = true;
    params.not_before = from.into();
    params.not_after = until.into();
    params.serial_number = Some(certificate::serial(SystemTime::now()));
    Ok(params)
}

/// Who a site is: its name, the certificate and key that prove it, and the authorities that it believes.
pub struct Identity {
    site: String,
    /// More than one while an operator changes to a new one.
    authorities: Vec<CertificateDer<'static>>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    validity: Validity,
    issued: SystemTime,
    pem: Pem,
}

/// The three files of an identity.
struct Pem {
    authority: String,
    certificate: String,
    key: String,
}

/// Without the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("site", &self.site).finish_non_exhaustive()
    }
}

impl Identity {
    /// Writes `ca.pem`, `site.pem` and `site-key.pem`, over no existing file. A `ca.pem` that is there
    /// already and is the same is left alone.
    pub fn save(&self, dir: &Path) -> Result<(), IdentityError> {
        files::write(
            dir,
            &[
                File { name: SITE_KEY, content: &self.pem.key, secret: true },
                File { name: CA, content: &self.pem.authority, secret: false },
                File { name: SITE, content: &self.pem.certificate, secret: false },
            ],
        )
    }

    /// Reads what [`Identity::save`] wrote, and checks that a peer would believe it.
    pub fn load(dir: &Path) -> Result<Identity, IdentityError> {
        let identity = Identity::load_of_any_date(dir)?;
        check_validity(&identity.certificate, &dir.join(SITE))?;
        for authority in identity.issuers() {
            check_validity(authority, &dir.join(CA))?;
        }
        Ok(identity)
    }

    /// Reads what [`Identity::save`] wrote, and checks that a peer would believe it at some time: whether it does now is
    /// said by its [`Identity::validity`].
    pub fn load_of_any_date(dir: &Path) -> Result<Identity, IdentityError> {
        let pem = Pem {
            authority: files::read(&dir.join(CA))?,
            certificate: files::read(&dir.join(SITE))?,
            key: files::read(&dir.join(SITE_KEY))?,
        };
        Identity::parse(pem, dir)?.trusted(dir)
    }

    /// Reads the files, without asking whether they can be believed.
    fn parse(pem: Pem, dir: &Path) -> Result<Identity, IdentityError> {
        let path = dir.join(SITE);
        let authorities = parse_certificates(&pem.authority, &dir.join(CA))?;
        let certificate = parse_certificate(&pem.certificate, &path)?;
        let key = parse_key(&pem.key, &dir.join(SITE_KEY))?;
        let validity = times(&certificate, &path)?;
        let Certificate { site, issued, .. } =
            Certificate::read(&certificate).ok_or_else(|| IdentityError::new(Fault::NoSite).at(&path))?;
        Ok(Identity { site, authorities, certificate, key, validity, issued, pem })
    }

    /// The same, once its key is known to be its own and its issuer to be one of its authorities. It counts no longer than
    /// that.
    fn trusted(self, dir: &Path) -> Result<Identity, IdentityError> {
        check_key(&self.certificate, &self.key, &dir.join(SITE_KEY))?;
        let Some(issuer) = self.issuers().next() else {
            let mut other = IdentityError::new(Fault::OtherAuthority).at(&dir.join(SITE));
            for authority in &self.authorities {
                if let Err(error) = tls::check_issued(&self.certificate, authority) {
                    other = other.because(error);
                }
            }
            return Err(other);
        };
        let validity = self.validity.no_longer_than(times(issuer, &dir.join(CA))?);
        Ok(Identity { validity, ..self })
    }

    /// Those of its authorities that issued it: one, as a rule.
    fn issuers(&self) -> impl Iterator<Item = &CertificateDer<'static>> {
        self.authorities
            .iter()
            .filter(|authority| tls::check_issued(&self.certificate, authority).is_ok())
            .take(1)
    }

    /// The site's name.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.site
    }

    /// Whether two are the same, each to its last byte: one that was read again, and had not changed.
    #[must_use]
    pub fn is_same_as(&self, other: &Identity) -> bool {
        self.certificate == other.certificate
            && self.authorities == other.authorities
            && self.key.secret_der() == other.key.secret_der()
    }

    /// When peers stop believing this identity.
    #[must_use]
    pub fn valid_until(&self) -> SystemTime {
        self.validity.until
    }

    /// From when until when peers believe it.
    #[must_use]
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// When the authority issued it, to the microsecond: what a [`Revocation`] is compared with. (One that
    /// an older version issued knows its first valid second only, a day before.)
    #[must_use]
    pub fn issued(&self) -> SystemTime {
        self.issued
    }

    /// What tells this very certificate from all others.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.certificate)
    }

    /// The certificate, for others to keep: it is no secret.
    #[must_use]
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    pub(crate) fn authorities(&self) -> &[CertificateDer<'static>] {
        &self.authorities
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        vec![self.certificate.clone()]
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        self.key.clone_key()
    }
}

fn crypto(error: rcgen::Error) -> IdentityError {
    IdentityError::new(Fault::Crypto).because(error)
}

fn parse_certificate(pem: &str, path: &Path) -> Result<CertificateDer<'static>, IdentityError> {
    CertificateDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| IdentityError::new(Fault::Malformed).at(path).because(error))
}

/// One or more.
fn parse_certificates(pem: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, IdentityError> {
    // The first one tells what is wrong with a file that has none.
    parse_certificate(pem, path)?;
    CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| IdentityError::new(Fault::Malformed).at(path).because(error))
}

fn parse_key(pem: &str, path: &Path) -> Result<PrivateKeyDer<'static>, IdentityError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes())
        .map_err(|error| IdentityError::new(Fault::Malformed).at(path).because(error))
}

fn check_key(
    certificate: &CertificateDer<'static>,
    key: &PrivateKeyDer<'static>,
    path: &Path,
) -> Result<(), IdentityError> {
    match CertifiedKey::from_der(vec![certificate.clone()], key.clone_key(), &tls::provider()) {
        Ok(_) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(IdentityError::new(Fault::KeyMismatch).at(path)),
        Err(error) => Err(IdentityError::new(Fault::Malformed).at(path).because(error)),
    }
}

fn validity(certificate: &CertificateDer<'_>, path: &Path) -> Result<(ASN1Time, ASN1Time), IdentityError> {
    let (_, certificate) = X509Certificate::from_der(certificate)
        .map_err(|error| IdentityError::new(Fault::Malformed).at(path).because(error))?;
    Ok((certificate.validity.not_before, certificate.validity.not_after))
}

/// The same, as moments.
fn times(certificate: &CertificateDer<'_>, path: &Path) -> Result<Validity, IdentityError> {
    let moment = |time: ASN1Time| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(time.timestamp().try_into().unwrap_or(0))
    };
    let (from, until) = validity(certificate, path)?;
    Ok(Validity { from: moment(from), until: moment(until) })
}

/// Until when the certificate is valid, if it is valid now.
fn check_validity(certificate: &CertificateDer<'_>, path: &Path) -> Result<SystemTime, IdentityError> {
    let (from, until) = validity(certificate, path)?;
    let now = ASN1Time::now();
    if now > until {
        return Err(IdentityError::new(Fault::Expired(until.to_string())).at(path));
    }
    if now < from {
        return Err(IdentityError::new(Fault::NotYetValid(from.to_string())).at(path));
    }
    Ok(SystemTime::UNIX_EPOCH + Duration::from_secs(until.timestamp().try_into().unwrap_or(0)))
}
