//! One end of a connection, as bytes: a client, or a service. It reads messages as strictly as it can.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use super::STUCK;

/// Bytes both ways.
pub trait Bytes: Read + Write + Send {
    /// Nothing more will be sent.
    fn end(&mut self);

    /// Another hand that writes to the same, while this one reads.
    fn writer(&self) -> TcpStream {
        panic!("only TCP has two hands")
    }
}

impl Bytes for TcpStream {
    fn end(&mut self) {
        let _ = self.shutdown(Shutdown::Write);
    }

    fn writer(&self) -> TcpStream {
        self.try_clone().unwrap()
    }
}

pub struct Conn {
    stream: Box<dyn Bytes>,
    unread: Vec<u8>,
}

/// A request or an answer.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// The request line or the status line.
    pub line: String,
    /// In order, the names in small letters.
    pub fields: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub trailers: Vec<(String, String)>,
}

impl Message {
    pub fn status(&self) -> u16 {
        self.line.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// The values of a field, with a comma between them.
    pub fn field(&self, name: &str) -> Option<String> {
        let values = self.fields.iter().filter(|field| field.0 == name);
        let values: Vec<&str> = values.map(|field| field.1.as_str()).collect();
        (!values.is_empty()).then(|| values.join(", "))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }

    /// A problem document of this kind.
    #[track_caller]
    pub fn assert_problem(&self, status: u16, kind: &str) {
        assert_eq!(self.status(), status, "{self:?}");
        // As it is, or within the member that OpenStack's clients look for.
        let within = self.text().starts_with("{\"error\":");
        let kind_of_body = if within { "application/json" } else { "application/problem+json" };
        assert_eq!(self.field("content-type").as_deref(), Some(kind_of_body), "{self:?}");
        assert!(self.text().contains(&format!("urn:archipel:{kind}")), "{}", self.text());
    }
}

impl Conn {
    pub fn to(address: SocketAddr) -> Conn {
        Conn::over_tcp(TcpStream::connect(address).unwrap())
    }

    pub fn over_tcp(stream: TcpStream) -> Conn {
        stream.set_read_timeout(Some(STUCK)).unwrap();
        stream.set_write_timeout(Some(STUCK)).unwrap();
        stream.set_nodelay(true).unwrap();
        Conn::over(Box::new(stream))
    }

    pub fn over(stream: Box<dyn Bytes>) -> Conn {
        Conn { stream, unread: Vec::new() }
    }

    /// The other side may have closed already: what it said before is still to be read.
    pub fn send(&mut self, bytes: impl AsRef<[u8]>) {
        let _ = self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush());
    }

    /// Sends as much as goes; how much it was.
    pub fn push(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.stream.write(bytes)
    }

    /// Closes this side for writing.
    pub fn end(&mut self) {
        self.stream.end();
    }

    /// Reads more; false at the end.
    fn more(&mut self) -> bool {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => false,
            Ok(read) => {
                self.unread.extend_from_slice(&buffer[..read]);
                true
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("nothing came: {:?}", String::from_utf8_lossy(&self.unread))
            }
            // Reset: the end as well.
            Err(_) => false,
        }
    }

    /// A line without its end; none if the stream ended before it.
    pub fn line(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\r\n") {
                let line: Vec<u8> = self.unread.drain(..end + 2).take(end).collect();
                assert!(!line.contains(&b'\r') && !line.contains(&b'\n'), "{}", line.escape_ascii());
                return Some(line.iter().map(|byte| char::from(*byte)).collect());
            }
            if !self.more() {
                return None;
            }
        }
    }

    /// What writes to the other side while this waits for it.
    pub fn writer(&self) -> TcpStream {
        self.stream.writer()
    }

    /// So many bytes; fewer only at the end.
    pub fn exactly(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count && self.more() {}
        let count = count.min(self.unread.len());
        self.unread.drain(..count).collect()
    }

    /// Whatever comes until the end.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more() {}
        std::mem::take(&mut self.unread)
    }

    /// The other side closes, and says nothing more.
    #[track_caller]
    pub fn assert_closed(&mut self) {
        let rest = self.rest();
        assert!(rest.is_empty(), "{}", rest.escape_ascii());
    }

    /// The head of a message, without its body.
    pub fn head(&mut self) -> Option<Message> {
        let line = self.line()?;
        let fields = self.fields()?;
        Some(Message { line, fields, ..Message::default() })
    }

    fn fields(&mut self) -> Option<Vec<(String, String)>> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Some(fields);
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field: {line:?}"));
            assert!(!name.contains([' ', '\t']), "{line:?}");
            fields.push((name.to_ascii_lowercase(), value.trim_matches([' ', '\t']).to_owned()));
        }
    }

    /// A whole request; none at the end of the connection, or if it is cut.
    pub fn request(&mut self) -> Option<Message> {
        let head = self.head()?;
        self.body_of(head, false)
    }

    /// A whole final answer to a request that was not HEAD.
    pub fn answer(&mut self) -> Message {
        self.answer_to("")
    }

    /// A whole final answer to this request.
    pub fn answer_to(&mut self, request: &str) -> Message {
        loop {
            let head = self.head().expect("an answer");
            let status = head.status();
            if status / 100 == 1 && status != 101 {
                continue;
            }
            if request.starts_with("HEAD ") || matches!(status, 101 | 204 | 304) {
                return head;
            }
            return self.body_of(head, true).expect("the whole answer");
        }
    }

    fn body_of(&mut self, mut message: Message, is_answer: bool) -> Option<Message> {
        let (length, coding) = (message.field("content-length"), message.field("transfer-encoding"));
        match (length, coding.as_deref()) {
            (None, None) if is_answer => message.body = self.rest(),
            (None, None) => {}
            (Some(length), None) => {
                let length: usize = length.parse().unwrap();
                message.body = self.exactly(length);
                if message.body.len() < length {
                    return None;
                }
            }
            (None, Some("chunked")) => {
                while let chunk @ 1.. = usize::from_str_radix(&self.line()?, 16).unwrap() {
                    message.body.extend(self.exactly(chunk));
                    if self.exactly(2) != b"\r\n" {
                        return None;
                    }
                }
                message.trailers = self.fields()?;
            }
            _ => panic!("two framings: {message:?}"),
        }
        Some(message)
    }
}
