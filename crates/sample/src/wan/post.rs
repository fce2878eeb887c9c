//! Datagrams under way in one direction: a queue in the order of arrival, which need not be that of departure.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// Bytes of datagrams under way, at most: what finds the queue full is lost, as in a router.
const QUEUE_BYTES: usize = 1024 * 1024;
/// What a datagram counts for besides its bytes, so that many small ones are bounded too.
const DATAGRAM_BYTES: usize = 64;

/// The queue. One task empties it.
#[derive(Debug, Default)]
pub(super) struct Post {
    state: Mutex<State>,
    filled: Notify,
}

#[derive(Debug, Default)]
struct State {
    under_way: BinaryHeap<Datagram>,
    bytes: usize,
    posted: u64,
}

#[derive(Debug)]
struct Datagram {
    arrival: Instant,
    /// Of those that arrive at the same time, the one that was posted first goes first.
    number: u64,
    bytes: Box<[u8]>,
}

impl Post {
    /// Posts a datagram, if there is room for it; whether there was.
    pub(super) fn push(&self, arrival: Instant, bytes: &[u8]) -> bool {
        let mut state = self.lock();
        if state.bytes + cost(bytes) > QUEUE_BYTES {
            return false;
        }
        state.bytes += cost(bytes);
        state.posted += 1;
        let number = state.posted;
        state.under_way.push(Datagram { arrival, number, bytes: bytes.into() });
        drop(state);
        self.filled.notify_one();
        true
    }

    /// Waits for the next to arrive.
    pub(super) async fn next(&self) -> Box<[u8]> {
        loop {
            let next = self.lock().under_way.peek().map(|datagram| datagram.arrival);
            match next {
                None => self.filled.notified().await,
                // One that was posted later may arrive earlier.
                Some(arrival) if arrival > Instant::now() => tokio::select! {
                    () = sleep_until(arrival) => {}
                    () = self.filled.notified() => {}
                },
                Some(_) => {
                    let mut state = self.lock();
                    if let Some(Datagram { bytes, .. }) = state.under_way.pop() {
                        state.bytes = state.bytes.saturating_sub(cost(&bytes));
                        return bytes;
                    }
                }
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(bytes: &[u8]) -> usize {
    DATAGRAM_BYTES + bytes.len()
}

/// The greatest is the one to arrive first: that is the one that the heap gives.
impl Ord for Datagram {
    fn cmp(&self, other: &Datagram) -> Ordering {
        (other.arrival, other.number).cmp(&(self.arrival, self.number))
    }
}

impl PartialOrd for Datagram {
    fn partial_cmp(&self, other: &Datagram) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Datagram {
    fn eq(&self, other: &Datagram) -> bool {
        self.number == other.number
    }
}

impl Eq for Datagram {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn datagrams_arrive_at_their_times_and_in_their_order_within_one() {
        let (post, start) = (Post::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for (arrival, byte) in [(30, b'c'), (20, b'a'), (20, b'b'), (40, b'd')] {
            assert!(post.push(at(arrival), &[byte]));
        }
        for (arrival, byte) in [(20, b'a'), (20, b'b'), (30, b'c'), (40, b'd')] {
            assert_eq!(*post.next().await, [byte]);
            assert!(Instant::now() >= at(arrival));
        }
    }

    #[tokio::test]
    async fn one_that_arrives_earlier_overtakes_one_that_is_waited_for() {
        let (post, start) = (Post::default(), Instant::now());
        post.push(start + Duration::from_hours(1), b"late");
        let posting = async {
            tokio::task::yield_now().await;
            post.push(start + Duration::from_millis(1), b"early");
        };
        let (first, ()) = tokio::join!(post.next(), posting);
        assert_eq!(*first, *b"early");
    }

    #[tokio::test]
    async fn a_full_queue_takes_no_more_until_something_arrived() {
        let (post, now) = (Post::default(), Instant::now());
        let (large, mut posted) = (vec![0; 60_000], 0);
        while post.push(now, &large) {
            posted += 1;
        }
        assert!((10..20).contains(&posted), "{posted}");
        post.next().await;
        assert!(post.push(now, &large));
        let small = Post::default();
        assert!((0..=QUEUE_BYTES / DATAGRAM_BYTES).any(|_| !small.push(now, &[])));
    }
}
