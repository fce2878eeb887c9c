//! Templates of a profile, filled: what stands for something is escaped for where it stands.

use std::collections::BTreeMap;

use profile::Template;
use serde_json::Value;

/// What names stand for.
pub(super) type Names<'n> = BTreeMap<&'n str, &'n str>;

/// A document, filled. A text that is a name becomes what it stands for, whatever that holds.
pub(super) fn document(template: &Template, names: &Names<'_>) -> Value {
    match template {
        Template::Bool(value) => (*value).into(),
        Template::Text(text) => {
            let stands_for = Template::placeholder(text).and_then(|name| names.get(name));
            stands_for.map_or(text.as_str(), |value| *value).into()
        }
        Template::List(items) => items.iter().map(|item| document(item, names)).collect(),
        Template::Table(members) => {
            let members = members.iter().map(|(name, member)| (name.clone(), document(member, names)));
            Value::Object(members.collect())
        }
    }
}

/// A path and query, filled: what stands for something is one segment, or one value, whatever it holds.
pub(super) fn path(template: &str, names: &Names<'_>) -> String {
    let mut filled = String::with_capacity(template.len() + 64);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let Some((name, behind)) = after.split_once('}') else { break };
        encode(names.get(name).copied().unwrap_or_default(), &mut filled);
        rest = behind;
    }
    filled.push_str(rest);
    filled
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

/// Sets a member of a document by its JSON pointer; objects on the way are made.
pub(super) fn set(document: &mut Value, pointer: &str, value: Value) {
    let mut at = document;
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        let Value::Object(members) = at else { return };
        at = members.entry(name).or_insert(Value::Null);
    }
    *at = value;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_place_in_a_path_or_a_document() {
        let evil = "a&domain_id=b/../c?d#e%41\"},{é";
        let names = Names::from([("name", evil)]);
        assert_eq!(
            path("/v3/users?name={name}&x", &names),
            "/v3/users?name=a%26domain_id%3Db%2F..%2Fc%3Fd%23e%2541%22%7D%2C%7B%C3%A9&x"
        );
        let members = BTreeMap::from([("n".to_owned(), Template::Text("{name}".to_owned()))]);
        let filled = document(&Template::Table(members), &names).to_string();
        let read: Value = serde_json::from_str(&filled).unwrap();
        assert_eq!(read.pointer("/n").and_then(Value::as_str), Some(evil));
    }

    #[test]
    fn a_member_is_set_by_its_pointer() {
        let mut document = serde_json::json!({ "a": 1 });
        set(&mut document, "/a/b~1c", 2.into());
        set(&mut document, "/d", 3.into());
        assert_eq!(document, serde_json::json!({ "a": { "b/c": 2 }, "d": 3 }));
    }
}
