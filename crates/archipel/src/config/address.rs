//! Where things listen and where they are reached.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

/// A host and a port to connect to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Endpoint {
    /// A name or an IP address, that of IPv6 without brackets.
    pub host: String,
    /// Never zero.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// One instance of a service, as its own site runs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upstream {
    /// Whether it is reached over TLS.
    pub tls: bool,
    /// Where it is.
    pub endpoint: Endpoint,
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", if self.tls { "https" } else { "http" }, self.endpoint)
    }
}

/// An address to listen on. Names are not looked up: what they stand for may change.
pub(super) fn listener(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "an address to listen on is an IP address and a port, such as `0.0.0.0:9292` or `[::]:9292`"
            .to_owned()
    })
}

/// Reads `host:port`.
pub fn endpoint(text: &str) -> Result<Endpoint, String> {
    let (host, port) = host_and_port(text)?;
    let port = port.ok_or("the port is missing, such as `:7400`")?;
    Ok(Endpoint { host, port })
}

/// `http://host:port`, the port being that of the scheme if it is left out.
pub(super) fn upstream(text: &str) -> Result<Upstream, String> {
    let (tls, rest) = match text.split_once("://") {
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        _ => return Err("an upstream starts with `http://` or `https://`".to_owned()),
    };
    if rest.contains(['/', '?', '#']) {
        return Err("an upstream has no path: each request brings its own".to_owned());
    }
    let (host, port) = host_and_port(rest)?;
    let port = port.unwrap_or(if tls { 443 } else { 80 });
    Ok(Upstream { tls, endpoint: Endpoint { host, port } })
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), String> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or("the `]` of this address is missing")?;
        if host.parse::<Ipv6Addr>().is_err() {
            return Err("only an IPv6 address stands in brackets".to_owned());
        }
        let port = match rest.strip_prefix(':') {
            Some(digits) => Some(port(digits)?),
            None if rest.is_empty() => None,
            None => return Err("after the `]` comes `:` and the port".to_owned()),
        };
        return Ok((host.to_owned(), port));
    }
    let (host, port) = match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => {
            return Err("an IPv6 address stands in brackets, such as `[::1]:7400`".to_owned());
        }
        Some((host, digits)) => (host, Some(port(digits)?)),
        None => (text, None),
    };
    if is_host(host) {
        Ok((host.to_owned(), port))
    } else {
        Err("the host is neither a name nor an IP address".to_owned())
    }
}

fn port(digits: &str) -> Result<u16, String> {
    let whole = digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| whole && *port != 0);
    port.ok_or_else(|| "a port is a number from 1 to 65535".to_owned())
}

/// A name as DNS has them, with `_` besides, or an IPv4 address. What looks like a broken IPv4 address
/// is no name: no top-level domain is a number.
fn is_host(host: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let name = host.strip_suffix('.').unwrap_or(host);
    let numeric = name.rsplit('.').next().is_some_and(|top| top.bytes().all(|byte| byte.is_ascii_digit()));
    host.parse::<Ipv4Addr>().is_ok() || (name.len() <= 253 && !numeric && name.split('.').all(label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_prints_the_same() {
        for text in ["site2.example:7400", "192.0.2.2:7400", "[2001:db8::2]:7400", "localhost:1"] {
            assert_eq!(endpoint(text).unwrap().to_string(), text);
        }
        for text in ["http://127.0.0.1:29292", "https://[::1]:443"] {
            assert_eq!(upstream(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn an_upstream_without_a_port_has_the_one_of_its_scheme() {
        assert_eq!(upstream("http://images").unwrap().endpoint.port, 80);
        assert_eq!(upstream("https://images").unwrap().endpoint.port, 443);
    }

    #[test]
    fn what_cannot_be_reached_is_refused() {
        for text in [
            "",
            ":7400",
            "host",
            "host:",
            "host:0",
            "host:65536",
            "host:+1",
            "a b:1",
            "::1:7400",
            "[::1]",
            "[::1]7400",
            "[host]:1",
            "[::1:1",
            "192.0.2.256:1",
            "user@host:1",
            "a..b:1",
        ] {
            assert!(endpoint(text).is_err(), "{text}");
        }
        for text in ["host:80", "ftp://host", "http://", "http://host/", "http://host/v2", "http://u@host"] {
            assert!(upstream(text).is_err(), "{text}");
        }
        for text in ["localhost:80", "0.0.0.0", "80", ":80"] {
            assert!(listener(text).is_err(), "{text}");
        }
    }
}
