//! `|`: the nearest is asked first, the next when it is late; who loses is let go, and few are asked twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use crate::harness::{Isles, Upstream, head, json, until};

const SOON: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_hours(1);

fn hedged(upstreams: [&Upstream; 3], after: Duration) -> Isles {
    Isles::tuned(upstreams, move |settings| {
        settings.timeouts.hedge = after;
        // A site that stands still does not fail for that while a test waits.
        settings.timeouts.response = HOUR;
        settings.timeouts.peer_response = HOUR;
    })
}

/// Never answers, and counts the requests that it was let go of.
fn stalled(gone: &Arc<AtomicUsize>) -> Upstream {
    let gone = Arc::clone(gone);
    Upstream::script(move |conn| {
        conn.request().unwrap();
        conn.assert_closed();
        gone.fetch_add(1, Ordering::SeqCst);
    })
}

#[test]
fn a_local_loser_sees_its_connection_closed() {
    let gone = Arc::default();
    let (slow, fast) = (stalled(&gone), Upstream::json("\"B\""));
    let isles = hedged([&slow, &fast, &fast], SOON);
    assert_eq!(isles.ask("A | B", "GET /x", "").text(), "\"B\"");
    until("the loser is let go", || gone.load(Ordering::SeqCst) == 1);
    assert_eq!((isles.counted("legs_sent"), isles.counted("legs_wasted")), (2, 1));
    until("nothing is left of it", || isles.in_flight() == [0, 0, 0]);
}

#[test]
fn a_loser_at_another_site_is_let_go_there_too() {
    let gone = Arc::new(AtomicUsize::new(0));
    let asked = Arc::new(AtomicBool::new(false));
    let far = {
        let (gone, asked) = (Arc::clone(&gone), Arc::clone(&asked));
        Upstream::script(move |conn| {
            conn.request().unwrap();
            asked.store(true, Ordering::SeqCst);
            conn.assert_closed();
            gone.fetch_add(1, Ordering::SeqCst);
        })
    };
    let near = Upstream::serving(move |_| {
        until("the other was asked", || asked.load(Ordering::SeqCst));
        json("\"A\"").into_bytes()
    });
    let isles = hedged([&near, &far, &far], SOON);
    assert_eq!(isles.ask("A | B", "GET /x", "").text(), "\"A\"");
    until("the loser is let go", || gone.load(Ordering::SeqCst) == 1);
    until("nothing is left of it", || isles.in_flight() == [0, 0, 0]);
    assert_eq!(isles.counted("legs_wasted"), 1);
}

#[test]
fn in_a_list_too_the_losers_are_let_go() {
    let gone = Arc::default();
    let (slow, fast) = (stalled(&gone), Upstream::json("[{\"id\": 1}]"));
    let isles = hedged([&slow, &fast, &fast], SOON);
    let merged = isles.ask("C & (A | B)", "GET /carts", "X-Scope-Strict: true\r\n");
    assert_eq!(merged.text(), r#"[{"id": 1,"scope_site":"C"},{"id": 1,"scope_site":"B"}]"#);
    until("the loser is let go", || gone.load(Ordering::SeqCst) == 1);
    assert_eq!(isles.counted("legs_wasted"), 1);
    until("nothing is left of it", || isles.in_flight() == [0, 0, 0]);
}

#[test]
fn who_fails_is_not_waited_for_and_who_is_fast_is_alone() {
    let fails = Upstream::answering("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n");
    let (fast, other) = (Upstream::json("\"fast\""), Upstream::json("\"other\""));
    let isles = hedged([&fails, &fast, &other], HOUR);
    assert_eq!(isles.ask("A | B", "GET /x", "").text(), "\"fast\"");
    let isles = hedged([&fast, &other, &other], HOUR);
    // With more answers it would learn how fast that is, and be impatient.
    for _ in 0..3 {
        assert_eq!(isles.ask("A | B", "GET /x", "").text(), "\"fast\"");
        assert_eq!(isles.ask("A | B | C", "POST /x", "Content-Length: 0\r\n").text(), "\"fast\"");
    }
    assert_eq!(other.connections(), 0);
    assert_eq!(isles.counted("legs_wasted"), 0);
}

#[test]
fn a_write_is_never_hedged() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let slow = Upstream::serving(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(20 * SOON);
        json("\"slow\"").into_bytes()
    });
    let other = Upstream::json("\"other\"");
    let isles = hedged([&slow, &other, &other], SOON);
    assert_eq!(isles.ask("A | B", "POST /x", "Content-Length: 0\r\n").text(), "\"slow\"");
    assert_eq!((asked.load(Ordering::SeqCst), other.connections()), (1, 0));
}

/// As many clients as this ask at once while the nearest site stands still.
#[test]
fn when_a_site_stands_still_few_requests_are_sent_twice() {
    const CLIENTS: usize = 60;
    const MOST: usize = 10 + CLIENTS / 10;
    let goes = Arc::new(AtomicBool::new(false));
    let asked = Arc::new(AtomicUsize::new(0));
    let slow = {
        let (goes, asked) = (Arc::clone(&goes), Arc::clone(&asked));
        Upstream::script(move |conn| {
            while conn.request().is_some() {
                asked.fetch_add(1, Ordering::SeqCst);
                until("it goes on", || goes.load(Ordering::SeqCst));
                conn.send(json("\"A\""));
            }
        })
    };
    let fast = Upstream::json("\"B\"");
    let isles = hedged([&slow, &fast, &fast], SOON);
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| isles.connect()).collect();
    for client in &mut clients {
        client.send(head("A | B", "GET /x", ""));
    }
    until("all have asked", || asked.load(Ordering::SeqCst) == CLIENTS);
    until("some were asked twice", || fast.seen().len() >= 10);
    // Whoever would be asked twice against the rules has the time for it.
    std::thread::sleep(100 * SOON);
    goes.store(true, Ordering::SeqCst);
    let answers: Vec<String> = clients.iter_mut().map(|client| client.answer().text()).collect();
    let twice = fast.seen().len();
    assert!((10..=MOST).contains(&twice), "{twice}");
    let alone = answers.iter().filter(|answer| *answer == "\"A\"").count();
    assert!(alone >= CLIENTS - twice, "{alone} {twice}");
}

#[test]
fn a_site_that_is_always_slow_does_not_double_the_load() {
    const REQUESTS: usize = 60;
    let slow = Upstream::serving(|_| {
        std::thread::sleep(20 * SOON);
        json("\"A\"").into_bytes()
    });
    let fast = Upstream::json("\"B\"");
    let isles = hedged([&slow, &fast, &fast], SOON);
    for _ in 0..REQUESTS {
        assert_eq!(isles.ask("A | B", "GET /x", "").status(), 200);
    }
    let twice = fast.seen().len();
    assert!((1..=10 + REQUESTS / 10).contains(&twice), "{twice}");
    assert!(isles.counted("legs_wasted") <= (10 + REQUESTS / 10) as u64);
}

#[test]
fn how_long_to_wait_is_learned_from_recent_answers() {
    let (asked, gone) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let near = {
        let (asked, gone) = (Arc::clone(&asked), Arc::clone(&gone));
        Upstream::script(move |conn| {
            while conn.request().is_some() {
                if asked.fetch_add(1, Ordering::SeqCst) == 8 {
                    conn.assert_closed();
                    gone.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                conn.send(json("\"A\""));
            }
        })
    };
    let far = Upstream::json("\"B\"");
    let isles = hedged([&near, &far, &far], HOUR);
    for _ in 0..8 {
        assert_eq!(isles.ask("A | B", "GET /x", "").text(), "\"A\"");
    }
    assert_eq!(far.connections(), 0);
    assert_eq!(isles.ask("A | B", "GET /x", "").text(), "\"B\"", "it would have been an hour");
    until("the loser is let go", || gone.load(Ordering::SeqCst) == 1);
}
