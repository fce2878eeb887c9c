//! Targets and hosts.

use std::net::Ipv6Addr;

use memchr::memchr;

use crate::ascii;
use crate::violation::Rule;

/// The host that a target names, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named<'t> {
    /// `/path`, or `*`: the `Host` field alone says it.
    No,
    /// `http://host:port/path`: the same as the `Host` field.
    Authority(&'t [u8]),
    /// `host:port` of a CONNECT. Some clients leave the port out of the `Host` field.
    Tunnel(&'t [u8]),
}

/// Checks that the target's form is one that `method` may have, and its bytes.
pub(crate) fn read<'t>(method: &[u8], target: &'t [u8]) -> Result<Named<'t>, Rule> {
    if method == b"CONNECT" {
        return match host_and_port(target) {
            Some((_, Some(_))) => Ok(Named::Tunnel(target)),
            _ => Err(Rule::TargetForm),
        };
    }
    if !ascii::is_target(target) {
        return Err(Rule::TargetByte);
    }
    if target.starts_with(b"/") || (target == b"*" && method == b"OPTIONS") {
        return Ok(Named::No);
    }
    let authority = authority(target).ok_or(Rule::TargetForm)?;
    if host_and_port(authority).is_none() {
        return Err(Rule::HostValue);
    }
    Ok(Named::Authority(authority))
}

/// The part of an absolute URI between the scheme and the path.
fn authority(target: &[u8]) -> Option<&[u8]> {
    let after = |scheme: &[u8]| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    };
    let rest = after(b"http://").or_else(|| after(b"https://"))?;
    rest.split(|byte| matches!(byte, b'/' | b'?')).next()
}

/// A host, and a port if there is one. Stricter than RFC 3986: no user, no percent-encoding, no `,` or `;`,
/// which no name in use has and which servers take apart differently.
pub(crate) fn host_and_port(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let colon = match text {
        [b'[', ..] => memchr(b']', text)? + 1,
        _ => memchr(b':', text).unwrap_or(text.len()),
    };
    let (host, rest) = text.split_at_checked(colon)?;
    let is_host = match host {
        [b'[', address @ .., b']'] => {
            std::str::from_utf8(address).is_ok_and(|text| text.parse::<Ipv6Addr>().is_ok())
        }
        name => ascii::is_host_name(name),
    };
    match rest {
        _ if !is_host => None,
        [] => Some((host, None)),
        [b':', port @ ..] if is_port(port) => Some((host, Some(port))),
        _ => None,
    }
}

fn is_port(digits: &[u8]) -> bool {
    let is_short = (1..=5).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let value =
        digits.iter().take(5).fold(0, |value, digit| value * 10 + u32::from(digit.wrapping_sub(b'0')));
    is_short && u16::try_from(value).is_ok()
}

/// Whether the target and the `Host` field name the same host.
pub(crate) fn agree(named: Named<'_>, host: &[u8]) -> bool {
    match named {
        Named::No => true,
        Named::Authority(authority) => authority.eq_ignore_ascii_case(host),
        Named::Tunnel(authority) => {
            let bare = host_and_port(authority).map_or(authority, |(bare, _)| bare);
            authority.eq_ignore_ascii_case(host) || bare.eq_ignore_ascii_case(host)
        }
    }
}
