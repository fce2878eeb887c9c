//! A site that stops: what is in flight is answered, what is new goes elsewhere.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::rc::Rc;
use std::time::Duration;

use common::{Site, authority, echo_head, full, get, pool, run, text, until};
use http::{Request, Response};
use hyper::body::Incoming;
use link::{Lane, Limits, Sent, Settings};
use tokio::sync::Notify;
use tokio::task::spawn_local;

fn patient() -> Settings {
    let hour = Duration::from_hours(1);
    Settings { backoff_min: hour, backoff_max: hour, ..Settings::default() }
}

#[test]
fn requests_in_flight_are_answered_and_new_ones_are_provably_unsent() {
    for lane in [Lane::Small, Lane::Long] {
        run(async move {
            let authority = authority();
            let (arrived, release) = (Rc::new(Notify::new()), Rc::new(Notify::new()));
            let (arrival, released) = (Rc::clone(&arrived), Rc::clone(&release));
            let slow = move |request: Request<Incoming>, _| {
                let (arrival, released) = (Rc::clone(&arrival), Rc::clone(&released));
                async move {
                    if request.uri() == "/slow" {
                        arrival.notify_one();
                        released.notified().await;
                    }
                    Response::new(full("finished"))
                }
            };
            let mut site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), slow).await;
            let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", site.address)]);
            let asking = spawn_local({
                let pool = pool.clone();
                async move { text(pool.send("Site2", get("/slow"), lane).await.unwrap()).await }
            });
            arrived.notified().await;
            site.drain.start();
            let error = loop {
                // Answered, as long as the news of the drain is under way.
                if let Err(error) = pool.send("Site2", get("/"), Lane::Small).await {
                    break error;
                }
            };
            assert_eq!(error.sent, Sent::No);
            assert!(!site.task.is_finished(), "it waits for the request in flight");
            release.notify_one();
            assert_eq!(asking.await.unwrap(), "finished");
            (&mut site.task).await.unwrap();
        });
    }
}

#[test]
fn a_site_without_requests_stops_at_once() {
    run(async {
        let authority = authority();
        let mut site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", site.address)]);
        for lane in [Lane::Small, Lane::Long] {
            text(pool.send("Site2", get("/"), lane).await.unwrap()).await;
        }
        // A handshake that has not ended does not hold it up either.
        let _half = tokio::net::TcpStream::connect(site.address).await.unwrap();
        site.drain.start();
        (&mut site.task).await.unwrap();
    });
}

/// Requests that race with a drain are answered, or were provably not executed: none is in doubt.
#[test]
fn a_rolling_restart_leaves_no_small_request_in_doubt() {
    run(async {
        let authority = authority();
        let mut site = Site::start(&authority.issue("Site2").unwrap(), Limits::default(), echo_head).await;
        let pool = pool(&authority.issue("Site1").unwrap(), patient(), &[("Site2", site.address)]);
        until(&pool, "Site2", |state| state.connected).await;
        let tasks: Vec<_> = (0..500)
            .map(|number| {
                let pool = pool.clone();
                spawn_local(async move {
                    for _ in 0..number {
                        tokio::task::yield_now().await;
                    }
                    pool.send("Site2", get("/"), Lane::Small).await.map(|_| ())
                })
            })
            .collect();
        let mut answered = 0;
        for (number, task) in tasks.into_iter().enumerate() {
            if number == 50 {
                site.drain.start();
            }
            match task.await.unwrap() {
                Ok(()) => answered += 1,
                Err(error) => assert_eq!(error.sent, Sent::No, "{error:?}"),
            }
        }
        assert!(answered >= 50, "{answered}");
        (&mut site.task).await.unwrap();
    });
}
