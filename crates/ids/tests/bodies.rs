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

/// A body is cut once, at each place.
fn cuts(table: &Table, direction: Direction, body: &str) -> Vec<drive::Outcome> {
    let cut = |at: usize| {
        let mut next = [at, usize::MAX].into_iter();
        drive::rewrite(table, direction, body.as_bytes(), || next.next().unwrap_or(usize::MAX))
    };
    (1..body.len()).map(cut).collect()
}

#[test]
fn what_goes_on_after_a_cut_is_another_identifier() {
    let long = "t".repeat(128);
    let table = table(&[UUIDS[0], ("cart-1", &long)]);
    let body = format!("[\"{LOCAL}a\", \"{long}x\", \"{LOCAL}-a\", \"\\u0041{long}\"]");
    let expected = format!("[\"{LOCAL}a\", \"{long}x\", \"{META}-a\", \"A{long}\"     ]");
    for outcome in cuts(&table, Direction::ToClient, &body) {
        assert_eq!(String::from_utf8(outcome.body).unwrap(), expected);
    }
}

#[test]
fn an_escape_may_be_cut_anywhere() {
    let body = format!("{{\"id\": \"{}\"}}", LOCAL.replacen('-', "\\u002d", 2).replacen('1', "\\u0031", 1));
    for outcome in cuts(&table(&UUIDS), Direction::ToService, &body) {
        assert_eq!(outcome.end, Err(Refused::Hidden(LOCAL.to_owned())));
    }
}

#[test]
fn only_the_first_bytes_say_which_encoding_it_is() {
    for cut in [1, 2, 4, usize::MAX] {
        let body = b"[\"ab\"\0, \0\xff\"\xfe\"]";
        let outcome = drive::rewrite(&table(&UUIDS), Direction::ToService, body, || cut);
        assert_eq!((outcome.body, outcome.end), (body.to_vec(), Ok(0)));
    }
}

#[test]
fn what_is_held_back_is_counted() {
    let mut rewriter = Rewriter::new(table(&UUIDS), Direction::ToClient);
    let mut out = Vec::new();
    for (chunk, held) in [("[\"ffffffff-4", 10), ("e\", \"a\\", 2), ("u00", 5), ("41 ", 0)] {
        rewriter.push(Bytes::from(chunk), &mut out).unwrap();
        assert_eq!(rewriter.held(), held, "{chunk}");
    }
}

#[test]
fn an_escape_after_a_long_text_is_told_to_be_in_a_string() {
    let (long, escaped) = ("x ".repeat(600), LOCAL.replacen('f', "\\u0066", 1));
    let table = table(&UUIDS);
    let inside = format!("[\"{long}{escaped}\"]");
    assert_eq!(
        whole(&table, Direction::ToService, inside.as_bytes()).end,
        Err(Refused::Hidden(LOCAL.to_owned()))
    );
    // No JSON: an escape where no string is stays what it is.
    let outside = format!("[\"a\", \"{long}\", \\u0031]");
    assert_eq!(to_client(&table, &outside), outside);
}

#[test]
fn a_number_after_strings_of_one_block_each_is_no_identifier() {
    let digits = UUIDS[2].1.replace('-', "");
    let body = format!("[\"{}\",{digits},\"{}\",{digits}]", "x".repeat(63), "y".repeat(63));
    assert_eq!(to_client(&table(&UUIDS), &body), body);
}

#[test]
fn a_string_that_does_not_end_is_as_long_as_it_was() {
    let body = "[\"\\u0061\\u0062";
    let outcome = whole(&table(&UUIDS), Direction::ToClient, body.as_bytes());
    assert_eq!(outcome.body, b"[\"ab          ");
}

#[test]
fn what_comes_after_a_broken_escape_is_not_read_as_an_identifier() {
    let table = table(&[("cart-1", "x7"), ("cart-2", "~7")]);
    for body in [r#"["%~7", "%zzx7", "%0~7"]"#, r#"["a\\nx7", "a\\\\nx7"]"#] {
        assert_eq!(to_client(&table, body), body);
    }
    assert_eq!(
        to_client(&table, r#"["%2Fx7", "a\nx7", "\\x7"]"#),
        r#"["%2Fcart-1", "a\ncart-1", "\\cart-1"]"#
    );
}

#[test]
fn a_uuid_without_hyphens_ends_where_its_digits_do() {
    let (local, meta) = (LOCAL.replace('-', ""), META.replace('-', ""));
    for after in [":12345678", ":1234567", "/12345678", "-12345678"] {
        assert_eq!(
            to_client(&table(&UUIDS), &format!("[\"{local}{after}\"]")),
            format!("[\"{meta}{after}\"]")
        );
    }
}

#[test]
fn a_pair_of_two_lengths_counts_for_as_long_as_it_is_there() {
    let mut table = table(&UUIDS);
    table.insert("cart-1", "7").unwrap();
    assert!(!table.keeps_length());
    table.remove("cart-1");
    assert!(table.keeps_length());
}

#[test]
fn a_refusal_says_what_is_wrong() {
    assert_eq!(Refused::Hidden("7".into()).to_string(), "there is no resource '7'");
    assert_eq!(Refused::Encoding.to_string(), "the body is not in UTF-8");
    let mut table = Table::new();
    assert!(table.insert("a", "").unwrap_err().to_string().contains("1 to 128"));
    assert!(table.insert(META, "7").unwrap_err().to_string().contains("UUID"));
    let malformed = ids::Etags::new("A").condition("\"A.x").unwrap_err();
    assert!(malformed.to_string().contains("entity tags"));
}
