//! Lists that are asked for to look something up by its name: an empty one says that it is not there.

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use crate::elements::decoded;
use crate::lists::List;

/// A query that looks something up: by a parameter (`name`), or by one with a value of a form
/// (`fieldSelector=metadata.name=*`; a `*` at the end is any text).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupQuery {
    parameter: String,
    /// What its value is, or begins with.
    value: Option<(String, bool)>,
}

impl LookupQuery {
    fn read(text: &str) -> Result<LookupQuery, &'static str> {
        let (parameter, value) = match text.split_once('=') {
            None => (text, None),
            Some((parameter, value)) => match value.strip_suffix('*') {
                Some(start) => (parameter, Some((start.to_owned(), true))),
                None => (parameter, Some((value.to_owned(), false))),
            },
        };
        if parameter.is_empty() || value.as_ref().is_some_and(|(value, _)| value.contains('*')) {
            return Err("a lookup is a parameter, or `parameter=value` with a `*` at most at its end");
        }
        Ok(LookupQuery { parameter: parameter.to_owned(), value })
    }

    pub(crate) fn fits(&self, name: &str, value: &str) -> bool {
        let is_so = match &self.value {
            None => !value.is_empty(),
            Some((start, true)) => value.len() > start.len() && value.starts_with(start.as_str()),
            Some((whole, false)) => value == whole,
        };
        name == self.parameter && is_so
    }
}

impl<'de> Deserialize<'de> for LookupQuery {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<LookupQuery, D::Error> {
        LookupQuery::read(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// The parameters of a query, as what they stand for.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (String, String)> {
    let text = |raw: &str| decoded(&raw.replace('+', " "));
    query.split('&').map(move |pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (text(name), text(value))
    })
}

impl List {
    /// Whether a query looks something up. A later page does not: that it is empty says only that there is no more.
    #[must_use]
    pub fn is_lookup(&self, query: &str) -> bool {
        let mut looks_up = false;
        for (name, value) in pairs(query) {
            if self.paging.as_ref().is_some_and(|paging| paging.is_position(&name)) {
                return false;
            }
            looks_up |= self.lookup.iter().any(|lookup| lookup.fits(&name, &value));
        }
        looks_up
    }

    /// Whether an answer is a list of this kind with nothing in it. One that is no such list is not.
    #[must_use]
    pub fn is_empty(&self, body: &[u8]) -> bool {
        let Ok(document) = serde_json::from_slice::<Value>(body) else { return false };
        let members = match &document {
            Value::Array(items) => return items.is_empty(),
            Value::Object(items) if self.keyed && self.items.is_none() => return items.is_empty(),
            Value::Object(members) => members,
            _ => return false,
        };
        let Some(items) = &self.items else {
            let arrays: Vec<_> = members.values().filter_map(Value::as_array).collect();
            return !members.contains_key(&self.id) && matches!(arrays.as_slice(), [only] if only.is_empty());
        };
        let mut names = items.split('.');
        match names.try_fold(&document, |at, name| at.get(name)) {
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(items)) => self.keyed && items.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Profile;

    fn list(text: &str) -> crate::List {
        let text =
            format!("description = 'x'\n[lists]\n{text}\n[lists.paging]\nnext = [{{ member = 'next' }}]");
        Profile::read(&text).unwrap().lists.of("s", "/things").unwrap()
    }

    #[test]
    fn query_by_name_is_a_lookup_and_a_later_page_of_it_is_not() {
        let list = list("lookup = ['name', 'fieldSelector=metadata.name=*', 'kind=one']");
        for (query, looks_up) in [
            ("name=cirros", true),
            ("a=b&n%61me=x+y", true),
            ("name=", false),
            ("name", false),
            ("names=x", false),
            ("fieldSelector=metadata.name%3Dx", true),
            ("fieldSelector=metadata.name=", false),
            ("fieldSelector=status.phase=x", false),
            ("kind=one", true),
            ("kind=once", false),
            ("name=x&marker=7", false),
            ("", false),
        ] {
            assert_eq!(list.is_lookup(query), looks_up, "{query}");
        }
    }

    #[test]
    fn only_a_list_with_nothing_in_it_is_empty() {
        let (any, named) = (list("lookup = ['name']"), list("items = 'items'"));
        for (body, is_empty) in [
            ("[]", [true, true]),
            (" [ ] ", [true, true]),
            ("[1]", [false, false]),
            (r#"{"items": []}"#, [true, true]),
            (r#"{"items": null, "kind": "L"}"#, [false, true]),
            (r#"{"items": [{}]}"#, [false, false]),
            (r#"{"others": []}"#, [true, false]),
            (r#"{"id": 1, "tags": []}"#, [false, false]),
            (r#"{"a": [], "b": []}"#, [false, false]),
            ("{}", [false, false]),
            ("", [false, false]),
            ("null", [false, false]),
        ] {
            assert_eq!([any.is_empty(body.as_bytes()), named.is_empty(body.as_bytes())], is_empty, "{body}");
        }
    }

    #[test]
    fn lists_of_openstack_are_looked_up_by_name() {
        let profile = Profile::named("openstack").unwrap();
        for (service, request, looks_up) in [
            ("image", "/v2/images?name=cirros", true),
            ("image", "/v2/images?visibility=public", false),
            ("compute", "/v2.1/servers/detail?name=%5Eweb1%24", true),
            ("network", "/v2.0/networks?name=private", true),
            ("identity", "/v3/users?name=alice&domain_id=default", true),
            ("volume", "/v3/5f0c/volumes?name=data", true),
            ("compute", "/v2.1/flavors?name=x", false),
        ] {
            let (path, query) = request.split_once('?').unwrap();
            let judge = profile.judge(service, "GET", path, Some(query));
            let empty = judge.is_some_and(|judge| judge.finds_nothing(200, Some(b"[]")));
            assert_eq!(empty, looks_up, "{request}");
        }
    }
}
