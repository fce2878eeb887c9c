//! The request that executes a kept write at a service, in the way that the machine says.

use std::collections::BTreeSet;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Uri};
use ids::{Direction, Table};
use profile::{Kind, Owner, element};
use replica::{Class, Field, How};
use serde_json::Value;

use crate::replicas::declared::Declared;
use crate::replicas::exact::Exact;
use crate::replicas::references::{addressed, replaced};
use crate::replicas::request::{Content, Kept, Name};
use crate::replicas::understand::{plain, step_field, step_name, step_path};

/// Headers that say something of a body which is no longer the one that was sent.
pub(super) const DIGESTS: [&str; 4] = ["content-md5", "digest", "content-digest", "repr-digest"];

/// A request to a service.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Replay {
    pub(super) method: Method,
    pub(super) uri: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

/// What a write is to, at this site.
pub(super) struct Target<'t> {
    /// In this site's service.
    pub(super) local: Option<&'t Name>,
    /// Whether every site's service has it under the same id.
    pub(super) chosen: bool,
    /// Its kind, where that is known.
    pub(super) kind: Option<&'t Kind>,
    /// The ids of this site's service, its own and those of what it names.
    pub(super) ids: &'t Table,
    /// Those of them that are replaced in declared places only.
    pub(super) declared: Option<&'t Declared>,
    /// The body is a part of it, in which nothing is an id.
    pub(super) data: bool,
}

impl Target<'_> {
    /// An address with the ids of this site's service.
    pub(super) fn address(&self, path: &str, query: Option<&str>) -> Option<Uri> {
        match self.declared {
            Some(declared) => {
                let (path, query) = declared.local_target(path, query);
                addressed(self.ids, &path, query.as_deref())
            }
            None => addressed(self.ids, path, query),
        }
    }
}

/// The path of a write: with this site's id in the place of the one that clients use.
pub(super) fn path(kept: &Kept, class: &Class, how: &How, target: &Target<'_>) -> (Method, String) {
    let method = Method::try_from(kept.method.as_str()).unwrap_or(Method::POST);
    let path = kept.path.trim_end_matches('/');
    let to_collection = *class == Class::Create && method == Method::POST;
    match (how, target.local) {
        // As it was made first.
        (How::Create, _) if to_collection => (method, kept.path.clone()),
        // It is not here, under an id that this site's service has to choose.
        (How::Create, _) if !target.chosen => {
            (Method::POST, path.rsplit_once('/').map_or(path, |(collection, _)| collection).to_owned())
        }
        // It is here: what makes it, sets all of it.
        (How::Replace, Some(local)) if to_collection => (Method::PUT, format!("{path}/{}", local.id())),
        (_, Some(local)) => {
            let collection = path.rsplit_once('/').map_or("", |(collection, _)| collection);
            (method, format!("{collection}/{}{}", local.id(), kept.below))
        }
        (_, None) => (method, format!("{path}{}", kept.below)),
    }
}

/// The request as another site's client sent it, for this site's service. `None`: it cannot be one.
pub(super) fn replay(kept: &Kept, class: &Class, how: &How, target: &Target<'_>) -> Option<Replay> {
    let (method, path) = path(kept, class, how, target);
    let uri = target.address(&path, kept.query.as_deref())?;
    let mut headers = HeaderMap::new();
    for (name, value) in kept.sent_headers() {
        headers.append(HeaderName::try_from(name).ok()?, HeaderValue::from_bytes(value).ok()?);
    }
    let body = body(kept, how, target, &mut headers);
    Some(Replay { method, uri, headers, body })
}

fn with_query(path: &str, query: Option<&str>) -> Option<Uri> {
    match query {
        Some(query) => format!("{path}?{query}").try_into().ok(),
        None => path.try_into().ok(),
    }
}

/// The body: without the members that were overwritten, and with this site's ids where clients have theirs. One that is
/// in the spool is not here, but its length is among the headers.
pub(super) fn body(kept: &Kept, how: &How, target: &Target<'_>, headers: &mut HeaderMap) -> Bytes {
    let bytes = match &kept.content {
        Content::Inline(bytes) => bytes,
        Content::Spooled { length, .. } => {
            headers.insert(CONTENT_LENGTH, (*length).into());
            return Bytes::new();
        }
    };
    let said = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_json = said.is_some_and(|kind| kind.to_ascii_lowercase().contains("json"));
    let mut body = Bytes::copy_from_slice(bytes);
    if is_json && !target.data {
        if let (How::Patch(fields), Some(kind)) = (how, target.kind) {
            body = trimmed(&body, kind, kept, fields).unwrap_or(body);
        }
        body = replaced(target.ids, body, Direction::ToService);
        if let Some(declared) = target.declared {
            // What names something hidden is the service's to judge.
            body = declared.body(kept.content_type(), body.clone(), Direction::ToService).unwrap_or(body);
        }
    }
    if body != *bytes {
        for name in DIGESTS {
            headers.remove(name);
        }
    }
    headers.remove(CONTENT_LENGTH);
    if !body.is_empty() {
        headers.insert(CONTENT_LENGTH, body.len().into());
    }
    body
}

/// The same request for the resource of a user, by the id that the service here has for them. `None`: it cannot be one.
pub(super) fn of_user(rule: &Owner, id: &str, mut replay: Replay) -> Option<Replay> {
    if replay.method == Method::POST {
        let mut document = Exact::read(&replay.body)?;
        let (members, last) = document.around(&rule.member)?;
        members.insert(last, id.into());
        replay.body = Bytes::from(document.to_string());
        replay.headers.insert(CONTENT_LENGTH, replay.body.len().into());
        for name in DIGESTS {
            replay.headers.remove(name);
        }
    } else {
        // No id of a user has anything in it that would have to be escaped.
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        let id = Some(id).filter(|id| id.bytes().all(bare))?;
        // Another's would come before it. Whoever accepted the write refuses those; a peer that does not is not obeyed.
        let of_another = |pair: &&str| {
            let name = pair.split('=').next().unwrap_or_default();
            plain(name) != rule.parameter
        };
        let kept = replay.uri.query().unwrap_or_default().split(['&', ';']);
        let kept = kept.filter(|pair| !pair.is_empty()).filter(of_another).map(str::to_owned);
        let query: Vec<String> = kept.chain([format!("{}={id}", rule.parameter)]).collect();
        replay.uri = with_query(replay.uri.path(), Some(&query.join("&")))?;
    }
    let headers = replay.headers.clone();
    let said = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
    for (name, version) in rule.raised(said) {
        let (name, version) = (HeaderName::try_from(name).ok()?, HeaderValue::try_from(version).ok()?);
        replay.headers.insert(name, version);
    }
    Some(replay)
}

/// What of a patch sets these fields. `None`: all of it, or it cannot be told.
fn trimmed(document: &[u8], kind: &Kind, kept: &Kept, fields: &BTreeSet<Field>) -> Option<Bytes> {
    let mut value = Exact::read(document)?;
    let rule = kind.rule(&kept.method, &plain(&kept.below));
    let trimmed = match &rule.members {
        Some(members) => {
            let wanted = |name: &str| fields.contains(&*element(&members.of, name));
            trim(value.at(&members.at)?, wanted, |_| true)
        }
        None if rule.field.is_some() => false,
        None => {
            // Sites of an earlier version named fields of elements as the members that they are.
            let wanted = |name: &str| fields.contains(name) || fields.contains(&*kind.field_of(name));
            let step = |path: &str| {
                let (own, plain) = (step_field(kind, path), step_name(path));
                fields.contains(&*own) || fields.contains(&*plain)
            };
            // A JSON Patch stands for itself, wherever its kind has the members.
            let at = if matches!(value, Exact::Array(_)) { "" } else { &kind.fields };
            trim(value.at(at)?, wanted, step)
        }
    };
    trimmed.then(|| Bytes::from(value.to_string()))
}

/// Leaves of a patch what is wanted: members of an object, or steps of a JSON Patch. Whether anything went.
fn trim(value: &mut Exact, member: impl Fn(&str) -> bool, step: impl Fn(&str) -> bool) -> bool {
    match value {
        Exact::Object(members) => {
            let before = members.len();
            members.retain(|name, _| member(name));
            members.len() < before
        }
        Exact::Array(steps) => {
            let before = steps.len();
            steps.retain(|own| step(step_path(own).unwrap_or_default()));
            steps.len() < before
        }
        Exact::Long(_) | Exact::Plain(_) => false,
    }
}

/// Whether what a write sets is so in a representation. `None`: it cannot be told.
pub(super) fn agrees(written: &Value, found: &Value) -> Option<bool> {
    match (written, found) {
        (Value::Object(written), Value::Object(found)) => {
            written.iter().try_fold(true, |so_far, (name, value)| match found.get(name) {
                // What is not shown cannot be compared.
                None => None,
                Some(found) if value.is_object() => agrees(value, found).map(|same| so_far && same),
                Some(found) => Some(so_far && value == found),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept(method: &str, path: &str, below: &str, body: &Value) -> Kept {
        Kept {
            id: "1".into(),
            service: "image".to_owned(),
            kind: "image".to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            below: below.to_owned(),
            query: None,
            headers: vec![("content-type".to_owned(), b"application/json".to_vec())],
            content: Content::Inline(body.to_string().into_bytes()),
            names: Vec::new(),
            signed: None,
        }
    }

    /// One with elements below `/specs`, which are its member `extra`.
    fn profile() -> profile::Profile {
        let text = "description = 'x'\n[[kinds]]\nname = 'image'\npath = '/**/images'\n\
                    elements = [{ below = '/specs', member = '/extra' }]\n\
                    operations = [{ method = 'POST', below = '/specs', class = 'patch', members = '/extra' }]";
        profile::Profile::read(text).unwrap()
    }

    fn made(kept: &Kept, class: &Class, how: &How, chosen: bool) -> (String, Value) {
        let (meta, local) = (Name::new("image", "/v2/images/m"), Name::new("image", "/v2/images/l"));
        let mut ids = Table::new();
        ids.insert(meta.id(), local.id()).unwrap();
        let profile = profile();
        let kind = profile.kinds.collection("image", "/v2/images");
        let target = Target { local: Some(&local), chosen, kind, ids: &ids, declared: None, data: false };
        let replay = replay(kept, class, how, &target).unwrap();
        let body = serde_json::from_slice(&replay.body).unwrap_or_default();
        (format!("{} {}", replay.method, replay.uri), body)
    }

    #[test]
    fn a_write_is_addressed_by_the_id_that_the_service_here_has() {
        let put = kept("PUT", "/glance/v2/images/m", "", &json!({"id": "m", "name": "m2"}));
        let (line, body) = made(&put, &Class::Replace, &How::Replace, false);
        assert_eq!((line.as_str(), body), ("PUT /glance/v2/images/l", json!({"id": "l", "name": "m2"})));
        let file = kept("PUT", "/glance/v2/images/m", "/file", &json!(null));
        let fields = BTreeSet::from([Field::from("/file")]);
        let (line, _) = made(&file, &Class::Patch(fields.clone()), &How::Patch(fields), false);
        assert_eq!(line, "PUT /glance/v2/images/l/file");
    }

    #[test]
    fn what_is_made_by_post_is_made_so_everywhere_and_set_by_put_where_it_is() {
        let post = kept("POST", "/v2/images", "", &json!({"name": "x"}));
        assert_eq!(made(&post, &Class::Create, &How::Create, false).0, "POST /v2/images");
        assert_eq!(made(&post, &Class::Create, &How::Replace, false).0, "PUT /v2/images/l");
        let put = kept("PUT", "/v2/images/m", "", &json!({"name": "x"}));
        assert_eq!(made(&put, &Class::Replace, &How::Create, false).0, "POST /v2/images");
        assert_eq!(made(&put, &Class::Create, &How::Create, true).0, "PUT /v2/images/l");
    }

    #[test]
    fn a_patch_keeps_only_the_fields_that_were_not_overwritten() {
        let fields = BTreeSet::from([Field::from("name")]);
        let how = How::Patch(fields.clone());
        let patch = kept("PATCH", "/v2/images/m", "", &json!({"name": "x", "size": 7}));
        assert_eq!(made(&patch, &Class::Patch(fields.clone()), &how, false).1, json!({"name": "x"}));
        let steps =
            json!([{"op": "replace", "path": "/name", "value": "x"}, {"op": "remove", "path": "/size"}]);
        let patch = kept("PATCH", "/v2/images/m", "", &steps);
        let left = json!([{"op": "replace", "path": "/name", "value": "x"}]);
        assert_eq!(made(&patch, &Class::Patch(fields.clone()), &how, false).1, left);
        let steps = json!([{"replace": "/name", "value": "x"}, {"remove": "/size"}]);
        let patch = kept("PATCH", "/v2/images/m", "", &steps);
        let left = json!([{"replace": "/name", "value": "x"}]);
        assert_eq!(made(&patch, &Class::Patch(fields), &how, false).1, left);
    }

    #[test]
    fn a_patch_of_elements_keeps_those_that_were_not_overwritten() {
        let post = kept("POST", "/v2/images/m", "/specs", &json!({"extra": {"hw:a": "1", "b/c": "2"}}));
        let fields = BTreeSet::from([Field::from("/specs/b%2Fc")]);
        let how = How::Patch(fields.clone());
        let (line, body) = made(&post, &Class::Patch(fields.clone()), &how, false);
        assert_eq!((&*line, body), ("POST /v2/images/l/specs", json!({"extra": {"b/c": "2"}})));
        let put = kept("PUT", "/v2/images/m", "/specs/b%2Fc", &json!({"b/c": "2"}));
        assert_eq!(made(&put, &Class::Patch(fields), &how, false).1, json!({"b/c": "2"}));
        // Its own name, and the one that it had before elements were told apart.
        for field in ["/specs", "extra"] {
            let fields = BTreeSet::from([Field::from(field)]);
            let how = How::Patch(fields.clone());
            let patch = kept("PATCH", "/v2/images/m", "", &json!({"extra": {"a": 1}, "name": "x"}));
            assert_eq!(made(&patch, &Class::Patch(fields), &how, false).1, json!({"extra": {"a": 1}}));
        }
    }

    #[test]
    fn a_number_of_any_length_stays_to_the_last_digit() {
        let sent = |how: &How, text: &str| {
            let mut patch = kept("PATCH", "/v2/images/m", "", &json!(null));
            patch.content = Content::Inline(text.into());
            let (meta, local) = (Name::new("image", "/v2/images/m"), Name::new("image", "/v2/images/l"));
            let mut ids = Table::new();
            ids.insert(meta.id(), local.id()).unwrap();
            let profile = profile();
            let kind = profile.kinds.collection("image", "/v2/images");
            let target =
                Target { local: Some(&local), chosen: false, kind, ids: &ids, declared: None, data: false };
            let made = replay(&patch, &Class::Replace, how, &target).unwrap();
            String::from_utf8(made.body.to_vec()).unwrap()
        };
        let text = r#"{"of":"m","size":123456789012345678901.50}"#;
        assert_eq!(sent(&How::Replace, text), r#"{"of":"l","size":123456789012345678901.50}"#);
        let size = How::Patch(BTreeSet::from(["size".into()]));
        assert_eq!(sent(&size, text), r#"{"size":123456789012345678901.50}"#);
    }

    #[test]
    fn a_write_is_compared_with_what_it_set_and_with_nothing_else() {
        let found = json!({"id": "l", "name": "x", "at": {"a": 1, "b": 2}});
        assert_eq!(agrees(&json!({"name": "x", "at": {"a": 1}}), &found), Some(true));
        assert_eq!(agrees(&json!({"name": "y"}), &found), Some(false));
        assert_eq!(agrees(&json!({"secret": "y"}), &found), None);
        assert_eq!(agrees(&json!([1]), &found), None);
    }

    #[test]
    fn what_is_a_users_is_asked_for_by_the_id_that_the_user_has_here() {
        let rule = Owner {
            member: "/keypair/user_id".into(),
            parameter: "user_id".into(),
            at_least: [("v".into(), "2.10".into())].into(),
        };
        let mut post = kept("POST", "/k", "", &json!({"keypair": {"name": "m"}}));
        post.headers.extend([("v".to_owned(), b"2.1".to_vec()), ("digest".to_owned(), b"x".to_vec())]);
        let ids = Table::new();
        let target = Target { local: None, chosen: true, kind: None, ids: &ids, declared: None, data: false };
        let made = replay(&post, &Class::Create, &How::Create, &target).unwrap();
        let made = of_user(&rule, "7f", made).unwrap();
        let body: Value = serde_json::from_slice(&made.body).unwrap();
        assert_eq!(body, json!({"keypair": {"name": "m", "user_id": "7f"}}));
        assert_eq!(made.headers[CONTENT_LENGTH], made.body.len().to_string());
        assert_eq!((&made.headers["v"], made.headers.get("digest")), (&"2.10".parse().unwrap(), None));

        let mut delete = kept("DELETE", "/k/m", "", &json!(null));
        delete.content = Content::Inline(Vec::new());
        let queries = [
            (None, "/k/m?user_id=7f"),
            (Some("a=b"), "/k/m?a=b&user_id=7f"),
            (Some("user_id=1&a=b;user%5fid=2"), "/k/m?a=b&user_id=7f"),
        ];
        for (query, expected) in queries {
            delete.query = query.map(str::to_owned);
            let gone = replay(&delete, &Class::Delete, &How::Delete, &target).unwrap();
            assert!(of_user(&rule, "7f&all=1", gone.clone()).is_none());
            assert_eq!(of_user(&rule, "7f", gone).unwrap().uri, expected);
        }
    }
}
