//! A world that a thread has instead of the system's.

pub mod net;

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Something that comes later.
pub type Later<T> = Pin<Box<dyn Future<Output = T>>>;

/// What is outside of a site that runs on this thread.
pub trait World {
    /// The time of day, there and now.
    fn time_of_day(&self) -> SystemTime;
    /// Fills bytes by chance.
    fn random(&self, bytes: &mut [u8]);
    /// Connects from there.
    fn connect(&self, to: SocketAddr) -> Later<io::Result<Box<dyn Wire>>>;
    /// Listens there.
    fn listen(&self, at: SocketAddr) -> io::Result<Box<dyn Door>>;
    /// Sends and receives datagrams there.
    fn datagrams(&self, at: SocketAddr) -> io::Result<Box<dyn Post>>;
}

/// One end of a connection.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {
    /// Whom it is to.
    fn peer_addr(&self) -> SocketAddr;
    /// What comes next, which stays in place.
    fn poll_peek(&self, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<io::Result<()>>;
}

/// What accepts connections.
pub trait Door: Send {
    /// Where.
    fn local_addr(&self) -> SocketAddr;
    /// The next one, and whom it is from.
    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<io::Result<(Box<dyn Wire>, SocketAddr)>>;
}

/// What sends and receives datagrams.
pub trait Post: Send {
    /// Sends one. Whether it arrives is never known.
    fn send(&self, bytes: &[u8], to: SocketAddr);
    /// The next one, and whom it is from.
    fn poll_receive(&self, context: &mut Context<'_>, bytes: &mut ReadBuf<'_>) -> Poll<SocketAddr>;
}

thread_local! {
    static CURRENT: RefCell<Option<Rc<dyn World>>> = const { RefCell::new(None) };
}

/// The world of this thread, if it has one of its own.
#[must_use]
pub fn current() -> Option<Rc<dyn World>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Does something in a world, or in the system's with none.
pub fn within<T>(world: Option<Rc<dyn World>>, work: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(world);
    let done = work();
    CURRENT.set(before);
    done
}
