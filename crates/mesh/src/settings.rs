//! What a mesh is told: one snapshot, replaced as a whole on a reload.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use profile::Profile;
use scope::{Dialect, Scope, Site};

use crate::backstage::Backstage;
use crate::sites::Sites;
use crate::upstream::Target;
use crate::upstream::health::Check;

/// One site's data plane.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This site.
    pub site: Site,
    /// The language, with the services of the application and the limits.
    pub dialect: Dialect,
    /// The sites, until [`crate::Mesh::set_sites`] says otherwise.
    pub sites: Arc<dyn Sites>,
    /// The application.
    pub profile: Profile,
    /// Forward everything untouched to this site's own services, and only report.
    pub observe: bool,
    /// The services, by their canonical names.
    pub services: BTreeMap<String, Service>,
    /// How this site meets the others; nothing for one that is alone.
    pub link: Option<Link>,
    /// How replicated resources are kept; nothing where there can be none.
    pub replication: Option<Replication>,
    /// Whose tokens of other sites are honoured here; nothing where none are.
    pub tokens: Option<Tokens>,
    /// Serve what is simple, plain HTTP/1.1 to plain services of this site, without hyper. It should be on: without
    /// it the same requests are answered in the same way, and small ones cost more.
    pub thin: bool,
    /// How much of each thing there may be.
    pub limits: Limits,
    /// How long each thing may take.
    pub timeouts: Timeouts,
}

/// How this site meets the others.
#[derive(Clone, Debug)]
pub struct Link {
    /// Where to listen for them.
    pub listen: SocketAddr,
    /// Who this site is.
    pub identity: Arc<link::Identity>,
    /// The address that connections to other sites come from; else the system chooses.
    pub source: Option<IpAddr>,
    /// The identities that are believed no more. The mesh starts with these, and keeps to them on a reload.
    pub revoked: link::Revoked,
    /// The versions that are spoken to them: [`link::Speaks::NOW`], unless a test wants others.
    pub speaks: link::Speaks,
    /// Who answers what they ask beside the legs of requests.
    pub backstage: Option<Arc<dyn Backstage>>,
}

/// How replicated resources are kept.
#[derive(Clone, Debug)]
pub struct Replication {
    /// Where: an existing directory of this site's own. The mesh starts with this, and keeps to it on a reload.
    pub directory: PathBuf,
    /// Bytes of bodies that wait for a site, at most. Past it writes are refused, here and from other sites.
    pub quota: u64,
    /// A body that is longer is spooled.
    pub inline: usize,
    /// What this site's services know Archipel by, for each: operations of other sites are executed with these. A
    /// service that is not here executes none; one that knows no credentials has none here.
    pub credentials: BTreeMap<String, Vec<(HeaderName, HeaderValue)>>,
    /// The sites whose writes are executed here, and that may make resources here. `None`: every site of the operator's.
    pub accept_from: Option<BTreeSet<Site>>,
    /// Who is told when every replica has executed what this site accepted.
    pub webhook: Option<Webhook>,
}

/// Which tokens of other sites are honoured here, and how this site's users are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// Where it is remembered which site issued which token: an existing directory of this site's own. The mesh starts
    /// with this, and keeps to it on a reload. Without, it is forgotten at the end.
    pub directory: Option<PathBuf>,
    /// What the paths of the identity service begin with at this site.
    pub prefix: String,
    /// What this site's identity service knows Archipel by.
    pub login: Option<Login>,
    /// The sites whose tokens are honoured.
    pub accept: BTreeMap<Site, Accept>,
}

/// What this site's identity service knows Archipel by.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// A user of this site.
    pub user: Named,
    /// The project in which that user may look for users, projects and roles.
    pub project: Named,
    /// Its password.
    pub password: String,
}

/// It does not show the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({} for {})", self.user, self.project)
    }
}

/// A user or a project, by its name in a domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    /// The name of the domain.
    pub domain: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.domain, self.name)
    }
}

/// For which projects the tokens of another site are honoured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accept {
    /// For each, as the project of the same name here.
    All,
    /// For these, each as one of this site's.
    Projects(BTreeMap<Named, Named>),
}

impl Accept {
    /// The project of this site that one of the other site is here.
    #[must_use]
    pub fn project(&self, theirs: &Named) -> Option<Named> {
        match self {
            Accept::All => Some(theirs.clone()),
            Accept::Projects(projects) => projects.get(theirs).cloned(),
        }
    }
}

/// Somebody who is told by a POST.
#[derive(Clone, Debug)]
pub struct Webhook {
    /// Where.
    pub target: Target,
    /// The path there, and the query if there is one.
    pub path: http::uri::PathAndQuery,
}

/// One service of this site.
#[derive(Clone, Debug)]
pub struct Service {
    /// Where clients reach it.
    pub public: Vec<SocketAddr>,
    /// Where the site's own services reach it: keys of caused calls are honoured here only.
    pub internal: Vec<SocketAddr>,
    /// The instances of the service itself.
    pub upstreams: Vec<Target>,
    /// The listeners speak TLS with this.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// The scope of requests that bring none.
    pub scope: Option<Arc<Scope>>,
    /// A list that lacks a site is an error, also without `X-Scope-Strict`.
    pub strict: bool,
    /// What a write makes is waited for as the profile says, also without `X-Scope-Settle`.
    pub settle: bool,
    /// How to ask the upstreams for their health.
    pub health: Option<Check>,
}

/// How much of each thing there may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a request's headers.
    pub header_bytes: usize,
    /// Number of a request's headers.
    pub headers: usize,
    /// Connections of clients at the same time, for each listener.
    pub connections: usize,
    /// Requests in flight to this site's own services; and as many that may need other sites.
    pub requests: usize,
    /// Requests in flight to one peer.
    pub requests_per_peer: usize,
    /// Scoped requests of one sender that may still cause calls.
    pub records_per_sender: usize,
    /// How long a scoped request may still cause calls.
    pub record_lifetime: Duration,
    /// Bytes of a write's body that are kept for a second site.
    pub replay_bytes: usize,
    /// Answers without a length that are kept open for longer than a pause.
    pub streams: usize,
}

/// How long each thing may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A request's headers, from the first byte.
    pub header: Duration,
    /// A connection without a request.
    pub idle: Duration,
    /// Connecting to an upstream or a peer.
    pub connect: Duration,
    /// The head of an answer, from an upstream of this site.
    pub response: Duration,
    /// The head of an answer, from a peer.
    pub peer_response: Duration,
    /// A pause within a body.
    pub body_idle: Duration,
    /// Before a read that is raced goes to the next site too.
    pub hedge: Duration,
}
