//! What holds for any body, however it is cut.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod drive;
#[path = "drive/reference.rs"]
mod reference;

use drive::{Dice, UUIDS, all, rewrite, table, whole};
use ids::{Direction, Refused};
use proptest::prelude::*;
use serde_json::{Map, Value};

/// What stands between identifiers, and what is almost one.
const BESIDE: [&str; 26] = [
    "/",
    "-",
    ".",
    "_",
    "%2F",
    "%31",
    "%",
    "%2",
    "\n",
    "\u{8}",
    "\u{c}",
    "\t",
    "é",
    "\u{1f600}",
    "\\",
    "\"",
    "\\n",
    "x",
    "0",
    "b",
    " ",
    ",",
    "u1234",
    "http://h:80/v2/",
    "deadbeef-4e5f-6071-8293-a4b5c6d7e8f9",
    "{\"a\": 1}",
];

fn spelled(id: &str, how: usize) -> String {
    match how {
        0 => id.replace('-', ""),
        1 => id.to_uppercase(),
        2 => id.replace('-', "").to_uppercase(),
        3 => id.replacen('f', "F", 1),
        4 => id.chars().skip(1).collect(),
        5 => id.replacen('-', "", 1),
        _ => id.to_owned(),
    }
}

fn id() -> impl Strategy<Value = String> {
    let ids: Vec<&str> = all().iter().flat_map(|(meta, local)| [*meta, *local]).collect();
    (prop::sample::select(ids), 0..12_usize).prop_map(|(id, how)| spelled(id, how))
}

fn local() -> impl Strategy<Value = String> {
    let ids: Vec<&str> = all().iter().map(|(_, local)| *local).collect();
    prop::sample::select(ids).prop_map(str::to_owned)
}

fn text(id: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        3 => id,
        4 => prop::sample::select(BESIDE.to_vec()).prop_map(str::to_owned),
        1 => ".{0,8}",
        1 => (1..40_usize).prop_map(|times| "0a-f".repeat(times)),
        1 => (30..150_usize).prop_map(|times| "7".repeat(times)),
    ];
    proptest::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn value(text: impl Strategy<Value = String> + Clone + 'static) -> impl Strategy<Value = Value> {
    let numbers = ["12345678901234567890123456789012", "98765432109876543210987654321098", "7", "1e07", "-7"];
    let number = prop::sample::select(numbers.to_vec()).prop_map(|text| serde_json::from_str(text).unwrap());
    let leaf = prop_oneof![4 => text.clone().prop_map(Value::from), 1 => number, 1 => Just(Value::Null)];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        // What follows the text keeps keys apart, also once they are rewritten.
        let object = |members: Vec<(String, Value)>| {
            let member = |(index, (key, value))| (format!("{key}/{index}"), value);
            Value::Object(members.into_iter().enumerate().map(member).collect::<Map<_, _>>())
        };
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((text.clone(), inner), 0..4).prop_map(object),
        ]
    })
}

/// The JSON of a value, with any escapes that JSON allows.
fn write(value: &Value, dice: &mut Dice, odd: usize, to: &mut String) {
    match value {
        Value::String(text) => write_text(text, dice, odd, to),
        Value::Array(items) => {
            to.push('[');
            for (index, item) in items.iter().enumerate() {
                to.push_str(if index == 0 { "" } else { ", " });
                write(item, dice, odd, to);
            }
            to.push(']');
        }
        Value::Object(members) => {
            to.push('{');
            for (index, (key, item)) in members.iter().enumerate() {
                to.push_str(if index == 0 { "" } else { "," });
                write_text(key, dice, odd, to);
                to.push(':');
                write(item, dice, odd, to);
            }
            to.push('}');
        }
        // As it was typed: a long number is not one that a float can hold.
        Value::Number(number) if number.as_f64() > Some(9e31) => {
            to.push_str("98765432109876543210987654321098");
        }
        Value::Number(number) if number.as_f64() > Some(1e31) => {
            to.push_str("12345678901234567890123456789012");
        }
        other => to.push_str(&other.to_string()),
    }
}

fn write_text(text: &str, dice: &mut Dice, odd: usize, to: &mut String) {
    to.push('"');
    for char in text.chars() {
        let mut units = [0; 2];
        match char {
            _ if odd > 0 && dice.roll(odd) == 0 => {
                for unit in char.encode_utf16(&mut units) {
                    let code = format!("\\u{unit:04x}");
                    to.push_str(&if dice.roll(2) == 0 {
                        code.to_uppercase().replace('U', "u")
                    } else {
                        code
                    });
                }
            }
            '/' if odd > 0 => to.push_str("\\/"),
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\t' => to.push_str("\\t"),
            '\u{8}' => to.push_str("\\b"),
            '\u{c}' => to.push_str("\\f"),
            '\0'..' ' => to.push_str(&format!("\\u{:04x}", u32::from(char))),
            char => to.push(char),
        }
    }
    to.push('"');
}

fn body(value: &Value, seed: u64, odd: usize) -> String {
    let mut text = String::new();
    write(value, &mut Dice(seed), odd, &mut text);
    text
}

/// Bytes that are mostly no JSON.
fn fragments() -> impl Strategy<Value = Vec<u8>> {
    let raw = [
        "\"", "\\", "\\\"", "\\u", "\\u00", "\\u0031", "\\u002d", "\\u00e9", "\\b", "%", "%2", ":", ",", "[",
        "é",
    ];
    let piece = prop_oneof![
        3 => id(),
        3 => prop::sample::select(raw.to_vec()).prop_map(str::to_owned),
        2 => prop::sample::select(BESIDE.to_vec()).prop_map(str::to_owned),
        1 => (1..200_usize).prop_map(|times| "\\".repeat(times)),
        1 => (1..80_usize).prop_map(|times| "0a-f".repeat(times)),
    ];
    let pieces = proptest::collection::vec(piece, 0..12);
    (pieces, proptest::collection::vec(any::<u8>(), 0..3))
        .prop_map(|(pieces, end)| [pieces.concat().into_bytes(), end].concat())
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::ToClient), Just(Direction::ToService)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_what_decoding_and_replacing_in_every_string_gives(
        value in value(text(id()).boxed()), direction in direction(), seed in any::<u64>(), odd in 0..9_usize,
    ) {
        let body = body(&value, seed, odd);
        prop_assert_eq!(&serde_json::from_str::<Value>(&body).unwrap(), &value);
        let outcome = whole(&table(&all()), direction, body.as_bytes());
        if let Some(expected) = reference::rewrite(&all(), direction, &value) {
            prop_assert!(outcome.end.is_ok(), "{:?}", outcome.end);
            prop_assert_eq!(serde_json::from_slice::<Value>(&outcome.body).unwrap(), expected, "{}", body);
        } else {
            prop_assert!(matches!(outcome.end, Err(Refused::Hidden(_))), "{:?} of {}", outcome, body);
            // What a service may have got by then is no whole body.
            prop_assert!(serde_json::from_slice::<Value>(&outcome.body).is_err());
        }
    }

    #[test]
    fn how_a_body_is_cut_changes_nothing(bytes in fragments(), direction in direction(), seeds in any::<[u64; 2]>()) {
        let table = table(&all());
        let one = whole(&table, direction, &bytes);
        // Where it is not in UTF-8, what was passed on by then may differ.
        if one.end != Err(Refused::Encoding) {
            prop_assert_eq!(&rewrite(&table, direction, &bytes, || 1), &one);
            for seed in seeds {
                let mut dice = Dice(seed);
                let most = 1 + dice.roll(60);
                prop_assert_eq!(&rewrite(&table, direction, &bytes, || 1 + dice.roll(most)), &one);
            }
        }
    }

    #[test]
    fn with_uuids_any_body_stays_as_long_as_it_is(bytes in fragments(), seed in any::<u64>()) {
        let table = table(&UUIDS);
        prop_assert!(table.keeps_length());
        let mut dice = Dice(seed);
        let outcome = rewrite(&table, Direction::ToClient, &bytes, || 1 + dice.roll(40));
        if outcome.end != Err(Refused::Encoding) {
            prop_assert_eq!(outcome.body.len(), bytes.len());
        }
    }

    #[test]
    fn what_clients_see_goes_back_as_it_came(value in value(text(local()).boxed()), seed in any::<u64>()) {
        let (body, table) = (body(&value, seed, 0), table(&all()));
        // A text may have a meta-identifier by itself, which then goes to the service as the local id.
        let by_itself = all().iter().any(|(meta, _)| body.contains(meta));
        let mut dice = Dice(seed);
        let seen = rewrite(&table, Direction::ToClient, body.as_bytes(), || 1 + dice.roll(90));
        let back = rewrite(&table, Direction::ToService, &seen.body, || 1 + dice.roll(90));
        prop_assert_eq!(seen.end, back.end.clone());
        prop_assert!(by_itself || back.body == body.as_bytes(), "{}", body);
    }

    #[test]
    fn a_url_is_rewritten_as_a_string_is(url in text(id()), direction in direction()) {
        prop_assert_eq!(&table(&[]).rewrite(&url, direction).unwrap(), &url);
        let rewritten = table(&all()).rewrite(&url, direction).map(|url| Value::from(url.into_owned())).ok();
        // `%31` is `1` in a URL only.
        if !url.contains('%') {
            prop_assert_eq!(rewritten, reference::rewrite(&all(), direction, &Value::from(url)));
        }
    }
}

/// No JSON: what a service that reads it all the same takes it for does not depend on how it was sent.
#[test]
fn an_escaped_percent_sign_is_not_cut() {
    let table = table(&all());
    for backslashes in 0..8 {
        for (meta, local) in all() {
            for (id, direction) in [(local, Direction::ToClient), (meta, Direction::ToService)] {
                for between in ["", "2F", "2"] {
                    let body = format!("\"{}%{between}{id}\"", "\\".repeat(backslashes));
                    let one = whole(&table, direction, body.as_bytes());
                    for most in 1..body.len() {
                        let other = rewrite(&table, direction, body.as_bytes(), || most);
                        assert_eq!(other, one, "{body} by {most}");
                    }
                }
            }
        }
    }
}
