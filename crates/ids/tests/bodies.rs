//! Bodies as services and clients write them, and as an attacker does.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;

use bytes::Bytes;
use drive::{UUIDS, table, whole};
use ids::{Direction, Refused, Rewriter, Table};

const META: &str = UUIDS[0].0;
const LOCAL: &str = UUIDS[0].1;

fn to_client(table: &Table, body: &str) -> String {
    let outcome = whole(table, Direction::ToClient, body.as_bytes());
    String::from_utf8(outcome.body).unwrap()
}

#[test]
fn ids_are_found_wherever_services_write_them() {
    let table = table(&UUIDS);
    for body in [
        r#"{"id": "L"}"#,
        r#"{"L": {"links": ["http://host:9292/v2/images/L/file?x=L#L"]}}"#,
        r#"{"self": "http:\/\/host\/v2\/images\/L\/file", "note": "one\nL\ttwo\u00a0L\u00e9L"}"#,
        r#"["volume-L", "L.img", "L_disk", "urn:uuid:L", "{L}", "L,L", "a%2FL%2Fb"]"#,
        r#"{"nested": "{\"id\": \"L\", \"path\": \"C:\\L\\\\L\"}"}"#,
        "{\"a\": \"L\"}\n{\"a\": \"L\"}\n",
    ] {
        assert_eq!(to_client(&table, &body.replace('L', LOCAL)), body.replace('L', META));
    }
}

// Bytes are looked at 64 at a time: each place of a word, and of the escape before it, is one at which two meet.
#[test]
fn words_are_found_wherever_they_stand_also_right_after_an_escape() {
    let long = "7".repeat(128);
    let table = table(&[("cart-1", "7"), ("cart-2", "700700"), ("cart-3", &long)]);
    for spaces in 0..=64 {
        let before = " ".repeat(spaces);
        for (local, meta) in [("7", "cart-1"), ("700700", "cart-2"), (long.as_str(), "cart-3")] {
            for body in [r#"["S@"]"#, r#"["S\n@", "x"]"#, r#"["S%2F@\t@"]"#, r#"["S\u00e9@ x@ x"]"#] {
                let body = body.replace('S', &before);
                let expected = body.replace("x@", &format!("x{local}")).replace('@', meta);
                assert_eq!(to_client(&table, &body.replace('@', local)), expected);
            }
        }
    }
}

#[test]
fn what_only_looks_like_an_id_stays() {
    let mut table = table(&UUIDS);
    table.insert("cart-1", "7").unwrap();
    let digits = UUIDS[2].1.replace('-', "");
    for body in [
        format!("[{digits}, -{digits}, {digits}.0, 1e{digits}]"),
        r#"{"size": 7, "a": [7, "77", "7.0", "x7", "7-7"]}"#.to_owned(),
        format!("[\"{LOCAL}0\", \"a{LOCAL}\", \"{}\"]", LOCAL.replacen('-', "_", 1)),
        // Here the first digits are those of an escape.
        format!("[\"\\u{LOCAL}\", \"\\u00{LOCAL}\", \"\\{LOCAL}\", \"\\{}\"]", LOCAL.replace('-', "")),
    ] {
        assert_eq!(to_client(&table, &body), body);
    }
    assert_eq!(to_client(&table, &format!("[{digits},\"{digits}\",7,\"7\"]")), {
        format!("[{digits},\"{}\",7,\"cart-1\"]", UUIDS[2].0.replace('-', ""))
    });
}

#[test]
fn all_that_is_replaced_is_counted() {
    let body = format!("[\"{LOCAL}\", \"x\", \"{LOCAL}/{}\"]", UUIDS[1].1);
    assert_eq!(whole(&table(&UUIDS), Direction::ToClient, body.as_bytes()).end, Ok(3));
    assert_eq!(whole(&table(&UUIDS), Direction::ToClient, b"[]").end, Ok(0));
    // What is held back meanwhile is no more than one of the longest, and an escape.
    const { assert!(Rewriter::MOST_HELD < 128 + 16) };
}

#[test]
fn an_unchanged_chunk_is_not_copied() {
    let mut rewriter = Rewriter::new(table(&UUIDS), Direction::ToClient);
    let chunk = Bytes::from(format!("{{\"name\": \"{}\"}}", "x-1 ".repeat(1000)));
    let mut out: Vec<Bytes> = Vec::new();
    rewriter.push(chunk.clone(), &mut out).unwrap();
    assert_eq!(out[0].as_ptr(), chunk.as_ptr());
}

#[test]
fn a_client_that_names_a_local_id_is_refused_before_the_service_has_it() {
    let table = table(&UUIDS);
    let escape = |text: String, char| text + &format!("\\u{:04x}", u32::from(char));
    let escaped = |text: &str| text.chars().fold(String::new(), escape);
    for spelling in [
        LOCAL.to_owned(),
        LOCAL.to_uppercase(),
        LOCAL.replace('-', ""),
        escaped(LOCAL),
        escaped(&LOCAL.replace('-', "")),
        LOCAL.replace('-', "\\u002d"),
        LOCAL.replace('-', "\\u002D"),
        LOCAL.replacen('f', "\\u0066", 3),
        format!("http:\\/\\/h\\/{LOCAL}"),
        format!("\\n{LOCAL}"),
        format!("\\u00252F{LOCAL}"),
    ] {
        for body in [format!("{{\"id\": \"{spelling}\"}}"), format!("{{\"a\": {{\"{spelling}\": 1}}}}")] {
            let outcome = whole(&table, Direction::ToService, body.as_bytes());
            assert!(matches!(outcome.end, Err(Refused::Hidden(_))), "{body}: {outcome:?}");
            assert!(serde_json::from_slice::<serde_json::Value>(&outcome.body).is_err());
        }
    }
}

#[test]
fn a_meta_identifier_made_of_escapes_is_still_the_resource_and_the_length_stays() {
    let table = table(&UUIDS);
    let body = format!("{{\"id\": \"{}\", \"b\": \"\\u0031\\n\"}}", META.replace('-', "\\u002d"));
    let outcome = whole(&table, Direction::ToService, body.as_bytes());
    let expected = format!("{{\"id\": \"{LOCAL}\"{}, \"b\": \"1\\n\"{}}}", " ".repeat(20), " ".repeat(5));
    assert_eq!(String::from_utf8(outcome.body).unwrap(), expected);
    assert_eq!((outcome.end, expected.len()), (Ok(1), body.len()));
}

#[test]
fn json_in_another_encoding_is_refused() {
    let body = format!("{{\"id\": \"{LOCAL}\"}}");
    let utf16 = |order: fn(u16) -> [u8; 2]| body.encode_utf16().flat_map(order).collect::<Vec<u8>>();
    let marked = |bytes: Vec<u8>, mark: &[u8]| [mark, &bytes].concat();
    let utf32 = body.chars().flat_map(|char| u32::from(char).to_le_bytes()).collect::<Vec<u8>>();
    for coded in [
        utf16(u16::to_le_bytes),
        utf16(u16::to_be_bytes),
        marked(utf16(u16::to_le_bytes), b"\xff\xfe"),
        utf32.clone(),
        marked(utf32, b"\xff\xfe\0\0"),
    ] {
        let table = table(&UUIDS);
        for cut in [1, 2, usize::MAX] {
            let outcome = drive::rewrite(&table, Direction::ToService, &coded, || cut);
            assert_eq!(outcome.end, Err(Refused::Encoding));
            assert!(outcome.body.len() < 4);
        }
    }
    let marked = marked(body.into_bytes(), b"\xef\xbb\xbf");
    assert_eq!(whole(&table(&UUIDS), Direction::ToClient, &marked).end, Ok(1));
}

#[test]
fn a_table_that_changes_does_not_change_a_body_that_is_under_way() {
    let mut table = table(&UUIDS);
    let mut rewriter = Rewriter::new(table.clone(), Direction::ToClient);
    table.remove(META);
    let mut out = Vec::new();
    rewriter.push(Bytes::from(format!("[\"{LOCAL}\"]")), &mut out).unwrap();
    assert_eq!(out.concat(), format!("[\"{META}\"]").into_bytes());
    assert_eq!(to_client(&table, &format!("[\"{LOCAL}\"]")), format!("[\"{LOCAL}\"]"));
}
