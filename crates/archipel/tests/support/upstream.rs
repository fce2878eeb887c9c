//! A service that answers as a test tells it, request by request.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{Message, PATIENCE};

/// A running service; it ends with the test's process.
pub struct Upstream {
    pub address: SocketAddr,
}

impl Upstream {
    /// Answers each request with a status and a body.
    pub fn start(answer: impl Fn(&Message) -> (u16, String) + Send + Sync + 'static) -> Upstream {
        Upstream::with("", answer)
    }

    /// The same, and says that it is JSON.
    pub fn json(answer: impl Fn(&Message) -> (u16, String) + Send + Sync + 'static) -> Upstream {
        Upstream::with("content-type: application/json\r\n", answer)
    }

    fn with(
        fields: &'static str,
        answer: impl Fn(&Message) -> (u16, String) + Send + Sync + 'static,
    ) -> Upstream {
        Upstream::with_fields(move |request| {
            let (status, body) = answer(request);
            (status, fields.to_owned(), body)
        })
    }

    /// Answers each request with a status, header fields, each with the end of its line, and a body.
    pub fn with_fields(
        answer: impl Fn(&Message) -> (u16, String, String) + Send + Sync + 'static,
    ) -> Upstream {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = Arc::clone(&answer);
                std::thread::spawn(move || serve(stream, &*answer));
            }
        });
        Upstream { address }
    }

    /// Answers every request with this.
    pub fn saying(text: &'static str) -> Upstream {
        Upstream::start(move |_| (200, text.to_owned()))
    }

    /// Holds each request until the test answers it.
    pub fn held() -> (Upstream, Receiver<Held>) {
        let (arrived, requests) = sync_channel(16);
        let upstream = Upstream::start(move |message| {
            let (release, released) = sync_channel(1);
            let _ = arrived.send(Held { message: message.clone(), release });
            released.recv_timeout(PATIENCE).unwrap_or((500, "nobody released this".to_owned()))
        });
        (upstream, requests)
    }
}

/// A request that waits for its answer.
pub struct Held {
    pub message: Message,
    release: SyncSender<(u16, String)>,
}

impl Held {
    pub fn answer(self, text: &str) {
        self.release.send((200, text.to_owned())).unwrap();
    }
}

fn serve(stream: TcpStream, answer: &dyn Fn(&Message) -> (u16, String, String)) {
    let mut reader = BufReader::new(stream);
    while let Ok(request) = Message::read(&mut reader) {
        let (status, fields, body) = answer(&request);
        let head = format!("HTTP/1.1 {status} As-Told\r\n{fields}content-length: {}\r\n\r\n", body.len());
        if reader.get_mut().write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}
