//! Whoever takes a body that came once gets all of it, or an error, and nobody waits for one that is too slow.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use common::{PLENTY, SEGMENT, block_on, content, files, open, read};
use http_body::Body;
use proptest::prelude::*;
use spool::{Backing, Consumer, Error, Fanout, Memory, Pace, Spool};
use tokio::task::{LocalSet, spawn_local, yield_now};
use tokio::time::sleep;

const HOUR: Duration = Duration::from_hours(1);

/// Counts the bytes of a chunk for as long as anybody holds some of it.
struct Counted(Vec<u8>, Arc<Live>);

#[derive(Default)]
struct Live {
    now: AtomicUsize,
    peak: AtomicUsize,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.now.fetch_sub(self.0.len(), Ordering::Relaxed);
    }
}

fn counted(bytes: &[u8], live: &Arc<Live>) -> Bytes {
    let now = live.now.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
    live.peak.fetch_max(now, Ordering::Relaxed);
    Bytes::from_owner(Counted(bytes.to_vec(), Arc::clone(live)))
}

/// How a consumer takes what it gets.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// With so many milliseconds between two pieces.
    Every(u64),
    /// Nothing for so long that everybody else is done, if they can be.
    Last,
    /// Leaves after so many bytes.
    Leaves(usize),
}

fn manners() -> impl Strategy<Value = Manner> {
    prop_oneof![
        4 => (0u64..30).prop_map(Manner::Every),
        1 => Just(Manner::Last),
        1 => (0usize..200_000).prop_map(Manner::Leaves),
    ]
}

/// Takes all, and says what came, and the error if one did. `None` left.
async fn take(mut from: Consumer, manner: Manner) -> Option<(Vec<u8>, Option<Error>)> {
    if let Manner::Last = manner {
        sleep(100 * HOUR).await;
    }
    let mut got = Vec::new();
    while let Some(next) = from.next().await {
        match next {
            Ok(bytes) => got.extend_from_slice(&bytes),
            Err(error) => return Some((got, Some(error))),
        }
        match manner {
            Manner::Every(0) | Manner::Last => {}
            Manner::Every(time) => sleep(Duration::from_millis(time)).await,
            Manner::Leaves(after) if got.len() >= after => return None,
            Manner::Leaves(_) => {}
        }
    }
    Some((got, None))
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Nothing,
    Laggards,
    Kept,
}

fn backing(kind: Kind, spool: &Spool) -> Backing {
    match kind {
        Kind::Nothing => Backing::Nothing,
        Kind::Laggards => Backing::Laggards(spool.clone()),
        Kind::Kept => Backing::Kept(spool.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn whoever_stays_gets_the_same_bytes_within_the_window(
        seed: u64,
        chunks in prop::collection::vec(prop_oneof![1usize..200, 1usize..30_000], 0..60),
        legs in prop::collection::vec(manners(), 1..6),
        kind in prop::sample::select(vec![Kind::Nothing, Kind::Laggards, Kind::Kept]),
        window in 4096usize..100_000,
        patience in prop::sample::select(vec![Duration::ZERO, Duration::from_millis(20), HOUR]),
        said: bool,
        quota in prop_oneof![3 => Just(PLENTY), 1 => 0..600_000u64],
    ) {
        let directory = tempfile::tempdir().unwrap();
        let body = content(seed, chunks.iter().sum());
        block_on(LocalSet::new().run_until(async {
            let spool = open(directory.path(), quota).await;
            let pace = Pace { window_bytes: window, memory: None, patience };
            let expected = said.then_some(body.len() as u64);
            let (mut fanout, consumers) = match Fanout::new(backing(kind, &spool), &pace, expected, legs.len()) {
                Ok(made) => made,
                Err(error) => return over_quota(&error, quota),
            };
            let legs = legs.iter().zip(consumers);
            let taking: Vec<_> =
                legs.map(|(manner, from)| (*manner, spawn_local(take(from, *manner)))).collect();
            let live = Arc::new(Live::default());
            let mut rest = &body[..];
            let mut outcome = Ok(());
            for len in &chunks {
                let (chunk, after) = rest.split_at(*len);
                rest = after;
                outcome = fanout.push(counted(chunk, &live)).await;
                if outcome.is_err() {
                    break;
                }
            }
            let (_, peak) = fanout.window_bytes();
            assert!(peak <= window, "{peak} of {window}");
            // As the allocator sees it: the window, and the chunks that begin or end in it.
            let most = window + 2 * chunks.iter().max().copied().unwrap_or(0);
            assert!(live.peak.load(Ordering::Relaxed) <= most);
            let outcome = match outcome {
                Ok(()) => fanout.finish().await,
                Err(error) => { drop(fanout); Err(error) }
            };
            let stored = outcome.as_ref().ok().and_then(spool::Ended::stored);
            let error = outcome.as_ref().err().cloned();
            if let Ok(ended) = outcome {
                ended.release();
            }
            for (manner, taking) in taking {
                match (taking.await.unwrap(), &error) {
                    (None, _) => assert!(matches!(manner, Manner::Leaves(_))),
                    (Some((got, None)), None) => assert!(got == body),
                    (Some((got, Some(Error::Lagging { .. }))), _) => {
                        assert!(body.starts_with(&got) && (got.len() < body.len()));
                        assert!(matches!(kind, Kind::Nothing) || quota < PLENTY);
                    }
                    (Some((got, Some(_))), Some(_)) => assert!(body.starts_with(&got) && got.len() < body.len()),
                    (Some((got, ended)), error) => panic!("{manner:?}: {} bytes, {ended:?}, {error:?}", got.len()),
                }
            }
            assert_eq!(live.now.load(Ordering::Relaxed), 0);
            match (kind, error) {
                (Kind::Kept, None) => {
                    let reader = spool.reader(stored.unwrap().id, 0).unwrap();
                    assert!(read(reader).await.unwrap() == body);
                    assert_eq!(files(directory.path()).0.len(), 1);
                }
                (Kind::Kept, Some(error)) => over_quota(&error, quota),
                (_, None | Some(Error::Deserted)) => {}
                (_, Some(error)) => panic!("{error}"),
            }
            spool.close().await.unwrap();
            assert_eq!(files(directory.path()).0.len(), spool.list().len());
            assert_eq!(files(directory.path()).1, spool.usage().bytes);
        }));
    }
}

fn over_quota(error: &Error, quota: u64) {
    assert!(matches!(error, Error::OverQuota { .. }) && quota < PLENTY, "{error}");
}

fn impatient(window_bytes: usize) -> Pace {
    Pace { window_bytes, memory: None, patience: Duration::ZERO }
}

fn patient(window_bytes: usize) -> Pace {
    Pace { window_bytes, memory: None, patience: HOUR * 10_000 }
}

/// Whether something is done, once everything else that can be done is.
async fn is_done<T>(work: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> bool {
    for _ in 0..200 {
        let done = std::future::poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await;
        if done {
            return true;
        }
        yield_now().await;
    }
    false
}

/// Sends a body of so many segments, and takes it with all consumers but the first.
async fn send_past_one(
    backing: Backing,
    segments: usize,
    expected: Option<u64>,
) -> (Vec<u8>, Consumer, Result<(), Error>) {
    let body = content(9, segments * SEGMENT);
    let (mut fanout, mut consumers) = Fanout::new(backing, &impatient(2 * SEGMENT), expected, 3).unwrap();
    let others: Vec<_> = consumers.drain(1..).map(|from| spawn_local(take(from, Manner::Every(0)))).collect();
    for chunk in body.chunks(10_000) {
        fanout.push(Bytes::copy_from_slice(chunk)).await.unwrap();
    }
    assert!(fanout.window_bytes().1 <= 2 * SEGMENT);
    let ended = fanout.finish().await;
    let outcome = ended.map(spool::Ended::release);
    for other in others {
        assert!(other.await.unwrap() == Some((body.clone(), None)));
    }
    (body, consumers.remove(0), outcome)
}

#[test]
fn one_that_stands_still_does_not_hold_the_others_up_and_finds_the_rest_on_disk() {
    let directory = tempfile::tempdir().unwrap();
    block_on(LocalSet::new().run_until(async {
        let spool = open(directory.path(), PLENTY).await;
        let (body, slow, outcome) = send_past_one(Backing::Laggards(spool.clone()), 40, None).await;
        assert_eq!((outcome, spool.metrics().moved, spool.metrics().cut_off), (Ok(()), 1, 0));
        // What it lacks is there for it alone, and for no restart.
        assert_eq!(spool.list(), []);
        assert!(spool.usage().bytes > 30 * SEGMENT as u64);
        assert!(take(slow, Manner::Every(1)).await == Some((body, None)));
        spool.close().await.unwrap();
        assert_eq!((spool.usage().bytes, files(directory.path()).1), (0, 0));
    }));
}

#[test]
fn one_that_stands_still_is_cut_off_when_the_disk_has_no_room_and_the_others_get_all() {
    let directory = tempfile::tempdir().unwrap();
    block_on(LocalSet::new().run_until(async {
        let spool = open(directory.path(), 10 * SEGMENT as u64).await;
        let expected = 40 * SEGMENT as u64;
        for (backing, expected) in [
            (Backing::Laggards(spool.clone()), None),
            (Backing::Laggards(spool.clone()), Some(expected)),
            (Backing::Nothing, None),
        ] {
            let (_, mut slow, outcome) = send_past_one(backing, 40, expected).await;
            assert_eq!(outcome, Ok(()));
            assert!(matches!(slow.next().await, Some(Err(Error::Lagging { .. }))));
            assert!(slow.next().await.is_none());
        }
        assert_eq!(spool.usage().unfinished, 0);
        spool.close().await.unwrap();
        assert_eq!((spool.usage().bytes, files(directory.path()).1), (0, 0));
    }));
}

#[test]
fn a_body_far_larger_than_the_window_is_kept_in_little_memory_while_nobody_takes_it() {
    let directory = tempfile::tempdir().unwrap();
    block_on(LocalSet::new().run_until(async {
        let spool = open(directory.path(), PLENTY).await;
        let pace = impatient(256 << 10);
        let (mut fanout, mut consumers) = Fanout::new(Backing::Kept(spool.clone()), &pace, None, 2).unwrap();
        let live = Arc::new(Live::default());
        let body = content(5, 32 << 20);
        for chunk in body.chunks(16 << 10) {
            fanout.push(counted(chunk, &live)).await.unwrap();
        }
        assert!(live.peak.load(Ordering::Relaxed) <= (256 << 10) + 2 * (16 << 10));
        let id = fanout.id().unwrap();
        let ended = fanout.finish().await.unwrap();
        assert_eq!(ended.stored().unwrap().id, id);
        ended.release();
        assert!(take(consumers.remove(0), Manner::Every(0)).await == Some((body.clone(), None)));
        drop(consumers);
        assert!(read(spool.reader(id, 0).unwrap()).await.unwrap() == body);
    }));
}

#[test]
fn all_go_at_the_pace_of_the_slowest_that_keeps_up() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let backing = Backing::Laggards(spool.clone());
        let (mut fanout, mut consumers) = Fanout::new(backing, &patient(16 << 10), None, 2).unwrap();
        let (mut a, mut b) = (consumers.remove(0), consumers.remove(0));
        let push = async {
            for _ in 0..100 {
                fanout.push(Bytes::from(vec![1; 3000])).await.unwrap();
            }
        };
        let mut push = Box::pin(push);
        assert!(!is_done(&mut push).await);
        // One takes all it can get: the other decides.
        let mut taken = 0;
        while let Some(bytes) = at_once(&mut a).await {
            taken += bytes;
            assert!(!is_done(&mut push).await);
        }
        assert!(taken < 16 << 10, "{taken}");
        let mut both = 0;
        while !is_done(&mut push).await {
            both += b.next().await.unwrap().unwrap().len();
            at_once(&mut a).await;
        }
        assert!(both > 250_000, "{both}");
        assert_eq!(spool.metrics().moved, 0);
    });
}

#[test]
fn the_only_one_is_waited_for_however_slow_it_is() {
    let directory = tempfile::tempdir().unwrap();
    block_on(LocalSet::new().run_until(async {
        let spool = open(directory.path(), PLENTY).await;
        let backing = Backing::Laggards(spool.clone());
        let (mut fanout, mut consumers) = Fanout::new(backing, &impatient(8 << 10), None, 1).unwrap();
        let taking = spawn_local(take(consumers.remove(0), Manner::Every(60_000)));
        let body = content(2, 100_000);
        for chunk in body.chunks(999) {
            fanout.push(Bytes::copy_from_slice(chunk)).await.unwrap();
        }
        fanout.finish().await.unwrap().release();
        assert!(taking.await.unwrap() == Some((body, None)));
        assert_eq!((spool.metrics().moved, spool.metrics().written_bytes), (0, 0));
    }));
}

/// How much a consumer gets without waiting.
async fn at_once(consumer: &mut Consumer) -> Option<usize> {
    match std::future::poll_fn(|context| Poll::Ready(consumer.poll_next(context))).await {
        Poll::Ready(Some(Ok(bytes))) => Some(bytes.len()),
        Poll::Ready(_) | Poll::Pending => None,
    }
}

#[test]
fn nobody_gets_the_last_byte_before_it_is_released_from_memory_or_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    for released in [true, false] {
        block_on(LocalSet::new().run_until(async {
            let spool = open(directory.path(), PLENTY).await;
            let len = 10 * SEGMENT;
            let backing = Backing::Kept(spool.clone());
            let (mut fanout, mut consumers) =
                Fanout::new(backing, &impatient(4 * SEGMENT), Some(len as u64), 2).unwrap();
            let (mut slow, mut fast) = (consumers.remove(0), consumers.remove(0));
            for chunk in content(1, len).chunks(SEGMENT / 2) {
                fanout.push(Bytes::copy_from_slice(chunk)).await.unwrap();
                while at_once(&mut fast).await.is_some() {}
            }
            let ended = fanout.finish().await.unwrap();
            assert_eq!(ended.stored().unwrap().len, len as u64);
            assert_eq!(spool.metrics().moved, 1);
            let mut rest = len;
            while rest > SEGMENT / 2 {
                rest -= slow.next().await.unwrap().unwrap().len();
            }
            // All but the last piece, though the disk has that too.
            for consumer in [&mut slow, &mut fast] {
                assert_eq!(at_once(consumer).await, None);
                assert_eq!(consumer.size_hint().exact(), Some(SEGMENT as u64 / 2));
            }
            if released {
                ended.release();
                for consumer in [&mut slow, &mut fast] {
                    assert_eq!(consumer.next().await.unwrap().unwrap().len(), SEGMENT / 2);
                    assert_eq!(consumer.next().await, None);
                }
            } else {
                drop(ended);
                assert_eq!(slow.next().await, Some(Err(Error::Abandoned)));
                assert_eq!(fast.next().await, Some(Err(Error::Abandoned)));
            }
            spool.close().await.unwrap();
        }));
    }
}

#[test]
fn a_body_that_breaks_off_is_an_error_for_all_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    block_on(LocalSet::new().run_until(async {
        for kind in [Kind::Nothing, Kind::Laggards, Kind::Kept] {
            let spool = open(directory.path(), PLENTY).await;
            let (mut fanout, mut consumers) =
                Fanout::new(backing(kind, &spool), &impatient(SEGMENT), None, 2).unwrap();
            for _ in 0..5 {
                fanout.push(Bytes::from(vec![7; 5000])).await.unwrap();
            }
            assert!(consumers[0].next().await.unwrap().is_ok());
            drop(fanout);
            for consumer in &mut consumers {
                assert_eq!(consumer.next().await, Some(Err(Error::Abandoned)));
                assert_eq!(consumer.next().await, None);
            }
            spool.close().await.unwrap();
            assert_eq!((spool.usage().bytes, files(directory.path()).1), (0, 0));
        }
    }));
}

#[test]
fn when_nobody_is_left_the_sender_is_told_unless_the_body_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let (mut fanout, consumers) =
            Fanout::new(Backing::Laggards(spool.clone()), &Pace::default(), None, 3).unwrap();
        fanout.push(Bytes::from_static(b"some")).await.unwrap();
        drop(consumers);
        assert_eq!(fanout.push(Bytes::from_static(b"more")).await, Err(Error::Deserted));
        let (mut fanout, consumers) =
            Fanout::new(Backing::Kept(spool.clone()), &Pace::default(), None, 3).unwrap();
        fanout.push(Bytes::from_static(b"some")).await.unwrap();
        drop(consumers);
        fanout.push(Bytes::from_static(b"more")).await.unwrap();
        assert_eq!(fanout.finish().await.unwrap().stored().unwrap().len, 8);
    });
}

#[test]
fn a_kept_body_without_room_is_refused_before_anything_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), 1000).await;
        let refused = Fanout::new(Backing::Kept(spool.clone()), &Pace::default(), Some(1000), 2).err();
        assert_eq!(refused, Some(Error::OverQuota { wanted: 1084, used: 0, quota: 1000 }));
        assert_eq!(spool.usage().bytes, 0);
        let (mut fanout, mut consumers) =
            Fanout::new(Backing::Kept(spool.clone()), &Pace::default(), None, 1).unwrap();
        let over = fanout.push(Bytes::from(vec![0; 1000])).await.unwrap_err();
        assert!(matches!(over, Error::OverQuota { .. }));
        assert_eq!(consumers[0].next().await, Some(Err(over)));
    });
}

#[test]
fn many_bodies_at_once_share_the_memory_and_all_arrive() {
    const BODIES: usize = 20;
    const TOTAL: usize = 400 << 10;
    block_on(LocalSet::new().run_until(async {
        let memory = Memory::new(TOTAL);
        let pace = || Pace { memory: Some(memory.clone()), ..patient(SEGMENT) };
        let live = Arc::new(Live::default());
        let (mut sending, mut taking) = (Vec::new(), Vec::new());
        for seed in 0..BODIES as u64 {
            let (mut fanout, mut consumers) = Fanout::new(Backing::Nothing, &pace(), None, 1).unwrap();
            taking.push((seed, spawn_local(take(consumers.remove(0), Manner::Last))));
            let live = Arc::clone(&live);
            sending.push(spawn_local(async move {
                for chunk in content(seed, 2 * SEGMENT).chunks(500) {
                    fanout.push(counted(chunk, &live)).await.unwrap();
                }
                fanout.finish().await.unwrap().release();
            }));
        }
        for (seed, taken) in taking {
            assert!(taken.await.unwrap() == Some((content(seed, 2 * SEGMENT), None)));
        }
        for sent in sending {
            sent.await.unwrap();
        }
        // The windows, and for each body the chunk that waits to get in.
        let peak = live.peak.load(Ordering::Relaxed);
        assert!((TOTAL / 2..=TOTAL + BODIES * 500).contains(&peak), "{peak}");
    }));
}

#[test]
fn a_body_goes_on_when_the_others_that_come_leave_its_window_smaller_than_what_it_holds() {
    block_on(LocalSet::new().run_until(async {
        let memory = Memory::new(1 << 20);
        let pace = || Pace { memory: Some(memory.clone()), ..patient(1 << 20) };
        let (mut fanout, mut consumers) = Fanout::new(Backing::Nothing, &pace(), None, 1).unwrap();
        let body = content(8, 10 * SEGMENT);
        let (first, rest) = body.split_at(3 * SEGMENT);
        fanout.push(Bytes::copy_from_slice(first)).await.unwrap();
        let others: Vec<_> =
            (0..300).map(|_| Fanout::new(Backing::Nothing, &pace(), None, 1).unwrap()).collect();
        let taking = spawn_local(take(consumers.remove(0), Manner::Every(0)));
        fanout.push(Bytes::copy_from_slice(rest)).await.unwrap();
        fanout.finish().await.unwrap().release();
        assert!(taking.await.unwrap() == Some((body, None)));
        drop(others);
    }));
}

#[test]
fn each_side_may_be_on_another_core() {
    fn may_move<T: Send + 'static>() {}
    may_move::<Fanout>();
    may_move::<Consumer>();
    may_move::<spool::Ended>();
    may_move::<spool::Reader>();
    may_move::<spool::Writer>();
}
