//! A scope follows the workflow: every call that a request causes has it, and no other call does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod single;
mod support;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use archipel::demo::World;
use sample::Fault;
use single::Single;
use support::sites::{SHARED_IMAGE, Site, joined, share_image};
use support::upstream::Upstream;
use support::{Connection, Header, Message, ask, get};

/// Long enough for a busy machine.
const TIMEOUTS: &str = "[timeouts]\npeer_response = \"20s\"\n";

/// A world in which every site has an image of the same id, and each its own file in it.
fn world(settings: &str) -> World {
    let world = World::start_with(&format!("{TIMEOUTS}{settings}")).unwrap();
    joined(&world);
    share_image(&world);
    world
}

fn digest(world: &World, site: Site) -> String {
    get(world.address(site, "image").unwrap(), &format!("/images/{SHARED_IMAGE}"), &[]).field("digest")
}

/// Asks Site1 for a server of the shared image.
fn send_boot(world: &World, scope: &str, more: &[Header<'_>]) -> Connection {
    let mut connection = Connection::open(world.address(0, "compute").unwrap()).unwrap();
    let headers: Vec<_> = more.iter().copied().chain([("x-scope", scope)]).collect();
    let body = format!("{{\"name\":\"server\",\"image\":\"{SHARED_IMAGE}\"}}");
    connection.send("POST", "/servers", &headers, &body).unwrap();
    connection
}

fn boot(world: &World, scope: &str) -> Message {
    send_boot(world, scope, &[]).answer().unwrap()
}

#[test]
fn two_scopes_under_one_trace_and_one_token_at_the_same_time_go_to_different_sites() {
    let world = world("");
    let same = [
        ("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        ("tracestate", "vendor=1"),
        ("baggage", "user=7"),
        ("x-auth-token", "token"),
    ];
    let faults = [world.faults(1, "image").unwrap(), world.faults(2, "image").unwrap()];
    for fault in &faults {
        fault.set(Fault::Hang);
    }
    let mut second = send_boot(&world, "compute: Site1, image: Site2", &same);
    let mut third = send_boot(&world, "compute: Site1, image: Site3", &same);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for fault in &faults {
        let held = async { tokio::time::timeout(support::PATIENCE, fault.until_held(1)).await };
        runtime.block_on(held).expect("each site is asked by one of them");
    }
    for fault in &faults {
        fault.set(Fault::None);
    }
    let (second, third) = (second.answer().unwrap(), third.answer().unwrap());
    assert_eq!(second.field("digest"), digest(&world, 1), "{second:?}");
    assert_eq!(third.field("digest"), digest(&world, 2), "{third:?}");
}

#[test]
fn a_service_that_is_not_named_runs_where_its_caller_runs_and_here_is_where_the_client_entered() {
    let world = world("");
    for (scope, compute, image) in [
        ("compute: Site2", "compute@Site2", 1),
        ("compute: Site2, image: here", "compute@Site2", 0),
        ("compute: Site3, image: Site2", "compute@Site3", 1),
        ("compute: here, image: Site3 ; here", "compute@Site1", 2),
        ("*: Site3", "compute@Site3", 2),
        ("*: Site3, compute: Site2", "compute@Site2", 2),
        ("image: Site2", "compute@Site1", 1),
    ] {
        let before: Vec<u64> = (0..3).map(|site| requests(&world, site)).collect();
        let made = boot(&world, scope);
        assert_eq!(made.status(), 201, "{scope}: {made:?}");
        assert_eq!(made.header("x-served-by"), compute, "{scope}");
        for (site, before) in before.into_iter().enumerate() {
            let calls = requests(&world, site) - before;
            assert_eq!(calls, if site == image { 2 } else { 0 }, "{scope}: image calls at site {site}");
        }
        assert_eq!(made.field("digest"), digest(&world, image), "{scope}");
    }
}

/// Requests that a site's image service has seen.
fn requests(world: &World, site: Site) -> u64 {
    let counts = get(world.address(site, "image").unwrap(), "/_counts", &[]);
    serde_json::from_slice::<serde_json::Value>(&counts.body).unwrap()["requests"].as_u64().unwrap()
}

#[test]
fn a_scope_comes_in_a_header_a_path_or_baggage_and_the_first_of_these_wins() {
    let world = world("");
    let entry = world.address(0, "image").unwrap();
    let cases: [(&str, &[Header<'_>], u32); 11] = [
        ("/images", &[("x-scope", "image: Site2")], 2),
        ("/_scope/image%3A%20Site2/images", &[], 2),
        ("/_scope/image:Site2/images", &[], 2),
        ("/_scope/%7Bimage%3ASite2%7D/images?limit=1", &[], 2),
        ("/images", &[("baggage", "scope=image%3A%20Site2")], 2),
        ("/images", &[("baggage", "a=b, scope=image:%20Site2;p=1 ,c=d")], 2),
        ("/_scope/image:Site3/images", &[("x-scope", "image: Site2")], 2),
        ("/_scope/image:Site3/images", &[("baggage", "scope=image:Site2")], 3),
        ("/images", &[("baggage", "scope=image:Site3"), ("x-scope", "image: Site2")], 2),
        // Its sender says that it has none.
        ("/images", &[("x-scope", ""), ("baggage", "scope=image:Site3")], 1),
        ("/images", &[("tracestate", "scope=image:Site3"), ("baggage", "scopes=image:Site3")], 1),
    ];
    for (path, headers, site) in cases {
        let answer = get(entry, path, headers);
        assert_eq!(answer.status(), 200, "{path} {headers:?}: {answer:?}");
        assert_eq!(answer.header("x-served-by"), format!("image@Site{site}"), "{path} {headers:?}");
    }
    for (path, headers) in [
        ("/_scope/image%3/images", &[][..]),
        ("/_scope/image:Site2/_scope/image:Site3/images", &[]),
        ("/images", &[("x-scope", "image: Site2"), ("x-scope", "image: Site2")]),
        ("/images", &[("baggage", "scope=image:Site2,scope=image:Site3")]),
        ("/images", &[("x-scope", "image: Sit2")]),
    ] {
        assert_eq!(get(entry, path, headers).status(), 400, "{path} {headers:?}");
    }
}

#[test]
fn a_base_url_with_a_scope_works_for_a_whole_workflow() {
    let world = world("");
    let entry = world.address(0, "compute").unwrap();
    let body = format!("{{\"name\":\"server\",\"image\":\"{SHARED_IMAGE}\"}}");
    let made = ask(entry, "POST", "/_scope/image:Site3/servers", &[], &body).unwrap();
    assert_eq!(made.field("digest"), digest(&world, 2), "{made:?}");
}

#[test]
fn a_key_is_honoured_from_a_service_and_from_nobody_else() {
    let (front, calls) = Upstream::held();
    let single = Single::start(&[("front", front.address), ("store", Upstream::start(echo).address)], "");
    let mut client = Connection::open(single.public("front")).unwrap();
    let brought = [("x-scope", "store: Site2"), ("tracestate", "vendor=1"), ("archipel-hops", "99")];
    client.send("GET", "/", &brought, "").unwrap();
    let call = calls.recv().unwrap();
    let state = call.message.header("tracestate").to_owned();
    assert!(state.starts_with("archipel=") && state.ends_with(",vendor=1"), "{state}");
    for name in ["x-scope", "archipel-hops", "archipel-scope"] {
        assert_eq!(call.message.header(name), "", "{name} is not for a service");
    }
    call.answer("ok");
    assert_eq!(client.answer().unwrap().status(), 200);

    // Site2 is down: what follows the scope says so, and all else is answered here.
    let key =
        [("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"), ("tracestate", &state)];
    let followed = get(single.internal("store"), "/", &key);
    assert_eq!(followed.field("type"), "urn:archipel:unreachable", "{followed:?}");
    let replayed = get(single.public("store"), "/", &key);
    assert_eq!(replayed.status(), 200);
    assert!(!replayed.text().contains("archipel="), "a key from the public went on: {}", replayed.text());
    let digit = if state.as_bytes()[40] == b'0' { "1" } else { "0" };
    let mut forged = state.clone();
    forged.replace_range(40..41, digit);
    assert_eq!(get(single.internal("store"), "/", &[key[0], ("tracestate", &forged)]).status(), 200);

    // Another life of the same site knows the key for its own, and not what it stands for.
    let single = single.restarted();
    let lost = get(single.internal("store"), "/", &key);
    assert_eq!((lost.status(), lost.field("type").as_str()), (503, "urn:archipel:scope-lost"));
}

fn echo(request: &Message) -> (u16, String) {
    (200, format!("{request:?}"))
}

#[test]
fn a_flood_of_scopes_is_the_senders_own_affair_at_every_site() {
    let world = world("[limits]\nrecords_per_sender = 8\n");
    let entry = world.address(0, "image").unwrap();
    let path = format!("/images/{SHARED_IMAGE}");
    let from = |sender: Ipv4Addr, scope: &[Header<'_>]| {
        Connection::open_from(sender, entry).unwrap().ask("GET", &path, scope, "").unwrap()
    };
    let (flooder, other) = (Ipv4Addr::new(127, 0, 0, 3), Ipv4Addr::new(127, 0, 0, 2));
    for site in ["Site1", "Site2"] {
        // Scopes that differ, each with a record of its own.
        let ask = |sender, number: u16| {
            let scope = format!("image: within({number}s, {site})");
            from(sender, &[("x-scope", &scope)])
        };
        let statuses: Vec<u16> = (10..22).map(|number| ask(flooder, number).status()).collect();
        assert_eq!(statuses, [[200; 8].as_slice(), &[429; 4]].concat(), "{site}");
        let refused = ask(flooder, 30);
        assert_eq!(refused.field("type"), "urn:archipel:too-many-scoped-requests", "{refused:?}");
        assert_eq!(ask(flooder, 10).status(), 200, "{site}: a scope that is on record needs no other");
        assert_eq!(ask(other, 30).status(), 200, "{site}: another sender is refused");
        assert_eq!(from(flooder, &[]).status(), 200, "what has no scope needs no record");
    }
}

#[test]
fn what_no_service_executed_leaves_no_record() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let strict = Upstream::start(|_| (401, "who are you?".to_owned()));
    let limits = "[limits]\nrecords_per_sender = 8\n";
    let single = Single::start(&[("front", nobody), ("store", strict.address)], limits);
    for _ in 0..20 {
        let scope = [("x-scope", "*: Site1")];
        let down = get(single.public("front"), "/", &scope);
        assert_eq!(down.field("type"), "urn:archipel:unreachable", "{down:?}");
        assert_eq!(get(single.public("store"), "/", &scope).status(), 401);
    }
}

#[test]
fn an_application_that_calls_itself_for_ever_is_told_so() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (counted, through) = (Arc::clone(&calls), Arc::new(std::sync::OnceLock::new()));
    let (address, again) = (Arc::clone(&through), ["traceparent", "tracestate"]);
    let front = Upstream::start(move |request| {
        if counted.fetch_add(1, Ordering::SeqCst) > 100 {
            return (500, "nobody stops this".to_owned());
        }
        let headers: Vec<_> = again.iter().map(|name| (*name, request.header(name))).collect();
        let inner = get(*address.wait(), "/", &headers);
        (inner.status(), inner.text())
    });
    let single = Single::start(&[("front", front.address)], "");
    through.set(single.internal("front")).unwrap();
    let answer = get(single.public("front"), "/", &[("x-scope", "front: here")]);
    assert_eq!((answer.status(), answer.field("type").as_str()), (508, "urn:archipel:loop"));
    assert_eq!(calls.load(Ordering::SeqCst), 17, "the first call, and sixteen that it caused");
}

/// A service that is traced: it hands on the trace that it was sent, or begins one.
fn traced(store: Arc<std::sync::OnceLock<std::net::SocketAddr>>, begins: &'static str) -> Upstream {
    Upstream::start(move |request| {
        let sent = request.header("traceparent");
        let trace = if sent.is_empty() { begins } else { sent };
        let called = get(*store.wait(), "/", &[("traceparent", trace)]);
        (called.status(), format!("{request:?}"))
    })
}

#[test]
fn observe_recognises_calls_of_a_client_without_a_trace() {
    const OWN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    const CLIENTS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let through = Arc::new(std::sync::OnceLock::new());
    let front = traced(Arc::clone(&through), OWN);
    let services = [("front", front.address), ("store", Upstream::start(echo).address)];
    let single = Single::start_in("observe", &services, "");
    through.set(single.internal("store")).unwrap();
    let answer = get(single.public("front"), "/", &[("x-scope", "store: Site2")]);
    assert_eq!(answer.status(), 200, "nothing is routed: {answer:?}");
    assert_eq!(single.observed(), (1, 0), "the service hands on what it is sent");
    // What a client brings is left as it is.
    let answer = get(single.public("front"), "/", &[("traceparent", CLIENTS), ("tracestate", "vendor=1")]);
    for kept in [CLIENTS, "(\"tracestate\", \"vendor=1\")"] {
        assert!(answer.text().contains(kept), "{kept}: {}", answer.text());
    }
    assert_eq!(single.observed(), (2, 0));
    // A service that is not traced, and one that begins a trace of its own whatever it was sent.
    assert_eq!(get(single.internal("store"), "/", &[]).status(), 200);
    assert_eq!(get(single.internal("store"), "/", &[("traceparent", OWN)]).status(), 200);
    assert_eq!(single.observed(), (2, 2));
}
