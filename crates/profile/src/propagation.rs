//! What the services of an application hand on from the request they serve to the calls they make.

use serde::Deserialize;

/// Which headers carry the key of a scoped request, and in which form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Propagation {
    /// The key is a member `archipel` of W3C `tracestate`.
    pub tracestate: bool,
    /// The key is a member `archipel` of W3C `baggage`, and the scope itself a member `scope`.
    pub baggage: bool,
    /// Headers of the application's own.
    pub headers: Vec<Header>,
    /// The headers that say who sent a request. Without them it is the client's address.
    pub sender: Vec<String>,
    /// How services get tokens of their own, for the headers of `sender`.
    pub service_tokens: Vec<ServiceToken>,
}

/// A request by which a service logs in. Whoever sends it to an internal listener is one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceToken {
    /// The canonical name of the service that gives tokens out.
    pub service: String,
    /// The request's method.
    pub method: String,
    /// What its path ends with.
    pub path: String,
    /// The header of the answer that has the token.
    pub header: String,
}

/// A header that services hand on.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// How services expect its value to look.
    pub form: Form,
}

/// How the 128 bits of a key are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// 32 lower-case hexadecimal digits.
    Hex,
    /// The same digits in the groups of a UUID. The bits of version and variant are those of the key.
    Uuid,
    /// `req-` and a UUID.
    ReqUuid,
}

/// Which services run, when a scope does not name them, at the site where the client entered.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Origin {
    /// Their canonical names.
    pub services: Vec<String>,
}

/// Headers that are Archipel's or HTTP's: what a key would replace there is needed.
const RESERVED: [&str; 12] = [
    "authorization",
    "baggage",
    "connection",
    "content-length",
    "cookie",
    "host",
    "te",
    "traceparent",
    "tracestate",
    "transfer-encoding",
    "upgrade",
    "x-scope",
];

impl Propagation {
    /// The first header name that cannot be used, and why.
    pub(crate) fn fault(&self) -> Option<(&str, &'static str)> {
        let carriers = self.headers.iter().map(|header| header.name.as_str());
        let mut names: Vec<&str> = carriers.collect();
        for (index, name) in names.iter().enumerate() {
            let lower = name.to_ascii_lowercase();
            if RESERVED.contains(&lower.as_str()) || lower.starts_with("archipel-") {
                return Some((name, "has another use, and cannot carry a key"));
            }
            if names.iter().take(index).any(|other| other.eq_ignore_ascii_case(name)) {
                return Some((name, "is named twice"));
            }
        }
        if let Some(name) = self.sender.iter().find(|name| name.eq_ignore_ascii_case("traceparent")) {
            return Some((name, "is another with each request, and says nothing of its sender"));
        }
        names.extend(self.sender.iter().map(String::as_str));
        names.extend(self.service_tokens.iter().map(|token| token.header.as_str()));
        let bad = names.into_iter().find(|name| !is_header(name))?;
        Some((bad, "is not the name of a header"))
    }
}

/// Whether this can be a header's name.
pub(crate) fn is_header(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token)
}

/// Whether a header's name may have this byte (RFC 9110, `tchar`).
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
