//! One stream of bytes, read by Archipel, `HAProxy`, nginx, node and uwsgi: what Archipel passes on, none of them reads in
//! another way.
//!
//! Every case of the guard's corpus goes to one service that notes what came whole: through both paths of a mesh,
//! through each other proxy, and through a mesh with the other proxy behind it. Archipel may refuse what others take; it
//! must not pass on what others take for something else.
//!
//! It needs `haproxy`, `nginx`, `node` and `uwsgi` with its Python. Without them it says so and tests nothing; with `CI=true` it fails. With `--nocapture` it
//! says which cases the others pass on and Archipel does not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::indexing_slicing, clippy::string_slice, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "what others do is worth knowing")]
#![allow(unreachable_pub, reason = "modules of one test binary")]
#![allow(dead_code, unused_imports, reason = "the harness has more than these tests use")]

#[path = "../../../http1guard/tests/corpus/mod.rs"]
mod corpus;
#[path = "../http/harness/mod.rs"]
mod harness;
mod proxy;
mod recorder;

use std::collections::BTreeMap;
use std::io::Write;
use std::net::SocketAddr;

use corpus::Case;
use harness::{Conn, Front, Way};
use proxy::{Kind, Proxy};
use recorder::{Recorder, Request};

/// What the settings have if a test does not tune them.
const THIN: bool = true;

/// What came of one case on one way.
#[derive(Debug)]
struct Outcome {
    /// What the service got, whole.
    seen: Vec<Request>,
    statuses: Vec<u16>,
}

impl Outcome {
    fn refused(&self) -> bool {
        self.statuses.iter().any(|status| *status >= 400)
    }
}

fn run(address: SocketAddr, recorder: &Recorder, case: &Case) -> Outcome {
    let mut client = Conn::to(address);
    client.send(&case.bytes);
    let mut statuses = Vec::new();
    // HAProxy may drop what waits in a row when the client closes its side: not before what is good was answered.
    while statuses.len() < case.expect.forward.len()
        && let Some(head) = client.head()
    {
        if head.status() != 100 {
            client.exactly(head.field("content-length").map_or(0, |length| length.parse().unwrap()));
            statuses.push(head.status());
        }
    }
    client.end();
    statuses.extend(all_statuses(&client.rest()));
    Outcome { seen: recorder.take(), statuses }
}

/// The statuses of all that looks like an answer: nothing here has a body with one.
fn all_statuses(answers: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(answers);
    let heads = text.split("HTTP/1.").skip(1);
    let statuses = heads.filter_map(|head| head.get(2..5)?.parse().ok());
    statuses.filter(|status: &u16| *status != 100).collect()
}

/// Why these two readings of the same bytes do not go together. What the other proxy refuses, or drops the rest of,
/// it does not read in another way.
fn conflict(ours: &Outcome, others: &Outcome) -> Option<String> {
    for (index, (our, other)) in ours.seen.iter().zip(&others.seen).enumerate() {
        if our != other {
            return Some(format!("request {index} is {our:?} here and {other:?} there"));
        }
    }
    let more = others.seen.get(ours.seen.len());
    more.filter(|_| !ours.refused()).map(|more| format!("there it goes on with {more:?}"))
}

/// Both paths of a mesh in front of this.
fn meshes(service: SocketAddr) -> [(&'static str, Front); 2] {
    [("hyper", false), ("thin", true)]
        .map(|(name, thin)| (name, Front::tuned(Way::Local, service, |settings| settings.thin = thin)))
}

fn installed() -> bool {
    let missing: Vec<&str> = Kind::ALL.iter().filter(|kind| !kind.is_installed()).map(|k| k.name()).collect();
    if missing.is_empty() {
        return true;
    }
    let why = format!("not installed: {}", missing.join(", "));
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{why}");
    // Not by the macro, whose output a test that passes does not show.
    let _ = writeln!(std::io::stderr(), "SKIPPED, nothing was compared: {why}");
    false
}

#[test]
fn what_is_passed_on_is_read_alike_by_haproxy_nginx_node_and_uwsgi() {
    if !installed() {
        return;
    }
    let recorder = Recorder::start();
    let proxies = Kind::ALL.map(|kind| Proxy::start(kind, recorder.address()));
    let (alone, before) = (meshes(recorder.address()), proxies.each_ref().map(|p| meshes(p.address())));
    // A listener speaks HTTP/2 to who starts so, and HAProxy too. A CONNECT is answered by the mesh itself; of others
    // it may make a tunnel, which has no requests.
    let one_service =
        |case: &Case| case.name != "the preface of http 2" && !case.bytes.starts_with(b"CONNECT ");
    let cases = corpus::all().into_iter().filter(one_service);
    let (mut failures, mut lenient) = (Vec::new(), BTreeMap::<&str, Vec<&str>>::new());
    let (mut count, mut alike) = (0, 0);
    for case in cases {
        count += 1;
        let ours = alone.each_ref().map(|(name, front)| (*name, run(front.address, &recorder, &case)));
        if ours[0].1.seen != ours[1].1.seen {
            failures.push(format!("{}: {ours:?}", case.name));
        }
        for (proxy, before) in proxies.iter().zip(&before) {
            let theirs = run(proxy.address(), &recorder, &case);
            for (name, ours) in &ours {
                if let Some(conflict) = conflict(ours, &theirs) {
                    failures.push(format!("{}, {name} and {}: {conflict}", case.name, proxy.name()));
                }
            }
            alike += ours[1].1.seen.len().min(theirs.seen.len());
            if theirs.seen.len() > ours[1].1.seen.len() {
                lenient.entry(proxy.name()).or_default().push(case.name);
            }
            // What is passed on, they read as it was meant.
            for ((name, front), (_, ours)) in before.iter().zip(&ours) {
                let behind = run(front.address, &recorder, &case);
                alike += behind.seen.len();
                if let Some(conflict) = conflict(ours, &behind) {
                    failures.push(format!("{}, {name} before {}: {conflict}", case.name, proxy.name()));
                }
            }
        }
    }
    assert!(count > 150 && alike > 150, "{alike} requests of {count} cases were compared");
    eprintln!("{count} cases, {alike} requests that others read alike");
    for (proxy, cases) in lenient {
        eprintln!("refused here, passed on by {proxy}: {} of {count}: {}", cases.len(), cases.join("; "));
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
