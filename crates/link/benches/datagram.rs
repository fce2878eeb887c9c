//! What a datagram costs: sealing it, opening it, and refusing what is not one.

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]

use std::time::SystemTime;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use link::{Authority, Revoked, datagram};

fn datagrams(criterion: &mut Criterion) {
    let authority = Authority::create("Bench").unwrap();
    let pair = |site| datagram::pair(&authority.issue(site).unwrap(), Revoked::default()).unwrap();
    let ((sealer, opener), (other, receiver)) = (pair("Site1"), pair("Site2"));
    let now = SystemTime::now();
    let payload = [7; 1000];
    // Once each way, so that both have the other's certificate.
    let first = sealer.seal(Some("Site2"), b"first", now).unwrap().datagram;
    receiver.open(&first, now).unwrap();
    opener.open(&other.seal(Some("Site1"), b"first", now).unwrap().datagram, now).unwrap();
    criterion.bench_function("seal", |bench| {
        bench.iter(|| sealer.seal(Some("Site2"), &payload, now).unwrap());
    });
    criterion.bench_function("open", |bench| {
        let seal = || sealer.seal(Some("Site2"), &payload, now).unwrap().datagram;
        bench.iter_batched(seal, |bytes| receiver.open(&bytes, now).unwrap(), BatchSize::SmallInput);
    });
    let mut forged = sealer.seal(Some("Site2"), &payload, now).unwrap().datagram;
    *forged.last_mut().unwrap() ^= 1;
    criterion.bench_function("refuse a forged one", |bench| {
        bench.iter(|| receiver.open(&forged, now).unwrap_err());
    });
    let replayed = sealer.seal(Some("Site2"), &payload, now).unwrap().datagram;
    receiver.open(&replayed, now).unwrap();
    criterion.bench_function("refuse a replayed one", |bench| {
        bench.iter(|| receiver.open(&replayed, now).unwrap_err());
    });
}

criterion_group!(benches, datagrams);
criterion_main!(benches);
