//! The documents of the service, and the one definition of each write to them.

use serde_json::{Map, Value, json};

/// A register: its fields, and under `adds` how often each addition was executed. `made_by` and `added_by` name the operations
/// that made it and added to it.
pub(crate) type Document = Map<String, Value>;

/// Members that each site's service has for itself.
const OWN: [&str; 3] = ["id", "made_by", "added_by"];

/// A document without what each site's service has for itself.
pub(crate) fn content(document: &Document) -> Document {
    let mut content = document.clone();
    content.retain(|field, _| !OWN.contains(&field.as_str()));
    content
}

/// Makes a whole document of a body.
pub(crate) fn whole(mut fields: Document) -> Document {
    fields.entry("adds").or_insert_with(|| json!({}));
    fields
}

/// Sets the members that a PATCH has.
pub(crate) fn patch(document: &mut Document, fields: &Document) {
    document.extend(content(fields));
}

/// Counts one more execution of an addition.
pub(crate) fn add(document: &mut Document, tag: &str) {
    let adds = document.entry("adds").or_insert_with(|| json!({}));
    if let Some(adds) = adds.as_object_mut() {
        let count = adds.get(tag).and_then(Value::as_u64).unwrap_or(0);
        adds.insert(tag.to_owned(), (count + 1).into());
    }
}

/// Names the operation of an addition that was executed.
pub(crate) fn note_addition(document: &mut Document, operation: &str) {
    let operations = document.entry("added_by").or_insert_with(|| json!([]));
    if let Some(operations) = operations.as_array_mut() {
        operations.push(operation.into());
    }
}

/// How often an addition was executed, as the document says.
pub(crate) fn added(document: &Document, tag: &str) -> u64 {
    document.get("adds").and_then(|adds| adds.get(tag)).and_then(Value::as_u64).unwrap_or(0)
}

/// A string of a document, or nothing.
pub(crate) fn text<'d>(document: &'d Document, field: &str) -> &'d str {
    document.get(field).and_then(Value::as_str).unwrap_or("")
}

/// The field that a PATCH of its own sets, so that each is seen by itself.
pub(crate) fn mark(tag: &str) -> String {
    format!("p_{tag}")
}
