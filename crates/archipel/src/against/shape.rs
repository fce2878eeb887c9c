//! Finding things in documents, and showing them in a line.

use serde_json::Value;

/// So much of a value is shown.
const SHOWN: usize = 60;
/// So many names are.
const NAMES: usize = 12;

/// The items of a list: at a member, or where the usual shapes have them.
pub(super) fn items_of<'d>(document: &'d Value, member: Option<&str>) -> Option<&'d Vec<Value>> {
    if let Some(member) = member {
        return at_member(document, member).first().and_then(|value| value.as_array());
    }
    if let Some(items) = document.as_array() {
        return Some(items);
    }
    let members = document.as_object()?;
    let mut lists = members.values().filter_map(Value::as_array);
    lists.next().filter(|_| lists.next().is_none())
}

/// The members of an object that are lists.
pub(super) fn lists_in(document: &Value) -> Vec<&str> {
    let members = document.as_object().into_iter().flatten();
    members.filter(|(_, value)| value.is_array()).map(|(name, _)| name.as_str()).collect()
}

/// What is at a member path: `a.b`, where `*` is every member.
pub(super) fn at_member<'d>(document: &'d Value, path: &str) -> Vec<&'d Value> {
    let mut found = vec![document];
    for name in path.split('.') {
        found = found
            .into_iter()
            .flat_map(|value| match (name, value.as_object()) {
                (_, None) => Vec::new(),
                ("*", Some(members)) => members.values().collect(),
                (name, Some(members)) => members.get(name).into_iter().collect(),
            })
            .collect();
    }
    found
}

/// The place of an id in a document, two levels deep.
pub(super) fn pointer_to(document: &Value, id: &str) -> Option<String> {
    let is = |value: &Value| match value {
        Value::String(text) => text == id,
        Value::Number(number) => *id == number.to_string(),
        _ => false,
    };
    for (name, value) in document.as_object()? {
        if is(value) {
            return Some(format!("/{name}"));
        }
        let below = value.as_object().into_iter().flatten().find(|(_, value)| is(value));
        if let Some((below, _)) = below {
            return Some(format!("/{name}/{below}"));
        }
    }
    None
}

/// The names of an object's members.
pub(super) fn members(document: &Value) -> String {
    match document {
        Value::Object(members) if members.is_empty() => "no member".to_owned(),
        Value::Object(members) => {
            let names: Vec<String> = members.keys().take(NAMES).map(|name| format!("`{name}`")).collect();
            let more = if members.len() > NAMES { ", …" } else { "" };
            names.join(", ") + more
        }
        Value::Array(items) => format!("a list of {}", items.len()),
        other => short(other),
    }
}

/// A value, or its beginning.
pub(super) fn short(value: &Value) -> String {
    let text = value.to_string();
    let shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() { format!("`{shown}…`") } else { format!("`{shown}`") }
}
