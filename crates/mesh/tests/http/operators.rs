//! What a scope with operators does to a request, where only this site has a service and the other is away.

use std::time::Duration;

use crate::harness::{Front, STUCK, Upstream, Way};

#[test]
fn an_application_cannot_have_its_write_sent_elsewhere_by_denying_it() {
    let upstream =
        Upstream::answering("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nArchipel-Unsent: 1\r\n\r\n");
    let front = Front::new(Way::Local, &upstream);
    let answer = front.ask("POST /", "X-Scope: image: A ; B\r\nContent-Length: 2\r\n", b"hi");
    assert_eq!(answer.status(), 201, "{}", answer.text());
    let sites = answer.field("scope-sites").unwrap_or_default();
    assert!(sites.starts_with("\"A\";status=201") && !sites.contains("\"B\""), "{sites}");
}

#[test]
fn a_write_that_would_need_replication_is_refused_before_any_site_sees_it() {
    let upstream = Upstream::fine();
    let front = Front::new(Way::Local, &upstream);
    for scope in ["A & B", "A ; (A & B)", "* @quorum"] {
        let answer = front.ask("POST /", &format!("X-Scope: image: {scope}\r\nContent-Length: 0\r\n"), b"");
        answer.assert_problem(501, "unsupported-plan");
    }
    assert_eq!(upstream.connections(), 0, "a refused request has no effect");
}

#[test]
fn legs_that_were_given_up_do_not_use_up_their_senders_records() {
    let upstream = Upstream::script(|conn| {
        conn.head();
        std::thread::sleep(STUCK);
    });
    let front =
        Front::tuned(Way::Local, upstream.address(), |settings| settings.limits.records_per_sender = 2);
    for _ in 0..5 {
        let answer = front.ask("GET /", "X-Scope: image: within(50ms, A)\r\n", b"");
        assert_eq!(answer.status(), 504, "{}", answer.text());
    }
}

#[test]
fn an_upload_with_a_fallback_may_take_longer_than_an_answer() {
    let limit = Duration::from_millis(800);
    let upstream = Upstream::fine();
    let front = Front::tuned(Way::Local, upstream.address(), |settings| {
        settings.timeouts.response = limit;
        settings.timeouts.peer_response = limit;
    });
    let mut client = front.connect();
    client.send(front.head("POST /", "X-Scope: image: A ; B\r\nContent-Length: 20\r\n"));
    for _ in 0..20 {
        std::thread::sleep(limit / 8);
        client.send("x");
    }
    assert_eq!(client.answer().text(), "fine");
}
