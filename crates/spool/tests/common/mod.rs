//! What several tests need.

#![allow(dead_code, unreachable_pub, reason = "not every test needs all of it")]

use std::future::Future;
use std::path::Path;

use bytes::Bytes;
use spool::{Error, Key, Reader, Spool, Stored};

pub const SEGMENT: usize = 64 << 10;
pub const PLENTY: u64 = 1 << 40;

/// On one thread, with a clock that jumps when nobody has anything to do.
pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_time().start_paused(true).build().unwrap().block_on(work)
}

pub fn key() -> Key {
    Key::new(&[42; 32]).unwrap()
}

pub async fn open(directory: &Path, quota: u64) -> Spool {
    Spool::open(directory, quota, key()).await.unwrap()
}

/// Bytes that are the same for the same seed, and differ from place to place.
pub fn content(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_be_bytes()[2]
    };
    (0..len).map(|_| next()).collect()
}

pub async fn store(spool: &Spool, body: &[u8], chunk: usize) -> Result<Stored, Error> {
    let mut writer = spool.writer(None)?;
    for chunk in body.chunks(chunk) {
        writer.push(Bytes::copy_from_slice(chunk)).await?;
    }
    writer.finish().await
}

pub async fn read(mut reader: Reader) -> Result<Vec<u8>, Error> {
    let mut read = Vec::new();
    while let Some(bytes) = reader.next().await {
        read.extend_from_slice(&bytes?);
    }
    Ok(read)
}

/// The names in a directory, without the lock, and their lengths together.
pub fn files(directory: &Path) -> (Vec<String>, u64) {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let mut found: Vec<_> = entries.filter(|entry| entry.file_name() != "lock").collect();
    found.sort_by_key(std::fs::DirEntry::file_name);
    let bytes = found.iter().map(|entry| entry.metadata().unwrap().len()).sum();
    (found.iter().map(|entry| entry.file_name().into_string().unwrap()).collect(), bytes)
}
