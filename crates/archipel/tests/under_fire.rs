//! What a machine runs out of, or loses: the mesh goes on serving what does not need it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]
#![allow(clippy::print_stderr, reason = "what was not tested is said")]

mod support;

use std::net::TcpStream;
use std::process::{Command, Stdio};

use support::process::Home;
use support::upstream::Upstream;
use support::{Connection, get};

/// Two services; the second is elsewhere.
fn configuration(here: &Upstream, elsewhere: &str, more: &str) -> String {
    format!(
        "site = \"Site1\"\nprofile = \"rest\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 1\n{more}\
         [services.image]\npublic = [\"127.0.0.1:0\"]\nupstreams = [\"http://{}\"]\n\
         [services.compute]\npublic = [\"127.0.0.1:0\"]\nupstreams = [\"{elsewhere}\"]\n",
        here.address
    )
}

#[test]
fn out_of_files_it_serves_who_is_there_and_all_again_when_they_go() {
    const FILES: u32 = 100;
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&configuration(&service, "http://127.0.0.1:1", ""));
    let mut running = home.run_with_files(FILES);
    let address = running.address("image", "public");
    // It has a connection on both sides, and uses both again.
    let mut first = Connection::open(address).unwrap();
    assert_eq!(first.ask("GET", "/", &[], "").unwrap().text(), "here");
    let crowd: Vec<TcpStream> = (0..2 * FILES).filter_map(|_| TcpStream::connect(address).ok()).collect();
    for _ in 0..100 {
        assert_eq!(first.ask("GET", "/", &[], "").unwrap().text(), "here");
    }
    drop(crowd);
    assert_eq!(get(address, "/", &[]).text(), "here");
    running.signal("TERM");
    assert!(running.exit().success());
}

#[test]
fn a_service_whose_name_nobody_knows_any_more_is_that_services_trouble() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&configuration(&service, "http://gone.invalid:80", ""));
    let running = home.run();
    let answer = get(running.address("compute", "public"), "/servers", &[]);
    assert_eq!(answer.status(), 503, "{}", answer.text());
    assert!(answer.text().contains("nothing was executed"), "{}", answer.text());
    assert_eq!(get(running.address("image", "public"), "/", &[]).text(), "here");
}

#[test]
fn an_audit_log_on_a_full_disk_loses_lines_and_no_request() {
    let (home, service) = (Home::new(), Upstream::saying("here"));
    home.write(&format!(
        "{}[audit]\nfile = \"/dev/full\"\n",
        configuration(&service, "http://127.0.0.1:1", "")
    ));
    let mut running = home.run();
    let mut client = Connection::open(running.address("image", "public")).unwrap();
    for _ in 0..100 {
        assert_eq!(client.ask("GET", "/", &[("x-scope", "image: Site1")], "").unwrap().text(), "here");
    }
    running.signal("TERM");
    assert!(running.exit().success());
}

/// Slow heads, slow bodies, heads with a thousand ranges, slow readers: two hundred clients of a tool made for that. Without it
/// nothing is tested, and with `CI=true` that fails.
#[test]
fn two_hundred_slow_clients_keep_nobody_from_being_served() {
    if Command::new("slowhttptest").arg("-h").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        assert!(std::env::var_os("CI").is_none(), "slowhttptest is missing");
        eprintln!("skipped: slowhttptest is missing");
        return;
    }
    let (home, service) = (Home::new(), Upstream::saying("here"));
    let timeouts = "[timeouts]\nheader = \"1s\"\nbody_idle = \"1s\"\n";
    home.write(&format!("{}{timeouts}", configuration(&service, "http://127.0.0.1:1", "")));
    let mut running = home.run();
    let address = running.address("image", "public");
    // Heads that are too slow all end, long before it gives up. What drips just in time may stay.
    for (mode, seconds) in [("-H", "30"), ("-B", "3"), ("-R", "3"), ("-X", "3")] {
        let url = format!("http://{address}/");
        let mut attack = Command::new("slowhttptest")
            .args([mode, "-c", "200", "-r", "200", "-i", "1", "-l", seconds, "-u", &url])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while attack.try_wait().unwrap().is_none() {
            assert_eq!(get(address, "/", &[]).text(), "here", "{mode}");
        }
        let said = attack.wait_with_output().unwrap().stdout;
        let said = String::from_utf8_lossy(&said);
        assert!(mode != "-H" || said.contains("No open connections left"), "{mode}: {said}");
    }
    running.signal("TERM");
    assert!(running.exit().success());
}
