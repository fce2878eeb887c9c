//! A network in memory: connections whose bytes take their time, get stuck, and break. And datagrams (`post`).

mod post;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use outside::world;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, sleep_until};

use crate::chance::Chance;
use crate::world::site_of;
use post::Mailbox;
pub use post::Post;

/// What a direction of a connection holds before its writer waits.
const WINDOW: usize = 256 << 10;
/// A slow path takes so long for each begun 8 KiB.
const SLOW: Duration = Duration::from_millis(120);
const UNIT: usize = 8 << 10;
/// What was lost is sent again after this, and then after twice that.
const AGAIN: Duration = Duration::from_millis(200);
/// How long a machine tries to connect.
const PATIENCE: Duration = Duration::from_mins(1);

/// The way from one site to another.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// How long it takes, in milliseconds, at least and at most.
    pub takes: (u64, u64),
    /// So many in a hundred are lost, and sent again.
    pub loss: u64,
    /// Nothing gets through.
    pub cut: bool,
    /// Little does at a time.
    pub slow: bool,
}

impl Path {
    fn is_clear(&self) -> bool {
        !self.cut && !self.slow && self.loss == 0
    }
}

impl Default for Path {
    fn default() -> Path {
        Path { takes: (2, 8), loss: 0, cut: false, slow: false }
    }
}

/// How a machine stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Its process ends: whoever is connected to it learns that.
    Process,
    /// Its power is cut: nobody learns anything.
    Power,
}

/// The network. Cheap to clone.
#[derive(Clone)]
pub struct Network(Arc<Mutex<Inner>>);

struct Inner {
    chance: Chance,
    begun: Instant,
    paths: BTreeMap<(usize, usize), Path>,
    /// When a path was changed last, for those that something was in the way of.
    cleared: BTreeMap<(usize, usize), Instant>,
    doors: BTreeMap<SocketAddr, Arc<Mutex<Landing>>>,
    pipes: Vec<Weak<Mutex<Pipe>>>,
    mailboxes: BTreeMap<SocketAddr, Arc<Mutex<Mailbox>>>,
    /// What becomes of datagrams: another stream, so that they change nothing for connections.
    astray: Chance,
    datagrams: u64,
    off: BTreeSet<IpAddr>,
    last_port: u16,
    segments: u64,
}

/// One direction of a connection.
struct Pipe {
    born: Instant,
    from: IpAddr,
    to: IpAddr,
    segments: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// When the last of them arrives.
    last: Instant,
    /// No sooner than this, whatever was said before: it has to be sent again.
    hold: Instant,
    fin: Option<Instant>,
    /// The reader has gone, and the writer learns it then.
    gone: Option<Instant>,
    reset: bool,
    /// A machine lost its power: nothing comes any more, not even an end.
    dead: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        for waker in [self.reader.take(), self.writer.take()].into_iter().flatten() {
            waker.wake();
        }
    }
}

#[derive(Default)]
struct Landing {
    arrived: VecDeque<(Wire, SocketAddr)>,
    waker: Option<Waker>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Network {
    /// One where everything works.
    #[must_use]
    pub fn new(chance: Chance, astray: Chance) -> Network {
        Network(Arc::new(Mutex::new(Inner {
            chance,
            begun: Instant::now(),
            paths: BTreeMap::new(),
            cleared: BTreeMap::new(),
            doors: BTreeMap::new(),
            pipes: Vec::new(),
            mailboxes: BTreeMap::new(),
            astray,
            datagrams: 0,
            off: BTreeSet::new(),
            last_port: 10_000,
            segments: 0,
        })))
    }

    /// Changes the way from one site to another.
    pub fn change(&self, from: usize, to: usize, change: impl FnOnce(&mut Path)) {
        let mut inner = lock(&self.0);
        let path = inner.paths.entry((from, to)).or_default();
        let (was_cut, was_clear) = (path.cut, path.is_clear());
        change(path);
        let path = *path;
        if !was_clear || !path.is_clear() {
            inner.cleared.insert((from, to), Instant::now());
        }
        if !was_cut || path.cut {
            return;
        }
        for pipe in inner.pipes(|pipe| (site_of(pipe.from), site_of(pipe.to)) == (from, to)) {
            let late = Duration::from_millis(inner.chance.between(5, 1_000));
            let mut pipe = lock(&pipe);
            pipe.hold = Instant::now() + late;
            pipe.wake();
        }
    }

    /// Since when nothing is in the way from one site to another, in either direction; nothing where something is.
    #[must_use]
    pub fn clear_since(&self, one: usize, other: usize) -> Option<Instant> {
        let inner = lock(&self.0);
        let ways = [(one, other), (other, one)];
        let clear = ways.iter().all(|way| inner.paths.get(way).is_none_or(Path::is_clear));
        let begun = ways.iter().filter_map(|way| inner.cleared.get(way)).max();
        clear.then(|| begun.copied().unwrap_or(inner.begun))
    }

    /// Since when one site has a connection to another that it has not closed, nor lost: the oldest.
    #[must_use]
    pub fn open_since(&self, from: usize, to: usize) -> Option<Instant> {
        let between = |pipe: &Pipe| (site_of(pipe.from), site_of(pipe.to)) == (from, to);
        let open = |pipe: &Pipe| pipe.fin.is_none() && !pipe.reset && !pipe.dead;
        let pipes = lock(&self.0).pipes(|pipe| between(pipe) && open(pipe));
        pipes.iter().map(|pipe| lock(pipe).born).min()
    }

    /// Breaks all connections between two sites.
    pub fn reset(&self, one: usize, other: usize) {
        let inner = lock(&self.0);
        let between = |pipe: &Pipe| {
            let ends = (site_of(pipe.from), site_of(pipe.to));
            ends == (one, other) || ends == (other, one)
        };
        for pipe in inner.pipes(between) {
            let mut pipe = lock(&pipe);
            pipe.reset = true;
            pipe.wake();
        }
    }

    /// A machine stops. What runs on it has to be dropped after this.
    pub fn stop(&self, host: IpAddr, how: Stop) {
        let mut inner = lock(&self.0);
        if how == Stop::Power {
            inner.off.insert(host);
        }
        for pipe in inner.pipes(|pipe| pipe.from == host || pipe.to == host) {
            let mut pipe = lock(&pipe);
            // That the process ended is not learnt through a path that is cut.
            let silent =
                how == Stop::Power || inner.is_cut(pipe.from, pipe.to) || inner.is_cut(pipe.to, pipe.from);
            if silent {
                pipe.dead = true;
            } else {
                pipe.reset = true;
            }
            pipe.wake();
        }
    }

    /// What is under way between two machines ends, and both learn it.
    pub fn part(&self, one: IpAddr, other: IpAddr) {
        let inner = lock(&self.0);
        let between =
            |pipe: &Pipe| [pipe.from, pipe.to] == [one, other] || [pipe.to, pipe.from] == [one, other];
        for pipe in inner.pipes(between) {
            let mut pipe = lock(&pipe);
            pipe.reset = true;
            pipe.wake();
        }
    }

    /// A machine has its power again.
    pub fn start(&self, host: IpAddr) {
        lock(&self.0).off.remove(&host);
    }

    /// How many segments were sent so far.
    #[must_use]
    pub fn segments(&self) -> u64 {
        lock(&self.0).segments
    }

    /// How many datagrams were sent so far.
    #[must_use]
    pub fn datagrams_sent(&self) -> u64 {
        lock(&self.0).datagrams
    }

    /// Connects from one machine to another.
    pub async fn connect(&self, from: IpAddr, to: SocketAddr) -> io::Result<Wire> {
        let begun = Instant::now();
        let mut pause = Duration::from_secs(1);
        loop {
            let there = lock(&self.0).flight(from, to.ip(), 0);
            sleep(there).await;
            let tried = self.attempt(from, to);
            if let Some(tried) = tried {
                let back = lock(&self.0).flight(to.ip(), from, 0);
                sleep(back).await;
                return tried;
            }
            if begun.elapsed() > PATIENCE {
                return Err(io::ErrorKind::TimedOut.into());
            }
            sleep(pause).await;
            pause *= 2;
        }
    }

    /// Nothing where no answer comes.
    fn attempt(&self, from: IpAddr, to: SocketAddr) -> Option<io::Result<Wire>> {
        let mut inner = lock(&self.0);
        let silent =
            inner.is_cut(from, to.ip()) || inner.is_cut(to.ip(), from) || inner.off.contains(&to.ip());
        if silent {
            return None;
        }
        let Some(landing) = inner.doors.get(&to).cloned() else {
            return Some(Err(io::ErrorKind::ConnectionRefused.into()));
        };
        inner.last_port = inner.last_port.checked_add(1).unwrap_or(10_000);
        let local = SocketAddr::new(from, inner.last_port);
        let (out, back) = (inner.pipe(from, to.ip()), inner.pipe(to.ip(), from));
        let ours = Wire::new(self, to, &back, &out);
        let theirs = Wire::new(self, local, &out, &back);
        let mut landing = lock(&landing);
        landing.arrived.push_back((theirs, local));
        if let Some(waker) = landing.waker.take() {
            waker.wake();
        }
        Some(Ok(ours))
    }

    /// Listens at an address.
    pub fn listen(&self, at: SocketAddr) -> io::Result<Door> {
        let mut inner = lock(&self.0);
        if inner.doors.contains_key(&at) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let landing = Arc::<Mutex<Landing>>::default();
        inner.doors.insert(at, Arc::clone(&landing));
        Ok(Door { network: self.clone(), at, landing })
    }
}

impl Inner {
    fn pipes(&self, which: impl Fn(&Pipe) -> bool) -> Vec<Arc<Mutex<Pipe>>> {
        let pipes = self.pipes.iter().filter_map(Weak::upgrade);
        pipes.filter(|pipe| which(&lock(pipe))).collect()
    }

    fn pipe(&mut self, from: IpAddr, to: IpAddr) -> Arc<Mutex<Pipe>> {
        let now = Instant::now();
        let pipe = Arc::new(Mutex::new(Pipe {
            born: now,
            from,
            to,
            segments: VecDeque::new(),
            bytes: 0,
            last: now,
            hold: now,
            fin: None,
            gone: None,
            reset: false,
            dead: false,
            reader: None,
            writer: None,
        }));
        self.pipes.retain(|pipe| pipe.strong_count() > 0);
        self.pipes.push(Arc::downgrade(&pipe));
        pipe
    }

    fn path(&self, from: IpAddr, to: IpAddr) -> Path {
        let (from, to) = (site_of(from), site_of(to));
        if from == to {
            return Path { takes: (0, 0), ..Path::default() };
        }
        self.paths.get(&(from, to)).copied().unwrap_or_default()
    }

    fn is_cut(&self, from: IpAddr, to: IpAddr) -> bool {
        self.path(from, to).cut
    }

    /// How long so many bytes are on their way. Not by the byte: signatures have not always the same length.
    fn flight(&mut self, from: IpAddr, to: IpAddr, bytes: usize) -> Duration {
        let path = self.path(from, to);
        let mut takes = Duration::from_millis(self.chance.between(path.takes.0, path.takes.1));
        if site_of(from) == site_of(to) && self.chance.percent(20) {
            takes = Duration::from_millis(1);
        }
        if path.slow {
            takes += SLOW * u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        }
        let mut again = AGAIN;
        while self.chance.percent(path.loss) && again < Duration::from_secs(10) {
            takes += again;
            again *= 2;
        }
        takes
    }
}

/// What accepts connections.
pub struct Door {
    network: Network,
    at: SocketAddr,
    landing: Arc<Mutex<Landing>>,
}

impl Door {
    /// The next one.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<(Wire, SocketAddr)> {
        let mut landing = lock(&self.landing);
        if let Some(arrived) = landing.arrived.pop_front() {
            return Poll::Ready(arrived);
        }
        landing.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl world::Door for Door {
    fn local_addr(&self) -> SocketAddr {
        self.at
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Box<dyn world::Wire>, SocketAddr)>> {
        let (wire, from) = ready!(self.poll_next(context));
        Poll::Ready(Ok((Box::new(wire), from)))
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        lock(&self.network.0).doors.remove(&self.at);
        let waiting = std::mem::take(&mut lock(&self.landing).arrived);
        drop(waiting);
    }
}

/// One end of a connection.
pub struct Wire {
    network: Network,
    peer: SocketAddr,
    read: Arc<Mutex<Pipe>>,
    write: Arc<Mutex<Pipe>>,
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
}

impl Wire {
    fn new(network: &Network, peer: SocketAddr, read: &Arc<Mutex<Pipe>>, write: &Arc<Mutex<Pipe>>) -> Wire {
        let (network, read, write) = (network.clone(), Arc::clone(read), Arc::clone(write));
        Wire { network, peer, read, write, timer: Mutex::new(None) }
    }

    /// Ready once something has arrived: bytes, or the end.
    fn poll_arrival(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut pipe = lock(&self.read);
            if pipe.reset {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            pipe.reader = Some(context.waker().clone());
            let cut = lock(&self.network.0).is_cut(pipe.from, pipe.to);
            let next = pipe.segments.front().map(|(at, _)| *at).or(pipe.fin);
            let Some(at) = next.filter(|_| !cut && !pipe.dead) else { return Poll::Pending };
            let at = at.max(pipe.hold);
            drop(pipe);
            if at <= Instant::now() {
                return Poll::Ready(Ok(()));
            }
            let mut timer = lock(&self.timer);
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(context));
        }
    }

    /// What has arrived at the front, which stays.
    fn arrived(&self, buffer: &mut ReadBuf<'_>) -> usize {
        let pipe = lock(&self.read);
        let Some((_, bytes)) = pipe.segments.front() else { return 0 };
        let count = bytes.len().min(buffer.remaining());
        buffer.put_slice(&bytes[..count]);
        count
    }

    fn finish(&self) {
        let flight = {
            let pipe = lock(&self.write);
            lock(&self.network.0).flight(pipe.from, pipe.to, 0)
        };
        let mut pipe = lock(&self.write);
        if pipe.fin.is_none() {
            pipe.fin = Some(pipe.last.max(Instant::now() + flight));
            if let Some(waker) = pipe.reader.take() {
                waker.wake();
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        ready!(self.poll_arrival(context))?;
        let count = self.arrived(buffer);
        let mut pipe = lock(&self.read);
        pipe.bytes -= count;
        if let Some((_, bytes)) = pipe.segments.front_mut() {
            bytes.advance(count);
            if bytes.is_empty() {
                pipe.segments.pop_front();
            }
        }
        if let Some(waker) = pipe.writer.take() {
            waker.wake();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut pipe = lock(&self.write);
        let mut inner = lock(&self.network.0);
        let now = Instant::now();
        let cut = inner.is_cut(pipe.from, pipe.to) || inner.is_cut(pipe.to, pipe.from);
        let forgotten = pipe.dead && !cut && !inner.off.contains(&pipe.to);
        if pipe.reset || forgotten {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if pipe.fin.is_some() || (!cut && pipe.gone.is_some_and(|gone| gone <= now)) {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if pipe.bytes >= WINDOW {
            pipe.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = bytes.len().min(WINDOW - pipe.bytes);
        if pipe.gone.is_some() {
            return Poll::Ready(Ok(count));
        }
        let flight = inner.flight(pipe.from, pipe.to, count);
        inner.segments += 1;
        pipe.last = pipe.last.max(now + flight);
        let at = pipe.last;
        pipe.segments.push_back((at, Bytes::copy_from_slice(&bytes[..count])));
        pipe.bytes += count;
        if let Some(waker) = pipe.reader.take() {
            waker.wake();
        }
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.finish();
        Poll::Ready(Ok(()))
    }
}

impl world::Wire for Wire {
    fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    fn poll_peek(&self, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_arrival(context))?;
        self.arrived(bytes);
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        if lock(&self.write).dead || lock(&self.write).reset {
            return;
        }
        self.finish();
        let mut pipe = lock(&self.read);
        let flight = lock(&self.network.0).flight(pipe.to, pipe.from, 0);
        pipe.gone = Some(Instant::now() + flight);
        if let Some(waker) = pipe.writer.take() {
            waker.wake();
        }
    }
}
