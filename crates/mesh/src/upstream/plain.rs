//! Connections without TLS, for who reads and writes them itself.

use std::io;

use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::Instant;

use super::connect::{Open, connect_plain};
use super::error::Kind;
use super::send::{Failure, Tries, Upstreams};
use super::slot::{InFlight, Usable};

/// A connection without TLS.
pub(crate) struct Plain {
    pub(super) stream: TcpStream,
    pub(super) _open: Open,
}

impl Usable for Plain {
    fn is_usable(&self) -> bool {
        // A service has nothing to say before it is asked: bytes are as bad as the end. Where the reactor has
        // seen neither, this is no system call.
        let read = self.stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
    }
}

impl Plain {
    pub(crate) fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        self.stream.split()
    }
}

/// A connection for one request.
pub(crate) struct Leased<B> {
    pub(crate) plain: Plain,
    pub(crate) lease: Lease<B>,
}

/// Whose connection it is.
pub(crate) struct Lease<B> {
    index: usize,
    fresh: bool,
    in_flight: InFlight<B>,
}

impl<B> Lease<B> {
    /// The answer was read to its end, and both sides keep the connection.
    pub(crate) fn give_back(self, plain: Plain, now: Instant) {
        self.in_flight.slot().plain.put(plain, now);
    }
}

impl<B: 'static> Upstreams<B> {
    /// Whether no target has TLS.
    pub(crate) fn are_plain(&self) -> bool {
        self.slots.iter().all(|slot| slot.target.tls.is_none())
    }

    /// A connection to one of the targets, and when it was there. With an error, no byte of the request has left.
    pub(crate) async fn lease(&self, tries: &mut Tries) -> Result<(Leased<B>, std::time::Instant), Failure> {
        while let Some((index, slot)) = self.choose(tries) {
            let in_flight = InFlight::at(slot);
            let now = Instant::now();
            while let Some(taken) = slot.plain.take(now) {
                if let Some(plain) = taken.awake().await {
                    let lease = Lease { index, fresh: false, in_flight };
                    return Ok((Leased { plain, lease }, now.into_std()));
                }
            }
            // Boxed: it is large, and seldom needed.
            match Box::pin(connect_plain(&slot.target, &slot.open, &self.settings)).await {
                Ok(plain) => {
                    let lease = Lease { index, fresh: true, in_flight };
                    return Ok((Leased { plain, lease }, Instant::now().into_std()));
                }
                Err(failure) => {
                    self.note_failed(index, failure.0);
                    tries.failed(index, failure);
                }
            }
        }
        Err(tries.last())
    }

    /// The service took nothing of the request, and another target may. But one that was idle for a while may
    /// have been closed meanwhile: the same target has others.
    pub(crate) fn took_nothing(&self, lease: &Lease<B>, tries: &mut Tries, error: io::Error) {
        if lease.fresh {
            self.note_failed(lease.index, Kind::Reset);
            tries.failed(lease.index, (Kind::Reset, error.into()));
        }
    }

    /// The service answered.
    pub(crate) fn answered(&self, lease: &Lease<B>) {
        self.health.answered(lease.index);
    }
}
