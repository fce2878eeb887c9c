//! The thin path: plain HTTP/1.1 from a client to a plain service of this site, without a server or a client
//! of hyper's between them. One task has both sockets.
//!
//! It reads with the guard's own code, decides with the same functions as the other path, and hands on what it need
//! not change as it was written. **Whatever is not that simple it hands over**, with the bytes that it has read:
//! heads that the guard refuses, HTTP/1.0 and HTTP/2, requests to switch protocols, for a word before the body or
//! for trailers, plans for other sites, scopes that are refused. The connection stays on the other path then.
//!
//! In the order in which a request meets them: this module (a connection and its heads), `buffers`, `request`
//! (a head), `decide` (what becomes of it), `ways` (what became of others like it), `exchange` (to the service and back), `answer` (its head), `body`, `chunks`
//! (of an answer), `wire` (sockets, and how messages are written).

mod answer;
mod body;
mod buffers;
mod chunks;
mod decide;
mod exchange;
mod request;
mod rewound;
mod several;
mod ways;
mod wire;

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http1guard::{Head, Heads};
use link::Draining;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::alarm::Alarm;
use crate::core::Core;
use crate::front::PREFACE;
use crate::handle::Entry;
use crate::idle::Seldom;
use crate::paced::LINGER;
use crate::settings::Settings;
use buffers::Buffer;
use exchange::{Then, exchange};
use request::Reading;
use wire::{fill, poll_first};

pub(crate) use buffers::Buffers;
pub(crate) use rewound::Rewound;
pub(crate) use ways::Ways;

/// So much of the rest of a refused request is read, within [`LINGER`].
const LINGER_BYTES: usize = 4 << 20;

/// Where a client sits.
pub(crate) struct Seat {
    pub(crate) core: Rc<Core>,
    pub(crate) entry: Rc<Entry>,
    pub(crate) address: SocketAddr,
    pub(crate) draining: Draining,
}

/// A connection that is not for the thin path, and what was read of it.
pub(crate) enum Other {
    Http1(Rewound),
    Http2(Rewound),
}

struct Client {
    stream: TcpStream,
    /// What came and was not dealt with.
    buffer: Option<Buffer>,
    heads: Heads,
    reading: Reading,
    alarm: Rc<Alarm>,
    /// When the last answer ended, or the connection began.
    idle_since: Instant,
}

enum Came {
    Head(Head),
    Nothing,
    Http2,
    Other,
}

/// What the guard takes for a head.
pub(crate) fn guard_limits(settings: &Settings) -> http1guard::Limits {
    http1guard::Limits {
        head_bytes: settings.limits.header_bytes,
        fields: settings.limits.headers,
        ..http1guard::Limits::default()
    }
}

/// Serves a client until its end, or until it asks for what is not for this path.
pub(crate) async fn serve(seat: &Seat, stream: TcpStream) -> Option<Other> {
    let (limits, header, idle) = {
        let state = seat.core.state();
        let settings = state.settings();
        (guard_limits(settings), settings.timeouts.header, settings.timeouts.idle)
    };
    let (heads, alarm) = (Heads::new(limits), seat.core.alarms.alarm());
    let (reading, idle_since) = (Reading::default(), Instant::now());
    let mut client = Client { stream, buffer: None, heads, reading, alarm, idle_since };
    let mut draining = seat.draining.clone();
    let mut drained = Seldom::new(async move { draining.started().await });
    let mut first = true;
    loop {
        if client.buffer.is_none() && !client.wakes(seat, &mut drained, idle).await {
            return None;
        }
        match client.head(seat, header, first).await {
            Came::Nothing => return None,
            Came::Http2 => return Some(Other::Http2(client.rewound())),
            Came::Other => return Some(Other::Http1(client.rewound())),
            Came::Head(head) => {
                // Boxed: an idle connection does not keep room for it.
                match Box::pin(exchange(seat, &mut client, head)).await {
                    Then::Next(now) => client.idle_since = now,
                    Then::HandOver => return Some(Other::Http1(client.rewound())),
                    Then::Close => return client.close().await,
                    Then::Linger => return client.linger().await,
                }
            }
        }
        first = false;
    }
}

impl Client {
    /// Waits for the first byte of a request. It does not come if the client has gone, or said nothing for too
    /// long, or if the mesh is about to end.
    async fn wakes(
        &mut self,
        seat: &Seat,
        drained: &mut Seldom<impl Future<Output = ()>>,
        idle: Duration,
    ) -> bool {
        self.alarm.set_at(self.idle_since.checked_add(idle));
        let mut asked = false;
        poll_fn(|context| {
            if Pin::new(&mut *drained).poll(context).is_ready() {
                return Poll::Ready(false);
            }
            let (mut read, _) = self.stream.split();
            match poll_first(&mut read, &seat.core.buffers, &mut asked, context) {
                Poll::Ready(Ok((buffer, 1..))) => {
                    self.buffer = Some(buffer);
                    Poll::Ready(true)
                }
                Poll::Ready(_) => Poll::Ready(false),
                Poll::Pending => self.alarm.poll(context).map(|()| false),
            }
        })
        .await
    }

    /// Reads a head, of which something has come. It may take so long, however many drops it comes in.
    async fn head(&mut self, seat: &Seat, limit: Duration, first: bool) -> Came {
        let carry = &seat.core.shared.carry;
        self.reading.begin();
        let Some(buffer) = &mut self.buffer else { return Came::Nothing };
        let mut is_set = false;
        loop {
            let unread = buffer.unread();
            if first && unread.starts_with(PREFACE) {
                return Came::Http2;
            }
            if !(first && PREFACE.starts_with(unread)) {
                let reading = &mut self.reading;
                match self.heads.read(unread, |field| reading.field(&field, unread, carry)) {
                    Ok(Some(head)) => {
                        reading.end(&head);
                        return Came::Head(head);
                    }
                    Ok(None) if !buffer.is_full() => {}
                    // Refused, or long: the other path says so, or has the room.
                    Ok(None) | Err(_) => return Came::Other,
                }
            }
            if !std::mem::replace(&mut is_set, true) {
                self.alarm.set(limit);
            }
            match fill(&mut self.stream.split().0, buffer, &self.alarm).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return Came::Nothing,
            }
        }
    }

    fn rewound(self) -> Rewound {
        let read = self.buffer.map(|buffer| Bytes::copy_from_slice(buffer.unread())).unwrap_or_default();
        Rewound::new(self.stream, read)
    }

    /// Ends the connection, and drops what the client has already sent.
    async fn close(mut self) -> Option<Other> {
        let _ = self.stream.shutdown().await;
        let mut scratch = [0; 1024];
        for _ in 0..64 {
            match self.stream.try_read(&mut scratch) {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
        }
        None
    }

    /// The same, and waits a while for a client that is still sending.
    async fn linger(mut self) -> Option<Other> {
        let read_all = async {
            let _ = self.stream.shutdown().await;
            let (mut scratch, mut left) = (vec![0; 16 << 10], LINGER_BYTES);
            while let Ok(count @ 1..) = self.stream.read(&mut scratch).await
                && left > 0
            {
                left = left.saturating_sub(count);
            }
            io::Result::Ok(())
        };
        let _ = timeout(LINGER, read_all).await;
        None
    }
}
