//! The keys of the file, turned into [`Settings`].

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::path::PathBuf;

use profile::Profile;
use scope::{Atlas, Dialect, Services, Site, is_name};
use toml::Spanned;

use super::address::{self, Endpoint};
use super::fault::{Code, Fault};
use super::names;
use super::service;
use super::table::{Entry, Table};
use super::tokens::{Beside, Tokens};
use super::{Audit, CA, CERTIFICATE, KEY, Limits, Link, Mode, Peer, Replication, Settings, Timeouts};

/// What a name of the language is.
pub(super) const NAMES: &str =
    "a name is letters, digits, `.`, `_`, `-`, starts with a letter, and is not `here`";
/// More threads than any machine has cores.
const MOST_THREADS: usize = 1024;

/// Reads the whole file. Nothing, if a part is missing that has no default; that was noted then.
pub(super) fn settings(mut root: Table<'_>) -> Option<Settings> {
    let limits = Limits::read(root.table("limits"));
    let timeouts = Timeouts::read(root.table("timeouts"));
    let site = root.require("site").and_then(|entry| Some(Spanned::new(entry.at.clone(), site(&entry)?)));
    let profile = profile(&mut root);
    // Without a profile every name is a service: what it would have refused is not known.
    let known = profile.as_ref().map_or_else(Services::open, |(_, profile)| profile.services());
    let dialect = Dialect { services: known, limits: limits.scope };
    let modes = [("route", Mode::Route), ("observe", Mode::Observe)];
    let mode = root.take("mode").and_then(|entry| entry.one_of("mode", &modes)).unwrap_or(Mode::Route);
    let threads = threads(&mut root);
    let state = state(&mut root);
    let labels = labels(root.table("labels"));
    let version = root.take("version").and_then(|entry| version(&entry));
    let metrics = metrics(root.table("metrics"));
    let peers = peers(root.table("peers"), site.as_ref(), &dialect.services);
    let link = link(&mut root, !peers.is_empty());
    let audit = audit(root.table("audit"));
    // With sites that are met while it runs, a name that is not known yet is not a slip.
    let sites = site.as_ref().filter(|_| link.join.is_empty()).map(|site| {
        let peers = peers.keys().cloned();
        peers.chain([site.get_ref().clone()]).collect()
    });
    let replication = Replication::read(root.table("replication"), &dialect.services, sites.as_ref());
    let thin = thin(root.table("http"));
    let tokens = tokens(&mut root, profile.as_ref(), site.as_ref(), &peers, &link);
    let mut read = services(&mut root, &dialect.services);

    let listeners = read.values().flat_map(|read| &read.listeners);
    note_shared_listeners(&root, listeners.chain(link.listen.as_ref()));
    let here: Vec<&str> = read.keys().map(String::as_str).collect();
    // Names can only be told from slips when this site is known, and services when the profile is.
    let mut atlas = site.as_ref().map(|site| names::atlas(site.get_ref(), &labels, &here, &peers));
    let zones = names::zones(root.table("zones"), atlas.as_mut(), &dialect, link.join.is_empty());
    // With sites that are met while it runs, a name that is not known yet is not a slip.
    let atlas = atlas.filter(|_| profile.is_some() && link.join.is_empty());
    let spoken = atlas.as_ref().map_or_else(|| dialect.clone(), |atlas| dialect.offered(atlas));
    read_scopes(&mut read, atlas.as_ref(), &spoken);
    let Some((profile_name, profile)) = profile else {
        root.finish();
        return None;
    };
    let services = read.into_iter().map(|(name, read)| (name, read.service)).collect();
    if let Some(tokens) = &tokens {
        tokens.check(&root, &profile, &services);
    }
    root.finish();
    Some(Settings {
        site: site?.into_inner(),
        profile_name,
        profile,
        mode,
        state: state?,
        threads: threads?,
        link: link.whole(),
        version,
        labels,
        metrics,
        peers,
        services,
        zones,
        replication,
        tokens,
        limits,
        timeouts,
        audit,
        thin,
    })
}

fn tokens(
    root: &mut Table<'_>,
    profile: Option<&(String, Profile)>,
    here: Option<&Spanned<Site>>,
    peers: &BTreeMap<Site, Peer>,
    link: &LinkParts,
) -> Option<Tokens> {
    let (profile, here) = (profile.map(|(_, profile)| profile), here.map(Spanned::get_ref));
    let beside = Beside { profile, here, peers, joins: !link.join.is_empty() };
    root.take("tokens").and_then(|entry| Tokens::read(entry, &beside))
}

pub(super) fn site(entry: &Entry<'_>) -> Option<Site> {
    let read = |name: &str| Site::new(name).ok_or_else(|| NAMES.to_owned());
    entry.parsed(Code::Name, read).map(Spanned::into_inner)
}

/// One of the built-in profiles, or `NAME.toml` in the directory `profiles`, which comes first.
fn profile(root: &mut Table<'_>) -> Option<(String, Profile)> {
    let directory = root.take("profiles").and_then(|entry| entry.path());
    let entry = root.require("profile")?;
    let name = entry.string()?;
    let file = directory.map(|directory| directory.join(format!("{name}.toml")));
    if let Some(file) = file.filter(|file| is_name(name) && file.exists()) {
        let read = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        return match read.and_then(|text| Profile::read(&text).map_err(|_| first_fault(&text))) {
            Ok(profile) => Some((name.to_owned(), profile)),
            Err(why) => {
                entry.note(Code::File, format!("needs the profile `{}`", file.display()), why);
                None
            }
        };
    }
    let names: Vec<(&str, &str)> = Profile::names().map(|name| (name, name)).collect();
    let name = entry.one_of("profile", &names)?;
    Some((name.to_owned(), Profile::named(name)?))
}

/// Where a profile that cannot be read is wrong first; all of it is told by `archipel profile check`.
fn first_fault(text: &str) -> String {
    let faults = profile::faults(text);
    let Some(first) = faults.first() else { return String::new() };
    let line = text.bytes().take(first.at.start).filter(|byte| *byte == b'\n').count() + 1;
    let more = match faults.len() {
        1 => String::new(),
        many => format!(", the first of {many} faults: see `archipel profile check`"),
    };
    format!("line {line}: {}{more}", first.message)
}

fn threads(root: &mut Table<'_>) -> Option<NonZeroUsize> {
    match root.take("threads") {
        Some(entry) => NonZeroUsize::new(entry.count(1..=MOST_THREADS)?),
        // Where the system does not say, one is always right.
        None => Some(std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)),
    }
}

fn state(root: &mut Table<'_>) -> Option<PathBuf> {
    let Some(entry) = root.take("state") else { return Some(root.beside("state")) };
    let path = entry.path()?;
    // It is made when it is needed, but not in the place of something else.
    if path.exists() && !path.is_dir() {
        entry.note(Code::File, format!("needs the directory `{}`", path.display()), "not a directory");
        return None;
    }
    Some(path)
}

fn labels(table: Table<'_>) -> BTreeMap<String, String> {
    let word =
        |text: &str| text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'));
    let mut labels = BTreeMap::new();
    for entry in table.entries() {
        if !is_name(&entry.name) || !word(&entry.name) {
            let message = format!("`{}` cannot be a label", entry.name.escape_debug());
            entry.note_key(Code::Name, message, "a label is one word that starts with a letter");
        }
        let value = entry.parsed(Code::Value, |text| {
            let starts = text.starts_with(|first: char| first.is_ascii_alphanumeric());
            let fits = starts && word(text);
            fits.then(|| text.to_owned())
                .ok_or_else(|| "a label's value is one word, such as `eu-1`".to_owned())
        });
        if let Some(value) = value {
            labels.insert(entry.name.to_string(), value.into_inner());
        }
    }
    labels
}

fn peers(table: Table<'_>, here: Option<&Spanned<Site>>, services: &Services) -> BTreeMap<Site, Peer> {
    let mut peers = BTreeMap::new();
    let mut places = BTreeMap::new();
    for entry in table.entries() {
        let name = Site::new(&entry.name);
        if name.is_none() {
            let message = format!("`{}` cannot be a site's name", entry.name.escape_debug());
            entry.note_key(Code::Name, message, NAMES);
        }
        if let Some(here) = here.filter(|here| here.get_ref().name() == entry.name) {
            let message = format!("the peer `{}` is this site", entry.name);
            let fault = Fault::new(Code::Conflict, message, entry.key.clone(), "a peer is another site");
            entry.note_fault(fault.also(here.span(), "this site"));
        }
        let peer = match entry.table() {
            Some(table) => peer(table, services, &mut places),
            None => unread_peer(),
        };
        peers.extend(name.map(|name| (name, peer)));
    }
    peers
}

/// A peer of which nothing could be read. That it exists is known, so that scopes which name it are not
/// at fault too.
fn unread_peer() -> Peer {
    let nowhere = Endpoint { host: String::new(), port: 0 };
    Peer { address: nowhere, rtt: None, services: None, labels: BTreeMap::new() }
}

fn peer(mut table: Table<'_>, known: &Services, places: &mut BTreeMap<Endpoint, Range<usize>>) -> Peer {
    let address = table.require("address").and_then(|entry| entry.parsed(Code::Address, address::endpoint));
    if let Some(address) = &address {
        // Each address has one site behind it: the other peer would never be who it claims to be.
        if let Some(first) = places.insert(address.get_ref().clone(), address.span()) {
            let message = format!("two peers at `{}`", address.get_ref());
            let fault = Fault::new(Code::Conflict, message, address.span(), "this one");
            table.note(fault.also(first, "has it already"));
        }
    }
    let rtt = table.take("rtt").and_then(|entry| entry.duration());
    let services = table.take("services").map(|entry| {
        let items = entry.list();
        let name = |item: &Entry<'_>| {
            let name = item.string()?;
            canonical(item, name, item.within(0..name.len()), known)
        };
        items.iter().filter_map(name).collect::<BTreeSet<String>>()
    });
    let labels = labels(table.table("labels"));
    table.finish();
    let address = address.map_or_else(|| unread_peer().address, Spanned::into_inner);
    Peer { address, rtt, services, labels }
}

/// What there is of a [`Link`].
struct LinkParts {
    listen: Option<Spanned<SocketAddr>>,
    identity: Option<PathBuf>,
    advertise: Option<Endpoint>,
    join: Vec<Endpoint>,
    source: Option<IpAddr>,
}

impl LinkParts {
    fn whole(self) -> Option<Link> {
        let LinkParts { listen, identity, advertise, join, source } = self;
        Some(Link { listen: listen?.into_inner(), identity: identity?, advertise, join, source })
    }
}

fn link(root: &mut Table<'_>, peers: bool) -> LinkParts {
    let mut table = root.table("link");
    let listen = table.take("listen");
    let endpoint = |entry: &Entry<'_>| Some(entry.parsed(Code::Address, address::endpoint)?.into_inner());
    let advertise = table.take("advertise").and_then(|entry| endpoint(&entry));
    let join = table.take("join").map(Entry::list).unwrap_or_default();
    let join: Vec<Endpoint> = join.iter().filter_map(endpoint).collect();
    let source = table.take("source").and_then(|entry| {
        let read = |text: &str| text.parse().map_err(|_| "an IP address of this machine".to_owned());
        entry.parsed(Code::Address, read).map(Spanned::into_inner)
    });
    if listen.is_none() && peers {
        table.missing("listen", "is missing: this site has peers, and they must reach it");
    }
    table.finish();
    let identity = root.take("identity");
    if identity.is_none() && (peers || listen.is_some()) {
        root.missing("identity", "is missing: sites prove to each other who they are");
    }
    let identity = identity.and_then(|entry| {
        let directory = entry.path()?;
        if !directory.is_dir() {
            let message = format!("needs the directory `{}`", directory.display());
            entry.note(Code::File, message, "no such directory");
            return None;
        }
        let readable = [CA, CERTIFICATE, KEY].map(|file| entry.note_unless_readable(&directory.join(file)));
        readable.into_iter().all(|readable| readable).then_some(directory)
    });
    let listen = listen.and_then(|entry| entry.parsed(Code::Address, address::listener));
    LinkParts { listen, identity, advertise, join, source }
}

/// A version is a few printable characters, as the application's own people write it.
fn version(entry: &Entry<'_>) -> Option<String> {
    let read = |text: &str| {
        let fits = (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| text.to_owned())
            .ok_or_else(|| "a version is 1 to 64 characters, without spaces".to_owned())
    };
    entry.parsed(Code::Value, read).map(Spanned::into_inner)
}

/// The file may come later: whoever measures writes it when it has measured.
fn metrics(mut table: Table<'_>) -> Option<PathBuf> {
    let entry = table.take("file");
    table.finish();
    let entry = entry?;
    let path = entry.path()?;
    if path.is_dir() {
        entry.note(Code::File, format!("cannot be `{}`", path.display()), "a directory");
        return None;
    }
    Some(path)
}

fn thin(mut table: Table<'_>) -> bool {
    let thin = table.take("thin").and_then(|entry| entry.boolean()).unwrap_or(true);
    table.finish();
    thin
}

fn audit(mut table: Table<'_>) -> Option<Audit> {
    let entry = table.take("file");
    table.finish();
    let entry = entry?;
    if entry.string()? == "-" {
        return Some(Audit::Stdout);
    }
    let path = entry.path()?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if directory.is_some_and(|directory| !directory.is_dir()) || path.is_dir() {
        entry.note(Code::File, format!("cannot be `{}`", path.display()), "not a file in a directory");
        return None;
    }
    Some(Audit::File(path))
}

/// Reads the services' own scopes, which may name what only the whole file tells.
fn read_scopes(services: &mut BTreeMap<String, service::Read<'_>>, atlas: Option<&Atlas>, spoken: &Dialect) {
    let here: Vec<&str> = services.keys().map(String::as_str).collect();
    let scope = |(name, read): (&String, &service::Read<'_>)| {
        names::scope(read.scope.as_ref()?, name, &here, atlas, spoken)
    };
    let scopes: Vec<_> = services.iter().map(scope).collect();
    for (read, scope) in services.values_mut().zip(scopes) {
        read.service.scope = scope;
    }
}

fn services<'d>(root: &mut Table<'d>, known: &Services) -> BTreeMap<String, service::Read<'d>> {
    let mut services = BTreeMap::new();
    let mut places: BTreeMap<String, Range<usize>> = BTreeMap::new();
    let Some(table) = root.require("services").and_then(Entry::table) else { return services };
    let entries = table.entries();
    if entries.is_empty() {
        root.missing("services", "is empty: a site has at least one service");
    }
    for entry in entries {
        // A name that is at fault keeps what it has: that is checked too.
        let mut name = entry.name.to_string();
        if let Some(canonical) = canonical(&entry, &entry.name, entry.key.clone(), known) {
            if let Some(first) = places.get(&canonical) {
                let message = format!("`{name}` is the service `{canonical}`, which is there already");
                let fault = Fault::new(Code::Conflict, message, entry.key.clone(), "the same service");
                entry.note_fault(fault.also(first.clone(), "first given here"));
            } else {
                places.insert(canonical.clone(), entry.key.clone());
                name = canonical;
            }
        }
        services.extend(entry.table().map(|table| (name, service::read(table))));
    }
    services
}

/// The canonical name of a service that is named at `at`, in an entry's key or value.
pub(super) fn canonical(entry: &Entry<'_>, name: &str, at: Range<usize>, known: &Services) -> Option<String> {
    if !is_name(name) {
        let message = format!("`{}` cannot be a service's name", name.escape_debug());
        entry.note_fault(Fault::new(Code::Name, message, at, NAMES));
        return None;
    }
    let canonical = known.canonical(name);
    if canonical.is_none() {
        entry.note_unknown("service", name, at, known.known());
    }
    canonical.map(String::from)
}

/// Notes listeners that would take each other's connections.
fn note_shared_listeners<'l>(root: &Table<'_>, listeners: impl Iterator<Item = &'l Spanned<SocketAddr>>) {
    let mut listeners: Vec<&Spanned<SocketAddr>> = listeners.collect();
    listeners.sort_by_key(|listener| listener.span().start);
    for (index, second) in listeners.iter().enumerate() {
        let shared = listeners.iter().take(index).find(|first| overlap(*first.get_ref(), *second.get_ref()));
        if let Some(first) = shared {
            let message = format!("two listeners on `{}`", second.get_ref());
            let fault = Fault::new(Code::Conflict, message, second.span(), "this one");
            root.note(fault.also(first.span(), "has it already"));
        }
    }
}

/// Whether two listeners want the same connections. Any free port, 0, is never the same twice.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    // An IPv4 address can be written as one of IPv6.
    let (first, second) = (one.ip().to_canonical(), other.ip().to_canonical());
    let anywhere = first.is_unspecified() || second.is_unspecified();
    let same = first == second || (anywhere && first.is_ipv4() == second.is_ipv4());
    same && one.port() == other.port() && one.port() != 0
}
