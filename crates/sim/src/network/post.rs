//! Datagrams: each takes its own time, is lost, or comes twice.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::Bytes;
use outside::world;
use tokio::io::ReadBuf;
use tokio::time::{Instant, Sleep, sleep_until};

use super::{Network, SLOW, lock};

/// So many in a hundred are lost where nothing else is.
const LOST: u64 = 1;
/// So many come twice.
const TWICE: u64 = 2;
/// So many take another way, and come after those that were sent later.
const ASTRAY: u64 = 5;
/// By so many milliseconds at most.
const LATE: u64 = 300;

/// What has been sent to an address, by when it arrives.
#[derive(Default)]
pub(super) struct Mailbox {
    arriving: BTreeMap<(Instant, u64), (SocketAddr, Bytes)>,
    waker: Option<Waker>,
}

/// What sends and receives datagrams at an address.
pub struct Post {
    network: Network,
    at: SocketAddr,
    mailbox: Arc<Mutex<Mailbox>>,
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
}

impl Network {
    /// Sends and receives datagrams at an address.
    pub fn datagrams(&self, at: SocketAddr) -> io::Result<Post> {
        let mut inner = lock(&self.0);
        if inner.mailboxes.contains_key(&at) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        let mailbox = Arc::<Mutex<Mailbox>>::default();
        inner.mailboxes.insert(at, Arc::clone(&mailbox));
        Ok(Post { network: self.clone(), at, mailbox, timer: Mutex::new(None) })
    }
}

impl Post {
    /// The next one that has arrived.
    fn poll_arrived(&self, context: &mut Context<'_>) -> Poll<(SocketAddr, Bytes)> {
        loop {
            let mut mailbox = lock(&self.mailbox);
            mailbox.waker = Some(context.waker().clone());
            let Some((at, _)) = mailbox.arriving.keys().next().copied() else { return Poll::Pending };
            if at <= Instant::now() {
                let Some((_, (from, bytes))) = mailbox.arriving.pop_first() else { return Poll::Pending };
                // What is on its way when a path is cut does not arrive.
                if lock(&self.network.0).is_cut(from.ip(), self.at.ip()) {
                    continue;
                }
                return Poll::Ready((from, bytes));
            }
            drop(mailbox);
            let mut timer = lock(&self.timer);
            let timer = timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
            if timer.deadline() != at {
                timer.as_mut().reset(at);
            }
            ready!(timer.as_mut().poll(context));
        }
    }
}

impl world::Post for Post {
    fn send(&self, bytes: &[u8], to: SocketAddr) {
        let mut inner = lock(&self.network.0);
        let path = inner.path(self.at.ip(), to.ip());
        inner.datagrams += 1;
        let number = inner.datagrams;
        let lost = inner.astray.percent(path.loss.max(LOST)) || path.cut || inner.off.contains(&to.ip());
        let Some(mailbox) = inner.mailboxes.get(&to).cloned().filter(|_| !lost) else { return };
        let copies = if inner.astray.percent(TWICE) { 2 } else { 1 };
        let mut mailbox = lock(&mailbox);
        for copy in 0..copies {
            let mut takes = inner.astray.between(path.takes.0, path.takes.1);
            if inner.astray.percent(ASTRAY) {
                takes += inner.astray.below(LATE);
            }
            let slow = if path.slow { SLOW } else { Duration::ZERO };
            let at = Instant::now() + Duration::from_millis(takes) + slow;
            mailbox.arriving.insert((at, 2 * number + copy), (self.at, Bytes::copy_from_slice(bytes)));
        }
        if let Some(waker) = mailbox.waker.take() {
            waker.wake();
        }
    }

    fn poll_receive(&self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<SocketAddr> {
        let (from, bytes) = ready!(self.poll_arrived(context));
        buffer.put_slice(&bytes[..bytes.len().min(buffer.remaining())]);
        Poll::Ready(from)
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        lock(&self.network.0).mailboxes.remove(&self.at);
    }
}
