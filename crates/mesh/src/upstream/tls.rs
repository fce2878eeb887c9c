//! Trust in the services of this site.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};

/// Where distributions keep what they trust: Debian, RHEL, SUSE, Alpine.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS for a target: its certificate must be signed by an authority in `ca`, a PEM file; without one, by
/// an authority that the system trusts (`SSL_CERT_FILE`, or where distributions keep it).
///
/// It fails where there is no such file or no certificate in it; the error names the file.
pub fn client_tls(ca: Option<&Path>) -> io::Result<Arc<ClientConfig>> {
    let path = match ca {
        Some(path) => path.to_owned(),
        None => system_bundle(std::env::var_os("SSL_CERT_FILE"))?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots(&path, ca.is_some())?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn system_bundle(variable: Option<OsString>) -> io::Result<PathBuf> {
    let found = variable
        .map(PathBuf::from)
        .or_else(|| SYSTEM_BUNDLES.iter().map(PathBuf::from).find(|path| path.exists()));
    found.ok_or_else(|| {
        let message = "this system has no list of trusted authorities where distributions keep it: \
             install `ca-certificates`, set SSL_CERT_FILE, or give `upstream_ca`";
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

/// A system's list may hold an odd certificate that nobody needs; a list that someone gave may not.
fn roots(path: &Path, strict: bool) -> io::Result<RootCertStore> {
    let shown = path.display();
    let bytes = std::fs::read(path)
        .map_err(|e| io::Error::new(e.kind(), format!("cannot read the trusted authorities {shown}: {e}")))?;
    let wrong = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{shown}: {what}"));
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&bytes) {
        let certificate = certificate.map_err(|e| wrong(format!("not a PEM file: {e}")))?;
        match roots.add(certificate) {
            Err(e) if strict => return Err(wrong(format!("not the certificate of an authority: {e}"))),
            _ => {}
        }
    }
    if roots.is_empty() {
        return Err(wrong("no certificate in it: expected `-----BEGIN CERTIFICATE-----`".to_owned()));
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(content: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("ca.pem");
        std::fs::write(&file, content).unwrap();
        client_tls(Some(&file)).unwrap_err().to_string()
    }

    #[test]
    fn a_missing_bundle_is_named() {
        let error = client_tls(Some(Path::new("/nowhere/ca.pem"))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
    }

    #[test]
    fn a_bundle_without_certificates_says_what_was_expected() {
        assert!(fault("").contains("BEGIN CERTIFICATE"));
        let not_one = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        assert!(fault(not_one).contains("not the certificate of an authority"));
    }

    #[test]
    fn the_variable_comes_before_the_systems_own_list() {
        assert_eq!(system_bundle(Some("/x.pem".into())).unwrap(), PathBuf::from("/x.pem"));
    }
}
