//! `[services.NAME]`: one service of this site.

use std::net::SocketAddr;
use std::time::Duration;

use toml::Spanned;

use super::address::{self, Upstream};
use super::fault::Code;
use super::table::{Entry, Table};
use super::{Health, Service, Tls};

/// How often upstreams are asked for their health.
const HEALTH_INTERVAL: Duration = Duration::from_secs(5);
/// How long they may take to answer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(1);

/// A service, with what can only be checked once all services and sites are known.
pub(super) struct Read<'d> {
    /// Its default scope is not there yet.
    pub(super) service: Service,
    /// The default scope.
    pub(super) scope: Option<Entry<'d>>,
    /// Every listener.
    pub(super) listeners: Vec<Spanned<SocketAddr>>,
}

pub(super) fn read(mut table: Table<'_>) -> Read<'_> {
    let public = listeners(&mut table, "public");
    let internal = listeners(&mut table, "internal");
    if let (None, None) = (&public, &internal) {
        table.missing("public", "and `internal` are both missing: a service needs a listener");
    }
    let upstreams = table.require("upstreams");
    let upstreams: Vec<Upstream> = upstreams
        .map_or_else(Vec::new, Entry::list)
        .iter()
        .filter_map(|item| item.parsed(Code::Address, address::upstream))
        .map(Spanned::into_inner)
        .collect();
    let upstream_ca = table.take("upstream_ca").and_then(|entry| {
        if !upstreams.is_empty() && upstreams.iter().all(|upstream| !upstream.tls) {
            entry.note(Code::Conflict, "has no use", "no upstream starts with `https://`");
        }
        entry.file()
    });
    let tls = table.take("tls").and_then(Entry::table).and_then(tls);
    let scope = table.take("scope");
    let strict = table.take("strict").and_then(|entry| entry.boolean()).unwrap_or(false);
    let settle = table.take("settle").and_then(|entry| entry.boolean()).unwrap_or(false);
    let health = table.take("health").and_then(Entry::table).and_then(health);
    table.finish();

    let (public, internal) = (public.unwrap_or_default(), internal.unwrap_or_default());
    let addresses = |listeners: &[Spanned<SocketAddr>]| listeners.iter().map(|at| *at.get_ref()).collect();
    let service = Service {
        public: addresses(&public),
        internal: addresses(&internal),
        upstreams,
        upstream_ca,
        tls,
        scope: None,
        strict,
        settle,
        health,
    };
    Read { service, scope, listeners: public.into_iter().chain(internal).collect() }
}

fn listeners(table: &mut Table<'_>, key: &'static str) -> Option<Vec<Spanned<SocketAddr>>> {
    let items = table.take(key)?.list();
    Some(items.iter().filter_map(|item| item.parsed(Code::Address, address::listener)).collect())
}

fn tls(mut table: Table<'_>) -> Option<Tls> {
    let certificate = table.require("certificate").and_then(|entry| entry.file());
    let key = table.require("key").and_then(|entry| entry.file());
    table.finish();
    Some(Tls { certificate: certificate?, key: key? })
}

fn health(mut table: Table<'_>) -> Option<Health> {
    let path = table.require("path").and_then(|entry| entry.parsed(Code::Value, path));
    let interval = table.duration("interval", HEALTH_INTERVAL);
    let timeout = table.duration("timeout", HEALTH_TIMEOUT);
    table.finish();
    Some(Health { path: path?.into_inner(), interval, timeout })
}

/// What can stand in the first line of a request.
fn path(text: &str) -> Result<String, String> {
    if !text.starts_with('/') {
        return Err("a path starts with `/`".to_owned());
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err("a path has no spaces, no `#`, and what is not ASCII is percent-encoded".to_owned());
    }
    Ok(text.to_owned())
}
