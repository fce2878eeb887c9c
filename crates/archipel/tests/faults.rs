//! Killing, cutting and slowing each site while a mixed load runs: local requests never fail and never
//! wait for another site, and no write runs twice.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod load;
mod support;

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use archipel::demo::World;
use load::{Client, Outcome, Random, Uptime};
use sample::Fault;
use sample::wan::Cut;
use support::fleet::until;
use support::sites::{SHARED_IMAGE, Site, joined, share_image};
use support::{Connection, Message, ask, get};

/// Short, so that what waits for a site that is cut off ends within the test.
const SHORT: &str = "[timeouts]\nconnect = \"300ms\"\npeer_response = \"400ms\"\nhedge = \"20ms\"\n";
/// Longer than any test: nothing that waits for another site ends by itself.
const LONG: &str = "[timeouts]\npeer_response = \"60s\"\nhedge = \"20ms\"\n";

/// Requests that make room for the next fault.
const REQUESTS_PER_FAULT: usize = 16;
/// A fault lasts no longer than this, also if everybody waits for its end.
const LONGEST_FAULT: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug)]
enum Trouble {
    CutReset,
    CutStall,
    SlowLinks,
    SlowImage,
    MuteImage,
    KillMesh,
}

impl Trouble {
    const ALL: [Trouble; 6] = [
        Trouble::CutReset,
        Trouble::CutStall,
        Trouble::SlowLinks,
        Trouble::SlowImage,
        Trouble::MuteImage,
        Trouble::KillMesh,
    ];

    /// Begins at a site, or ends.
    fn set(self, world: &World, uptime: &Uptime, site: Site, begins: bool) {
        let image = world.faults(site, "image").unwrap();
        let image_fault = |fault| image.set(if begins { fault } else { Fault::None });
        match self {
            Trouble::CutReset => world.cut(site, begins.then_some(Cut::Reset)).unwrap(),
            Trouble::CutStall => world.cut(site, begins.then_some(Cut::Stall)).unwrap(),
            Trouble::SlowLinks => {
                let rtt = Duration::from_millis(if begins { 300 } else { 4 });
                for other in (0..3).filter(|other| *other != site) {
                    world.shape(site, other, |shape| shape.delay = rtt / 2);
                }
            }
            Trouble::SlowImage => image_fault(Fault::Slow(Duration::from_millis(100))),
            Trouble::MuteImage => image_fault(Fault::Mute),
            Trouble::KillMesh if begins => {
                uptime.changed(site);
                world.stop_mesh(site, Duration::ZERO).unwrap();
            }
            Trouble::KillMesh => {
                world.start_mesh(site).unwrap();
                uptime.changed(site);
            }
        }
    }
}

/// Few by default. To look for trouble, give many: `FAULT_SEEDS=100 cargo test --test faults`.
fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=std::env::var("FAULT_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(3)
}

/// Every trouble at every site, in an order that the seed decides.
fn schedule(seed: u64) -> Vec<(Trouble, Site)> {
    let mut all: Vec<_> =
        Trouble::ALL.into_iter().flat_map(|trouble| (0..3).map(move |site| (trouble, site))).collect();
    let mut random = Random::new(seed);
    for last in (1..all.len()).rev() {
        all.swap(last, random.below(last + 1));
    }
    all
}

/// Runs six clients, two at each site, through a schedule of faults; what came of each request.
fn run(world: &World, seed: u64) -> Vec<Outcome> {
    const CLIENTS: usize = 6;
    const REQUESTS: usize = 60;
    let uptime = Uptime::default();
    let (done, finished) = channel();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (done, uptime) = (done.clone(), &uptime);
                scope.spawn(move || Client::new(world, uptime, number, seed).ask_all(REQUESTS, &done))
            })
            .collect();
        for (trouble, site) in schedule(seed) {
            trouble.set(world, &uptime, site, true);
            progress(&finished);
            trouble.set(world, &uptime, site, false);
        }
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

/// Waits until some more requests have ended.
fn progress(finished: &Receiver<()>) {
    for _ in 0..REQUESTS_PER_FAULT {
        if finished.recv_timeout(LONGEST_FAULT).is_err() {
            return;
        }
    }
}

#[test]
fn whatever_breaks_local_requests_succeed_and_no_write_runs_twice() {
    for seed in seeds() {
        let world = World::start_with(SHORT).unwrap();
        for (one, other) in [(0, 1), (0, 2), (1, 2)] {
            world.shape(one, other, |shape| shape.delay = Duration::from_millis(2));
        }
        share_image(&world);
        joined(&world);
        let outcomes = run(&world, seed);
        joined(&world);
        // What was under way ends before anything is counted.
        for site in 0..3 {
            world.stop_mesh(site, Duration::from_secs(10)).unwrap();
        }
        for outcome in &outcomes {
            invariant_local_requests_succeed(outcome);
            invariant_a_write_ran_as_often_as_its_answer_says(&world, outcome);
        }
        invariant_the_load_was_a_load(seed, &outcomes);
    }
}

fn invariant_local_requests_succeed(outcome: &Outcome) {
    if outcome.local && outcome.site_was_up {
        assert!(outcome.succeeded(), "a local request failed: {outcome:?}");
    }
}

fn invariant_a_write_ran_as_often_as_its_answer_says(world: &World, outcome: &Outcome) {
    let Some((service, name)) = &outcome.write else { return };
    let at = |site| match *service {
        "image" => world.images_created(site, name).unwrap(),
        _ => world.servers_created(site, name).unwrap(),
    };
    let executions: u64 = (0..3).map(at).sum();
    match &outcome.answer {
        Ok(answer) if answer.status() == 201 => assert_eq!(executions, 1, "{outcome:?}"),
        Ok(answer) if says_not_executed(answer) => assert_eq!(executions, 0, "{outcome:?}"),
        _ => assert!(executions <= 1, "executed {executions} times: {outcome:?}"),
    }
}

/// A mesh says 503 of its own only for what no service has seen.
fn says_not_executed(answer: &Message) -> bool {
    answer.status() == 503 && answer.field("type").starts_with("urn:archipel:")
}

/// Without successes, refusals and unknown outcomes among the scoped writes, nothing was put to a test.
fn invariant_the_load_was_a_load(seed: u64, outcomes: &[Outcome]) {
    let scoped_writes = || outcomes.iter().filter(|outcome| !outcome.local && outcome.write.is_some());
    let count = |status| {
        let has = |outcome: &&Outcome| outcome.answer.as_ref().is_ok_and(|answer| answer.status() == status);
        scoped_writes().filter(has).count()
    };
    let (made, refused, unknown) = (count(201), count(503), count(504));
    let local = outcomes.iter().filter(|outcome| outcome.local && outcome.site_was_up).count();
    let counts = format!("seed {seed}: {made} made, {refused} refused, {unknown} unknown, {local} local");
    assert!(
        made >= 30 && unknown >= 1 && made + refused + unknown <= outcomes.len() && local >= 30,
        "{counts}"
    );
}

/// What needs other sites, at one site: reads, writes, and a server whose image is elsewhere.
fn ask_elsewhere(world: &World, site: Site) -> Vec<Connection> {
    let (one, other) = ((site + 1) % 3 + 1, (site + 2) % 3 + 1);
    let path = format!("/images/{SHARED_IMAGE}");
    let image = format!("{{\"name\":\"held-{site}\"}}");
    let server = format!("{{\"name\":\"held-{site}\",\"image\":\"{SHARED_IMAGE}\"}}");
    let requests = [
        ("image", "GET", path.as_str(), format!("image: Site{one}"), ""),
        ("image", "GET", path.as_str(), format!("image: Site{one} | Site{other}"), ""),
        ("image", "POST", "/images", format!("image: Site{one} ; Site{other}"), image.as_str()),
        ("compute", "POST", "/servers", format!("image: Site{other}"), server.as_str()),
    ];
    let send = |(service, method, path, scope, body): (&str, &str, &str, String, &str)| {
        let mut connection = Connection::open(world.address(site, service).unwrap()).unwrap();
        connection.send(method, path, &[("x-scope", &scope)], body).unwrap();
        connection
    };
    requests.into_iter().map(send).collect()
}

/// A read, a write and a server, all of this site.
fn work_locally(world: &World, site: Site, round: usize) {
    let (image, compute) = (world.address(site, "image").unwrap(), world.address(site, "compute").unwrap());
    assert_eq!(get(image, &format!("/images/{SHARED_IMAGE}"), &[]).status(), 200);
    let name = format!("local-{site}-{round}");
    let made = ask(image, "POST", "/images", &[], &format!("{{\"name\":\"{name}\"}}")).unwrap();
    assert_eq!(made.status(), 201, "{made:?}");
    let body = format!("{{\"name\":\"{name}\",\"image\":\"{SHARED_IMAGE}\"}}");
    let made = ask(compute, "POST", "/servers", &[], &body).unwrap();
    assert_eq!(made.status(), 201, "{made:?}");
}

#[test]
fn local_requests_end_while_every_request_to_another_site_is_stuck() {
    let world = World::start_with(LONG).unwrap();
    share_image(&world);
    joined(&world);
    for site in 0..3 {
        world.cut(site, Some(Cut::Stall)).unwrap();
    }
    let mut stuck: Vec<Connection> = (0..3).flat_map(|site| ask_elsewhere(&world, site)).collect();
    // The server's request has caused another: five are in flight, and none can end.
    let all_stuck = || (0..3).all(|site| world.in_flight(site).unwrap() == 5);
    let mut rounds = 0;
    while !all_stuck() {
        work_locally(&world, rounds % 3, rounds);
        rounds += 1;
        assert!(rounds < 2000, "the requests do not get under way");
    }
    // From here on, all that is asked of another site is under way, and nothing of it can end; whatever
    // ends now does not wait for it.
    for round in 2000..2010 {
        for site in 0..3 {
            work_locally(&world, site, round);
        }
    }
    // A request is counted until a moment after its answer.
    until("of all requests only the stuck ones are under way: else nothing was shown", all_stuck);
    for site in 0..3 {
        world.cut(site, None).unwrap();
    }
    for connection in &mut stuck {
        let answer = connection.answer().unwrap();
        assert!([200, 201].contains(&answer.status()), "{answer:?}");
    }
    for site in 0..3 {
        let name = format!("held-{site}");
        let made: u64 = (0..3).map(|at| world.images_created(at, &name).unwrap()).sum();
        assert_eq!(made, 1, "{name}");
    }
}

#[test]
fn local_requests_end_while_another_site_keeps_its_answers_to_itself() {
    let world = World::start_with(LONG).unwrap();
    share_image(&world);
    joined(&world);
    let silent = world.faults(1, "image").unwrap();
    silent.set(Fault::Mute);
    let scope = [("x-scope", "image: Site2 ; Site3")];
    let mut held = Vec::new();
    for number in 0..8 {
        let mut connection = Connection::open(world.address(0, "image").unwrap()).unwrap();
        connection.send("POST", "/images", &scope, &format!("{{\"name\":\"mute-{number}\"}}")).unwrap();
        held.push(connection);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(support::PATIENCE, silent.until_held(8)).await })
        .expect("the writes do not arrive");
    for round in 0..10 {
        work_locally(&world, 0, round);
        work_locally(&world, 2, round);
    }
    until("all held requests are under way, and no other", || world.in_flight(0).unwrap() == 8);
    silent.set(Fault::None);
    for (number, connection) in held.iter_mut().enumerate() {
        assert_eq!(connection.answer().unwrap().status(), 201);
        assert_eq!(world.images_created(1, &format!("mute-{number}")).unwrap(), 1);
        assert_eq!(world.images_created(2, &format!("mute-{number}")).unwrap(), 0);
    }
}

#[test]
fn what_waits_for_another_site_takes_no_room_from_local_requests() {
    const ROOM: usize = 4;
    let world = World::start_with(&format!("{LONG}[limits]\nrequests = {ROOM}\n")).unwrap();
    share_image(&world);
    joined(&world);
    world.cut(1, Some(Cut::Stall)).unwrap();
    let entry = world.address(0, "image").unwrap();
    let path = format!("/images/{SHARED_IMAGE}");
    let scopes = ["image: Site2", "image: Site2 ; Site3", "image: within(50s, Site2)", "image: Site2 ; here"];
    let mut stuck = Vec::new();
    for scope in scopes {
        let mut connection = Connection::open(entry).unwrap();
        connection.send("GET", &path, &[("x-scope", scope)], "").unwrap();
        stuck.push(connection);
    }
    until("the requests are under way", || world.in_flight(0).unwrap() == ROOM);
    let refused = get(entry, &path, &[("x-scope", "image: Site3")]);
    assert_eq!(refused.field("type"), "urn:archipel:too-many-requests", "{refused:?}");
    for round in 0..10 {
        work_locally(&world, 0, round);
    }
    until("all stuck requests are under way, and no other", || world.in_flight(0).unwrap() == ROOM);
    world.cut(1, None).unwrap();
    for connection in &mut stuck {
        assert_eq!(connection.answer().unwrap().status(), 200);
    }
}

#[test]
fn a_site_that_was_killed_is_found_again_and_knows_what_it_had() {
    let world = World::start_with(SHORT).unwrap();
    share_image(&world);
    joined(&world);
    world.stop_mesh(1, Duration::ZERO).unwrap();
    let path = format!("/images/{SHARED_IMAGE}");
    let scope = |scope| [("x-scope", scope)];
    let entry = world.address(0, "image").unwrap();
    assert_eq!(get(entry, &path, &scope("image: Site2 ; Site3")).header("x-served-by"), "image@Site3");
    world.start_mesh(1).unwrap();
    joined(&world);
    assert_eq!(get(entry, &path, &scope("image: Site2")).header("x-served-by"), "image@Site2");
}

#[test]
fn a_reload_keeps_the_connections_between_sites() {
    let world = World::start_with(LONG).unwrap();
    joined(&world);
    let entry = world.address(0, "image").unwrap();
    let away = [("x-scope", "image: Site2")];
    let connections = || world.carried(0, 1).unwrap().connections;
    let ask_often = || (0..40).for_each(|_| assert_eq!(get(entry, "/images", &away).status(), 200));
    // Site2 started later than Site1, which may still be about to try again.
    let settled = (0..20).any(|_| {
        let before = connections();
        ask_often();
        connections() == before
    });
    assert!(settled, "connections are made for ever");
    let before = connections();
    world.reload_mesh(0).unwrap();
    ask_often();
    assert_eq!(connections(), before, "a reload made new connections");
}
