//! The client, and the mesh that it speaks to.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh::upstream::Target;
use mesh::{Audit, Fixed, Limits, Mesh, Service as Settled, Settings, Timeouts};
use profile::Profile;
use scope::{Atlas, Dialect, Site};

use super::far::{self, Notes, Service};
use super::message::{chunks, head, noted};

/// To what a service's answer is fuzzed. The first is one that several sites are asked for, the second as simple as can be.
pub const REQUESTS: &[&[u8]] = &[
    b"GET / HTTP/1.1\r\nHost: a\r\nX-Scope: image: A ; B\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nX-Scope: image: A\r\nConnection: close\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi",
];

/// One way through a site.
pub struct Path {
    name: &'static str,
    address: SocketAddr,
    notes: Arc<Mutex<Notes>>,
    _mesh: Mesh,
}

impl Path {
    pub fn new(thin: bool) -> Path {
        let (service, notes) = far::listen();
        let mesh =
            Mesh::start(settings(service, thin), NonZeroUsize::MIN, Audit::none(), [7; 16]).expect("a mesh");
        let name = if thin { "thin" } else { "other" };
        Path { name, address: mesh.addresses("image", false)[0], notes, _mesh: mesh }
    }

    /// Sends bytes, and says what the service saw of them and what came back.
    pub fn carry(&self, bytes: &[u8], cut: usize, service: Service) -> (Vec<String>, Vec<String>) {
        let free = matches!(service, Service::Says(_));
        let (requests, came) = self.ask(bytes, cut, service);
        if !free {
            return (requests, answers(self.name, &came));
        }
        // The service has closed a connection that the path may have kept, and may use again before it sees that. So
        // it is used up here: each path begins with one that is open, whatever was said on the one before.
        let fine =
            |_| self.ask(REQUESTS[1], usize::MAX, Service::Answers(far::ANSWERS[0])).1.ends_with(b"ok");
        assert!((0..100).any(fine), "it does not recover");
        (requests, free_answer(&came, bytes.starts_with(b"HEAD ")))
    }

    /// The same, as it came.
    fn ask(&self, bytes: &[u8], cut: usize, service: Service) -> (Vec<String>, Vec<u8>) {
        {
            let mut notes = self.notes.lock().expect("notes");
            notes.requests.clear();
            notes.service = Some(service);
        }
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("an option");
        for piece in bytes.chunks(cut.max(bytes.len() / 64 + 1)) {
            // It may have been closed for what it said.
            if stream.write_all(piece).is_err() {
                break;
            }
        }
        let _ = stream.shutdown(Shutdown::Write);
        let mut came = Vec::new();
        if let Err(error) = stream.read_to_end(&mut came) {
            assert!(!matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "it hangs");
        }
        let mut notes = self.notes.lock().expect("notes");
        assert_eq!(notes.broken, None);
        (std::mem::take(&mut notes.requests), came)
    }
}

/// Every answer that came.
fn answers(path: &str, mut bytes: &[u8]) -> Vec<String> {
    let (all, mut answers) = (bytes, Vec::new());
    while let Some((line, fields, start)) = head(bytes) {
        let field = |name: &str| fields.iter().find(|field| field.0 == name).map(|field| field.1.as_str());
        let rest = &bytes[start..];
        let is_head = field("x-method") == Some("HEAD") || rest.starts_with(b"HTTP/1.1 ");
        let (length, body) = match (field("content-length"), field("transfer-encoding")) {
            _ if is_head || line.contains(" 204 ") => (0, Vec::new()),
            (Some(length), None) => {
                let length = length.parse::<usize>().expect("a length").min(rest.len());
                (length, rest[..length].to_vec())
            }
            (None, Some("chunked")) => {
                chunks(rest).unwrap_or_else(|| panic!("cut, on the {path} path: {}", all.escape_ascii()))
            }
            // To a client of HTTP/1.0: until the end.
            (None, None) => (rest.len(), rest.to_vec()),
            framings => panic!("{framings:?}"),
        };
        bytes = &rest[length..];
        let document = String::from_utf8_lossy(&body);
        if document.contains("urn:archipel:bad-body") {
            // Whether a client that ended in the middle is told so, and in which words, differs.
            continue;
        }
        answers.push(noted(&line, &fields, &body));
    }
    assert!(bytes.is_empty(), "{}", bytes.escape_ascii());
    answers
}

/// The one answer to what a service said, whatever that was, with the interim ones before it.
fn free_answer(mut bytes: &[u8], is_head: bool) -> Vec<String> {
    let mut answers = Vec::new();
    while let Some((line, fields, start)) = head(bytes) {
        bytes = &bytes[start..];
        if line.starts_with("HTTP/1.1 1") {
            answers.push(noted(&line, &fields, b""));
            continue;
        }
        // Reasons and documents of the mesh may say more on one path.
        let status = line.get(..12).unwrap_or_default();
        let Some((length, body)) = free_body(&line, &fields, bytes, is_head) else {
            // Cut. The service broke its answer off, or broke the framing, after the head. The thin path may have
            // relayed the head and a part of the body by then, where hyper's server dropped them unwritten: that is
            // when it was noticed, and no difference in framing. On neither path did the client get an answer that it
            // can take for a whole one: its length, or the last chunk, is lacking when the connection ends. An
            // answer that is whole on one path and cut on the other is a difference, and found here. The interim ones
            // before it may have been lost with it.
            return Vec::new();
        };
        assert_eq!(length, bytes.len(), "more than an answer: {}", bytes.escape_ascii());
        // It announces fields after the body and frames nothing. hyper's server writes it beside chunks only, and
        // several as one.
        let fields: Vec<_> = fields.into_iter().filter(|field| field.0 != "trailer").collect();
        answers.push(if status.ends_with("502") { status.to_owned() } else { noted(status, &fields, &body) });
        return answers;
    }
    // Nothing at all, or a part of a head: cut as well.
    Vec::new()
}

/// The body of an answer of the mesh's, and how many bytes it took; none if it is cut. It is well framed as far as it
/// came, or this panics.
fn free_body(
    line: &str,
    fields: &[(String, String)],
    bytes: &[u8],
    is_head: bool,
) -> Option<(usize, Vec<u8>)> {
    let all = |name: &str| -> Vec<&str> {
        fields.iter().filter(|field| field.0 == name).map(|field| field.1.as_str()).collect()
    };
    if is_head || line.starts_with("HTTP/1.1 204") || line.starts_with("HTTP/1.1 304") {
        return Some((0, Vec::new()));
    }
    match (&*all("content-length"), &*all("transfer-encoding")) {
        ([length], []) => {
            let length = length.parse().expect("a length");
            bytes.get(..length).map(|body| (length, body.to_vec()))
        }
        ([], ["chunked"]) => chunks(bytes),
        framings => panic!("an answer of the mesh has one framing: {framings:?}"),
    }
}

fn settings(service: SocketAddr, thin: bool) -> Settings {
    let site = |name: &str| Site::new(name).expect("a name");
    let profile = Profile::named("rest").expect("a profile");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let long = Duration::from_secs(30);
    let target = Target { host: service.ip().to_string(), port: service.port(), tls: None };
    let settled = Settled {
        public: vec![any],
        internal: Vec::new(),
        upstreams: vec![target],
        tls: None,
        scope: None,
        strict: false,
        settle: false,
        health: None,
    };
    Settings {
        site: site("A"),
        dialect: Dialect { services: profile.services(), ..Dialect::default() },
        sites: Arc::new(Fixed {
            atlas: Atlas::new(["A", "B"].map(site)).expect("sites"),
            peers: BTreeMap::new(),
        }),
        profile,
        observe: false,
        services: BTreeMap::from([("image".to_owned(), settled)]),
        link: None,
        replication: None,
        tokens: None,
        thin,
        limits: Limits {
            header_bytes: 2048,
            headers: 20,
            connections: 1000,
            requests: 1000,
            requests_per_peer: 1000,
            records_per_sender: 100_000,
            record_lifetime: long,
            replay_bytes: 1024,
            streams: 1000,
        },
        timeouts: Timeouts {
            header: long,
            idle: long,
            connect: long,
            response: long,
            peer_response: long,
            body_idle: long,
            hedge: long,
        },
    }
}
