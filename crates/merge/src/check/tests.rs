use proptest::prelude::*;
use serde::de::IgnoredAny;

use super::*;

/// What is whole, if it is sound, when it comes in pieces.
fn whole(text: &[u8], cuts: &[usize]) -> Result<Option<usize>, Flaw> {
    let mut check = Check::new(100);
    for cut in cuts.iter().copied().filter(|cut| *cut < text.len()) {
        if let Some(end) = check.end_in(&text[..cut], &mut Unwatched)? {
            return Ok(Some(end));
        }
    }
    check.end_in(text, &mut Unwatched)
}

/// Texts that are JSON, or nearly.
fn nearly_json() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[\\[\\]{},: ]",
        2 => r#""(a|\\\\|\\"|\\u00[0-9a-g]{2}|é| |\t){0,12}""#,
        2 => r"-?(0|[0-9]{1,3})(\.[0-9]{0,2})?([eE][+-]?[0-9]{0,2})?",
        1 => "true|false|null|nul|tru e",
        2 => r#"\{"a":|"b":|,"#,
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    let tree = leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    });
    (tree, any::<bool>()).prop_map(|(value, pretty)| {
        if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// In an array, so that what ends a number is there too.
    #[test]
    fn what_is_found_sound_is_what_another_reader_finds_sound(
        text in prop_oneof![nearly_json(), json()],
        mut cuts in prop::collection::vec(0..60_usize, 0..4),
    ) {
        cuts.sort_unstable();
        let text = format!("[{text}]");
        let sound = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        let found = whole(text.as_bytes(), &cuts);
        prop_assert_eq!(found == Ok(Some(text.len())), sound, "{}", text);
    }

    #[test]
    fn a_value_that_broke_at_any_byte_is_as_sound_here_as_elsewhere(
        text in json(),
        at in any::<prop::sample::Index>(),
        byte in 0..0x80_u8,
    ) {
        let mut bytes = format!("[{text}]").into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let sound = std::str::from_utf8(&bytes).ok().map(serde_json::from_str::<IgnoredAny>);
        if let Some(sound) = sound && bytes[0] == b'[' {
            prop_assert_eq!(whole(&bytes, &[at]) == Ok(Some(bytes.len())), sound.is_ok());
        }
    }

    #[test]
    fn a_string_goes_on_to_its_first_special_byte(text in prop::collection::vec(any::<u8>(), 0..40)) {
        let special = |byte: &u8| matches!(byte, b'"' | b'\\' | ..0x20);
        prop_assert_eq!(plain(&text), text.iter().position(special).unwrap_or(text.len()));
    }
}

/// Wants every member.
#[derive(Default)]
struct Told(String, Vec<usize>);

impl Watch for Told {
    fn name(&mut self, raw: &[u8], escaped: bool) -> bool {
        self.0 += &format!("{}{}=", String::from_utf8_lossy(raw), if escaped { "!" } else { "" });
        true
    }

    fn value(&mut self, raw: &[u8], at: usize) -> bool {
        self.1.push(at);
        self.0 += &format!("{};", String::from_utf8_lossy(raw));
        true
    }
}

#[test]
fn members_are_told_alike_however_they_are_spaced_and_cut() {
    for (colon, comma) in [(":", ","), (": ", ", "), (" : ", " , "), (":  ", ",\n  ")] {
        let text = r#"{"a"="xy","b"=12,"\n"="",""={"c"="d","e"="f"},"g"=["h","i"],"j"="k"}"#;
        let text = text.replace('=', colon).replace(',', comma);
        let nested = format!("{{\"c\"{colon}\"d\"{comma}\"e\"{colon}\"f\"}}");
        let expected = format!(r#""a"="xy";"b"=12;"\n"!="";""={nested};"g"=["h"{comma}"i"];"j"="k";"#);
        for cut in 0..=text.len() {
            let (mut check, mut told) = (Check::new(9), Told::default());
            check.end_in(&text.as_bytes()[..cut], &mut told).unwrap();
            if cut < text.len() {
                assert_eq!(check.end_in(text.as_bytes(), &mut told), Ok(Some(text.len())));
            }
            assert_eq!(told.0, expected, "{cut}");
            let begins =
                |(at, value): (&usize, &str)| text.get(*at..).is_some_and(|rest| rest.starts_with(value));
            let values = expected.split(';').filter_map(|member| Some(member.split_once('=')?.1));
            assert!(told.1.iter().zip(values).all(begins), "{cut}: {:?}", told.1);
        }
    }
}

#[test]
fn what_nests_too_deep_is_found_at_once() {
    let mut check = Check::new(3);
    assert_eq!(check.end_in(b"[{\"a\":[", &mut Unwatched), Ok(None));
    assert_eq!(check.end_in(b"[{\"a\":[{", &mut Unwatched), Err(Flaw::TooDeep));
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(Check::new(usize::MAX).end_in(deep(128).as_bytes(), &mut Unwatched), Ok(Some(256)));
    assert_eq!(Check::new(usize::MAX).end_in(deep(129).as_bytes(), &mut Unwatched), Err(Flaw::TooDeep));
}

#[test]
fn a_word_or_a_bracket_that_is_another_is_malformed() {
    for text in [
        r#"{"a":trux}"#,
        r#"{"a":nope,"b":1}"#,
        r#"{"a":falsy}"#,
        r#"{"a":1]"#,
        r#"{"a":"b"]"#,
        r#"{"a":{"b":1]}"#,
        r"[1}",
        r"[-01]",
        r#"{"a\:1}"#,
        r#"["\u00g0"]"#,
        r#"["\u12"]"#,
        r#"["\u123"]"#,
        r#"["\u00 41"]"#,
    ] {
        assert_eq!(whole(text.as_bytes(), &[]), Err(Flaw::Malformed), "{text}");
    }
}
