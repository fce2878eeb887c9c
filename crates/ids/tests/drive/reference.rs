//! The same, slowly: each string is decoded, and looked at from each of its characters.

use ids::{Direction, Found};
use serde_json::Value;

type Pairs<'a> = &'a [(&'a str, &'a str)];

/// None: it names a hidden id.
pub(crate) fn rewrite(pairs: Pairs<'_>, direction: Direction, value: &Value) -> Option<Value> {
    Some(match value {
        Value::String(text) => Value::String(replace(pairs, direction, text)?),
        Value::Array(items) => {
            items.iter().map(|item| rewrite(pairs, direction, item)).collect::<Option<Vec<_>>>()?.into()
        }
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                Some((replace(pairs, direction, key)?, rewrite(pairs, direction, value)?))
            };
            Value::Object(members.iter().map(member).collect::<Option<_>>()?)
        }
        other => other.clone(),
    })
}

fn replace(pairs: Pairs<'_>, direction: Direction, text: &str) -> Option<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut written = String::new();
    let mut at = 0;
    while at < chars.len() {
        let candidates = [whole_word(&chars, at), uuid(&chars, at, 36), uuid(&chars, at, 32)];
        let mut longest_first: Vec<usize> = candidates.into_iter().flatten().collect();
        longest_first.sort_unstable_by(|one, two| two.cmp(one));
        let mapped = longest_first.into_iter().find_map(|length| {
            let found: String = chars[at..at + length].iter().collect();
            match mapped(pairs, direction, &found) {
                Found::Unknown => None,
                Found::Hidden => Some((length, None)),
                Found::Mapped(to) => Some((length, Some(to))),
            }
        });
        if let Some((length, to)) = mapped {
            written.push_str(&to?);
            at += length;
        } else {
            written.push(chars[at]);
            at += 1;
        }
    }
    Some(written)
}

fn is_id(char: char) -> bool {
    char.is_ascii_alphanumeric() || "-._~".contains(char)
}

fn after_percent(chars: &[char], at: usize) -> bool {
    at >= 3 && chars[at - 3] == '%' && chars[at - 2..at].iter().all(char::is_ascii_hexdigit)
}

fn whole_word(chars: &[char], at: usize) -> Option<usize> {
    let starts = at == 0 || !is_id(chars[at - 1]) && chars[at - 1] != '%' || after_percent(chars, at);
    let length = chars[at..].iter().take_while(|char| is_id(**char)).count();
    (starts && length > 0).then_some(length)
}

fn uuid(chars: &[char], at: usize, length: usize) -> Option<usize> {
    let text = chars.get(at..at + length)?;
    let apart = at == 0 || !chars[at - 1].is_ascii_alphanumeric() && chars[at - 1] != '%';
    let starts = apart || after_percent(chars, at);
    let ends = chars.get(at + length).is_none_or(|next| !next.is_ascii_alphanumeric());
    let fits = text.iter().enumerate().all(|(index, char)| match index {
        8 | 13 | 18 | 23 if length == 36 => *char == '-',
        _ => char.is_ascii_hexdigit(),
    });
    (starts && ends && fits).then_some(length)
}

fn mapped(pairs: Pairs<'_>, direction: Direction, found: &str) -> Found {
    let same = |id: &str| {
        let is_uuid = id.len() == 36;
        id == found
            || is_uuid && id.eq_ignore_ascii_case(found)
            || is_uuid && id.replace('-', "").eq_ignore_ascii_case(found)
    };
    let like = |id: &str| {
        let id = if id.len() == 36 && found.len() == 32 { id.replace('-', "") } else { id.to_owned() };
        let capitals = found.chars().any(|char| char.is_ascii_uppercase());
        let small = found.chars().any(|char| char.is_ascii_lowercase());
        if id.len() >= 32 && capitals && !small { id.to_uppercase() } else { id }
    };
    let of_meta = pairs.iter().find(|(meta, _)| same(meta)).map(|(_, local)| like(local));
    let of_local = pairs.iter().find(|(_, local)| same(local)).map(|(meta, _)| like(meta));
    match (direction, of_meta, of_local) {
        (Direction::ToClient, _, Some(meta)) => Found::Mapped(meta),
        (Direction::ToService, Some(local), _) => Found::Mapped(local),
        (Direction::ToService, None, Some(_)) => Found::Hidden,
        _ => Found::Unknown,
    }
}
