//! The end of a mesh: what is in flight is answered, and nobody is waited for.

use std::sync::Mutex;
use std::sync::mpsc::channel;

use crate::harness::{Front, STUCK, Upstream, Way, until};

#[test]
fn idle_clients_are_closed_by_a_drain_and_one_with_a_request_gets_its_answer_first() {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::script(move |conn| {
        while let Some(request) = conn.request() {
            if request.line.contains("/wait") {
                wait.lock().unwrap().recv_timeout(STUCK).unwrap();
            }
            conn.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let front = Front::new(Way::Local, &upstream);
    let (mut idle, mut busy) = (front.connect(), front.connect());
    idle.send(front.head("GET /", ""));
    assert_eq!(idle.answer().text(), "ok");
    until("the first is done with", || front.in_flight() == 0);
    busy.send(front.head("GET /wait", ""));
    until("it is in flight", || front.in_flight() == 1);
    let draining = front.drain(STUCK);
    idle.assert_closed();
    go.send(()).unwrap();
    let answer = busy.answer();
    assert_eq!((answer.text().as_str(), answer.field("connection").as_deref()), ("ok", Some("close")));
    busy.assert_closed();
    draining.join().unwrap();
}
