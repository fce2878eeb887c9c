//! A request that may have been executed is never sent again; one that provably was not, is.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use mesh::upstream::{Kind, Sent};

use crate::{OK, Wire, core, dead, listen, request, service, text};

/// A service on a thread of its own, so that things happen to a connection while the core looks away. It
/// answers once, closes when told, says so in both ways, and then counts the bodies that it gets.
struct Elsewhere {
    port: u16,
    close: Sender<()>,
    closed: Receiver<()>,
    /// A byte comes here, right after the end of the connection.
    side: TcpStream,
    executed: Arc<AtomicUsize>,
}

fn elsewhere() -> Elsewhere {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (close, told) = channel();
    let (tell, closed) = channel();
    let side = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut other_side, _) = listener.accept().unwrap();
    let executed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&executed);
    std::thread::spawn(move || {
        let read_to = |wire: &mut TcpStream, end: &[u8]| {
            let mut seen = Vec::new();
            while !seen.ends_with(end) {
                let mut byte = [0];
                wire.read_exact(&mut byte).unwrap();
                seen.extend(byte);
            }
        };
        let (mut wire, _) = listener.accept().unwrap();
        read_to(&mut wire, b"\r\n\r\n");
        wire.write_all(OK.as_bytes()).unwrap();
        told.recv().unwrap();
        drop(wire);
        other_side.write_all(b"!").unwrap();
        tell.send(()).unwrap();
        while let Ok((mut wire, _)) = listener.accept() {
            read_to(&mut wire, b"\r\n\r\nbody");
            count.fetch_add(1, Ordering::Relaxed);
            wire.write_all(OK.as_bytes()).unwrap();
        }
    });
    Elsewhere { port, close, closed, side, executed }
}

/// The reactor saw the end of the connection, but the connection's own task did not run yet: the pool
/// gives it out, and hyper hands the request back.
#[test]
fn a_post_on_a_connection_that_was_just_closed_is_executed_once() {
    core(async {
        let there = elsewhere();
        let service = service(&[there.port]);
        text(service.send(request("GET", "")).await.unwrap()).await;
        there.side.set_nonblocking(true).unwrap();
        let mut side = tokio::net::TcpStream::from_std(there.side).unwrap();
        there.close.send(()).unwrap();
        there.closed.recv().unwrap();
        // The reactor finds both at once, and this future runs before other tasks.
        tokio::io::AsyncReadExt::read_u8(&mut side).await.unwrap();
        assert_eq!(text(service.send(request("POST", "body")).await.unwrap()).await, "ok");
        assert_eq!(there.executed.load(Ordering::Relaxed), 1);
    });
}

/// Not even the reactor saw it: the end lies in the kernel.
#[test]
fn a_post_on_a_connection_that_was_closed_while_it_dozed_is_executed_once() {
    core(async {
        let there = elsewhere();
        let service = service(&[there.port]);
        text(service.send(request("GET", "")).await.unwrap()).await;
        there.close.send(()).unwrap();
        there.closed.recv().unwrap();
        // Not to wait for something: so that the connection is old, with the core looking away.
        std::thread::sleep(Duration::from_millis(150));
        assert_eq!(text(service.send(request("POST", "body")).await.unwrap()).await, "ok");
        assert_eq!(there.executed.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_request_that_was_read_before_the_connection_closed_is_not_sent_again() {
    core(async {
        for method in ["POST", "GET"] {
            let (first, first_port) = listen().await;
            let (second, second_port) = listen().await;
            let read = Rc::new(Cell::new(0));
            for listener in [first, second] {
                let read = Rc::clone(&read);
                tokio::task::spawn_local(async move {
                    loop {
                        let mut wire = Wire::accept(&listener).await;
                        wire.read_to("\r\n\r\nbody").await;
                        read.set(read.get() + 1);
                    }
                });
            }
            let service = service(&[first_port, second_port]);
            let error = service.send(request(method, "body")).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::Maybe, Kind::Reset), "{error:?}");
            assert!(error.request.is_none(), "what may have been sent is not handed back");
            assert_eq!(read.get(), 1, "{method}");
        }
    });
}

/// The same on a connection out of the pool, where "it was closed meanwhile" is the tempting excuse.
#[test]
fn a_request_that_was_read_on_a_used_connection_is_not_sent_again() {
    core(async {
        let (listener, port) = listen().await;
        let posts = Rc::new(Cell::new(0));
        let executed = Rc::clone(&posts);
        tokio::task::spawn_local(async move {
            let mut wire = Wire::accept(&listener).await;
            wire.head().await;
            wire.write(OK).await;
            loop {
                wire.read_to("\r\n\r\nbody").await;
                executed.set(executed.get() + 1);
                drop(wire);
                wire = Wire::accept(&listener).await;
            }
        });
        let service = service(&[port]);
        text(service.send(request("GET", "")).await.unwrap()).await;
        let error = service.send(request("POST", "body")).await.unwrap_err();
        assert_eq!((error.sent, error.kind), (Sent::Maybe, Kind::Reset), "{error:?}");
        assert_eq!(posts.get(), 1);
    });
}

#[test]
fn a_dead_target_costs_a_post_nothing_of_its_body() {
    core(async {
        let (listener, port) = listen().await;
        tokio::task::spawn_local(async move {
            let mut wire = Wire::accept(&listener).await;
            loop {
                wire.read_to("\r\n\r\nbody").await;
                wire.write(OK).await;
            }
        });
        let service = service(&[dead().await, port]);
        for _ in 0..3 {
            assert_eq!(text(service.send(request("POST", "body")).await.unwrap()).await, "ok");
        }
    });
}

#[test]
fn a_target_that_accepts_only_to_close_is_passed_over_or_in_doubt_but_never_asked_twice() {
    core(async {
        let (closing, closing_port) = listen().await;
        let (listener, port) = listen().await;
        let posts = Rc::new(Cell::new(0));
        let executed = Rc::clone(&posts);
        tokio::task::spawn_local(async move {
            loop {
                drop(Wire::accept(&closing).await);
            }
        });
        tokio::task::spawn_local(async move {
            let mut wire = Wire::accept(&listener).await;
            loop {
                wire.read_to("\r\n\r\nbody").await;
                executed.set(executed.get() + 1);
                wire.write(OK).await;
            }
        });
        // Whether the end is seen before the request is written is a race of the kernel's: both are right.
        match service(&[closing_port, port]).send(request("POST", "body")).await {
            Ok(answer) => assert_eq!((text(answer).await.as_str(), posts.get()), ("ok", 1)),
            Err(error) => assert_eq!((error.sent, posts.get()), (Sent::Maybe, 0)),
        }
    });
}

#[test]
fn where_no_target_lives_the_request_comes_back_whole() {
    core(async {
        let service = service(&[dead().await, dead().await]);
        // Twice: the second time all targets are known to be down, and are tried all the same.
        for _ in 0..2 {
            let error = service.send(request("POST", "body")).await.unwrap_err();
            assert_eq!((error.sent, error.kind), (Sent::No, Kind::Unreachable), "{error:?}");
            assert!(error.source.to_string().contains("127.0.0.1:"), "{}", error.source);
            let back = error.request.unwrap().into_body();
            assert_eq!(http_body_util::BodyExt::collect(back).await.unwrap().to_bytes(), "body");
        }
    });
}

#[test]
fn who_gives_up_knows_whether_the_request_left() {
    core(async {
        let (listener, port) = listen().await;
        let service = service(&[port]);
        let sent = Cell::new(Sent::No);
        let wire = tokio::select! {
            biased;
            _ = service.send_noting(request("POST", "body"), &sent) => unreachable!("nobody answers"),
            wire = async {
                let mut wire = Wire::accept(&listener).await;
                wire.read_to("\r\n\r\nbody").await;
                wire
            } => wire,
        };
        assert_eq!(sent.get(), Sent::Maybe);
        assert!(wire.closed().await, "giving up closes the connection");
    });
}
