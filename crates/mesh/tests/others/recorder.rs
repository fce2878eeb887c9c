//! A service that notes what came whole, however odd it is, and says that it is fine.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::harness::{ANY_PORT, STUCK};

/// A request that came whole: what frames it, or concerns one hop, is left out.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    method: String,
    /// From the path on.
    target: String,
    body: Vec<u8>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} \"{}\"", self.method, self.target, self.body.escape_ascii())
    }
}

pub struct Recorder {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Recorder {
    pub fn start() -> Recorder {
        let listener = TcpListener::bind(ANY_PORT).unwrap();
        let address = listener.local_addr().unwrap();
        let seen: Arc<Mutex<Vec<Request>>> = Arc::default();
        let notes = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let notes = Arc::clone(&notes);
                std::thread::spawn(move || serve(stream, &notes));
            }
        });
        Recorder { address, seen }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What came since the last time.
    pub fn take(&self) -> Vec<Request> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<Request>>) {
    stream.set_read_timeout(Some(STUCK)).unwrap();
    stream.set_nodelay(true).unwrap();
    let (mut bytes, mut told) = (Vec::new(), false);
    loop {
        while let Some((request, length)) = request(&bytes) {
            bytes.drain(..length);
            told = false;
            seen.lock().unwrap().push(request);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
        let head = text(&bytes).to_ascii_lowercase();
        if !told && head.contains("\r\nexpect: 100-continue\r\n") && head.contains("\r\n\r\n") {
            told = true;
            let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        let mut more = [0; 16 << 10];
        match stream.read(&mut more) {
            Ok(count @ 1..) => bytes.extend_from_slice(&more[..count]),
            _ => return,
        }
    }
}

fn text(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

/// The first request, if it is whole, and its length. Chunks win over a length, and sizes are read up to what is no
/// digit, as lenient servers do.
fn request(bytes: &[u8]) -> Option<(Request, usize)> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = text(&bytes[..end]);
    let mut lines = head.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next().unwrap_or_default());
    let target = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |path| &rest[path..]),
        _ => target,
    };
    let field = |name: &str| {
        let mut fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
        fields
            .find(|field| field.0.eq_ignore_ascii_case(name))
            .map(|field| field.1.trim().to_ascii_lowercase())
    };
    let (body, length) = if field("transfer-encoding").is_some_and(|codings| codings.contains("chunked")) {
        chunks(&bytes[end..])?
    } else {
        let length = field("content-length").map_or(0, |length| length.parse().unwrap_or(0));
        (bytes.get(end..end + length)?.to_vec(), length)
    };
    Some((Request { method, target: target.to_owned(), body }, end + length))
}

fn chunks(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let (mut body, mut at) = (Vec::new(), 0);
    loop {
        let line = bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let digits: String =
            text(&bytes[at..at + line]).chars().take_while(char::is_ascii_hexdigit).collect();
        let size = usize::from_str_radix(&digits, 16).ok()?;
        at += line + 2;
        if size == 0 {
            let rest = &bytes[at - 2..];
            let end = rest.windows(4).position(|four| four == b"\r\n\r\n")?;
            return Some((body, at - 2 + end + 4));
        }
        body.extend_from_slice(bytes.get(at..at + size)?);
        at += size + 2;
        bytes.get(..at)?;
    }
}
