//! Which target a request goes to.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use mesh::upstream::health::{Check, watch};
use mesh::upstream::{Health, Upstreams};
use tokio::net::TcpListener;

use crate::{OK, Service, Wire, at, core, dead, listen, request, service, settings, text};

/// Answers each request with the name of the target.
fn serve(listener: TcpListener, name: &'static str) {
    tokio::task::spawn_local(async move {
        loop {
            let mut wire = Wire::accept(&listener).await;
            tokio::task::spawn_local(async move {
                while let Ok(1..) = wire.0.peek(&mut [0]).await {
                    wire.head().await;
                    wire.write(&format!("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n{name}")).await;
                }
            });
        }
    });
}

async fn ask(service: &Service) -> String {
    text(service.send(request("GET", "")).await.unwrap()).await
}

#[test]
fn equal_targets_take_turns_and_a_busy_one_is_spared() {
    core(async {
        let (a, a_port) = listen().await;
        let (b, b_port) = listen().await;
        let (c, c_port) = listen().await;
        for (listener, name) in [(a, "a"), (b, "b"), (c, "c")] {
            serve(listener, name);
        }
        let service = service(&[a_port, b_port, c_port]);
        let mut order = String::new();
        for _ in 0..6 {
            order += &ask(&service).await;
        }
        assert_eq!(order, "abcabc");
        // Its answer is not read yet.
        let busy = service.send(request("GET", "")).await.unwrap();
        let mut order = String::new();
        for _ in 0..4 {
            order += &ask(&service).await;
        }
        assert_eq!(order, "bcbc");
        assert_eq!(text(busy).await, "a");
    });
}

#[test]
fn a_target_that_did_not_accept_is_left_alone() {
    core(async {
        let (a, a_port) = listen().await;
        serve(a, "a");
        let health = Arc::new(Health::new(2));
        let service: Service =
            Upstreams::new(vec![at(dead().await), at(a_port)], settings(), Arc::clone(&health));
        assert_eq!(ask(&service).await, "a");
        assert!(!health.is_up(0) && health.is_up(1));
    });
}

#[test]
fn a_target_that_fails_its_checks_gets_no_requests_until_one_passes() {
    core(async {
        let (a, a_port) = listen().await;
        let (b, b_port) = listen().await;
        let (checked, check_port) = listen().await;
        serve(a, "a");
        serve(b, "b");
        let health = Arc::new(Health::new(2));
        let service: Service = Upstreams::new(vec![at(a_port), at(b_port)], settings(), Arc::clone(&health));
        // The first target is asked at an address where the test answers.
        let check = Check {
            path: "/health".parse().unwrap(),
            interval: Duration::from_millis(1),
            timeout: Duration::from_secs(10),
        };
        tokio::task::spawn_local(watch(vec![at(check_port)], check, Arc::clone(&health)));
        let heads = RefCell::new(String::new());
        let asked = async || {
            let mut wire = Wire::accept(&checked).await;
            *heads.borrow_mut() = wire.head().await;
            wire
        };
        let failed = "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n";
        asked().await.write(failed).await;
        // That the next check is there means that the one before was counted.
        let mut second = asked().await;
        assert!(health.is_up(0), "one failure is not enough");
        second.write(failed).await;
        let mut third = asked().await;
        assert!(!health.is_up(0));
        for _ in 0..3 {
            assert_eq!(ask(&service).await, "b");
        }
        third.write("HTTP/1.1 302 Found\r\ncontent-length: 0\r\n\r\n").await;
        let _fourth = asked().await;
        assert!(health.is_up(0));
        assert!([ask(&service).await, ask(&service).await].contains(&"a".to_owned()));
        assert!(heads.borrow().starts_with("GET /health HTTP/1.1\r\n"), "{heads:?}");
    });
}

#[test]
fn a_request_in_another_version_and_form_arrives_as_http_1_1_wants_it() {
    core(async {
        let (listener, port) = listen().await;
        let seen = Rc::new(RefCell::new(Vec::new()));
        let heads = Rc::clone(&seen);
        tokio::task::spawn_local(async move {
            let mut wire = Wire::accept(&listener).await;
            loop {
                let head = wire.head().await;
                heads.borrow_mut().push(head);
                wire.write(OK).await;
            }
        });
        let service = service(&[port]);
        let mut absolute = request("GET", "");
        *absolute.version_mut() = http::Version::HTTP_2;
        *absolute.uri_mut() = "http://shop.example/a?b=c".parse().unwrap();
        absolute.headers_mut().clear();
        let mut old = request("GET", "");
        *old.version_mut() = http::Version::HTTP_10;
        old.headers_mut().clear();
        for request in [absolute, old] {
            text(service.send(request).await.unwrap()).await;
        }
        let first = "GET /a?b=c HTTP/1.1\r\nhost: shop.example\r\n\r\n";
        assert_eq!(
            *seen.borrow(),
            [first.to_owned(), format!("GET /x HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n")]
        );
    });
}
