//! Interim answers on the shared connections: heard before their own answer, by nobody else, within limits.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use common::{Site, authority, full, get, pool, run, text};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use link::{Ear, Lane, Limits, Pool, Settings, Speaker};
use tokio::sync::Notify;

/// An ear, and what it has heard: the `link` fields.
fn ear() -> (Ear, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&heard);
    let ear = move |status: StatusCode, fields: &HeaderMap| {
        assert_eq!(status, StatusCode::EARLY_HINTS);
        log.lock().unwrap().push(fields["link"].to_str().unwrap().to_owned());
    };
    (Arc::new(ear), heard)
}

fn hint(link: &str) -> HeaderMap {
    HeaderMap::from_iter([(http::header::LINK, HeaderValue::try_from(link).unwrap())])
}

async fn site<S, F>(service: S) -> (Site, Pool)
where
    S: Fn(Request<Incoming>, link::Peer) -> F + 'static,
    F: Future<Output = Response<common::AnyBody>> + 'static,
{
    let authority = authority();
    let site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), service).await;
    let pool = pool(&authority.issue("Site1").unwrap(), Settings::default(), &[("Site2", site.address)]);
    (site, pool)
}

#[test]
fn each_request_hears_its_own_hints_and_before_its_answer() {
    run(async {
        let (_site, pool) = site(|request, _| async move {
            let path = request.uri().path().to_owned();
            assert!(!request.headers().keys().any(|name| name.as_str().starts_with("archipel")));
            let speaker = request.extensions().get::<Speaker>().unwrap();
            for number in 0..3 {
                assert!(speaker.say(StatusCode::EARLY_HINTS, &hint(&format!("{path} {number}"))));
                tokio::task::yield_now().await;
            }
            Response::new(full(path.repeat(30_000)))
        })
        .await;
        let asked = (0..40).map(|number| {
            let pool = pool.clone();
            tokio::task::spawn_local(async move {
                let path = format!("/{number}");
                let (ear, heard) = ear();
                let answer = pool.send_heard("Site2", get(&path), Lane::Small, Some(ear)).await.unwrap();
                let expected: Vec<_> = (0..3).map(|number| format!("{path} {number}")).collect();
                assert_eq!(*heard.lock().unwrap(), expected);
                assert_eq!(text(answer).await, path.repeat(30_000));
                assert_eq!(heard.lock().unwrap().len(), 3);
            })
        });
        for asked in asked.collect::<Vec<_>>() {
            asked.await.unwrap();
        }
    });
}

#[test]
fn a_hint_does_not_wait_for_the_answer() {
    run(async {
        let go = Rc::new(Notify::new());
        let wait = Rc::clone(&go);
        let (_site, pool) = site(move |request, _| {
            let wait = Rc::clone(&wait);
            async move {
                request.extensions().get::<Speaker>().unwrap().say(StatusCode::EARLY_HINTS, &hint("x"));
                wait.notified().await;
                Response::new(full("ok"))
            }
        })
        .await;
        // Unless the hint is heard, nobody lets the service go on.
        let heard = Arc::new(Notify::new());
        let told = Arc::clone(&heard);
        let ear: Ear = Arc::new(move |_, _| told.notify_one());
        let answer = pool.send_heard("Site2", get("/"), Lane::Small, Some(ear));
        let (answer, ()) = tokio::join!(answer, async {
            heard.notified().await;
            go.notify_one();
        });
        assert_eq!(text(answer.unwrap()).await, "ok");
    });
}

#[test]
fn who_does_not_ask_is_told_nothing_and_who_says_too_much_is_cut_short() {
    run(async {
        let (_site, pool) = site(|request, _| async move {
            let Some(speaker) = request.extensions().get::<Speaker>() else {
                return Response::new(full("none"));
            };
            assert!(!speaker.say(StatusCode::EARLY_HINTS, &hint(&"x".repeat(17_000))));
            let said = (0..1000).filter(|_| speaker.say(StatusCode::EARLY_HINTS, &hint("x"))).count();
            Response::new(full(said.to_string()))
        })
        .await;
        let answer = pool.send("Site2", get("/"), Lane::Small).await.unwrap();
        assert_eq!(text(answer).await, "none");
        let (ear, heard) = ear();
        let answer = pool.send_heard("Site2", get("/"), Lane::Small, Some(ear)).await.unwrap();
        assert_eq!(text(answer).await, "256");
        assert_eq!(heard.lock().unwrap().len(), 256);
    });
}

#[test]
fn what_is_said_after_the_answer_is_heard_by_nobody() {
    run(async {
        let late = Rc::new(RefCell::new(None::<Speaker>));
        let kept = Rc::clone(&late);
        let (_site, pool) = site(move |request, _| {
            let speaker = request.extensions().get::<Speaker>().cloned();
            if let Some(before) = kept.replace(speaker) {
                before.say(StatusCode::EARLY_HINTS, &hint("late"));
            }
            async { Response::new(full("ok")) }
        })
        .await;
        for _ in 0..3 {
            let (ear, heard) = ear();
            let answer = pool.send_heard("Site2", get("/"), Lane::Small, Some(ear)).await.unwrap();
            assert_eq!(text(answer).await, "ok");
            assert!(heard.lock().unwrap().is_empty());
        }
        assert!(late.borrow().is_some());
    });
}
