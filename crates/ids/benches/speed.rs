//! How fast identifiers are rewritten in a long JSON body, beside copying it and searching it for one byte:
//! `./bench ids`. The median of some rounds, in which all take turns.
//! Counted is the time that the thread had a core, where the system tells it.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a person runs it"
)]

use std::{fmt::Write as _, fs, hint::black_box, sync::LazyLock};

use bytes::Bytes;
use ids::{Direction, Placed, PlacedTable, Places, PlacesRewriter, Rewriter, Table};

const BODY_BYTES: usize = 64 << 20;
/// As a connection gives them.
const CHUNK_BYTES: usize = 64 << 10;
const IDS: u64 = 100_000;
const ROUNDS: usize = 9;

/// The only case that is run, if there is an argument: once and with little, for a tool that counts instructions.
static ONLY: LazyLock<Option<String>> =
    LazyLock::new(|| std::env::args().nth(1).filter(|name| name != "--bench"));

fn ids() -> u64 {
    if ONLY.is_some() { 2_000 } else { IDS }
}

fn main() {
    let bytes = if ONLY.is_some() { 1 << 20 } else { BODY_BYTES };
    let (plain, with_ids) = (body(false, bytes), body(true, bytes));
    let (others, all, some) = (table(1, 1), table(0, 1), table(0, 10));
    let back = turned(10);
    let mut tokens = Table::new();
    for index in 0..ids() {
        tokens.insert(&format!("cart-{index}"), &format!("{index}c{index}")).unwrap();
    }
    let mut numbers = Table::new();
    for index in (0..ids()).step_by(10) {
        numbers.insert(&format!("{:024}", index + ids()), &format!("{index:024}")).unwrap();
    }
    let counting = counting(bytes);
    let mut counted = PlacedTable::new();
    for index in 0..ids() {
        counted.insert(&((1_u64 << 52) + index).to_string(), &index.to_string()).unwrap();
    }
    let nothing = PlacedTable::new();
    let to_client = |name, body, table| (name, body, How::Anywhere(table, Direction::ToClient));
    let to_service = |name, body, table| (name, body, How::Anywhere(table, Direction::ToService));
    let cases = [
        ("copied", &plain, How::Copied),
        to_client("without UUIDs", &plain, &others),
        to_client("UUIDs, none mapped", &with_ids, &others),
        to_client("UUIDs, one in ten mapped", &with_ids, &some),
        to_client("UUIDs, all mapped", &with_ids, &all),
        to_service("UUIDs, none mapped, to the service", &with_ids, &others),
        to_service("UUIDs, one in ten mapped, to the service", &with_ids, &back),
        to_client("other ids, none mapped", &plain, &tokens),
        to_client("other ids, one in ten mapped", &plain, &numbers),
        ("declared numbers, all mapped", &counting, How::Declared(&counted)),
        ("declared numbers, none mapped", &counting, How::Declared(&nothing)),
        ("declared members that are none", &plain, How::Declared(&counted)),
    ];
    let mut seconds = vec![Vec::new(); cases.len() + 1];
    for _ in 0..if ONLY.is_some() { 1 } else { ROUNDS } {
        for (index, (name, body, how)) in cases.iter().enumerate() {
            if ONLY.as_ref().is_some_and(|only| name != only) {
                seconds[index].push(f64::NAN);
                continue;
            }
            let began = now();
            match how {
                How::Copied => copy(body),
                How::Anywhere(table, direction) => rewrite(body, table, *direction),
                How::Declared(table) => rewrite_declared(body, table),
            }
            seconds[index].push(now() - began);
        }
        let began = now();
        black_box(memchr::memchr(0, black_box(&plain)));
        seconds[cases.len()].push(now() - began);
    }
    let names = cases.iter().map(|(name, ..)| *name).chain(["searched for one byte"]);
    let medians: Vec<f64> = seconds.into_iter().map(median).collect();
    println!("{} MiB of JSON in chunks of {} KiB, {IDS} ids", BODY_BYTES >> 20, CHUNK_BYTES >> 10);
    for (name, median) in names.zip(&medians) {
        let speed = plain.len() as f64 / median / 1e9;
        println!("{name:>40}: {speed:6.2} GB/s, {:5.1} times the time of a copy", median / medians[0]);
    }
    if ONLY.is_none() {
        inserts();
    }
}

/// How a body is taken.
#[derive(Clone, Copy)]
enum How<'t> {
    Copied,
    Anywhere(&'t Table, Direction),
    /// In declared places only.
    Declared(&'t PlacedTable),
}

/// Seconds for which this thread had a core; elsewhere than on Linux, seconds.
fn now() -> f64 {
    #[allow(clippy::disallowed_types, reason = "a measurement needs a clock")]
    static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
    let scheduled = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanos = scheduled.as_deref().and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanos.map_or_else(|| START.elapsed().as_secs_f64(), |nanos| nanos / 1e9)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn uuid(index: u64, kind: u64) -> String {
    let mixed = (index * 4 + kind).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let digits = format!("{mixed:016x}{:016x}", mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]].join("-")
}

/// The local ids of this kind, of which only one in some is in a body, each with a meta-identifier that no body has.
fn table(kind: u64, one_in: u64) -> Table {
    let mut table = Table::new();
    for index in 0..ids() {
        let kind = if index % one_in == 0 { kind } else { 2 };
        table.insert(&uuid(index, 3), &uuid(index, kind)).unwrap();
    }
    table
}

/// The same, the other way: bodies have the meta-identifiers, and no local id.
fn turned(one_in: u64) -> Table {
    let mut table = Table::new();
    for index in 0..ids() {
        let kind = if index % one_in == 0 { 0 } else { 2 };
        table.insert(&uuid(index, kind), &uuid(index, 3)).unwrap();
    }
    table
}

/// A list as services write it: with UUIDs, three in an item of 400 bytes, one of them without hyphens.
fn body(with_ids: bool, bytes: usize) -> Bytes {
    let mut text = String::with_capacity(bytes + 1024);
    text.push_str("{\"images\": [");
    let mut index = 0;
    while text.len() < bytes {
        let id = if with_ids { uuid(index % ids(), 0) } else { format!("item number {:024}", index % ids()) };
        let owner = if with_ids { uuid((index + 7) % ids(), 0).replace('-', "") } else { "x".repeat(32) };
        write!(
            text,
            "{{\"id\": \"{id}\", \"name\": \"image {index}\", \"status\": \"active\", \"size\": {}, \
             \"visibility\": \"public\", \"created_at\": \"2026-01-02T03:04:05Z\", \"updated_at\": \
             \"2026-01-02T03:04:05Z\", \"owner\": \"{owner}\", \"tags\": [\"nightly\", \"x86\"], \"min_ram\": 512, \
             \"self\": \"http://image.example:9292/v2/images/{id}\", \"protected\": false}}, ",
            index * 4096
        )
        .unwrap();
        index += 1;
    }
    text.truncate(bytes);
    Bytes::from(text)
}

fn copy(body: &Bytes) {
    for chunk in body.chunks(CHUNK_BYTES) {
        black_box(Bytes::copy_from_slice(black_box(chunk)));
    }
}

#[inline(never)]
fn rewrite(body: &Bytes, table: &Table, direction: Direction) {
    let mut rewriter = Rewriter::new(table.clone(), direction);
    let mut out: Vec<Bytes> = Vec::new();
    let mut rest = body.clone();
    while !rest.is_empty() {
        let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
        rewriter.push(chunk, &mut out).unwrap();
        black_box(&out);
        out.clear();
    }
    rewriter.finish(&mut out).unwrap();
    black_box(&out);
}

/// The same list from a service that counts: an id and a reference in an item of 400 bytes.
fn counting(bytes: usize) -> Bytes {
    let mut text = String::with_capacity(bytes + 1024);
    text.push_str("{\"images\": [");
    let mut index = 0;
    while text.len() < bytes {
        write!(
            text,
            "{{\"id\": {}, \"name\": \"image {index}\", \"status\": \"active\", \"size\": {}, \"visibility\": \"public\", \
             \"created_at\": \"2026-01-02T03:04:05Z\", \"updated_at\": \"2026-01-02T03:04:05Z\", \"owner_id\": {}, \"tags\": \
             [\"nightly\", \"x86\"], \"min_ram\": 512, \"about\": \"{}\", \"self\": \
             \"http://image.example:9292/v2/images/{index}\", \"protected\": false}}, ",
            index % ids(),
            index * 4096,
            (index + 7) % ids(),
            "x".repeat(80)
        )
        .unwrap();
        index += 1;
    }
    text.truncate(bytes);
    Bytes::from(text)
}

#[inline(never)]
fn rewrite_declared(body: &Bytes, table: &PlacedTable) {
    let mut places = Places::default();
    assert!(places.add("/images/*/id", 0) && places.add("/images/*/owner_id", 1));
    let mut map = |_, id: &str| match table.find(id, Direction::ToClient) {
        ids::Found::Mapped(id) => Placed::Replace(id),
        ids::Found::Hidden | ids::Found::Unknown => Placed::Keep,
    };
    let (mut rewriter, mut out) = (PlacesRewriter::new(places), Vec::<Bytes>::new());
    let mut rest = body.clone();
    while !rest.is_empty() {
        let chunk = rest.split_to(rest.len().min(CHUNK_BYTES));
        rewriter.push(chunk, &mut map, &mut out).unwrap();
        black_box(&out);
        out.clear();
    }
    rewriter.finish(&mut out).unwrap();
}

/// What a new pair costs while readers keep the snapshot before it.
fn inserts() {
    let mut table = table(0, 1);
    let began = now();
    for index in 0..1_000 {
        let snapshot = table.clone();
        table.insert(&uuid(IDS + index, 3), &uuid(IDS + index, 0)).unwrap();
        black_box(snapshot);
    }
    let micros = (now() - began) * 1e6 / 1_000.0;
    println!("{:>40}: {micros:6.2} us", "a pair inserted beside a snapshot");
}
