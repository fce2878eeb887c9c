//! A mixed load on three sites, and what came of each request.

#![allow(unreachable_pub, reason = "a module of a test")]

use std::io;
use std::sync::mpsc::Sender;
use std::sync::{Condvar, Mutex};

use archipel::demo::World;

use crate::support::sites::{SHARED_IMAGE, Site};
use crate::support::{Connection, Message, PATIENCE};

/// How often the mesh of each site went down or came up: the same even number before and after a request
/// says that it was up throughout.
#[derive(Default)]
pub struct Uptime {
    changes: Mutex<[u64; 3]>,
    changed: Condvar,
}

impl Uptime {
    pub fn changed(&self, site: Site) {
        self.changes.lock().unwrap()[site] += 1;
        self.changed.notify_all();
    }

    fn now(&self, site: Site) -> u64 {
        self.changes.lock().unwrap()[site]
    }

    /// Waits while a site is down: asked then, it would only use up the load.
    fn until_up(&self, site: Site) -> u64 {
        let down = |changes: &mut [u64; 3]| !changes[site].is_multiple_of(2);
        let waited = self.changed.wait_timeout_while(self.changes.lock().unwrap(), PATIENCE, down);
        waited.unwrap().0[site]
    }
}

/// Steele, Lea and Flood's `SplitMix64`: a seed replays a load.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % end as u64).unwrap()
    }
}

/// One request, and what came of it.
#[derive(Debug)]
pub struct Outcome {
    /// It concerns the site at which it entered, and no other.
    pub local: bool,
    pub site_was_up: bool,
    /// The service, and the name that no other write has.
    pub write: Option<(&'static str, String)>,
    pub answer: io::Result<Message>,
    /// For whoever reads a failure.
    pub _asked: String,
}

impl Outcome {
    pub fn succeeded(&self) -> bool {
        self.answer.as_ref().is_ok_and(|answer| [200, 201].contains(&answer.status()))
    }
}

/// Sends one request after the other.
pub struct Client<'w> {
    world: &'w World,
    uptime: &'w Uptime,
    number: usize,
    site: Site,
    random: Random,
}

struct Request {
    service: &'static str,
    scope: Option<String>,
    write: bool,
}

impl<'w> Client<'w> {
    pub fn new(world: &'w World, uptime: &'w Uptime, number: usize, seed: u64) -> Client<'w> {
        let random = Random::new(seed.wrapping_mul(1000) + number as u64);
        Client { world, uptime, number, site: number % 3, random }
    }

    pub fn ask_all(mut self, requests: usize, done: &Sender<()>) -> Vec<Outcome> {
        (0..requests)
            .map(|count| {
                let outcome = self.ask(count);
                let _ = done.send(());
                outcome
            })
            .collect()
    }

    fn choose(&mut self) -> Request {
        let first = self.random.below(3);
        let second = (first + 1 + self.random.below(2)) % 3;
        let (a, b) = (format!("Site{}", first + 1), format!("Site{}", second + 1));
        let (service, scope, write) = match self.random.below(12) {
            0 | 1 => ("image", None, false),
            2 => ("image", None, true),
            3 => ("compute", None, true),
            4 => ("image", Some(format!("image: {a} ; {b}")), false),
            5 => ("image", Some(format!("image: {a} | {b}")), false),
            6 => ("image", Some(format!("image: {a}")), false),
            7 => ("image", Some(format!("image: {a} ; {b}")), true),
            8 => ("image", Some(format!("image: {a} | {b}")), true),
            9 => ("image", Some(format!("image: within(150ms, {a}) ; {b}")), true),
            10 => ("image", Some(format!("image: within(300ms, {a} | {b})")), true),
            _ => ("compute", Some(format!("compute: {a}, image: {b}")), true),
        };
        Request { service, scope, write }
    }

    fn ask(&mut self, count: usize) -> Outcome {
        let Request { service, scope, write } = self.choose();
        let name = format!("{}-{count}", self.number);
        let (method, path, body) = match (service, write) {
            ("image", false) => ("GET", format!("/images/{SHARED_IMAGE}"), String::new()),
            ("image", true) => ("POST", "/images".to_owned(), format!("{{\"name\":\"{name}\"}}")),
            _ => {
                let body = format!("{{\"name\":\"{name}\",\"image\":\"{SHARED_IMAGE}\"}}");
                ("POST", "/servers".to_owned(), body)
            }
        };
        let headers: Vec<_> = scope.iter().map(|scope| ("x-scope", scope.as_str())).collect();
        let before = self.uptime.until_up(self.site);
        let to = self.world.address(self.site, service).unwrap();
        // What has no length takes another way between sites: a connection to itself.
        let chunked = write && self.random.below(3) == 0;
        let answer = Connection::open(to).and_then(|mut connection| {
            if chunked {
                connection.send_chunked(method, &path, &headers, &body)?;
            } else {
                connection.send(method, &path, &headers, &body)?;
            }
            connection.answer()
        });
        let site_was_up = before == self.uptime.now(self.site);
        Outcome {
            local: scope.is_none(),
            site_was_up,
            write: write.then_some((service, name)),
            answer,
            _asked: format!("Site{}: {method} {service}{path} {scope:?}, chunked {chunked}", self.site + 1),
        }
    }
}
