//! Mutual TLS between sites. A peer is the site that its certificate names, and no connection goes
//! further than the handshake unless the authority of this site says so.
//!
//! TLS 1.3 only. No resumption: a resumed session skips the certificates, so that a site whose identity
//! has expired would go on for a day; and it saves no round trip.

use std::cell::RefCell;
use std::fmt;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error,
    OtherError, RootCertStore, ServerConfig, SignatureScheme, version,
};

use crate::certificate::Certificate;
use crate::identity::{Fault, Identity, IdentityError, Validity};
use crate::revoked::Revoked;
use crate::speaks::{Misfit, Speaks};

/// How this site answers the handshakes of others.
#[derive(Clone)]
pub struct ServerTls {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) revoked: Revoked,
    pub(crate) speaks: Speaks,
}

impl ServerTls {
    /// For this identity: any site of the same authority may connect that is not revoked, nobody else.
    pub fn new(identity: &Identity, revoked: &Revoked) -> Result<ServerTls, IdentityError> {
        let sites = WebPkiClientVerifier::builder_with_provider(roots(identity)?, provider())
            .build()
            .map_err(|error| IdentityError::new(Fault::Crypto).because(error))?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(crypto)?
            .with_client_cert_verifier(Arc::new(AnySite { sites, revoked: revoked.clone() }))
            .with_single_cert(identity.chain(), identity.key())
            .map_err(crypto)?;
        config.alpn_protocols = Speaks::NOW.all();
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(ServerTls { config: Arc::new(config), revoked: revoked.clone(), speaks: Speaks::NOW })
    }

    /// The same, in other versions than [`Speaks::NOW`].
    #[must_use]
    pub fn speaking(mut self, speaks: Speaks) -> ServerTls {
        Arc::make_mut(&mut self.config).alpn_protocols = speaks.all();
        ServerTls { speaks, ..self }
    }
}

/// What a server shows to those that connect from now on: it can be replaced while the server runs, and
/// the connections that exist go on.
#[derive(Clone)]
pub struct Presented(Rc<RefCell<ServerTls>>);

impl Presented {
    /// Shows this until it is replaced.
    #[must_use]
    pub fn new(tls: ServerTls) -> Presented {
        Presented(Rc::new(RefCell::new(tls)))
    }

    /// Shows this from now on, in every copy.
    pub fn replace(&self, tls: ServerTls) {
        self.0.replace(tls);
    }

    pub(crate) fn now(&self) -> ServerTls {
        self.0.borrow().clone()
    }
}

impl From<ServerTls> for Presented {
    fn from(tls: ServerTls) -> Presented {
        Presented::new(tls)
    }
}

/// How this site connects to others.
#[derive(Clone)]
pub struct ClientTls(Arc<Ours>, Speaks);

struct Ours {
    site: String,
    roots: Arc<RootCertStore>,
    /// Everything but the site to expect, which differs from peer to peer.
    config: ClientConfig,
    revoked: Revoked,
    validity: Validity,
}

/// How this site connects to one other.
pub(crate) struct ToSite {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) revoked: Revoked,
    pub(crate) speaks: Speaks,
    /// When this site's own identity counts: at other times no peer would believe it.
    pub(crate) validity: Validity,
}

impl ClientTls {
    /// With this identity, to sites that are not revoked.
    pub fn new(identity: &Identity, revoked: &Revoked) -> Result<ClientTls, IdentityError> {
        let roots = roots(identity)?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&version::TLS13])
            .map_err(crypto)?
            .with_root_certificates(roots.clone())
            .with_client_auth_cert(identity.chain(), identity.key())
            .map_err(crypto)?;
        config.resumption = Resumption::disabled();
        // The name is in the certificate: an SNI would only tell the network.
        config.enable_sni = false;
        let (site, revoked) = (identity.site().to_owned(), revoked.clone());
        let validity = identity.validity();
        Ok(ClientTls(Arc::new(Ours { site, roots, config, revoked, validity }), Speaks::NOW))
    }

    /// The same, in other versions than [`Speaks::NOW`].
    #[must_use]
    pub fn speaking(self, speaks: Speaks) -> ClientTls {
        ClientTls(self.0, speaks)
    }

    /// The site that this is.
    #[must_use]
    pub fn site(&self) -> &str {
        &self.0.site
    }

    /// To send small requests to this very site.
    pub(crate) fn small_to(&self, site: &str) -> ToSite {
        self.to(site, self.1.small())
    }

    /// To send long requests to this very site.
    pub(crate) fn long_to(&self, site: &str) -> ToSite {
        self.to(site, self.1.long())
    }

    fn to(&self, site: &str, protocols: Vec<Vec<u8>>) -> ToSite {
        let mut config = self.0.config.clone();
        let expected = ExactSite {
            site: site.to_owned(),
            roots: self.0.roots.clone(),
            provider: provider(),
            revoked: self.0.revoked.clone(),
        };
        config.dangerous().set_certificate_verifier(Arc::new(expected));
        config.alpn_protocols = protocols;
        let (revoked, validity) = (self.0.revoked.clone(), self.0.validity);
        ToSite { config: Arc::new(config), revoked, speaks: self.1, validity }
    }
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// Whether an authority issued this certificate, whatever its dates say.
pub(crate) fn check_issued(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
) -> Result<(), Error> {
    let mut roots = RootCertStore::empty();
    roots.add(authority.clone().into_owned())?;
    let until = Certificate::read(certificate).map_or_else(SystemTime::now, |read| read.until);
    let since = until.duration_since(UNIX_EPOCH).unwrap_or_default();
    chain(certificate, &[], &roots, UnixTime::since_unix_epoch(since), &provider())
}

pub(crate) fn chain(
    certificate: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    roots: &RootCertStore,
    now: UnixTime,
    provider: &CryptoProvider,
) -> Result<(), Error> {
    let certificate = ParsedCertificate::try_from(certificate)?;
    let algorithms = provider.signature_verification_algorithms.all;
    verify_server_cert_signed_by_trust_anchor(&certificate, roots, intermediates, now, algorithms)
}

pub(crate) fn roots(identity: &Identity) -> Result<Arc<RootCertStore>, IdentityError> {
    let mut roots = RootCertStore::empty();
    for authority in identity.authorities() {
        roots.add(authority.clone()).map_err(crypto)?;
    }
    Ok(Arc::new(roots))
}

fn crypto(error: Error) -> IdentityError {
    IdentityError::new(Fault::Crypto).because(error)
}

/// That a peer speaks no version that this site speaks, if this is why a handshake failed. Only the first version has no
/// better way to say so.
pub(crate) fn misfit(error: &io::Error, ours: Speaks) -> Option<Misfit> {
    let cause = error.get_ref()?.downcast_ref()?;
    let unspoken = matches!(cause, Error::AlertReceived(AlertDescription::NoApplicationProtocol));
    unspoken.then(|| Speaks::new(1, 1)).flatten().map(|theirs| Misfit { ours, theirs })
}

/// Why a handshake failed, in words for an operator.
pub(crate) fn explain(error: &io::Error) -> String {
    match error.get_ref().and_then(|cause| cause.downcast_ref()) {
        Some(Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => why.to_string(),
        Some(Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature)) => {
            "the peer's certificate is of another authority".to_owned()
        }
        Some(Error::InvalidCertificate(CertificateError::Revoked)) => {
            "the peer's identity was revoked".to_owned()
        }
        Some(Error::AlertReceived(alert)) => format!("the peer refused this site: {alert:?}"),
        _ => error.to_string(),
    }
}

/// A peer proved an identity, and it is not the one that was asked for.
#[derive(Debug)]
struct WrongSite {
    expected: Option<String>,
    found: Option<String>,
}

impl fmt::Display for WrongSite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Some(found) => write!(f, "the peer is site {found:?}")?,
            None => f.write_str("the peer's certificate names no site")?,
        }
        match &self.expected {
            Some(expected) => write!(f, ", not {expected:?}; check the address of {expected:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for WrongSite {}

fn wrong(expected: Option<&str>, found: Option<String>) -> Error {
    let wrong = WrongSite { expected: expected.map(str::to_owned), found };
    CertificateError::Other(OtherError(Arc::new(wrong))).into()
}

fn not_revoked(certificate: &Certificate, revoked: &Revoked) -> Result<(), Error> {
    if revoked.shuts_out(&certificate.site, certificate.issued) {
        return Err(CertificateError::Revoked.into());
    }
    Ok(())
}

/// Believes a server that is this very site; its host name and address play no role.
#[derive(Debug)]
struct ExactSite {
    site: String,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    revoked: Revoked,
}

impl ServerCertVerifier for ExactSite {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        chain(certificate, intermediates, &self.roots, now, &self.provider)?;
        match Certificate::read(certificate) {
            Some(read) if read.site == self.site => {
                not_revoked(&read, &self.revoked).map(|()| ServerCertVerified::assertion())
            }
            found => Err(wrong(Some(&self.site), found.map(|found| found.site))),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Believes a client that is some site of this authority. That it names one is part of the handshake:
/// nothing is ever served to a peer without a name.
#[derive(Debug)]
struct AnySite {
    sites: Arc<dyn ClientCertVerifier>,
    revoked: Revoked,
}

impl ClientCertVerifier for AnySite {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.sites.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.sites.verify_client_cert(certificate, intermediates, now)?;
        match Certificate::read(certificate) {
            Some(read) => not_revoked(&read, &self.revoked).map(|()| verified),
            None => Err(wrong(None, None)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.sites.verify_tls12_signature(message, certificate, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.sites.verify_tls13_signature(message, certificate, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.sites.supported_verify_schemes()
    }
}
