//! Identifiers in declared places: however a document is cut, what is declared is rewritten, and not a byte beside it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use bytes::Bytes;
use ids::{Placed, Places, PlacesRewriter, Refused};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// `/id` of a document and of each item, references, and an address.
fn places() -> Places {
    let mut places = Places::default();
    for (pointer, place) in [
        ("/id", 0),
        ("/*/id", 0),
        ("/post_id", 1),
        ("/*/post_id", 1),
        ("/tags/*", 2),
        ("/data/of/id", 3),
        ("/next", 4),
    ] {
        assert!(places.add(pointer, place), "{pointer}");
    }
    places
}

/// Numbers become greater by a thousand times the place; `secret` is hidden.
fn map(place: u16, id: &str) -> Placed {
    if id == "secret" {
        return Placed::Hidden;
    }
    match id.parse::<u64>() {
        Ok(number) => Placed::Replace((number + 1000 * (u64::from(place) + 1)).to_string()),
        Err(_) if place == 4 => Placed::Replace(format!("{id}&x=\"y\"")),
        Err(_) => Placed::Keep,
    }
}

fn cut(document: &[u8], cuts: &[usize]) -> Result<Vec<u8>, Refused> {
    let mut rewriter = PlacesRewriter::new(places());
    let (mut out, mut rest) = (Vec::<Bytes>::new(), document);
    for cut in cuts {
        let (head, tail) = rest.split_at((*cut).min(rest.len()));
        rewriter.push(Bytes::copy_from_slice(head), &mut map, &mut out)?;
        rest = tail;
    }
    rewriter.push(Bytes::copy_from_slice(rest), &mut map, &mut out)?;
    rewriter.finish(&mut out)?;
    Ok(out.concat())
}

fn whole(document: &str) -> String {
    String::from_utf8(cut(document.as_bytes(), &[]).unwrap()).unwrap()
}

#[test]
fn what_is_declared_is_rewritten_and_nothing_else() {
    for (before, after) in [
        (r#"{"id":1,"room":"1","n":1}"#, r#"{"id":1001,"room":"1","n":1}"#),
        (r#"{"id":"1","x":{"id":1}}"#, r#"{"id":"1001","x":{"id":1}}"#),
        (r#"[{"id": 7 , "post_id": 3}, {"id":8}]"#, r#"[{"id": 1007 , "post_id": 2003}, {"id":1008}]"#),
        (r#"{"tags":[1,2,"x",{"id":5},[1]],"id":3}"#, r#"{"tags":[3001,3002,"x",{"id":5},[1]],"id":1003}"#),
        (r#"{"data":{"of":{"id":1},"id":2},"id":3}"#, r#"{"data":{"of":{"id":4001},"id":2},"id":1003}"#),
        (r#"{"id":null,"post_id":true}"#, r#"{"id":null,"post_id":true}"#),
        (r#"{"a\"id":1,"id\\":2,"\"id":3}"#, r#"{"a\"id":1,"id\\":2,"\"id":3}"#),
        (r#"{"x":"\"id\":1","id":2}"#, r#"{"x":"\"id\":1","id":1002}"#),
        (r#"{"\u0069d":1,"i\u0064":"\u0032"}"#, r#"{"\u0069d":1001,"i\u0064":"1002"}"#),
        (r#"{"id":1.0,"post_id":1e0,"tags":[1.5,-1]}"#, r#"{"id":1001,"post_id":2001,"tags":[1.5,-1]}"#),
        (r#"{"next":"http:\/\/h?a=1"}"#, r#"{"next":"http://h?a=1&x=\"y\""}"#),
        ("[]", "[]"),
        ("7", "7"),
        (r#"{"id"#, r#"{"id"#),
        (r#"{"id":1"#, r#"{"id":1"#),
    ] {
        assert_eq!(whole(before), after, "{before}");
        for at in 0..before.len() {
            let parts = String::from_utf8(cut(before.as_bytes(), &[at]).unwrap()).unwrap();
            assert_eq!(parts, after, "{before} cut at {at}");
        }
        let bytes = String::from_utf8(cut(before.as_bytes(), &vec![1; before.len()]).unwrap()).unwrap();
        assert_eq!(bytes, after, "{before} byte by byte");
    }
}

#[test]
fn an_escape_far_behind_other_text_is_read_as_well() {
    let pad = "x".repeat(400);
    let document = format!(r#"{{"pad":"{pad}","i\u0064":1,"n":"{pad}","id":2,"pod":3,"tags":[4]}}"#);
    let after = document.replace(":1,", ":1001,").replace(":2,", ":1002,").replace("[4]", "[3004]");
    assert_eq!(whole(&document), after);
    for size in [1, 63, 64, 65, 500] {
        let parts = cut(document.as_bytes(), &vec![size; document.len() / size + 1]).unwrap();
        assert_eq!(parts, after.as_bytes(), "{size}");
    }
}

#[test]
fn a_hidden_id_ends_the_document_before_it() {
    let document = br#"{"a":1,"post_id":"secret","id":1}"#;
    for at in 0..document.len() {
        assert_eq!(cut(document, &[at]), Err(Refused::Hidden("secret".to_owned())));
    }
    let mut rewriter = PlacesRewriter::new(places());
    let mut out = Vec::<Bytes>::new();
    assert!(rewriter.push(Bytes::from_static(document), &mut map, &mut out).is_err());
    assert_eq!(out.concat(), br#"{"a":1,"post_id":"#);
    assert!(rewriter.push(Bytes::from_static(b"{}"), &mut map, &mut out).is_err());
    assert!(rewriter.finish(&mut out).is_err());
}

#[test]
fn a_value_that_is_too_long_for_an_id_is_passed_on() {
    let long = "1".repeat(100_000);
    let document = format!(r#"{{"id":"{long}","post_id":1}}"#);
    let after = document.replace("\"post_id\":1", "\"post_id\":2001");
    for size in [1000, 4096, 65_536] {
        let parts = cut(document.as_bytes(), &vec![size; document.len() / size + 1]).unwrap();
        assert_eq!(parts, after.as_bytes(), "{size}");
    }
    assert_eq!(whole(&document), after);
}

/// The same by a parser.
fn model(value: &mut Value, pointer: &str) {
    let number = |value: &mut Value, place: u64| {
        if let Some(own) = value.as_u64() {
            *value = json!(own + 1000 * (place + 1));
        } else if let Some(own) = value.as_str().and_then(|text| text.parse::<u64>().ok()) {
            *value = json!((own + 1000 * (place + 1)).to_string());
        }
    };
    match (value, pointer) {
        (Value::Object(members), at) => {
            for (name, value) in members {
                match (at, name.as_str()) {
                    ("" | "*", "id") => number(value, 0),
                    ("" | "*", "post_id") => number(value, 1),
                    ("", "tags") => {
                        for value in value.as_array_mut().into_iter().flatten() {
                            number(value, 2);
                        }
                    }
                    ("", "data") => model(value, "data"),
                    ("data", "of") => model(value, "of"),
                    ("of", "id") => number(value, 3),
                    _ => {}
                }
            }
        }
        (Value::Array(values), "") => values.iter_mut().for_each(|value| model(value, "*")),
        _ => {}
    }
}

fn documents() -> impl Strategy<Value = Value> {
    let text = prop_oneof![Just("1".to_owned()), "[a-z\"\\\\{},:\\[\\] ]{0,80}", Just("id".to_owned())];
    let leaf = prop_oneof![
        (0..50_u64).prop_map(Value::from),
        text.prop_map(Value::from),
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 6, |inner| {
        let name = prop_oneof![
            Just("id"),
            Just("post_id"),
            Just("tags"),
            Just("data"),
            Just("of"),
            Just("x\""),
            Just("id\\"),
            Just("")
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((name.prop_map(str::to_owned), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #[test]
    fn it_agrees_with_a_parser_however_it_is_cut(
        document in documents(),
        pretty: bool,
        cuts in prop::collection::vec(0..90_usize, 0..12),
    ) {
        let text = if pretty { serde_json::to_string_pretty(&document) } else { serde_json::to_string(&document) };
        let text = text.unwrap();
        let mut expected = document;
        model(&mut expected, "");
        let parts = cut(text.as_bytes(), &cuts).unwrap();
        prop_assert_eq!(&parts, &cut(text.as_bytes(), &[]).unwrap());
        let read: Value = serde_json::from_slice(&parts).unwrap();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn no_bytes_make_it_panic_or_lose_any(bytes in prop::collection::vec(any::<u8>(), 0..300), at in 0..300_usize) {
        let mut rewriter = PlacesRewriter::new(places());
        let mut out = Vec::<Bytes>::new();
        let (head, tail) = bytes.split_at(at.min(bytes.len()));
        let mut keep = |_: u16, _: &str| Placed::Keep;
        let fine = rewriter.push(Bytes::copy_from_slice(head), &mut keep, &mut out).is_ok()
            && rewriter.push(Bytes::copy_from_slice(tail), &mut keep, &mut out).is_ok()
            && rewriter.finish(&mut out).is_ok();
        if fine {
            prop_assert_eq!(out.concat(), bytes);
        }
    }
}
