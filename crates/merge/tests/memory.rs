//! A hundred sites with ten thousand items each do not fit into memory, and need not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::sync::Mutex;

use bytes::Bytes;
use merge::{Head, Late, Limits, Merged, Merger, Page, Pull, Request, Same};
use peak_alloc::PeakAlloc;
use profile::Profile;

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

/// What one test allocates must not count for the other.
static ALONE: Mutex<()> = Mutex::new(());

const SOURCES: usize = 100;
/// Unoptimised code takes a minute for all of them, and needs as much memory for a part.
const ITEMS: usize = if cfg!(debug_assertions) { 500 } else { 10_000 };

/// A site's list, made as it is read.
struct Feed {
    site: usize,
    next: usize,
}

impl Feed {
    /// The next chunk of some items, or none at the end.
    fn chunk(&mut self) -> Option<Bytes> {
        if self.next > ITEMS {
            return None;
        }
        let mut text = String::new();
        if self.next == 0 {
            text.push_str("{\"things\":[");
        }
        let end = (self.next + 20).min(ITEMS);
        for index in self.next..end {
            let comma = if index == 0 { "" } else { "," };
            let pad = "x".repeat(100);
            text.push_str(&format!(
                "{comma}{{\"id\":\"{}-{index}\",\"at\":{index},\"pad\":\"{pad}\"}}",
                self.site
            ));
        }
        self.next = end;
        if end == ITEMS {
            text.push_str("]}");
            self.next = ITEMS + 1;
        }
        Some(Bytes::from(text))
    }
}

#[test]
fn a_hundred_sites_of_ten_thousand_items_are_merged_in_a_few_mebibytes() {
    let _alone = ALONE.lock();
    let list = Profile::named("rest").unwrap().lists.of("a", "/a").unwrap();
    let tree = Merged::Union((0..SOURCES).map(Merged::Source).collect());
    let names: Vec<String> = (0..SOURCES).map(|site| format!("Site{site}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for query in ["", "sort=at:asc"] {
        let request = Request { query: query.to_owned(), ..Request::default() };
        let before = ALLOCATED.current_usage();
        ALLOCATED.reset_peak_usage();
        let page = Page::plan(&list, &tree, &request, &names).unwrap();
        let mut merger = Merger::new(list.clone(), tree.clone(), page, Limits::default(), Late::Abort);
        let mut feeds: Vec<Feed> = (0..SOURCES).map(|site| Feed { site, next: 0 }).collect();
        (0..SOURCES).for_each(|source| merger.open(source, Head::default()));
        let (mut bytes, mut items) = (0, 0);
        loop {
            match merger.pull().unwrap() {
                Pull::Chunk(chunk) => {
                    bytes += chunk.len();
                    items += chunk.split(|byte| *byte == b'{').count() - 1;
                }
                // As greedy as a driver may be: all that is wanted.
                Pull::Pending => {
                    for source in merger.wants() {
                        match feeds[source].chunk() {
                            Some(chunk) => merger.push(source, chunk),
                            None => merger.end(source),
                        }
                    }
                }
                end => break assert_eq!(end, Pull::Done),
            }
        }
        let peak = ALLOCATED.peak_usage() - before;
        assert_eq!(items, SOURCES * ITEMS + 1);
        assert!(bytes > SOURCES * ITEMS * 100, "{bytes}");
        println!("{query:?}: {bytes} bytes of answer, {peak} bytes of memory at most");
        assert!(peak < 6 << 20, "{peak}");
    }
}

#[test]
fn what_is_between_the_items_of_a_unique_list_is_not_kept() {
    const CHUNKS: usize = 2_000;
    let _alone = ALONE.lock();
    let list = Profile::named("rest").unwrap().lists.of("a", "/a").unwrap();
    let tree = Merged::Unique(vec![Merged::Source(0), Merged::Source(1)]);
    let page = Page::plan(&list, &tree, &Request::default(), &["Site0", "Site1"]).unwrap();
    let mut merger = Merger::new(list, tree, page, Limits::default(), Late::Abort);
    (0..2).for_each(|source| merger.open(source, Head::default()));
    merger.push(1, Bytes::from_static(b"[]"));
    merger.end(1);
    let before = ALLOCATED.current_usage();
    ALLOCATED.reset_peak_usage();
    for chunk in 0..=CHUNKS {
        assert_eq!(merger.pull().unwrap(), Pull::Pending);
        let start = if chunk == 0 { "[" } else { "," };
        merger.push(0, Bytes::from(format!("{start}{{\"id\":{chunk}}}{}", " ".repeat(16 << 10))));
    }
    let peak = ALLOCATED.peak_usage() - before;
    assert!(peak < 2 << 20, "{peak}");
}

#[test]
fn of_sources_that_failed_or_are_not_needed_any_more_nothing_is_kept() {
    const LARGE: usize = 1 << 20;
    let _alone = ALONE.lock();
    let list = Profile::named("rest").unwrap().lists.of("a", "/a").unwrap();
    let tree = Merged::Union(vec![Merged::Source(0), Merged::Source(1)]);
    let request = Request { query: "limit=1".to_owned(), ..Request::default() };
    for fails in [true, false] {
        let page = Page::plan(&list, &tree, &request, &["Site0", "Site1"]).unwrap();
        let mut merger = Merger::new(list.clone(), tree.clone(), page, Limits::default(), Late::Abort);
        (0..2).for_each(|source| merger.open(source, Head::default()));
        let before = ALLOCATED.current_usage();
        merger.push(1, Bytes::from(vec![b' '; LARGE]));
        if fails {
            merger.fail(1);
        } else {
            merger.push(0, Bytes::from_static(b"[{\"id\":1},{\"id\":2}]"));
            merger.end(0);
            assert!(matches!(merger.pull(), Ok(Pull::Chunk(_))));
        }
        let kept = ALLOCATED.current_usage().saturating_sub(before);
        assert!(kept < LARGE / 2, "{kept}");
    }
}

#[test]
fn copies_are_kept_for_as_long_as_the_one_that_is_told_can_be_taken_back() {
    const COPIES: usize = 20;
    let _alone = ALONE.lock();
    let list = Profile::named("rest").unwrap().lists.of("a", "/a").unwrap();
    let tree = Merged::Union((0..COPIES).map(Merged::Source).collect());
    let names: Vec<String> = (0..COPIES).map(|site| format!("Site{site}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let request = Request { query: "sort=at:asc".to_owned(), ..Request::default() };
    let page = Page::plan(&list, &tree, &request, &names).unwrap();
    let merger = Merger::new(list, tree, page, Limits::default(), Late::Abort);
    let mut merger = merger.once(|_| Same::Yes { sites: None });
    let before = ALLOCATED.current_usage();
    let item =
        |index: usize| format!("{{\"id\":\"x{index}\",\"at\":{index},\"pad\":\"{}\"}}", "x".repeat(100));
    let body = Bytes::from(format!("[{}", (0..1000).map(item).collect::<Vec<_>>().join(",")));
    for source in 0..COPIES {
        merger.open(source, Head::default());
        merger.push(source, body.clone());
    }
    ALLOCATED.reset_peak_usage();
    assert!(matches!(merger.pull(), Ok(Pull::Chunk(_))));
    let (peak, kept) = (ALLOCATED.peak_usage() - before, ALLOCATED.current_usage() - before);
    assert!(peak > 1 << 20 && kept < 512 << 10, "{peak} {kept}");
}
