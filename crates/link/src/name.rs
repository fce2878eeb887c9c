//! A site's name inside its certificate: one URI among the alternative names.

use std::fmt::Write;

use rustls::pki_types::CertificateDer;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

const PREFIX: &str = "archipel://site/";

/// Longer than any name that a scope can hold in practice, short enough for every log line.
const MAX_BYTES: usize = 200;

/// The URI of a site, or what is wrong with the name.
pub(crate) fn to_uri(site: &str) -> Result<String, &'static str> {
    if site.is_empty() {
        return Err("it is empty");
    }
    if site.len() > MAX_BYTES {
        return Err("it is longer than 200 bytes");
    }
    if site.chars().any(char::is_control) {
        return Err("it has a control character");
    }
    let mut uri = String::from(PREFIX);
    for byte in site.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => uri.push(char::from(byte)),
            _ => write!(uri, "%{byte:02X}").expect("writing to a string does not fail"),
        }
    }
    Ok(uri)
}

/// The site that a URI names. Only the spelling that [`to_uri`] gives is accepted: a site has one URI,
/// and no two spellings can be taken for two sites, or for one.
fn from_uri(uri: &str) -> Option<String> {
    let mut bytes = uri.strip_prefix(PREFIX)?.bytes();
    let mut site = Vec::new();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                site.push(u8::try_from(high * 16 + low).ok()?);
            }
            _ => site.push(byte),
        }
    }
    let site = String::from_utf8(site).ok()?;
    (to_uri(&site).as_deref() == Ok(uri)).then_some(site)
}

/// The one site that a certificate names. Whether the certificate can be believed is not asked here.
pub(crate) fn of_certificate(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let names = certificate.subject_alternative_name().ok()??;
    let mut sites = names.value.general_names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) if uri.starts_with(PREFIX) => Some(from_uri(uri)),
        _ => None,
    });
    match (sites.next(), sites.next()) {
        (Some(site), None) => site,
        // With two names, who would it be?
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_survives_its_uri() {
        for site in ["Site1", "DC 1", "100%", "a/b?c#d", "île", "~", "%20"] {
            assert_eq!(from_uri(&to_uri(site).unwrap()).as_deref(), Some(site));
        }
        assert_eq!(to_uri("DC 1").unwrap(), "archipel://site/DC%201");
    }

    #[test]
    fn a_site_has_one_spelling() {
        for uri in
            ["archipel://site/", "archipel://site/%53ite1", "archipel://site/a b", "archipel://site/%2"]
        {
            assert_eq!(from_uri(uri), None, "{uri}");
        }
        for uri in ["archipel://site/%c3%ae", "archipel://site/%FF", "archipel://site/+1%0A", "https://Site1"]
        {
            assert_eq!(from_uri(uri), None, "{uri}");
        }
    }

    #[test]
    fn names_that_would_break_a_log_line_are_refused() {
        assert!(to_uri("").is_err());
        assert!(to_uri("a\nb").is_err());
        assert!(to_uri(&"a".repeat(201)).is_err());
    }
}
