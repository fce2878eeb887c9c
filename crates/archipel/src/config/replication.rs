//! `[replication]`: how replicated resources are kept.

use std::collections::BTreeMap;
use std::path::PathBuf;

use http::HeaderName;
use http::uri::PathAndQuery;
use scope::Services;

use super::address::{self, Upstream};
use super::fault::Code;
use super::read::canonical;
use super::table::Table;

/// Bodies that wait for a site, unless the file says otherwise.
const QUOTA_MIB: usize = 10 << 10;
/// Bodies longer than this are spooled, unless the file says otherwise.
const INLINE_BYTES: usize = 64 << 10;
/// A larger quota is a slip: no disk has an exbibyte.
const MOST_MIB: usize = 1 << 40;
/// What is inline is in memory, and in messages between sites.
const MOST_INLINE: usize = 1 << 20;

/// How replicated resources are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replication {
    /// Mebibytes of bodies that wait for a site, at most.
    pub quota_mib: usize,
    /// A body that is longer is spooled.
    pub inline_bytes: usize,
    /// What this site's services know Archipel by: for each service its headers, each with the file that has its
    /// value.
    pub credentials: BTreeMap<String, Vec<(HeaderName, PathBuf)>>,
    /// Who is told when every replica has executed what this site accepted: where, and the path there.
    pub webhook: Option<(Upstream, PathAndQuery)>,
}

impl Replication {
    /// None where the file says that there is none.
    pub(super) fn read(mut table: Table<'_>, known: &Services) -> Option<Replication> {
        let on = table.take("enabled").and_then(|entry| entry.boolean()).unwrap_or(true);
        let quota_mib = table.count("quota_mib", 0..=MOST_MIB, QUOTA_MIB);
        let inline_bytes = table.count("inline_bytes", 1..=MOST_INLINE, INLINE_BYTES);
        let webhook = table.take("webhook");
        let webhook = webhook.and_then(|entry| Some(entry.parsed(Code::Address, webhook_at)?.into_inner()));
        let mut credentials = BTreeMap::new();
        for entry in table.table("credentials").entries() {
            let service = canonical(&entry, &entry.name, entry.key.clone(), known);
            let Some(headers) = entry.table() else { continue };
            let headers = self::headers(headers);
            credentials.extend(service.map(|service| (service, headers)));
        }
        table.finish();
        on.then_some(Replication { quota_mib, inline_bytes, credentials, webhook })
    }
}

/// `http://host:port/path`.
fn webhook_at(text: &str) -> Result<(Upstream, PathAndQuery), String> {
    let host = text.find("://").map_or(0, |scheme| scheme + 3);
    let end = text.get(host..).and_then(|rest| rest.find('/')).map_or(text.len(), |at| host + at);
    let (base, path) = text.split_at_checked(end).unwrap_or((text, ""));
    let path = if path.is_empty() { "/" } else { path };
    let path = path.parse().map_err(|_| format!("`{path}` is not a path"))?;
    Ok((address::upstream(base)?, path))
}

fn headers(table: Table<'_>) -> Vec<(HeaderName, PathBuf)> {
    let header = |entry: &super::table::Entry<'_>| {
        let name = HeaderName::try_from(&*entry.name);
        if name.is_err() {
            let message = format!("`{}` cannot be a header", entry.name.escape_debug());
            entry.note_key(Code::Name, message, "such as `Authorization`");
        }
        Some((name.ok()?, entry.file()?))
    };
    table.entries().iter().filter_map(header).collect()
}
