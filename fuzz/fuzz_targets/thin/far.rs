//! The service: it reads strictly, notes what came whole, and answers.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::message::{chunks, head, noted};

/// Good answers; the method is said, so that the client knows whether a body follows.
pub const ANSWERS: &[&str] = &[
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX: 1\r\n\r\n",
    "HTTP/1.1 404 Not Here\r\nConnection: x-hop, keep-alive\r\nX-Hop: 1\r\nX: a\r\nX: b\r\nArchipel-X: 1\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 204 No Content\r\nX: 1\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 401 No\r\nContent-Length: 1\r\n\r\nx",
];

#[derive(Clone)]
pub enum Service {
    /// This, to every request.
    Answers(&'static str),
    /// This, and the end.
    Says(Vec<u8>),
}

#[derive(Default)]
pub struct Notes {
    pub service: Option<Service>,
    pub requests: Vec<String>,
    pub broken: Option<String>,
}

pub fn listen() -> (SocketAddr, Arc<Mutex<Notes>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, notes) = (listener.local_addr().expect("an address"), Arc::new(Mutex::<Notes>::default()));
    let shared = Arc::clone(&notes);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let notes = Arc::clone(&shared);
            std::thread::spawn(move || {
                let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| serve(stream, &notes)));
                if served.is_err() {
                    notes.lock().expect("notes").broken =
                        Some("a service that reads strictly cannot read it".into());
                }
            });
        }
    });
    (address, notes)
}

fn serve(mut stream: TcpStream, notes: &Mutex<Notes>) {
    stream.set_nodelay(true).expect("an option");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
    let mut bytes = Vec::new();
    while let Some((request, method, length)) = request(&mut stream, &mut bytes) {
        bytes.drain(..length);
        let service = {
            let mut notes = notes.lock().expect("notes");
            notes.requests.push(request);
            notes.service.clone()
        };
        match service {
            Some(Service::Answers(answer)) => {
                let (before, last) = answer.rsplit_once("HTTP/1.1 ").expect("an answer");
                let (line, rest) = last.split_once("\r\n").expect("an answer");
                let (head, body) = rest.split_once("\r\n\r\n").expect("an answer");
                let body = if method == "HEAD" { "" } else { body };
                let _ = stream.write_all(
                    format!("{before}HTTP/1.1 {line}\r\nX-Method: {method}\r\n{head}\r\n\r\n{body}")
                        .as_bytes(),
                );
            }
            Some(Service::Says(bytes)) => {
                let _ = stream.write_all(&bytes);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                // Nothing unread is left, so that the connection is not reset under what was said.
                while let Ok(1..) = stream.read(&mut [0; 1024]) {}
                return;
            }
            None => return,
        }
    }
}

/// The next whole request as it is noted, its method, and its length; none at the end.
fn request(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<(String, String, usize)> {
    let mut told = false;
    loop {
        if let Some((line, fields, start)) = head(bytes) {
            let method = line.split(' ').next().unwrap_or_default().to_owned();
            let all = |name: &str| -> Vec<&String> {
                fields.iter().filter(|f| f.0 == name).map(|f| &f.1).collect()
            };
            let whole = match (&*all("content-length"), &*all("transfer-encoding")) {
                ([], []) => Some((0, Vec::new())),
                ([length], []) => {
                    let length: usize = length.parse().expect("a length");
                    bytes.get(start..start + length).map(|body| (length, body.to_vec()))
                }
                ([], [coding]) if *coding == "chunked" => chunks(&bytes[start..]),
                framings => panic!("{framings:?}"),
            };
            if let Some((length, body)) = whole {
                return Some((noted(&line, &fields, &body), method, start + length));
            }
            if !std::mem::replace(&mut told, true) && !all("expect").is_empty() {
                let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
            }
        }
        let mut more = [0; 4096];
        match stream.read(&mut more) {
            Ok(count @ 1..) => bytes.extend_from_slice(&more[..count]),
            _ => return None,
        }
    }
}
