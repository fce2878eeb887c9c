//! One site's mesh as a process: starting, changing, stopping, dying, and what it says when it cannot.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::SystemTime;

use bytes::Bytes;
use http::Request;
use http_body_util::Empty;
use link::{Authority, ClientTls, Lane, Pool, Revoked};
use serde_json::Value;
use support::fleet::until;
use support::process::Home;
use support::upstream::Upstream;
use support::{Connection, ask, get};
use tokio::task::LocalSet;

/// Tries to reach a port that is being closed, at most.
const TRIES: usize = 100_000;

/// A scope that needs another site. Nobody listens there.
const AWAY: [(&str, &str); 1] = [("x-scope", "image: Site2")];

/// One service, and a peer that is down.
fn configuration(public: &str, upstream: SocketAddr) -> String {
    format!(
        "site = \"Site1\"\nprofile = \"rest\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 2\n\
         [link]\nlisten = \"127.0.0.1:0\"\n\
         [peers.Site2]\naddress = \"127.0.0.1:1\"\n\
         [services.image]\npublic = [\"{public}\"]\nupstreams = [\"http://{upstream}\"]\n"
    )
}

fn any_port(upstream: &Upstream) -> String {
    configuration("127.0.0.1:0", upstream.address)
}

/// Connects until nobody answers any more.
fn until_refused(address: SocketAddr) {
    let refused = (0..TRIES).any(|_| TcpStream::connect(address).is_err());
    assert!(refused, "{address} still takes connections");
}

#[test]
fn a_site_is_made_checked_run_and_stopped() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&any_port(&service));
    let checked = home.archipel(&["check"]);
    assert!(checked.status.success(), "{checked:?}");
    assert!(!home.path().join("state").exists(), "a check writes nothing");

    let mut running = home.run();
    let answer = get(running.address("image", "public"), "/images", &[]);
    assert_eq!((answer.status(), answer.text().as_str()), (200, "here"));
    running.signal("TERM");
    assert!(running.exit().success());
    assert_eq!(running.printed(), "stopped\n");
}

#[test]
fn code_that_only_the_start_needed_is_given_back_and_what_is_needed_comes_back() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&any_port(&service));
    let running = home.run();
    let started = running.resident_of_files();
    until("half of its code is given back", || running.resident_of_files() < started / 2);
    for (scope, status) in [(&[][..], 200), (&[("x-scope", "image: here")][..], 200), (&AWAY[..], 503)] {
        assert_eq!(get(running.address("image", "public"), "/images", scope).status(), status);
    }
}

#[test]
fn a_reload_takes_effect_and_drops_neither_a_request_nor_a_connection() {
    let home = Home::new();
    let ((old, held), new) = (Upstream::held(), Upstream::saying("new"));
    home.write(&any_port(&old));
    let mut running = home.run();
    let address = running.address("image", "public");
    let mut kept = Connection::open(address).unwrap();
    kept.send("GET", "/warm", &[], "").unwrap();
    held.recv().unwrap().answer("old");
    assert_eq!(kept.answer().unwrap().text(), "old");
    let mut waiting = Connection::open(address).unwrap();
    waiting.send("POST", "/slow", &[], "body").unwrap();
    let in_flight = held.recv().unwrap();

    home.write(&any_port(&new));
    running.signal("HUP");
    running.until("reloaded");
    // Each core takes the new settings when it comes to it, so the first answers may still be the old
    // service's.
    let mut answers = 0;
    while get_or_release(&mut kept, &held) != "new" {
        answers += 1;
        assert!(answers < TRIES, "the new service is never asked");
    }
    assert_eq!(get(address, "/again", &[]).status(), 200);
    in_flight.answer("old");
    assert_eq!(waiting.answer().unwrap().text(), "old");
    assert_eq!(waiting.ask("GET", "/", &[], "").unwrap().text(), "new", "the connection works on");
}

/// The answer on a connection, from whichever service: one that holds its requests is told to answer.
fn get_or_release(
    kept: &mut Connection,
    held: &std::sync::mpsc::Receiver<support::upstream::Held>,
) -> String {
    kept.send("GET", "/", &[], "").unwrap();
    if let Ok(request) = held.recv_timeout(std::time::Duration::from_millis(200)) {
        request.answer("old");
    }
    kept.answer().unwrap().text()
}

#[test]
fn a_reload_that_moves_a_listener_answers_what_came_through_the_old_one() {
    let home = Home::new();
    let (service, held) = Upstream::held();
    home.write(&any_port(&service));
    let mut running = home.run();
    let old = running.address("image", "public");
    let mut waiting = Connection::open(old).unwrap();
    waiting.send("GET", "/slow", &[], "").unwrap();
    let in_flight = held.recv().unwrap();

    home.write(&any_port(&service).replace("public = [\"127.0.0.1:0\"]", "internal = [\"127.0.0.1:0\"]"));
    running.signal("HUP");
    running.until("reloaded");
    until_refused(old);
    // Told to stop now, it still owes an answer at a listener that is not in its configuration any more.
    running.signal("TERM");
    running.until("stopping");
    running.goes_on();
    in_flight.answer("late");
    assert_eq!(waiting.answer().unwrap().text(), "late");
    assert!(running.exit().success());
}

#[test]
fn a_reload_of_a_broken_file_is_refused_and_the_old_one_stays() {
    let (home, service) = (Home::new(), Upstream::saying("old"));
    home.write(&any_port(&service));
    let mut running = home.run();
    let address = running.address("image", "public");
    home.write("site = \"Site1\"\nprofle = \"rest\"\n");
    running.signal("HUP");
    running.until("not reloaded, the old configuration stays");
    running.until("profle");
    assert_eq!(get(address, "/", &[]).text(), "old");
    fs::remove_file(home.file()).unwrap();
    running.signal("HUP");
    running.until("not reloaded");
    running.until("cannot be read: No such file");
    assert_eq!(get(address, "/", &[]).text(), "old");
}

#[test]
fn a_reload_says_what_takes_effect_only_after_a_restart() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&any_port(&service));
    let mut running = home.run();
    home.write(&format!(
        "{}[limits]\nrecords_per_sender = 7\n[audit]\nfile = \"audit.log\"\n",
        any_port(&service).replace("threads = 2", "threads = 1")
    ));
    running.signal("HUP");
    let line = running.until("after a restart");
    for key in ["threads", "audit.file", "limits.records_per_sender"] {
        assert!(line.contains(key), "{line}");
    }
    running.until("reloaded");
}

#[test]
fn a_reload_calls_for_no_restart_where_the_profile_is_in_force() {
    let (home, service) = (Home::new(), Upstream::start(|_| (418, "no".to_owned())));
    let profile = |more: &str| {
        fs::write(home.path().join("shop.toml"), format!("description = \"a shop\"\n{more}")).unwrap();
    };
    profile("");
    let text = any_port(&service).replace("profile = \"rest\"", "profile = \"shop\"\nprofiles = \".\"");
    home.write(&text);
    let mut running = home.run();
    let address = running.address("image", "public");
    let sites = || get(address, "/", &[("x-scope", "image: here ; Site2")]).header("scope-sites").to_owned();
    assert!(!sites().contains("Site2"), "{}", sites());
    // The service's answer is a failure from now on, so that the other site is asked.
    profile("[[fails]]\nstatus = [418]\n");
    running.signal("HUP");
    running.until("reloaded");
    until("the profile is in force", || sites().contains("Site2"));
    assert!(!running.rest().contains("after a restart"), "{}", running.rest());
    profile("[propagation]\nbaggage = true\n");
    running.signal("HUP");
    running.until("after a restart: profile");
}

#[test]
fn a_renewed_identity_is_shown_to_sites_that_connect_after_a_reload() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&any_port(&service));
    let mut running = home.run();
    let authority = Authority::load(&home.path().join("authority")).unwrap();
    let other = authority.issue("Site2").unwrap();
    let address = running.link_address().to_string();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let ask = async |pool: &Pool| {
            let request = Request::get("/").body(Empty::<Bytes>::new()).unwrap();
            pool.send("Site1", request, Lane::Small).await.map(drop)
        };
        let connect = |revoked: &Revoked| {
            let pool = Pool::new(ClientTls::new(&other, revoked).unwrap(), link::Settings::default());
            pool.set_peers([("Site1".to_owned(), address.clone())]);
            pool
        };
        let before = connect(&Revoked::default());
        ask(&before).await.unwrap();
        // Whoever knows this believes the renewed one only.
        let revoked = Revoked::default();
        revoked.add(authority.revoke("Site1", SystemTime::now()).unwrap());
        assert!(ask(&connect(&revoked)).await.is_err());
        for file in ["site.pem", "site-key.pem"] {
            fs::remove_file(home.path().join("identity").join(file)).unwrap();
        }
        authority.issue("Site1").unwrap().save(&home.path().join("identity")).unwrap();
        running.signal("HUP");
        running.until("reloaded");
        // Each core takes it on when it gets to it.
        let renewed = async { while ask(&connect(&revoked)).await.is_err() {} };
        tokio::time::timeout(support::PATIENCE, renewed).await.unwrap();
        assert!(before.state("Site1").unwrap().connected, "an old connection was cut");
        ask(&before).await.unwrap();
    });
}

#[test]
fn told_to_stop_it_answers_what_is_in_flight_and_takes_no_more() {
    let home = Home::new();
    let (service, held) = Upstream::held();
    home.write(&any_port(&service));
    let mut running = home.run();
    let address = running.address("image", "public");
    let mut waiting = Connection::open(address).unwrap();
    waiting.send("POST", "/slow", &[], "body").unwrap();
    let in_flight = held.recv().unwrap();
    // Somebody who holds the admin socket open must not make the stop a hard one.
    let _admin = UnixStream::connect(home.path().join("state/admin.sock")).unwrap();
    let status = home.archipel(&["bypass", "show"]);
    assert!(status.status.success(), "{status:?}");

    running.signal("TERM");
    running.until("stopping");
    until_refused(address);
    running.goes_on();
    in_flight.answer("after all");
    let answer = waiting.answer().unwrap();
    assert_eq!((answer.status(), answer.text().as_str()), (200, "after all"));
    assert!(running.exit().success());
}

#[test]
fn told_to_stop_it_does_not_wait_for_connections_without_a_request() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&format!("{}[timeouts]\ndrain = \"10min\"\nidle = \"10min\"\n", any_port(&service)));
    let mut running = home.run();
    let address = running.address("image", "public");
    let silent = TcpStream::connect(address).unwrap();
    let mut idle = Connection::open(address).unwrap();
    assert_eq!(idle.ask("GET", "/", &[], "").unwrap().text(), "here");
    running.signal("TERM");
    assert!(running.exit().success());
    drop(silent);
}

#[test]
fn a_second_process_with_the_same_state_is_refused_and_the_first_goes_on() {
    let (home, service) = (Home::new(), Upstream::saying("first"));
    home.write(&any_port(&service));
    let running = home.run();
    let said = home.refused();
    assert!(said.contains("another archipel runs with this state directory"), "{said}");
    assert_eq!(get(running.address("image", "public"), "/", &[]).text(), "first");
    let shown = home.archipel(&["bypass", "show"]);
    assert!(shown.status.success(), "the first one's admin socket is gone: {shown:?}");
}

#[test]
fn bypass_sends_a_scoped_request_to_the_local_service_until_it_is_off() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&any_port(&service));
    let running = home.run();
    let address = running.address("image", "public");
    assert_eq!(get(address, "/", &AWAY).status(), 503);
    let on = home.archipel(&["bypass", "on"]);
    assert_eq!(String::from_utf8_lossy(&on.stdout), "bypass is on at Site1\n");
    let status = home.archipel(&["status"]);
    let status = String::from_utf8_lossy(&status.stdout);
    assert!(status.contains("Site1") && status.contains("bypass     on"), "{status}");
    let json = home.archipel(&["status", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&json["site"], &json["bypass"]), (&"Site1".into(), &true.into()));
    assert_eq!(get(address, "/", &AWAY).text(), "here");
    let off = home.archipel(&["bypass", "off"]);
    assert_eq!(String::from_utf8_lossy(&off.stdout), "bypass is off at Site1\n");
    assert_eq!(get(address, "/", &AWAY).status(), 503);
    drop(running);
    let nobody = home.archipel(&["bypass", "on"]);
    assert!(!nobody.status.success());
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("is it running"), "{nobody:?}");
}

#[test]
fn every_scoped_request_leaves_a_line_in_the_audit_log_also_the_last() {
    const REQUESTS: usize = 300;
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&format!("{}[audit]\nfile = \"audit.log\"\n", any_port(&service)));
    let mut running = home.run();
    let address = running.address("image", "public");
    let mut client = Connection::open(address).unwrap();
    assert_eq!(client.ask("GET", "/unscoped", &[], "").unwrap().status(), 200);
    assert_eq!(client.ask("DELETE", "/images/7?force=1", &AWAY, "").unwrap().status(), 503);
    for _ in 1..REQUESTS {
        let answer = client.ask("GET", "/", &[("x-scope", "{\"Image\": \"Site2 ; here\"}")], "").unwrap();
        assert_eq!(answer.text(), "here");
    }
    running.signal("TERM");
    assert!(running.exit().success());

    let log = fs::read_to_string(home.path().join("audit.log")).unwrap();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), REQUESTS, "an unscoped request has no line, and no other is lost");
    let (first, last) = (&lines[0], &lines[REQUESTS - 1]);
    assert!(first["client"].as_str().unwrap().starts_with("127.0.0.1:"), "{first}");
    assert!(first["time"].as_f64().unwrap() > 1.7e9, "{first}");
    for (key, value) in [
        ("entered", "Site1"),
        ("service", "image"),
        ("method", "DELETE"),
        ("path", "/images/7"),
        ("scope", "image: Site2"),
        ("plan", "Site2"),
    ] {
        assert_eq!(first[key], value, "{first}");
    }
    assert_eq!((&first["status"], &last["status"]), (&Value::from(503), &Value::from(200)));
    assert!(first["sites"].as_str().unwrap().starts_with("\"Site2\";error=unreachable"), "{first}");
    assert_eq!(last["plan"], "Site2 ; Site1", "{last}");
    assert!(last["sites"].as_str().unwrap().contains("\"Site1\";status=200"), "{last}");
}

#[test]
fn the_identity_of_another_site_is_refused() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    let made = home.archipel(&["init", "--site", "Site2", "--out", "other"]);
    assert!(made.status.success(), "{made:?}");
    home.write(&any_port(&service).replace("identity = \"identity\"", "identity = \"other\""));
    let said = home.refused();
    assert!(said.contains("is that of `Site2`, not of `Site1`"), "{said}");
}

#[test]
fn a_port_in_use_is_told_before_anything_is_served() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let holder = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap();
    let text = configuration(&free.to_string(), service.address);
    home.write(&format!(
        "{text}[services.zzz]\npublic = [\"{taken}\"]\nupstreams = [\"http://{}\"]\n",
        service.address
    ));
    let said = home.refused();
    assert!(said.contains(&format!("cannot listen at {taken}")), "{said}");
    assert!(ask(free, "GET", "/", &[], "").is_err(), "the other port is served");
}

#[test]
fn a_port_that_another_mesh_serves_is_in_use_too() {
    let (first, second, service) = (Home::new(), Home::new(), Upstream::saying("first"));
    first.write(&any_port(&service));
    let running = first.run();
    let address = running.address("image", "public");
    second.write(&configuration(&address.to_string(), service.address));
    let said = second.refused();
    assert!(said.contains(&format!("cannot listen at {address}")), "{said}");
}

#[test]
fn a_state_directory_that_cannot_be_written_is_told() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    // A file where the directory should be: also who may do everything cannot write there.
    fs::write(home.path().join("state"), "").unwrap();
    home.write(&any_port(&service));
    let said = home.refused();
    assert!(said.contains("state"), "{said}");
}

#[test]
fn killed_it_starts_again_over_what_it_left_behind() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&any_port(&service));
    let mut running = home.run();
    // The same port, with a connection of before in the way.
    let address = running.address("image", "public");
    let mut kept = Connection::open(address).unwrap();
    assert_eq!(kept.ask("GET", "/", &[], "").unwrap().status(), 200);
    home.write(&configuration(&address.to_string(), service.address));
    running.signal("KILL");
    assert!(!running.exit().success());
    assert!(home.path().join("state/admin.sock").exists(), "nothing was left behind: this tests nothing");

    let again = home.run();
    assert_eq!(again.address("image", "public"), address);
    assert_eq!(get(address, "/", &[]).text(), "here");
    assert!(home.archipel(&["bypass", "show"]).status.success());
}
