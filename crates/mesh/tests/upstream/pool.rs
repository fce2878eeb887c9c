//! Which connections are used again.

use std::time::Duration;

use http_body_util::BodyExt;
use mesh::upstream::{Alone, Kind, Sent, Settings};
use tokio::io::AsyncWriteExt;

use crate::{OK, Wire, core, listen, request, service, service_with, settings, text};

/// Serves these answers in order on the one connection that it accepts.
async fn on_one_connection(listener: tokio::net::TcpListener, answers: Vec<String>) {
    on_connection(Wire::accept(&listener).await, answers).await;
}

async fn on_connection(mut wire: Wire, answers: Vec<String>) {
    for answer in answers {
        wire.head().await;
        wire.write(&answer).await;
    }
}

#[test]
fn requests_one_after_the_other_use_one_connection() {
    core(async {
        let (listener, port) = listen().await;
        tokio::task::spawn_local(on_one_connection(listener, vec![OK.to_owned(); 5]));
        let service = service(&[port]);
        for _ in 0..5 {
            assert_eq!(text(service.send(request("GET", "")).await.unwrap()).await, "ok");
        }
    });
}

/// What a service says too much on a connection would be the next answer there.
#[test]
fn what_has_a_connection_to_itself_is_told_no_answer_of_another_request() {
    core(async {
        let (listener, port) = listen().await;
        tokio::task::spawn_local(async move {
            let used = on_connection(Wire::accept(&listener).await, vec![OK.to_owned(); 3]);
            tokio::task::spawn_local(used);
            for _ in 0..2 {
                let mut own = Wire::accept(&listener).await;
                own.head().await;
                own.write("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nown").await;
            }
        });
        let service = service(&[port]);
        assert_eq!(text(service.send(request("GET", "")).await.unwrap()).await, "ok");
        for _ in 0..2 {
            let mut alone = request("GET", "");
            alone.extensions_mut().insert(Alone);
            assert_eq!(text(service.send(alone).await.unwrap()).await, "own");
        }
    });
}

#[test]
fn answers_of_every_framing_leave_the_connection_usable() {
    core(async {
        let (listener, port) = listen().await;
        let answers = [
            ("HEAD", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n", ""),
            ("GET", "HTTP/1.1 204 No Content\r\n\r\n", ""),
            ("GET", "HTTP/1.1 304 Not Modified\r\ncontent-length: 99\r\n\r\n", ""),
            (
                "GET",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
                "abcde",
            ),
            (
                "GET",
                "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\na",
                "a",
            ),
            ("GET", "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1\r\n\r\nb", "b"),
            ("GET", OK, "ok"),
        ];
        let script = answers.iter().map(|(_, answer, _)| (*answer).to_owned()).collect();
        tokio::task::spawn_local(on_one_connection(listener, script));
        let service = service(&[port]);
        for (method, _, body) in answers {
            assert_eq!(text(service.send(request(method, "")).await.unwrap()).await, body);
        }
    });
}

#[test]
fn an_http_1_0_answer_ends_with_its_connection() {
    core(async {
        let (listener, port) = listen().await;
        tokio::task::spawn_local(async move {
            loop {
                let mut wire = Wire::accept(&listener).await;
                wire.head().await;
                wire.write("HTTP/1.0 200 OK\r\n\r\nto the end").await;
                wire.0.shutdown().await.unwrap();
            }
        });
        let service = service(&[port]);
        for _ in 0..2 {
            assert_eq!(text(service.send(request("GET", "")).await.unwrap()).await, "to the end");
        }
    });
}

#[test]
fn an_answer_with_many_headers_is_read() {
    core(async {
        let (listener, port) = listen().await;
        let headers = format!("x: {}\r\n", "v".repeat(300)).repeat(200);
        let answer = format!("HTTP/1.1 200 OK\r\n{headers}content-length: 0\r\n\r\n");
        tokio::task::spawn_local(on_one_connection(listener, vec![answer]));
        let service = service_with(&[port], Settings { max_headers: 256, ..settings() });
        let answer = service.send(request("GET", "")).await.unwrap();
        assert_eq!(answer.headers().len(), 201);
    });
}

#[test]
fn an_answer_that_nobody_reads_closes_its_connection() {
    core(async {
        let (listener, port) = listen().await;
        let service = service(&[port]);
        let (answer, wire) = tokio::join!(service.send(request("GET", "")), async {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nonly the start").await;
            wire
        });
        let mut body = answer.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        drop(body);
        assert!(wire.closed().await);
    });
}

#[test]
fn a_connection_that_was_idle_for_too_long_is_not_used() {
    core(async {
        let (listener, port) = listen().await;
        let settings = Settings { idle_timeout: Duration::ZERO, ..settings() };
        let service = service_with(&[port], settings);
        let server = async {
            for _ in 0..2 {
                let mut wire = Wire::accept(&listener).await;
                wire.head().await;
                wire.write(OK).await;
                assert!(wire.closed().await);
            }
        };
        let client = async {
            for _ in 0..2 {
                text(service.send(request("GET", "")).await.unwrap()).await;
            }
            service.sweep();
        };
        tokio::join!(server, client);
    });
}

#[test]
fn one_connection_too_many_is_refused_and_nothing_is_sent() {
    core(async {
        let (listener, port) = listen().await;
        let service = service_with(&[port], Settings { max_connections_per_target: 1, ..settings() });
        let (answer, mut wire) = tokio::join!(service.send(request("GET", "")), async {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            wire.write("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n").await;
            wire
        });
        let error = service.send(request("POST", "body")).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::No, Kind::TooMany), "{error:?}");
        wire.write("ok").await;
        text(answer.unwrap()).await;
        let (answer, ()) = tokio::join!(service.send(request("POST", "body")), async {
            wire.read_to("\r\n\r\nbody").await;
            wire.write(OK).await;
        });
        assert_eq!(text(answer.unwrap()).await, "ok");
    });
}
