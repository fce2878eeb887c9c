//! A service that is a few lines of a test.

use std::net::{SocketAddr, TcpListener};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::{ANY_PORT, Conn, Message};

/// A service: one thread for each connection, which ends with it.
pub struct Upstream {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Message>>>,
    connections: Arc<Mutex<usize>>,
    broken: Arc<AtomicBool>,
}

impl Upstream {
    /// Does this with every connection.
    pub fn script(script: impl Fn(&mut Conn) + Send + Sync + 'static) -> Upstream {
        Upstream::noting(move |conn, _| script(conn))
    }

    /// Gives every whole request the same answer, and notes it.
    pub fn answering(answer: &str) -> Upstream {
        let answer = answer.to_owned();
        Upstream::noting(move |conn, seen| {
            while let Some(request) = conn.request() {
                seen.lock().unwrap().push(request);
                conn.send(&answer);
            }
        })
    }

    /// Answers every whole request as it says, and notes it.
    pub fn serving(answer: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Upstream {
        Upstream::noting(move |conn, seen| {
            while let Some(request) = conn.request() {
                seen.lock().unwrap().push(request.clone());
                conn.send(answer(&request));
            }
        })
    }

    /// Gives every whole request this JSON.
    pub fn json(body: &str) -> Upstream {
        Upstream::answering(&json(body))
    }

    /// Says `200` and `fine`.
    pub fn fine() -> Upstream {
        Upstream::answering("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
    }

    pub fn noting(script: impl Fn(&mut Conn, &Mutex<Vec<Message>>) + Send + Sync + 'static) -> Upstream {
        let listener = TcpListener::bind(ANY_PORT).unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Message>>> = Arc::default();
        let connections: Arc<Mutex<usize>> = Arc::default();
        let broken: Arc<AtomicBool> = Arc::default();
        let (script, notes, count) = (Arc::new(script), Arc::clone(&seen), Arc::clone(&connections));
        let failed = Arc::clone(&broken);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (script, notes, failed) = (Arc::clone(&script), Arc::clone(&notes), Arc::clone(&failed));
                *count.lock().unwrap() += 1;
                let mut conn = Conn::over_tcp(stream.unwrap());
                std::thread::spawn(move || {
                    let ended = catch_unwind(AssertUnwindSafe(|| script(&mut conn, &notes)));
                    failed.fetch_or(ended.is_err(), Ordering::SeqCst);
                });
            }
        });
        Upstream { address, seen, connections, broken }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The requests that came whole, in order.
    pub fn seen(&self) -> Vec<Message> {
        self.seen.lock().unwrap().clone()
    }

    /// How many connections were made.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

/// An answer with this JSON, and with what is true of it only.
pub fn json(body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nETag: \"{length}\"\r\n\
         Last-Modified: Mon, 16 Nov 2026 00:00:00 GMT\r\nX-Own: {length}\r\n\r\n{body}"
    )
}

/// What a service did not expect fails the test, although it ran on a thread of its own.
impl Drop for Upstream {
    fn drop(&mut self) {
        assert!(
            std::thread::panicking() || !self.broken.load(Ordering::SeqCst),
            "the service got what it did not expect: see above"
        );
    }
}
