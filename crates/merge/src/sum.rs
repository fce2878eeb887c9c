//! Numbers of several documents as one.

use serde_json::{Number, Value};

use crate::item::Path;

/// Adds the numbers at a path of other documents to those of the first. A `*` is every member there.
/// `unlimited` stays what it is, whatever is added to it.
pub(crate) fn sum(first: &mut Value, others: &[&Value], path: &Path, unlimited: Option<i64>) {
    at(first, others, path.segments(), unlimited);
}

fn at(first: &mut Value, others: &[&Value], path: &[String], unlimited: Option<i64>) {
    let Some((name, path)) = path.split_first() else {
        if let Value::Number(number) = first {
            let all =
                others.iter().filter_map(|other| if let Value::Number(n) = other { Some(n) } else { None });
            *number = all.fold(number.clone(), |sum, other| add(&sum, other, unlimited));
        }
        return;
    };
    let mut names = vec![name.clone()];
    if name == "*" {
        let objects = others.iter().copied().chain([&*first]).filter_map(Value::as_object);
        names = objects.flat_map(|object| object.keys().cloned()).collect();
        names.sort_unstable();
        names.dedup();
    }
    let Value::Object(object) = first else { return };
    for name in names {
        let mut others: Vec<&Value> = others.iter().filter_map(|other| other.get(&name)).collect();
        if !object.contains_key(&name) {
            if others.is_empty() {
                continue;
            }
            object.insert(name.clone(), others.remove(0).clone());
        }
        if let Some(first) = object.get_mut(&name) {
            at(first, &others, path, unlimited);
        }
    }
}

/// Sets the list at a path to the items of those of all documents, one document after the other.
pub(crate) fn join(total: &mut Value, all: &[&Value], path: &Path) {
    let segments = path.segments();
    let find = |document: &Value| {
        let found = segments.iter().try_fold(document, |at, name| at.get(name))?;
        found.as_array().cloned()
    };
    let found: Vec<Vec<Value>> = all.iter().filter_map(|document| find(document)).collect();
    if found.is_empty() {
        return;
    }
    let place = segments.iter().try_fold(total, |at, name| at.get_mut(name));
    if let Some(place) = place {
        *place = found.concat().into();
    }
}

/// Puts what others have in the list at a path behind what the first has there, each once: what has the same type and id is
/// the same.
pub(crate) fn join_once(first: &mut Value, others: &[&Value], path: &Path) {
    let mut all: Vec<&Value> = vec![first];
    all.extend(others);
    let mut total = Value::Null;
    if let Some(with) = all
        .iter()
        .find(|document| path.segments().iter().try_fold(**document, |at, name| at.get(name)).is_some())
    {
        total = (*with).clone();
    }
    if total.is_null() {
        return;
    }
    join(&mut total, &all, path);
    let joined = path.segments().iter().try_fold(&mut total, |at, name| at.get_mut(name)).map(Value::take);
    let Some(Value::Array(items)) = joined else { return };
    let identity = |item: &Value| match (item.get("type"), item.get("id")) {
        (Some(kind), Some(id)) => format!("{kind} {id}"),
        _ => item.to_string(),
    };
    let mut seen = std::collections::BTreeSet::new();
    let once: Vec<Value> = items.into_iter().filter(|item| seen.insert(identity(item))).collect();
    let Some((last, way)) = path.segments().split_last() else { return };
    let holder = way.iter().try_fold(first, |at, name| at.get_mut(name));
    if let Some(holder) = holder.and_then(Value::as_object_mut) {
        holder.insert(last.clone(), once.into());
    }
}

fn add(a: &Number, b: &Number, unlimited: Option<i64>) -> Number {
    if unlimited.is_some() && (a.as_i64() == unlimited || b.as_i64() == unlimited) {
        return unlimited.map_or(a.clone(), Number::from);
    }
    let whole = |n: &Number| n.as_i64().map(i128::from).or(n.as_u64().map(i128::from));
    let exact = whole(a).zip(whole(b)).and_then(|(a, b)| Number::from_i128(a + b));
    let rough = || Number::from_f64(a.as_f64().unwrap_or_default() + b.as_f64().unwrap_or_default());
    exact.or_else(rough).unwrap_or_else(|| a.clone())
}
