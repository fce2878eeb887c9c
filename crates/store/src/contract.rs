//! What any engine must do. Its tests run every case on a fresh engine.

#![allow(clippy::unwrap_used, reason = "a case that fails panics, as tests do")]

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use crate::Error;
use crate::engine::{Commit, Direction, Engine, Outcome, Range, Snapshot};

/// A case that is running.
pub type Running = Pin<Box<dyn Future<Output = ()>>>;
/// Runs a case on a fresh engine, and panics if the engine fails it.
pub type Case = fn(Arc<dyn Engine>) -> Running;

/// Every case, with its name.
#[must_use]
pub fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("what is committed is read back in order", |engine| Box::pin(reads_back(engine))),
        ("a snapshot shows one state", |engine| Box::pin(one_state(engine))),
        ("a changed key that was read conflicts", |engine| Box::pin(changed_keys(engine))),
        ("a changed range that was read conflicts", |engine| Box::pin(changed_ranges(engine))),
        ("a conflict writes nothing", |engine| Box::pin(nothing_of_a_conflict(engine))),
        ("revisions grow and include what was answered", |engine| Box::pin(revisions_grow(engine))),
        ("no increment is lost", |engine| Box::pin(increments(engine))),
        ("a closed engine says so", |engine| Box::pin(closed(engine))),
    ]
}

fn key(key: &str) -> Vec<u8> {
    key.as_bytes().to_vec()
}

fn range(start: &str, end: &str) -> Range {
    Range { start: key(start), end: key(end) }
}

async fn put(engine: &dyn Engine, pairs: &[(&str, Option<&str>)]) -> u64 {
    let writes = pairs.iter().map(|(name, value)| (key(name), value.map(key))).collect();
    match engine.commit(Commit { writes, ..Commit::default() }).await.unwrap() {
        Outcome::Committed(revision) => revision,
        Outcome::Conflict => unreachable!("a commit that read nothing cannot conflict"),
    }
}

async fn get(snapshot: &dyn Snapshot, name: &str) -> Result<Option<Vec<u8>>, Error> {
    Ok(snapshot.get(vec![key(name)]).await?.remove(0))
}

async fn names(snapshot: &dyn Snapshot, range: Range, direction: Direction, limit: usize) -> String {
    let pairs = snapshot.scan(range, direction, limit).await.unwrap();
    pairs.iter().map(|(key, _)| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>().join(" ")
}

async fn reads_back(engine: Arc<dyn Engine>) {
    let engine = engine.as_ref();
    put(engine, &[("b", Some("2")), ("d", Some("4")), ("a", Some("1")), ("c", Some(""))]).await;
    put(engine, &[("d", None), ("ba", Some("3")), ("nothing", None)]).await;
    let now = engine.snapshot().await.unwrap();
    let values = now.get(vec![key("c"), key("d"), key("b"), key("c")]).await.unwrap();
    assert_eq!(values, [Some(key("")), None, Some(key("2")), Some(key(""))]);
    assert!(now.get(Vec::new()).await.unwrap().is_empty());
    let now = now.as_ref();
    assert_eq!(names(now, range("", "z"), Direction::Forward, 9).await, "a b ba c");
    assert_eq!(names(now, range("", "z"), Direction::Backward, 9).await, "c ba b a");
    assert_eq!(names(now, range("b", "c"), Direction::Forward, 9).await, "b ba", "the end is not part of it");
    assert_eq!(names(now, range("b", "c"), Direction::Backward, 1).await, "ba");
    assert_eq!(names(now, range("a", "z"), Direction::Forward, 2).await, "a b");
    assert_eq!(names(now, range("a", "z"), Direction::Forward, 0).await, "");
    assert_eq!(names(now, range("c", "b"), Direction::Forward, 9).await, "", "a range turned round is empty");
    assert_eq!(names(now, range("b", "b"), Direction::Backward, 9).await, "");
}

async fn one_state(engine: Arc<dyn Engine>) {
    let engine = engine.as_ref();
    put(engine, &[("a", Some("old")), ("b", Some("old"))]).await;
    let then = engine.snapshot().await.unwrap();
    put(engine, &[("a", Some("new")), ("b", None), ("c", Some("new"))]).await;
    for (name, value) in [("a", Some("old")), ("b", Some("old")), ("c", None)] {
        match get(then.as_ref(), name).await {
            Ok(found) => assert_eq!(found, value.map(key), "{name}"),
            Err(error) => assert_eq!(error, Error::Stale, "an engine without old states says so"),
        }
    }
    let now = engine.snapshot().await.unwrap();
    assert_eq!(get(now.as_ref(), "a").await.unwrap(), Some(key("new")));
    assert_eq!(get(now.as_ref(), "b").await.unwrap(), None);
}

/// Whether a commit that read these, before `changes`, conflicts.
async fn conflicts(
    engine: &dyn Engine,
    keys: &[&str],
    ranges: &[Range],
    changes: &[(&str, Option<&str>)],
) -> bool {
    let revision = engine.snapshot().await.unwrap().revision();
    put(engine, changes).await;
    let keys = keys.iter().map(|name| key(name)).collect();
    let writes = vec![(key("written"), Some(key("x")))];
    let commit = Commit { revision, keys, ranges: ranges.to_vec(), writes };
    engine.commit(commit).await.unwrap() == Outcome::Conflict
}

async fn changed_keys(engine: Arc<dyn Engine>) {
    let engine = engine.as_ref();
    put(engine, &[("a", Some("1")), ("b", Some("1"))]).await;
    assert!(!conflicts(engine, &["a"], &[], &[("b", Some("2"))]).await, "another key");
    assert!(conflicts(engine, &["a"], &[], &[("a", Some("2"))]).await, "changed");
    assert!(conflicts(engine, &["a"], &[], &[("a", None)]).await, "deleted");
    assert!(conflicts(engine, &["a"], &[], &[("a", Some("3"))]).await, "created, where there was none");
    assert!(!conflicts(engine, &["a"], &[], &[("b", Some("3"))]).await, "changed before it was read");
    assert!(!conflicts(engine, &[], &[], &[("a", Some("4"))]).await, "read nothing");
}

async fn changed_ranges(engine: Arc<dyn Engine>) {
    let engine = engine.as_ref();
    put(engine, &[("b", Some("1")), ("d", Some("1"))]).await;
    let read = [range("b", "d")];
    assert!(!conflicts(engine, &["b"], &read, &[("d", Some("2")), ("a", Some("2"))]).await, "outside");
    assert!(conflicts(engine, &["b"], &read, &[("c", Some("1"))]).await, "one more");
    assert!(conflicts(engine, &["b", "c"], &read, &[("b", Some("2"))]).await, "changed");
    assert!(conflicts(engine, &["b", "c"], &read, &[("c", None)]).await, "one less");
    assert!(!conflicts(engine, &[], &[range("d", "b")], &[("c", Some("5"))]).await, "an empty range");
}

async fn nothing_of_a_conflict(engine: Arc<dyn Engine>) {
    let engine = engine.as_ref();
    put(engine, &[("a", Some("1"))]).await;
    assert!(conflicts(engine, &["a"], &[], &[("a", Some("2"))]).await);
    let now = engine.snapshot().await.unwrap();
    assert_eq!(get(now.as_ref(), "written").await.unwrap(), None);
    assert_eq!(get(now.as_ref(), "a").await.unwrap(), Some(key("2")));
}

async fn revisions_grow(engine: Arc<dyn Engine>) {
    let engine = engine.as_ref();
    let mut last = engine.snapshot().await.unwrap().revision();
    for round in 0..20 {
        let name = format!("key{round}");
        let revision = put(engine, &[(&name, Some("x"))]).await;
        assert!(revision > last, "{revision} after {last}");
        let now = engine.snapshot().await.unwrap();
        assert!(now.revision() >= revision);
        assert!(get(now.as_ref(), &name).await.unwrap().is_some());
        last = revision;
    }
}

async fn increments(engine: Arc<dyn Engine>) {
    const TASKS: usize = 8;
    const EACH: usize = 25;
    let task = |engine: Arc<dyn Engine>| async move {
        for _ in 0..EACH {
            while increment(engine.as_ref()).await == Outcome::Conflict {}
        }
    };
    let mut tasks: Vec<Option<Running>> =
        (0..TASKS).map(|_| Some(Box::pin(task(Arc::clone(&engine))) as Running)).collect();
    poll_fn(|context| {
        for slot in &mut tasks {
            if slot.as_mut().is_some_and(|task| task.as_mut().poll(context).is_ready()) {
                *slot = None;
            }
        }
        if tasks.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    let now = engine.snapshot().await.unwrap();
    assert_eq!(get(now.as_ref(), "count").await.unwrap(), Some(key(&(TASKS * EACH).to_string())));
}

async fn increment(engine: &dyn Engine) -> Outcome {
    let now = engine.snapshot().await.unwrap();
    let count = match get(now.as_ref(), "count").await {
        Ok(count) => count.map_or(0, |count| String::from_utf8(count).unwrap().parse::<usize>().unwrap()),
        Err(_) => return Outcome::Conflict,
    };
    let writes = vec![(key("count"), Some(key(&(count + 1).to_string())))];
    let commit = Commit { revision: now.revision(), keys: vec![key("count")], ranges: Vec::new(), writes };
    engine.commit(commit).await.unwrap()
}

async fn closed(engine: Arc<dyn Engine>) {
    engine.close().await.unwrap();
    assert_eq!(engine.snapshot().await.err(), Some(Error::Closed));
    let writes = vec![(key("a"), None)];
    let commit = engine.commit(Commit { writes, ..Commit::default() }).await;
    assert_eq!(commit, Err(Error::Closed));
    engine.close().await.unwrap();
}
