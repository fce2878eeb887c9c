//! The configuration of one site: `archipel.toml`.
//!
//! A [`Config`] is read from a file, and an invalid one cannot exist: nothing else makes one, and
//! nothing changes it afterwards. All that is wrong with a file is reported at once, before any port is
//! bound, each fault drawn where it stands.
//!
//! In the order in which a file meets them: `table` (TOML to keys and values, with their places),
//! `read`, `service`, `replication` and `tokens` (keys to settings), `limits` and `address`, `names` (zones and scopes against
//! the sites), `fault`; beside them `restart` (what a reload does not change).

mod address;
mod fault;
mod limits;
mod names;
mod read;
mod replication;
mod restart;
mod service;
mod table;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::Duration;

use profile::Profile;
use scope::{Atlas, Dialect, Scope, Site};

pub use address::{Endpoint, Upstream, endpoint};
pub use fault::{Code, Fault, Faults};
pub use limits::{Limits, Timeouts};
pub use replication::Replication;
pub use restart::{RESTART_KEYS, RestartKey, needs_restart};
pub use tokens::{Accept, Login, Named, Tokens};

/// A file that was read and is valid. Plain data: two readings can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    settings: Settings,
}

/// What a [`Config`] says. Every path is as seen from where the process runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// This site.
    pub site: Site,
    /// The name of the application's profile.
    pub profile_name: String,
    /// The application's profile.
    pub profile: Profile,
    /// What to do with requests.
    pub mode: Mode,
    /// Where this site keeps what must survive a restart. It may not be there yet.
    pub state: PathBuf,
    /// How many threads serve requests.
    pub threads: NonZeroUsize,
    /// How this site meets the others. There is one if there are peers.
    pub link: Option<Link>,
    /// The version of the application, for the other sites to know.
    pub version: Option<String>,
    /// This site's labels.
    pub labels: BTreeMap<String, String>,
    /// A file with this site's metrics, which is read again and again.
    pub metrics: Option<PathBuf>,
    /// The other sites.
    pub peers: BTreeMap<Site, Peer>,
    /// This site's services, by their canonical names. There is at least one.
    pub services: BTreeMap<String, Service>,
    /// The zones, each with the text of its location.
    pub zones: BTreeMap<String, String>,
    /// How replicated resources are kept; nothing where there are to be none.
    pub replication: Option<Replication>,
    /// Which tokens of other sites are honoured here.
    pub tokens: Option<Tokens>,
    /// How much of each thing there may be.
    pub limits: Limits,
    /// How long each thing may take.
    pub timeouts: Timeouts,
    /// Where to write who asked for what.
    pub audit: Option<Audit>,
    /// Serve what is simple without hyper. It is so unless the file says otherwise.
    pub thin: bool,
}

/// What to do with requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Send each where its scope says.
    Route,
    /// Forward each untouched to this site's own service, and report what its scope would have done.
    Observe,
}

/// How this site meets the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it listens for them.
    pub listen: SocketAddr,
    /// Where they reach it. Without, at the address that it listens at, or would send from.
    pub advertise: Option<Endpoint>,
    /// Links of sites that are there already: one that answers is enough to meet all.
    pub join: Vec<Endpoint>,
    /// The address that connections to other sites come from. Without, the system chooses.
    pub source: Option<IpAddr>,
    /// The directory with [`Link::ca`], [`Link::certificate`] and [`Link::key`].
    pub identity: PathBuf,
}

impl Link {
    /// The certificates of those who vouch for sites.
    #[must_use]
    pub fn ca(&self) -> PathBuf {
        self.identity.join(CA)
    }

    /// This site's certificate.
    #[must_use]
    pub fn certificate(&self) -> PathBuf {
        self.identity.join(CERTIFICATE)
    }

    /// This site's private key.
    #[must_use]
    pub fn key(&self) -> PathBuf {
        self.identity.join(KEY)
    }
}

const CA: &str = "ca.pem";
const CERTIFICATE: &str = "site.pem";
const KEY: &str = "site-key.pem";

/// Another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Where its link listens.
    pub address: Endpoint,
    /// How far it is, until that is measured.
    pub rtt: Option<Duration>,
    /// The services it offers, by their canonical names. Without, those of this site.
    pub services: Option<BTreeSet<String>>,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// One service of this site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Where clients reach it.
    pub public: Vec<SocketAddr>,
    /// Where the site's own services reach it: keys of caused calls are honoured here only. There is
    /// at least one listener, of either kind.
    pub internal: Vec<SocketAddr>,
    /// The instances of the service itself. There is at least one.
    pub upstreams: Vec<Upstream>,
    /// Who vouches for upstreams that are reached over TLS. Without, those whom the system trusts.
    pub upstream_ca: Option<PathBuf>,
    /// The listeners speak TLS with this.
    pub tls: Option<Tls>,
    /// The scope of requests that bring none. It is not empty.
    pub scope: Option<Scope>,
    /// Whether a list that lacks a site is an error, also without `X-Scope-Strict`.
    pub strict: bool,
    /// Whether what a write makes is waited for as the profile says, also without `X-Scope-Settle`.
    pub settle: bool,
    /// How to ask upstreams for their health. Without, only their answers tell.
    pub health: Option<Health>,
}

/// A certificate and its key, both PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// The certificate, and those between it and a root.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// How to ask an upstream for its health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The path to ask for: a success is health.
    pub path: String,
    /// From one question to the next.
    pub interval: Duration,
    /// For the answer.
    pub timeout: Duration,
}

/// Where to write who asked for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Audit {
    /// Standard output.
    Stdout,
    /// A file, to which lines are appended.
    File(PathBuf),
}

impl Config {
    /// Reads a file.
    pub fn load(path: &Path) -> Result<Config, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
        let base = path.parent().unwrap_or(Path::new(""));
        Config::read(&path.display().to_string(), &text, base).map_err(Error::Invalid)
    }

    /// Reads a text. `origin` is what to call it in faults, `base` what its paths are relative to.
    pub fn read(origin: &str, text: &str, base: &Path) -> Result<Config, Faults> {
        let document = table::Document::new(origin, text, base);
        let settings = document.root().and_then(read::settings);
        document.finish(settings).map(|settings| Config { settings })
    }

    /// The language as it is spoken at this site.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        Dialect { services: self.profile.services(), limits: self.limits.scope }
    }

    /// The sites as this file knows them: this one first, the peers in the order of their names.
    #[must_use]
    pub fn atlas(&self) -> Atlas {
        let dialect = self.dialect();
        let services: Vec<&str> = self.services.keys().map(String::as_str).collect();
        let mut atlas = names::atlas(&self.site, &self.labels, &services, &self.peers);
        for (name, text) in &self.zones {
            let defined = atlas.define_zone(name, text, &dialect);
            // The same calls made the same sites and zones when the file was read.
            debug_assert!(defined.is_ok(), "the zone `{name}` was checked");
        }
        atlas
    }
}

impl Deref for Config {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// The whole in a few lines, for the person who asked whether the file is valid.
impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = match self.mode {
            Mode::Route => "route",
            Mode::Observe => "observe",
        };
        writeln!(f, "site     {} (profile {}, mode {mode})", self.site, self.profile_name)?;
        write!(f, "services {}", listed(self.services.keys()))?;
        if !self.peers.is_empty() {
            write!(f, "\npeers    {}", listed(self.peers.keys()))?;
        }
        if let Some(tokens) = self.tokens.as_ref().filter(|tokens| !tokens.accept.is_empty()) {
            write!(f, "\ntokens   honoured of {}", listed(tokens.accept.keys()))?;
        }
        if !self.zones.is_empty() {
            write!(f, "\nzones    {}", listed(self.zones.keys()))?;
        }
        Ok(())
    }
}

fn listed(names: impl Iterator<Item: ToString>) -> String {
    names.map(|name| name.to_string()).collect::<Vec<_>>().join(", ")
}

/// Why there is no configuration.
#[derive(Debug)]
pub enum Error {
    /// The file cannot be read.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file was read, and this is wrong with it.
    Invalid(Faults),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unreadable { path, .. } => write!(f, "`{}` cannot be read", path.display()),
            Error::Invalid(faults) => faults.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Unreadable { source, .. } => Some(source),
            Error::Invalid(_) => None,
        }
    }
}
