//! Sites that run in this process, and both ends of what they carry.

mod conn;
mod isles;
mod upstream;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use link::{Authority, Identity};
use mesh::upstream::Target;
use mesh::{Audit, Fixed, Limits, Link, Mesh, Service, Settings, Timeouts};
use profile::Profile;
use scope::{Atlas, Dialect, Site};

pub use conn::{Bytes, Conn, Message};
pub use isles::{Isles, head};
pub use upstream::{Upstream, json};

pub const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Longer than anything here takes on a busy machine: a test that waits so long is stuck.
pub const STUCK: Duration = Duration::from_secs(20);

/// How a request reaches the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The client's own site.
    Local,
    /// Another site.
    Peer,
}

pub const WAYS: [Way; 2] = [Way::Local, Way::Peer];

/// One or two sites with a service behind them, and the listener that a client sees.
pub struct Front {
    pub address: SocketAddr,
    pub way: Way,
    meshes: Vec<Mesh>,
    /// The second site's link, and an identity that it believes.
    pub link: Option<(SocketAddr, Identity)>,
}

impl Front {
    pub fn new(way: Way, upstream: &Upstream) -> Front {
        Front::tuned(way, upstream.address(), |_| {})
    }

    /// With other settings, at every site.
    pub fn tuned(way: Way, upstream: SocketAddr, tune: impl Fn(&mut Settings)) -> Front {
        Front::to(way, plain(upstream), tune)
    }

    pub fn to(way: Way, upstream: Target, tune: impl Fn(&mut Settings)) -> Front {
        let start = |settings: Settings| {
            let mut settings = settings;
            tune(&mut settings);
            Mesh::start(settings, NonZeroUsize::MIN, Audit::none(), [7; 16]).unwrap()
        };
        let authority = Authority::create("Test").unwrap();
        let (meshes, link) = match way {
            Way::Local => (vec![start(settings("A", vec![upstream]))], None),
            Way::Peer => {
                let mut far = settings("B", vec![upstream]);
                far.link = Some(link_of(&authority, "B"));
                let far = start(far);
                let address = far.link_address().unwrap();
                let mut near = settings("A", Vec::new());
                let peers = BTreeMap::from([(site("B"), address.to_string())]);
                near.sites = sites("A", peers);
                near.link = Some(link_of(&authority, "A"));
                (vec![start(near), far], Some((address, authority.issue("C").unwrap())))
            }
        };
        Front { address: meshes[0].addresses("image", false)[0], way, meshes, link }
    }

    /// A new connection of a client.
    pub fn connect(&self) -> Conn {
        Conn::to(self.address)
    }

    /// The head of a request that takes this way: `fields` end each with CR LF.
    pub fn head(&self, line: &str, fields: &str) -> String {
        let scope = match self.way {
            Way::Local => "",
            Way::Peer => "X-Scope: image: B\r\n",
        };
        format!("{line} HTTP/1.1\r\nHost: service\r\n{scope}{fields}\r\n")
    }

    /// One request on a connection of its own.
    pub fn ask(&self, line: &str, fields: &str, body: &[u8]) -> Message {
        let mut client = self.connect();
        client.send(self.head(line, fields).as_bytes());
        client.send(body);
        client.answer_to(line)
    }

    /// Where the site's own services reach this one, if it was tuned to have such a listener.
    pub fn internal(&self) -> SocketAddr {
        self.meshes[0].addresses("image", true)[0]
    }

    /// A listener of the second site.
    pub fn far(&self, internal: bool) -> SocketAddr {
        self.meshes[1].addresses("image", internal)[0]
    }

    /// Requests in flight at the client's site.
    pub fn in_flight(&self) -> usize {
        self.meshes[0].in_flight()
    }

    /// What the client's site counted under this name.
    pub fn counted(&self, name: &str) -> u64 {
        let text = self.meshes[0].metrics();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("archipel_{name} ")));
        line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
    }

    /// Has the client's site forward everything as if there were no scopes, or no more.
    #[allow(dead_code, reason = "only the thin path's tests do that")]
    pub fn bypass(&self, on: bool) {
        self.meshes[0].set_bypass(on);
    }

    /// Ends the client's site, as far as its requests are answered.
    pub fn drain(mut self, patience: Duration) -> std::thread::JoinHandle<()> {
        let mesh = self.meshes.remove(0);
        std::thread::spawn(move || mesh.drain(patience))
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        for mesh in self.meshes.drain(..) {
            mesh.drain(Duration::from_millis(1));
        }
    }
}

pub fn plain(address: SocketAddr) -> Target {
    Target { host: address.ip().to_string(), port: address.port(), tls: None }
}

pub fn site(name: &str) -> Site {
    Site::new(name).unwrap()
}

pub fn link_of(authority: &Authority, name: &str) -> Link {
    Link {
        listen: ANY_PORT,
        identity: Arc::new(authority.issue(name).unwrap()),
        source: None,
        revoked: link::Revoked::default(),
        speaks: link::Speaks::NOW,
        backstage: None,
    }
}

/// A and B, the first of them being here.
fn sites(name: &str, peers: BTreeMap<Site, String>) -> Arc<Fixed> {
    let other = if name == "A" { "B" } else { "A" };
    Arc::new(Fixed { atlas: Atlas::new([site(name), site(other)]).unwrap(), peers })
}

pub fn settings(name: &str, upstreams: Vec<Target>) -> Settings {
    let profile = Profile::named("rest").unwrap();
    let service = Service {
        public: vec![ANY_PORT],
        internal: Vec::new(),
        upstreams,
        tls: None,
        scope: None,
        strict: false,
        settle: false,
        health: None,
    };
    Settings {
        site: site(name),
        dialect: Dialect { services: profile.services(), ..Dialect::default() },
        sites: sites(name, BTreeMap::new()),
        profile,
        observe: false,
        services: BTreeMap::from([("image".to_owned(), service)]),
        link: None,
        replication: None,
        tokens: None,
        thin: crate::THIN,
        limits: Limits {
            header_bytes: 32 << 10,
            headers: 100,
            connections: 1000,
            requests: 1000,
            requests_per_peer: 1000,
            records_per_sender: 100_000,
            record_lifetime: Duration::from_mins(1),
            replay_bytes: 64 << 10,
            streams: 16,
        },
        timeouts: Timeouts {
            header: STUCK,
            idle: STUCK,
            connect: STUCK,
            response: STUCK,
            peer_response: STUCK,
            body_idle: STUCK,
            hedge: STUCK,
        },
    }
}

/// An address at which nobody listens, and nobody else will.
pub fn nowhere() -> SocketAddr {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(ANY_PORT).unwrap();
    Box::leak(Box::new(socket)).local_addr().unwrap()
}

/// Waits until it is so; a test that waits too long is stuck.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !so() {
        assert!(start.elapsed() < STUCK, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Runs a client of hyper's on this thread.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new()
        .block_on(&runtime, async { tokio::time::timeout(STUCK, test).await.expect("the test is stuck") })
}
