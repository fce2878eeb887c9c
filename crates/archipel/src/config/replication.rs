//! `[replication]`: how replicated resources are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use http::HeaderName;
use http::uri::PathAndQuery;
use scope::{Services, Site};

use super::address::{self, Upstream};
use super::fault::Code;
use super::read::{canonical, site};
use super::table::{Entry, Table};

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
    /// The sites whose writes are executed here; else every site of the operator's.
    pub accept_from: Option<BTreeSet<Site>>,
    /// Who is told when every replica has executed what this site accepted: where, and the path there.
    pub webhook: Option<(Upstream, PathAndQuery)>,
}

impl Replication {
    /// None where the file says that there is none.
    /// `sites`: the only ones that there will be, if that is known.
    pub(super) fn read(
        mut table: Table<'_>,
        known: &Services,
        sites: Option<&BTreeSet<Site>>,
    ) -> Option<Replication> {
        let on = table.take("enabled").and_then(|entry| entry.boolean()).unwrap_or(true);
        let quota_mib = table.count("quota_mib", 0..=MOST_MIB, QUOTA_MIB);
        let inline_bytes = table.count("inline_bytes", 1..=MOST_INLINE, INLINE_BYTES);
        let webhook = table.take("webhook");
        let webhook = webhook.and_then(|entry| Some(entry.parsed(Code::Address, webhook_at)?.into_inner()));
        let accept_from = table.take("accept_from").map(|entry| accepted(entry, sites));
        let mut credentials = BTreeMap::new();
        for entry in table.table("credentials").entries() {
            let service = canonical(&entry, &entry.name, entry.key.clone(), known);
            let Some(headers) = entry.table() else { continue };
            let headers = self::headers(headers);
            credentials.extend(service.map(|service| (service, headers)));
        }
        table.finish();
        on.then_some(Replication { quota_mib, inline_bytes, credentials, accept_from, webhook })
    }
}

/// Names of sites, each of which there is.
fn accepted(entry: Entry<'_>, sites: Option<&BTreeSet<Site>>) -> BTreeSet<Site> {
    let mut accepted = BTreeSet::new();
    for entry in entry.list() {
        let Some(site) = site(&entry) else { continue };
        if let Some(known) = sites.filter(|known| !known.contains(&site)) {
            let names = known.iter().map(Site::name);
            entry.note_unknown("site", site.name(), entry.within(0..site.name().len()), names);
        }
        accepted.insert(site);
    }
    accepted
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
    let header = |entry: &Entry<'_>| {
        let name = HeaderName::try_from(&*entry.name);
        if name.is_err() {
            let message = format!("`{}` cannot be a header", entry.name.escape_debug());
            entry.note_key(Code::Name, message, "such as `Authorization`");
        }
        Some((name.ok()?, entry.file()?))
    };
    table.entries().iter().filter_map(header).collect()
}
