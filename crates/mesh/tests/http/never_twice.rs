//! A request that may have been executed is never sent again; one that provably was not, is. Through a whole mesh,
//! to services of this site.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::harness::{Front, STUCK, Upstream, Way, nowhere, plain};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The way to two targets.
fn to_both(first: std::net::SocketAddr, second: std::net::SocketAddr) -> Front {
    Front::tuned(Way::Local, first, |settings| {
        settings.services.get_mut("image").unwrap().upstreams.push(plain(second));
    })
}

#[test]
fn a_request_that_was_read_before_the_connection_closed_is_not_sent_again() {
    for (line, fields, body) in [("POST /", "Content-Length: 4\r\n", "body"), ("GET /", "", "")] {
        let count = Arc::new(AtomicUsize::new(0));
        let closing = || {
            let count = Arc::clone(&count);
            Upstream::script(move |conn| {
                conn.request().unwrap();
                count.fetch_add(1, Ordering::SeqCst);
            })
        };
        let (first, second) = (closing(), closing());
        let front = to_both(first.address(), second.address());
        front.ask(line, fields, body.as_bytes()).assert_problem(502, "no-answer");
        assert_eq!(count.load(Ordering::SeqCst), 1, "{line}");
    }
}

#[test]
fn a_request_goes_to_the_next_target_if_the_first_cannot_be_reached() {
    let upstream = Upstream::fine();
    let front = to_both(nowhere(), upstream.address());
    for _ in 0..3 {
        assert_eq!(front.ask("POST /", "Content-Length: 2\r\n", b"hi").text(), "fine");
    }
    assert_eq!(upstream.seen().len(), 3);
}

/// The end of the connection may lie unread in the kernel.
#[test]
fn a_post_after_the_service_closed_an_idle_connection_is_executed_once() {
    let (close, told) = channel::<()>();
    let (tell, closed) = channel::<()>();
    let both = Mutex::new((told, tell));
    let first = AtomicUsize::new(0);
    let executed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executed);
    let upstream = Upstream::script(move |conn| {
        if first.fetch_add(1, Ordering::SeqCst) == 0 {
            conn.request().unwrap();
            conn.send(OK);
            let both = both.lock().unwrap();
            both.0.recv_timeout(STUCK).unwrap();
            conn.end();
            both.1.send(()).unwrap();
            assert!(conn.request().is_none(), "nobody sends anything on it any more");
            return;
        }
        while conn.request().is_some() {
            count.fetch_add(1, Ordering::SeqCst);
            conn.send(OK);
        }
    });
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    client.send(front.head("GET /", ""));
    assert_eq!(client.answer().text(), "ok");
    close.send(()).unwrap();
    closed.recv_timeout(STUCK).unwrap();
    // Not to wait for something: so that the connection is old.
    std::thread::sleep(Duration::from_millis(150));
    client.send(front.head("POST /", "Content-Length: 4\r\n") + "body");
    assert_eq!(client.answer().text(), "ok");
    assert_eq!(executed.load(Ordering::SeqCst), 1);
}

#[test]
fn a_connection_on_which_more_came_than_the_answer_is_not_used_again() {
    let upstream = Upstream::script(|conn| {
        while conn.request().is_some() {
            // The second would be taken for the answer to the next request.
            conn.send([OK, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfalse"].concat());
        }
    });
    let front = Front::new(Way::Local, &upstream);
    let mut client = front.connect();
    for _ in 0..3 {
        client.send(front.head("GET /", ""));
        assert_eq!(client.answer().text(), "ok");
    }
}
