//! Bodies go in and come out as they were, by nobody else's hand, and within the quota.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use common::{PLENTY, SEGMENT, block_on, content, files, key, open, read, store};
use http_body::Body;
use proptest::prelude::*;
use spool::{Error, Id, Key, Spool, Stored};
use tokio::task::LocalSet;

/// Lengths around the edges of segments, and any.
fn lengths() -> impl Strategy<Value = usize> {
    let edges = vec![0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 3 * SEGMENT + 5];
    prop_oneof![prop::sample::select(edges), 0..4 * SEGMENT]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_body_is_read_as_it_was_written_from_any_offset_also_after_a_restart(
        seed: u64, len in lengths(), chunk in 1..3 * SEGMENT, at in 0..=1000usize, said: bool,
    ) {
        let directory = tempfile::tempdir().unwrap();
        block_on(async {
            let body = content(seed, len);
            let from = len * at / 1000;
            let spool = open(directory.path(), PLENTY).await;
            let mut writer = spool.writer(said.then_some(len as u64)).unwrap();
            for chunk in body.chunks(chunk) {
                writer.push(Bytes::copy_from_slice(chunk)).await.unwrap();
            }
            let stored = writer.finish().await.unwrap();
            assert_eq!(stored.len, len as u64);
            let digest = ring::digest::digest(&ring::digest::SHA256, &body);
            assert_eq!(digest.as_ref(), stored.sha256);
            assert_eq!(spool.usage().bytes, files(directory.path()).1);
            for round in 0..2 {
                let spool = if round == 0 { spool.clone() } else {
                    spool.close().await.unwrap();
                    open(directory.path(), PLENTY).await
                };
                let reader = spool.reader(stored.id, from as u64).unwrap();
                assert_eq!(reader.size_hint().exact(), Some((len - from) as u64));
                assert!(read(reader).await.unwrap() == body[from..]);
                assert_eq!(spool.reader(stored.id, len as u64 + 1).err(), Some(Error::OutOfRange { len: len as u64 }));
                assert_eq!(spool.list().len(), 1);
                assert_eq!(spool.usage().bytes, files(directory.path()).1);
            }
        });
    }

    #[test]
    fn readers_follow_a_body_while_it_is_written(seed: u64, len in lengths(), chunk in 1..2 * SEGMENT, from in 0..SEGMENT) {
        let directory = tempfile::tempdir().unwrap();
        block_on(LocalSet::new().run_until(async {
            let body = content(seed, len);
            let spool = open(directory.path(), PLENTY).await;
            let mut writer = spool.writer(None).unwrap();
            let first = tokio::task::spawn_local(read(spool.reader(writer.id(), 0).unwrap()));
            let second = tokio::task::spawn_local(read(spool.reader(writer.id(), from as u64).unwrap()));
            let mut late = None;
            for chunk in body.chunks(chunk) {
                writer.push(Bytes::copy_from_slice(chunk)).await.unwrap();
                late.get_or_insert_with(|| tokio::task::spawn_local(read(spool.reader(writer.id(), 0).unwrap())));
            }
            writer.finish().await.unwrap();
            assert!(first.await.unwrap().unwrap() == body);
            let rest = body.get(from..).map(<[u8]>::to_vec);
            assert!(second.await.unwrap() == rest.ok_or(Error::OutOfRange { len: len as u64 }));
            if let Some(late) = late {
                assert!(late.await.unwrap().unwrap() == body);
            }
        }));
    }

    #[test]
    fn whatever_is_changed_in_a_file_is_found(len in lengths(), at in 0..1000usize, bit in 0..8u8) {
        let directory = tempfile::tempdir().unwrap();
        block_on(async {
            let (id, path) = one(directory.path(), len).await;
            let mut bytes = std::fs::read(&path).unwrap();
            let at = bytes.len() * at / 1000;
            bytes[at] ^= 1 << bit;
            std::fs::write(&path, bytes).unwrap();
            refused(directory.path(), id).await;
        });
    }

    #[test]
    fn a_file_that_is_too_short_or_too_long_is_found(len in lengths(), to in 0..2000usize) {
        let directory = tempfile::tempdir().unwrap();
        block_on(async {
            let (id, path) = one(directory.path(), len).await;
            let mut bytes = std::fs::read(&path).unwrap();
            let to = bytes.len() * to / 1000;
            prop_assume!(to != bytes.len());
            bytes.resize(to, 7);
            std::fs::write(&path, bytes).unwrap();
            refused(directory.path(), id).await;
            Ok(())
        })?;
    }
}

/// A stored body, and its file.
async fn one(directory: &Path, len: usize) -> (Id, PathBuf) {
    let spool = open(directory, PLENTY).await;
    let stored = store(&spool, &content(1, len), 5000).await.unwrap();
    spool.close().await.unwrap();
    (stored.id, directory.join(stored.id.to_string()))
}

/// The body is listed, and whoever reads it gets an error before its end.
async fn refused(directory: &Path, id: Id) {
    let spool = open(directory, PLENTY).await;
    assert_eq!(spool.list().len(), 1);
    let outcome = match spool.reader(id, 0) {
        Ok(reader) => read(reader).await.map(drop),
        Err(error) => Err(error),
    };
    assert!(matches!(outcome, Err(Error::Damaged(_))), "{outcome:?}");
    assert_eq!(spool.erase(id).await, Ok(true));
}

/// The bytes of a header, and of a sealed segment.
const HEADER: usize = 68;
const SEALED: usize = SEGMENT + 16;

#[test]
fn segments_that_changed_places_or_are_left_out_are_found() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let (id, path) = one(directory.path(), 3 * SEGMENT).await;
        let whole = std::fs::read(&path).unwrap();
        assert_eq!(whole.len(), HEADER + 3 * SEALED);
        let (header, rest) = whole.split_at(HEADER);
        let segments: Vec<&[u8]> = rest.chunks(SEALED).collect();
        for order in [&[1, 0, 2][..], &[0, 1], &[0, 2], &[0, 0, 2], &[0, 1, 2, 2], &[]] {
            let changed = order.iter().fold(header.to_vec(), |mut file, number| {
                file.extend_from_slice(segments[*number]);
                file
            });
            std::fs::write(&path, changed).unwrap();
            let spool = open(directory.path(), PLENTY).await;
            let outcome = match spool.reader(id, 0) {
                Ok(reader) => read(reader).await,
                Err(error) => Err(error),
            };
            assert!(matches!(outcome, Err(Error::Damaged(_))), "{order:?}");
            spool.close().await.unwrap();
        }
        std::fs::write(&path, &whole).unwrap();
        let spool = open(directory.path(), PLENTY).await;
        assert!(read(spool.reader(id, 0).unwrap()).await.unwrap() == content(1, 3 * SEGMENT));
    });
}

#[test]
fn files_that_changed_names_and_files_of_another_key_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let (a, a_path) = one(directory.path(), 10).await;
        let (b, b_path) = one(directory.path(), 10).await;
        let other = Spool::open(directory.path(), PLENTY, Key::new(&[1; 32]).unwrap()).await.unwrap();
        let outcome = read(other.reader(a, 0).unwrap()).await;
        assert!(matches!(outcome, Err(Error::Damaged(_))), "{outcome:?}");
        other.close().await.unwrap();
        let (a_bytes, b_bytes) = (std::fs::read(&a_path).unwrap(), std::fs::read(&b_path).unwrap());
        std::fs::write(a_path, b_bytes).unwrap();
        std::fs::write(b_path, a_bytes).unwrap();
        let spool = open(directory.path(), PLENTY).await;
        for id in [a, b] {
            let outcome = read(spool.reader(id, 0).unwrap()).await;
            assert!(matches!(outcome, Err(Error::Damaged(_))), "{outcome:?}");
        }
        assert_eq!(spool.metrics().damaged, 2);
    });
}

#[test]
fn nothing_of_a_body_can_be_read_in_its_file_finished_or_not() {
    const MARKER: &[u8] = b"the marker that must not be found";
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let body = MARKER.repeat(10_000);
        store(&spool, &body, 4096).await.unwrap();
        let mut unfinished = spool.writer(None).unwrap();
        unfinished.push(Bytes::from(body)).await.unwrap();
        // What was pushed before is on disk once a reader gets it.
        spool.reader(unfinished.id(), 0).unwrap().next().await.unwrap().unwrap();
        let (names, _) = files(directory.path());
        assert_eq!(names.len(), 2);
        for name in names {
            let bytes = std::fs::read(directory.path().join(&name)).unwrap();
            assert!(bytes.len() > SEGMENT);
            // A few bytes of it are enough to be found.
            assert!(!bytes.windows(8).any(|window| window == &MARKER[4..12]), "{name}");
            // The key of an unfinished body is nowhere.
            assert_eq!(bytes[..HEADER] == [0; HEADER], name.contains(".part"));
            let mode = std::fs::metadata(directory.path().join(&name)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    });
}

#[test]
fn a_body_that_is_given_up_leaves_nothing_and_its_readers_are_told() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let mut writer = spool.writer(Some(10 * SEGMENT as u64)).unwrap();
        let id = writer.id();
        writer.push(Bytes::from(vec![1; 3 * SEGMENT])).await.unwrap();
        let mut reader = spool.reader(id, 0).unwrap();
        assert_eq!(reader.next().await.unwrap().unwrap().len(), SEGMENT);
        assert_eq!(spool.erase(id).await, Err(Error::Unfinished));
        assert_eq!(spool.usage().unfinished, 1);
        drop(writer);
        assert_eq!(read(reader).await, Err(Error::Abandoned));
        assert_eq!(spool.reader(id, 0).err(), Some(Error::Missing));
        spool.close().await.unwrap();
        assert_eq!(files(directory.path()), (Vec::new(), 0));
        assert_eq!(spool.usage().bytes, 0);
    });
}

#[test]
fn a_writer_dropped_while_it_finishes_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let mut writer = spool.writer(None).unwrap();
        writer.push(Bytes::from_static(b"never mind")).await.unwrap();
        let mut finish = Box::pin(writer.finish());
        // Begun, and not waited for.
        std::future::poll_fn(|context| {
            drop(finish.as_mut().poll(context));
            std::task::Poll::Ready(())
        })
        .await;
        drop(finish);
        spool.close().await.unwrap();
        assert_eq!(spool.usage().bytes, 0);
        let again = open(directory.path(), PLENTY).await;
        assert_eq!(again.list(), []);
        assert_eq!(files(directory.path()), (Vec::new(), 0));
    });
}

#[test]
fn a_body_of_another_length_than_was_said_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let mut long = spool.writer(Some(3)).unwrap();
        let wrong = Error::WrongLength { expected: 3, got: 4 };
        assert_eq!(long.push(Bytes::from_static(b"four")).await, Err(wrong.clone()));
        assert_eq!(long.push(Bytes::new()).await, Err(wrong));
        let mut short = spool.writer(Some(3)).unwrap();
        short.push(Bytes::from_static(b"2!")).await.unwrap();
        assert_eq!(short.finish().await, Err(Error::WrongLength { expected: 3, got: 2 }));
        drop(long);
        spool.close().await.unwrap();
        assert_eq!(files(directory.path()), (Vec::new(), 0));
    });
}

#[test]
fn erased_bodies_are_gone_and_who_reads_one_may_finish() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let body = content(3, 5 * SEGMENT);
        let stored = store(&spool, &body, 10_000).await.unwrap();
        let used = spool.usage().bytes;
        let mut reader = spool.reader(stored.id, 0).unwrap();
        let mut got = reader.next().await.unwrap().unwrap().to_vec();
        let late = spool.reader(stored.id, 0).unwrap();
        assert_eq!(spool.erase(stored.id).await, Ok(true));
        assert_eq!(spool.erase(stored.id).await, Ok(false));
        assert_eq!(files(directory.path()), (Vec::new(), 0));
        // The file system has it until the last reader lets go, and so does the quota.
        assert_eq!(spool.usage().bytes, used);
        assert_eq!(read(late).await, Err(Error::Missing));
        got.extend(read(reader).await.unwrap());
        assert!(got == body);
        assert_eq!(spool.usage().bytes, 0);
        assert_eq!(spool.list(), []);
    });
}

#[test]
fn what_a_disk_keeps_of_an_erased_file_has_no_key() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let stored = store(&spool, &content(3, SEGMENT), 10_000).await.unwrap();
        let mut remains = std::fs::File::open(directory.path().join(stored.id.to_string())).unwrap();
        spool.erase(stored.id).await.unwrap();
        let mut header = [1; HEADER];
        remains.read_exact(&mut header).unwrap();
        assert_eq!(header, [0; HEADER]);
    });
}

#[test]
fn bodies_that_nobody_knows_of_are_removed_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        let mut ids = Vec::new();
        for seed in 0..6 {
            ids.push(store(&spool, &content(seed, 100), 100).await.unwrap().id);
        }
        spool.close().await.unwrap();
        std::fs::write(directory.path().join(format!("{}.part", ids[0])), b"half").unwrap();
        std::fs::write(directory.path().join("README"), b"not ours").unwrap();
        let spool = open(directory.path(), PLENTY).await;
        assert_eq!(spool.retain(|id| ids[..2].contains(&id)).await, Ok(4));
        let mut kept = ids[..2].to_vec();
        kept.sort();
        assert_eq!(spool.list().iter().map(|body| body.id).collect::<Vec<_>>(), kept);
        // What is not a body's is not touched.
        assert_eq!(files(directory.path()).0.len(), 3);
        assert!(directory.path().join("README").exists());
    });
}

#[test]
fn one_process_has_a_spool_open_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    block_on(async {
        let spool = open(directory.path(), PLENTY).await;
        assert_eq!(Spool::open(directory.path(), PLENTY, key()).await.err(), Some(Error::InUse));
        spool.close().await.unwrap();
        assert_eq!(store(&spool, b"late", 1).await, Err(Error::Closed));
        open(directory.path(), PLENTY).await;
    });
}

#[test]
fn of_many_bodies_at_once_exactly_those_that_fit_are_taken() {
    const LEN: usize = 2 * SEGMENT + 100;
    const FIT: u64 = 5;
    let directory = tempfile::tempdir().unwrap();
    let each = (HEADER + LEN + 3 * 16) as u64;
    for said in [true, false] {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            // A byte less than one more needs.
            let spool = open(directory.path(), (FIT + 1) * each - 1).await;
            let threads: Vec<_> = (0..16)
                .map(|seed| {
                    let spool = spool.clone();
                    std::thread::spawn(move || block_on(attempt(spool, seed, LEN, said)))
                })
                .collect();
            let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
            let taken: Vec<Stored> = outcomes.iter().filter_map(|outcome| outcome.clone().ok()).collect();
            for refused in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
                assert!(matches!(refused, Error::OverQuota { .. }), "{refused:?}");
            }
            // Those of unknown length may have stood in each other's way half-written.
            assert!(taken.len() as u64 <= FIT && (!said || taken.len() as u64 == FIT), "{}", taken.len());
            spool.close().await.unwrap();
            let bytes = files(directory.path()).1;
            assert_eq!((bytes, spool.usage().bytes), (taken.len() as u64 * each, bytes));
            let spool = open(directory.path(), FIT * each).await;
            for number in taken.len() as u64..FIT {
                store(&spool, &content(number, LEN), 999).await.unwrap();
            }
            // Full to the last byte: not even an empty one.
            let refused = store(&spool, b"", 1).await;
            assert_eq!(refused, Err(Error::OverQuota { wanted: 84, used: FIT * each, quota: FIT * each }));
            assert!(spool.metrics().over_quota > 0);
            assert_eq!(spool.retain(|_| false).await, Ok(usize::try_from(FIT).unwrap()));
            assert_eq!(spool.usage().bytes, 0);
            store(&spool, b"", 1).await.unwrap();
            spool.retain(|_| false).await.unwrap();
            spool.close().await.unwrap();
        });
    }
}

async fn attempt(spool: Spool, seed: u64, len: usize, said: bool) -> Result<Stored, Error> {
    let mut writer = spool.writer(said.then_some(len as u64))?;
    for chunk in content(seed, len).chunks(7000) {
        writer.push(Bytes::copy_from_slice(chunk)).await?;
        let usage = spool.usage();
        assert!(usage.bytes <= usage.quota);
    }
    writer.finish().await
}

#[test]
fn the_key_is_made_once_for_this_user_only() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("spool.key");
    block_on(async {
        let bodies = directory.path().join("bodies");
        let first = Key::load_or_create(&path).unwrap();
        assert!(!format!("{first:?}").contains(|c: char| c.is_ascii_digit()));
        let spool = Spool::open(&bodies, PLENTY, first).await.unwrap();
        let stored = store(&spool, b"a body", 6).await.unwrap();
        spool.close().await.unwrap();
        let again = Spool::open(&bodies, PLENTY, Key::load_or_create(&path).unwrap()).await.unwrap();
        assert_eq!(read(again.reader(stored.id, 0).unwrap()).await.unwrap(), b"a body");
    });
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 32);
    assert_eq!(files(directory.path()).0, ["bodies", "spool.key"]);
    let other = directory.path().join("other.key");
    Key::load_or_create(&other).unwrap();
    assert_ne!(std::fs::read(&other).unwrap(), bytes);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(Key::load_or_create(&path), Err(Error::Key(why)) if why.contains("0600")));
    std::fs::write(&other, b"short").unwrap();
    assert!(matches!(Key::load_or_create(&other), Err(Error::Key(why)) if why.contains("5 bytes")));
}

#[test]
fn the_name_of_a_body_is_read_as_it_is_printed_and_nothing_else_is_one() {
    let directory = tempfile::tempdir().unwrap();
    let id = block_on(async { store(&open(directory.path(), PLENTY).await, b"", 1).await.unwrap().id });
    let text = id.to_string();
    assert_eq!(text.parse(), Ok(id));
    for wrong in [
        "",
        "../../etc/passwd",
        text.strip_suffix(|_| true).unwrap(),
        &format!("{text}0"),
        &"G".repeat(32),
        &"é".repeat(16),
    ] {
        assert!(wrong.parse::<Id>().is_err(), "{wrong}");
    }
}

#[test]
fn a_body_may_have_the_name_that_it_has_elsewhere_unless_there_is_one_of_that_name() {
    let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    block_on(async {
        let (one, other) = (open(one.path(), PLENTY).await, open(other.path(), PLENTY).await);
        let body = content(1, 3 * SEGMENT + 1);
        let stored = store(&one, &body, SEGMENT).await.unwrap();
        let mut writer = other.writer_as(stored.id, Some(stored.len)).unwrap();
        assert_eq!((other.stored_len(stored.id), writer.written()), (None, 0));
        assert_eq!(other.writer_as(stored.id, None).err(), Some(Error::Exists));
        writer.push(Bytes::copy_from_slice(&body)).await.unwrap();
        assert_eq!(writer.written(), stored.len);
        assert_eq!(writer.finish().await.unwrap(), stored);
        assert_eq!(other.stored_len(stored.id), Some(stored.len));
        assert_eq!(other.writer_as(stored.id, None).err(), Some(Error::Exists));
        assert!(read(other.reader(stored.id, 0).unwrap()).await.unwrap() == body);
        // Given up or erased, it may come again.
        assert!(other.erase(stored.id).await.unwrap());
        drop(other.writer_as(stored.id, None).unwrap());
        assert!(other.writer_as(stored.id, None).is_ok());
        assert_eq!(other.usage().bytes, 0);
    });
}
