//! How fast lists are read and merged.

#![allow(missing_docs)]

use std::hint::black_box;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use merge::{Head, Late, Limits, Merged, Merger, Page, Pull, Request};
use profile::Profile;

/// A list of servers as Nova tells them, in chunks as a connection gives them.
fn servers(site: usize, items: usize) -> Vec<Bytes> {
    let item = |index: usize| {
        format!(
            "{{\"id\": \"{site:08x}-{index:04x}-4c5b-9d3e-0123456789ab\", \"name\": \"server-{index}\", \
             \"created\": \"2026-01-{:02}T08:00:00Z\", \"status\": \"ACTIVE\", \"metadata\": {{\"role\": \"web\"}}, \
             \"addresses\": {{\"private\": [{{\"addr\": \"10.0.0.{}\", \"version\": 4, \"OS-EXT-IPS:type\": \"fixed\"}}]}}, \
             \"links\": [{{\"rel\": \"self\", \"href\": \"http://nova.example/v2.1/servers/{index}\"}}], \
             \"flavor\": {{\"ram\": 2048, \"vcpus\": 2, \"disk\": 20}}, \"key_name\": null}}",
            28 - index * 28 / items.max(1),
            index % 256
        )
    };
    let items: Vec<String> = (0..items).map(item).collect();
    let body = format!("{{\"servers\": [{}]}}", items.join(", "));
    body.as_bytes().chunks(16 << 10).map(Bytes::copy_from_slice).collect()
}

fn merge(service: &str, path: &str, query: &str, bodies: &[Vec<Bytes>]) -> usize {
    let list = Profile::named(service).and_then(|profile| profile.lists.of("compute", path)).expect("a list");
    let tree = Merged::Union((0..bodies.len()).map(Merged::Source).collect());
    let names: Vec<String> = (0..bodies.len()).map(|site| format!("Site{site}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = Request { query: query.to_owned(), ..Request::default() };
    let page = Page::plan(&list, &tree, &request, &names).expect("a page");
    let mut merger = Merger::new(list, tree, page, Limits::default(), Late::Abort);
    let mut rest: Vec<_> = bodies.iter().map(|body| body.iter()).collect();
    (0..bodies.len()).for_each(|source| merger.open(source, Head::default()));
    let mut bytes = 0;
    loop {
        match merger.pull().expect("sound answers") {
            Pull::Chunk(chunk) => bytes += chunk.len(),
            Pull::Pending => {
                for source in merger.wants() {
                    match rest.get_mut(source).and_then(Iterator::next) {
                        Some(chunk) => merger.push(source, chunk.clone()),
                        None => merger.end(source),
                    }
                }
            }
            Pull::Done | Pull::NotAList => return bytes,
        }
    }
}

fn lists(criterion: &mut Criterion) {
    for (name, sources, items) in [("1 source", 1, 4000), ("100 sources", 100, 100)] {
        let bodies: Vec<Vec<Bytes>> = (0..sources).map(|site| servers(site, items)).collect();
        let size: usize = bodies.iter().flatten().map(Bytes::len).sum();
        let mut group = criterion.benchmark_group(name);
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function("concatenated", |bencher| {
            bencher.iter(|| black_box(merge("rest", "/servers", "", black_box(&bodies))));
        });
        group.bench_function("sorted by date", |bencher| {
            bencher.iter(|| black_box(merge("openstack", "/v2.1/servers/detail", "", black_box(&bodies))));
        });
        group.finish();
    }
}

criterion_group!(benches, lists);
criterion_main!(benches);
