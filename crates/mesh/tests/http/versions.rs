//! Sites of other versions: told apart before anything is executed.

use link::Speaks;

use crate::harness::{Front, Upstream, Way};

#[test]
fn a_site_of_a_version_that_is_not_understood_executes_nothing_and_the_client_is_told_which_both_speak() {
    let upstream = Upstream::json("[]");
    let front = Front::tuned(Way::Peer, upstream.address(), |settings| {
        let (oldest, newest) = if settings.site.name() == "B" { (4, 5) } else { (2, 3) };
        settings.link.as_mut().unwrap().speaks = Speaks::new(oldest, newest).unwrap();
    });
    for line in ["GET /x", "POST /x"] {
        let answer = front.ask(line, "Content-Length: 0\r\n", b"");
        answer.assert_problem(503, "protocol");
        let text = answer.text();
        let why = "B: it speaks versions 4 to 5 of the protocol between sites, and this site versions 2 to 3: upgrade this site";
        assert!(text.contains(why), "{text}");
    }
    assert_eq!(upstream.connections(), 0);
}

#[test]
fn neighbouring_versions_serve_each_other() {
    for [near, far] in [[(1, 2), (2, 3)], [(2, 3), (1, 2)], [(1, 1), (1, 2)]] {
        let upstream = Upstream::json("[]");
        let front = Front::tuned(Way::Peer, upstream.address(), |settings| {
            let (oldest, newest) = if settings.site.name() == "B" { far } else { near };
            settings.link.as_mut().unwrap().speaks = Speaks::new(oldest, newest).unwrap();
        });
        assert_eq!(front.ask("GET /x", "", b"").text(), "[]", "{near:?} {far:?}");
    }
}
