//! A client and a service that a test holds in its hands: each byte goes when the test says so.

// Each test file uses the part that it needs, and is a crate of its own.
#![allow(dead_code, unreachable_pub)]

pub mod fleet;
pub mod ledger;
pub mod members;
pub mod process;
pub mod sites;
pub mod upstream;

use std::fmt;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Far longer than anything takes that is not stuck.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A name and a value.
pub type Header<'h> = (&'h str, &'h str);

/// The head and the body of a request or an answer.
#[derive(Clone, Default)]
pub struct Message {
    /// `GET / HTTP/1.1`, or `HTTP/1.1 200 OK`.
    pub first: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Message {
    /// Reads one, to its end.
    pub fn read(from: &mut impl BufRead) -> io::Result<Message> {
        let mut message = Message { first: line(from)?, ..Message::default() };
        loop {
            let line = line(from)?;
            let Some((name, value)) = line.split_once(':') else { break };
            message.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if message.header("transfer-encoding") == "chunked" {
            while let size @ 1.. = usize::from_str_radix(&line(from)?, 16).map_err(io::Error::other)? {
                read(from, size, &mut message.body)?;
                line(from)?;
            }
            line(from)?;
        } else if let Ok(size) = message.header("content-length").parse() {
            read(from, size, &mut message.body)?;
        }
        Ok(message)
    }

    pub fn status(&self) -> u16 {
        self.word(1).parse().unwrap_or_default()
    }

    pub fn method(&self) -> &str {
        self.word(0)
    }

    pub fn path(&self) -> &str {
        self.word(1)
    }

    fn word(&self, index: usize) -> &str {
        self.first.split(' ').nth(index).unwrap_or_default()
    }

    /// The first header of this name, or nothing.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// A string in the body's JSON object, or nothing.
    pub fn field(&self, name: &str) -> String {
        let document: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        document.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}

/// As a person reads it.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.first, self.headers, self.text())
    }
}

fn line(from: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

fn read(from: &mut impl BufRead, size: usize, into: &mut Vec<u8>) -> io::Result<()> {
    let start = into.len();
    into.resize(start + size, 0);
    from.read_exact(into.get_mut(start..).unwrap_or_default())
}

/// One keep-alive connection.
pub struct Connection {
    reader: BufReader<TcpStream>,
}

impl Connection {
    pub fn open(to: SocketAddr) -> io::Result<Connection> {
        Connection::over(TcpStream::connect_timeout(&to, PATIENCE)?)
    }

    /// From an address of this machine's: another sender, to who counts by address.
    pub fn open_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<Connection> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let stream = runtime.block_on(async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
            socket.connect(to).await?.into_std()
        })?;
        stream.set_nonblocking(false)?;
        Connection::over(stream)
    }

    fn over(stream: TcpStream) -> io::Result<Connection> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Connection { reader: BufReader::new(stream) })
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &[Header<'_>], body: &str) -> io::Result<()> {
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: test\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        self.reader.get_mut().write_all(format!("{head}\r\n{body}").as_bytes())
    }

    /// With a body whose length is not told beforehand, in two pieces.
    pub fn send_chunked(
        &mut self,
        method: &str,
        path: &str,
        headers: &[Header<'_>],
        body: &str,
    ) -> io::Result<()> {
        let mut message = format!("{method} {path} HTTP/1.1\r\nhost: test\r\ntransfer-encoding: chunked\r\n");
        for (name, value) in headers {
            message.push_str(&format!("{name}: {value}\r\n"));
        }
        let (first, second) = body.split_at(body.len() / 2);
        message.push_str("\r\n");
        for piece in [first, second] {
            message.push_str(&format!("{:x}\r\n{piece}\r\n", piece.len()));
        }
        self.reader.get_mut().write_all(format!("{message}0\r\n\r\n").as_bytes())
    }

    pub fn answer(&mut self) -> io::Result<Message> {
        Message::read(&mut self.reader)
    }

    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[Header<'_>],
        body: &str,
    ) -> io::Result<Message> {
        self.send(method, path, headers, body)?;
        self.answer()
    }
}

/// One request on a connection of its own.
pub fn ask(
    to: SocketAddr,
    method: &str,
    path: &str,
    headers: &[Header<'_>],
    body: &str,
) -> io::Result<Message> {
    Connection::open(to)?.ask(method, path, headers, body)
}

/// A `GET` that is answered.
pub fn get(to: SocketAddr, path: &str, headers: &[Header<'_>]) -> Message {
    ask(to, "GET", path, headers, "").unwrap()
}
