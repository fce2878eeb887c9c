//! Any answers of three sources, cut anywhere: no panic, no hang, and what is whole is JSON.

#![no_main]

use std::sync::LazyLock;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use merge::{Head, Late, Limits, Merged, Merger, Page, Pull, Request};
use profile::{List, Profile};

static LISTS: LazyLock<Vec<List>> = LazyLock::new(|| {
    let list =
        |profile, service, path| Profile::named(profile).and_then(|known| known.lists.of(service, path));
    let lists = [
        list("rest", "things", "/things"),
        list("openstack", "image", "/v2/images"),
        list("openstack", "compute", "/v2.1/servers"),
    ];
    lists.into_iter().map(|list| list.expect("a list")).collect()
});

// The first line is how: a digit each for the profile, the tree, the coding and the size of the cuts, then the
// query. A line of `\x1e` is between the answers.
fuzz_target!(|input: &[u8]| {
    let (how, bodies) = input.split_at(input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len()));
    let choice = |index: usize| how.get(index).map_or(0, |byte| usize::from(*byte));
    let list = &LISTS[choice(0) % LISTS.len()];
    let query = String::from_utf8_lossy(how.get(4..).unwrap_or_default()).into_owned();
    let sources = vec![Merged::Source(0), Merged::Source(1), Merged::Source(2)];
    let tree = if choice(1) % 2 == 0 { Merged::Union(sources) } else { Merged::Unique(sources) };
    let coding = ["identity", "gzip", "deflate"][choice(2) % 3];
    let cut = 1 + choice(3) % 64;
    let late = if choice(3) % 2 == 0 { Late::Abort } else { Late::Omit };
    let request = Request { query, ..Request::default() };
    let Ok(page) = Page::plan(list, &tree, &request, &["A", "B", "C"]) else { return };
    let limits = Limits { item_bytes: 200, envelope_bytes: 200, probe_bytes: 200, ..Limits::default() };
    let mut merger = Merger::new(list.clone(), tree, page, limits, late);
    let bodies = bodies.get(1..).unwrap_or_default();
    let mut rest: Vec<&[u8]> = bodies.splitn(3, |byte| *byte == 0x1e).collect();
    rest.resize(3, &[]);
    (0..3).for_each(|source| merger.open(source, Head { content_encoding: Some(coding), ..Head::default() }));
    let mut merged = Vec::new();
    loop {
        match merger.pull() {
            Ok(Pull::Chunk(chunk)) => merged.extend_from_slice(&chunk),
            Ok(Pull::Pending) => {
                let wants = merger.wants();
                let source = *wants.last().expect("it waits for something");
                let (chunk, left) = rest[source].split_at(cut.min(rest[source].len()));
                match chunk.is_empty() {
                    true => merger.end(source),
                    false => merger.push(source, Bytes::copy_from_slice(chunk)),
                }
                rest[source] = left;
            }
            Ok(Pull::Done) => break,
            Ok(Pull::NotAList) | Err(_) => return,
        }
    }
    let text = std::str::from_utf8(&merged).expect("UTF-8");
    serde_json::from_str::<serde_json::Value>(text).expect("JSON");
});
