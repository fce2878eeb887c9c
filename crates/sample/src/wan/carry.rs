//! Carries one connection: bytes enter when the link has a turn for them, and leave when they arrive.
//!
//! Each direction has a feeder, which reads and schedules, and a deliverer, which waits and writes, with
//! a [`Line`] between them. Four loops in one task: a connection that ends, ends as a whole.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Mutex, MutexGuard, watch};
use tokio::time::{Instant, sleep_until};

use super::line::{Line, Load, Parcel};
use super::schedule::{Arrivals, Pace};
use super::shape::{MAX_PIECE_BYTES, Shape, Weather};

/// One direction between two ends, which every connection that crosses it shares.
#[derive(Debug, Default)]
pub(super) struct Direction {
    /// Connections take turns: the lock is handed over in the order in which it was asked for.
    turns: Mutex<()>,
    pace: std::sync::Mutex<Pace>,
    pub(super) bytes: AtomicU64,
}

impl Direction {
    /// Promises the direction to so many bytes; when the last of them has entered it.
    pub(super) fn depart(&self, bytes: usize, shape: &Shape) -> Instant {
        self.pace().depart(Instant::now(), bytes, shape)
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A direction, and what it is like.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) direction: Arc<Direction>,
    pub(super) weather: watch::Receiver<Weather>,
}

/// What a connection needs to know of where it goes.
#[derive(Debug)]
pub(super) struct Journey {
    pub(super) target: SocketAddr,
    pub(super) seed: u64,
    /// Of this connection, among those with the same seed.
    pub(super) number: u64,
    /// How often the way had been reset when it began: it ends with the next time.
    pub(super) resets: u64,
    pub(super) forth: Way,
    pub(super) back: Way,
}

/// The connection broke, at one end or between them: both ends are to be reset.
struct Broken;

/// Carries a connection until both ends have said all, one breaks, or its way is reset.
pub(super) async fn carry(mut client: TcpStream, journey: Journey) {
    let mut weather = journey.forth.weather.clone();
    let mut server = None;
    let outcome = tokio::select! {
        biased;
        // An error means that the link was stopped, which is no kinder.
        _ = weather.wait_for(|weather| weather.resets != journey.resets) => Err(Broken),
        outcome = relay(&mut client, &mut server, &journey) => outcome,
    };
    if outcome.is_err() {
        for end in [Some(client), server].into_iter().flatten() {
            // Closing then sends a reset and forgets what was not sent.
            let _ = end.set_zero_linger();
        }
    }
}

async fn relay(
    client: &mut TcpStream,
    server: &mut Option<TcpStream>,
    journey: &Journey,
) -> Result<(), Broken> {
    let Journey { target, seed, number, .. } = *journey;
    let (mut forth, mut back) = (journey.forth.clone(), journey.back.clone());
    let mut arrivals = Arrivals::new(seed, number, false);
    // The handshake of a connection crosses the link and comes back before anything else can cross.
    let shape = forth.weather.borrow().shape;
    let round_trip = shape.delay + back.weather.borrow().shape.delay + arrivals.jitter(&shape);
    until(Instant::now() + round_trip).await;
    healed(&mut forth.weather).await?;
    healed(&mut back.weather).await?;
    let server = server.insert(TcpStream::connect(target).await.map_err(|_| Broken)?);
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let forth = Lane { way: forth, line: Line::default() };
    let back = Lane { way: back, line: Line::default() };
    tokio::try_join!(
        forth.feed(from_client, arrivals),
        forth.deliver(to_server),
        back.feed(from_server, Arrivals::new(seed, number, true)),
        back.deliver(to_client),
    )?;
    Ok(())
}

/// One direction of one connection.
struct Lane {
    way: Way,
    line: Line,
}

impl Lane {
    /// Reads what the sender sends, as fast as the link takes it. How the sender ends crosses too.
    async fn feed(&self, from: ReadHalf<'_>, mut arrivals: Arrivals) -> Result<(), Broken> {
        let mut scratch = vec![0; MAX_PIECE_BYTES];
        loop {
            self.line.room(|| self.way.weather.borrow().shape.window_bytes()).await;
            // A turn is asked for only with something to send; what this says of errors, reading says too.
            let _ = from.readable().await;
            let turn = self.turn().await?;
            let shape = self.way.weather.borrow().shape;
            let piece = scratch.get_mut(..shape.piece_bytes()).ok_or(Broken)?;
            let (load, bytes) = match from.try_read(piece) {
                Ok(0) => (Load::End, 0),
                Ok(read) => (Load::Bytes(piece.get(..read).ok_or(Broken)?.into()), read),
                Err(error) if transient(&error) => continue,
                Err(_) => (Load::Broken, 0),
            };
            let departure = self.way.direction.depart(bytes, &shape);
            drop(turn);
            self.way.direction.bytes.fetch_add(bytes as u64, Relaxed);
            let arrival = arrivals.arrive(departure, &shape);
            let last = !matches!(load, Load::Bytes(_));
            self.line.push(Parcel { arrival, load });
            if last {
                return Ok(());
            }
        }
    }

    /// Waits for this connection's turn on the link.
    async fn turn(&self) -> Result<MutexGuard<'_, ()>, Broken> {
        let direction = &self.way.direction;
        let turn = direction.turns.lock().await;
        let mut weather = self.way.weather.clone();
        weather.borrow_and_update();
        loop {
            let wait = direction.pace().wait_until(Instant::now());
            let Some(until) = wait else { return Ok(turn) };
            tokio::select! {
                () = sleep_until(until) => {}
                // On a link that was slow, and no longer is, nobody should wait as if it were.
                changed = weather.changed() => {
                    changed.map_err(|_| Broken)?;
                    direction.pace().forget();
                }
            }
        }
    }

    /// Writes what has arrived, while the link is not stalled.
    async fn deliver(&self, mut to: WriteHalf<'_>) -> Result<(), Broken> {
        let mut weather = self.way.weather.clone();
        loop {
            let parcel = self.line.take().await;
            until(parcel.arrival).await;
            healed(&mut weather).await?;
            let written = match &parcel.load {
                Load::Bytes(bytes) => write(&mut weather, &to, bytes).await,
                // An end that is gone already needs no telling.
                Load::End => {
                    let _ = to.shutdown().await;
                    return Ok(());
                }
                Load::Broken => return Err(Broken),
            };
            if written.is_err() {
                // That the receiver is gone is news that crosses the link as well.
                let delay = weather.borrow().shape.delay;
                until(Instant::now() + delay).await;
                healed(&mut weather).await?;
                return Err(Broken);
            }
            self.line.delivered(&parcel.load);
        }
    }
}

/// Writes all bytes. Whether the link is stalled is asked before each write, because a receiver that does
/// not read may keep us here for long.
async fn write(
    weather: &mut watch::Receiver<Weather>,
    to: &WriteHalf<'_>,
    mut bytes: &[u8],
) -> Result<(), Broken> {
    while !bytes.is_empty() {
        to.writable().await.map_err(|_| Broken)?;
        healed(weather).await?;
        match to.try_write(bytes) {
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if transient(&error) => {}
            Err(_) => return Err(Broken),
        }
    }
    Ok(())
}

/// Waits until then. A timer takes a millisecond or more, also one that is due: a link without delay has
/// none to give.
async fn until(then: Instant) {
    if then > Instant::now() {
        sleep_until(then).await;
    }
}

/// Waits until the link is not stalled. It is broken if it was stopped meanwhile.
async fn healed(weather: &mut watch::Receiver<Weather>) -> Result<(), Broken> {
    weather.wait_for(|weather| !weather.stalled()).await.map(|_| ()).map_err(|_| Broken)
}

fn transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
