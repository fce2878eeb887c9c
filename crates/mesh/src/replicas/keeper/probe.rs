//! Finds out whether this site's service executed a write that it did not answer.
//!
//! Proof that it did is its effect under an id that nobody else can have, the operation's own name in it, or the checksum of
//! all that was sent. A resource that merely looks alike is none. That nothing is there counts once the response limit has
//! passed since the last attempt: until then the service may be executing it.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body_util::BodyExt;
use profile::{Kind, Marker, Probe, Taken, Upload};
use replica::{How, LocalId, Meta, OpId};
use ring::digest;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::book::is_provisional;
use super::copy::portable;
use super::credentials::is_of_the_credential;
use super::execute::{self, Job, item_path, look, spooled};
use super::install::fetched;
use super::naming::{id_text, named};
use super::replay::DIGESTS;
use super::vault::Vault;
use crate::body::AnswerBody;
use crate::core::{Core, State};
use crate::replicas::exact::Exact;
use crate::replicas::request::{Content, Kept, Name};
use crate::replicas::understand::plain;

/// Between two looks at a service: the first pause, which doubles each time, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The result of one look at a service.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// It was executed; what it made has this id.
    Executed(Option<LocalId>),
    /// Nothing of it is there.
    NotThere,
    /// The service does not answer, or says that it is executing it.
    Later,
    /// The service does not let Archipel look now.
    Barred,
    /// Nothing that is there tells.
    Unclear,
}

/// Looks until it can be told. `since` is when the last attempt was over at the latest.
pub(super) async fn probe<L: Future<Output = Found>>(
    places: &Semaphore,
    (since, limit): (Instant, Duration),
    mut look: impl FnMut() -> L,
) -> (Option<bool>, Option<LocalId>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let place = places.acquire().await;
        let over = since.elapsed() >= limit;
        let found = look().await;
        drop(place);
        match found {
            Found::Executed(local) => return (Some(true), local),
            Found::Unclear => return (None, None),
            Found::NotThere if over => return (Some(false), None),
            Found::Barred if over => return (None, None),
            Found::NotThere | Found::Later | Found::Barred => {}
        }
        sleep(pause).await;
        pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

impl Job {
    /// Looks once whether the effect of this execution is there.
    pub(super) async fn look_for_effect(&self) -> Found {
        let Some(kept) = self.kept().await else { return Found::Unclear };
        let state = self.core.state();
        let kind = execute::kind(&state, &kept.service, &kept.kind, &kept.path);
        let creates = self.execution.how == How::Create;
        let probe = kind.and_then(|kind| probe_of(kind, &kept, &self.execution.how));
        let Some(local) = self.local.as_ref().map(Name::from) else {
            // What was made under an id that nobody knows is in a list, if anywhere.
            let (Some(kind), Some(Probe::Marker(marker))) = (kind, probe) else { return Found::Unclear };
            let Content::Inline(body) = &kept.content else { return Found::Unclear };
            let resource = &self.operation.resource;
            let own = Some(Name::from(resource)).filter(|_| !is_provisional(resource));
            let (collection, meta) = (collection(&kept), own.as_ref());
            let search = Search { kind, marker, collection, meta, document: body };
            return search.look(&self.core, &state, &kept.service, &self.execution.op).await;
        };
        let path = item_path(&kept, &self.operation.class, &local);
        let found = match look(&self.core, &state, &local, &path).await {
            None | Some((500.., _)) => return Found::Later,
            Some((200..=299, found)) => Some(found),
            Some((404 | 410, _)) => None,
            Some((status, _)) if is_of_the_credential(status) => return Found::Barred,
            Some(_) => return Found::Unclear,
        };
        let document = found.as_deref().and_then(|found| serde_json::from_slice::<Value>(found).ok());
        let executed = || Found::Executed(Some(LocalId::from(&local)));
        match (&self.execution.how, probe, found) {
            (How::Delete, _, None) => executed(),
            (How::Create, _, None) | (How::Delete, ..) => Found::NotThere,
            (_, Some(Probe::Marker(marker)), Some(_)) => {
                let Some(shown) = document.as_ref().and_then(|own| own.pointer(&marker.at)) else {
                    return Found::Unclear;
                };
                match (shows(shown, &self.execution.op), creates) {
                    (Some(true), _) => executed(),
                    // Another's, under the name that was to be made.
                    (_, true) | (None, _) => Found::Unclear,
                    (Some(false), false) => Found::NotThere,
                }
            }
            (_, Some(Probe::Upload(upload)), Some(_)) => {
                let document = document.unwrap_or_default();
                self.uploaded(&kept, upload, &document).await.unwrap_or(Found::Unclear).with(&local)
            }
            (How::Create, _, Some(found)) => self.made_under_its_id(&state, &kept, &local, &found),
            (how @ (How::Replace | How::Patch(_)), _, Some(found))
                if kept.below.trim_matches('/').is_empty() =>
            {
                match self.agrees(&state, &kept, how, &found) {
                    Some(true) => executed(),
                    Some(false) => Found::NotThere,
                    None => Found::Unclear,
                }
            }
            _ => Found::Unclear,
        }
    }

    /// What is there under the id that was to be made. A UUID is nobody else's. Where a client chose the address, an older
    /// one may have been there: then what it says counts, and making it again is harmless. A name that others choose too
    /// proves nothing.
    fn made_under_its_id(&self, state: &State, kept: &Kept, local: &Name, found: &[u8]) -> Found {
        let executed = Found::Executed(Some(LocalId::from(local)));
        if !self.chosen {
            return executed;
        }
        if kept.method == "POST" {
            return if is_uuid(local.id()) { executed } else { Found::Unclear };
        }
        match self.agrees(state, kept, &How::Create, found) {
            Some(false) => Found::NotThere,
            Some(true) | None => executed,
        }
    }

    /// Whether the service has all that was uploaded. `None`: it cannot be told.
    async fn uploaded(&self, kept: &Kept, upload: &Upload, document: &Value) -> Option<Found> {
        let text = |pointer: &String| document.pointer(pointer).and_then(Value::as_str);
        if let Some(pointer) = &upload.status {
            let is = |texts: &[String], status: &str| texts.iter().any(|text| text == status);
            match text(pointer)? {
                status if is(&upload.running, status) => return Some(Found::Later),
                status if is(&upload.not_executed, status) => return Some(Found::NotThere),
                status if is(&upload.executed, status) => {}
                _ => return None,
            }
        }
        let length = match &kept.content {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Spooled { length, .. } => *length,
        };
        if let Some(pointer) = &upload.size
            && document.pointer(pointer).and_then(Value::as_u64) != Some(length)
        {
            return None;
        }
        let named = upload.algorithm.starts_with('/');
        let algorithm = if named { text(&upload.algorithm)? } else { &upload.algorithm };
        // Some write `sha256:` before it.
        let shown = text(&upload.checksum)?;
        let shown = shown.split_once(':').map_or(shown, |(_, digits)| digits);
        let own = self.checksum(kept, algorithm).await?;
        shown.eq_ignore_ascii_case(&own).then_some(Found::Executed(None))
    }

    /// The checksum of what was sent, in hexadecimal.
    async fn checksum(&self, kept: &Kept, algorithm: &str) -> Option<String> {
        let algorithm = match algorithm.to_ascii_lowercase().replace('-', "").as_str() {
            "sha1" => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            "sha256" => &digest::SHA256,
            "sha384" => &digest::SHA384,
            "sha512" => &digest::SHA512,
            _ => return None,
        };
        let mut sum = digest::Context::new(algorithm);
        match &kept.content {
            Content::Inline(bytes) => sum.update(bytes),
            Content::Spooled { digest, .. } if *algorithm == digest::SHA256 => return Some(hex(digest)),
            Content::Spooled { .. } => {
                let mut body = AnswerBody::stored(self.spool.reader(spooled(kept)?, 0).ok()?);
                while let Some(frame) = body.frame().await {
                    if let Ok(bytes) = frame.ok()?.into_data() {
                        sum.update(&bytes);
                    }
                }
            }
        }
        Some(hex(sum.finish().as_ref()))
    }
}

impl Found {
    /// The same, with the id of the resource.
    fn with(self, local: &Name) -> Found {
        match self {
            Found::Executed(None) => Found::Executed(Some(LocalId::from(local))),
            found => found,
        }
    }
}

/// The service's lists tell what a creation made.
struct Search<'s> {
    kind: &'s Kind,
    marker: &'s Marker,
    collection: &'s str,
    /// What it is called for clients, if it is called anything yet.
    meta: Option<&'s Name>,
    /// The document that was to be made.
    document: &'s [u8],
}

impl Search<'_> {
    async fn look(&self, core: &Core, state: &State, service: &str, op: &OpId) -> Found {
        let query = self.marker.list.as_ref().and_then(|list| filled(&list.query, op, self.document));
        let (Some(list), Some(query)) = (&self.marker.list, query) else { return Found::Unclear };
        // Without its name in it, nothing that is there would tell.
        if let Taken::Member(member) = &self.marker.taken
            && with_member(self.document, member, op).is_none()
        {
            return Found::Unclear;
        }
        let path = format!("{}?{query}", self.collection);
        match look(core, state, &Name::new(service, self.collection), &path).await {
            None | Some((500.., _)) => Found::Later,
            Some((200..=299, answer)) => {
                let items = serde_json::from_slice::<Value>(&answer).ok();
                let items = items.as_ref().and_then(|answer| answer.pointer(&list.items)?.as_array());
                items.map_or(Found::Unclear, |items| self.pick(state, service, items, op))
            }
            Some((status, _)) if is_of_the_credential(status) => Found::Barred,
            Some(_) => Found::Unclear,
        }
    }

    /// The one that has the name of the operation is it. What is there without it is another's, or cannot be told from that.
    fn pick(&self, state: &State, service: &str, items: &[Value], op: &OpId) -> Found {
        let at = self.kind.in_item(&self.marker.at);
        let own = |item: &&Value| item.pointer(at).is_some_and(|shown| shows(shown, op) == Some(true));
        let mut found = items.iter().filter(own);
        match (found.next(), found.next()) {
            (Some(item), None) => {
                let id = item.pointer(self.kind.in_item(&self.kind.id)).and_then(id_text);
                let (kind, collection) = ((service, &*self.kind.name), self.collection.trim_end_matches('/'));
                let name = id.and_then(|id| named(state, kind, self.meta, collection, &id));
                name.map_or(Found::Unclear, |name| Found::Executed(Some(LocalId::from(&name))))
            }
            (None, _) if items.is_empty() => Found::NotThere,
            _ => Found::Unclear,
        }
    }
}

/// Looks once whether the service here has made a copy by this name.
pub(super) async fn look_for_copy(core: Rc<Core>, vault: Vault, meta: Meta, op: OpId) -> Found {
    let Some(copied) = fetched(&vault, &meta).await else { return Found::Unclear };
    let (state, name) = (core.state(), Name::from(&meta));
    let path = copied.shape.path(&name);
    let kind = execute::kind(&state, name.service(), &copied.shape.kind, &path);
    let (Some(kind), Some(content)) = (kind, &copied.content) else { return Found::Unclear };
    let (Some(Probe::Marker(marker)), Some((collection, _))) = (&kind.probe, path.rsplit_once('/')) else {
        return Found::Unclear;
    };
    let document = portable(&content.document, kind);
    let search = Search { kind, marker, collection, meta: Some(&name), document: &document };
    search.look(&core, &state, name.service(), &op).await
}

/// Puts the operation's name where the kind's service takes it, for a creation or for any other write.
pub(super) fn mark(probe: Option<&Probe>, op: &OpId, headers: &mut HeaderMap, body: &mut Bytes) {
    let header = match probe {
        Some(Probe::Key { header } | Probe::Marker(Marker { taken: Taken::Header(header), .. })) => header,
        Some(Probe::Marker(Marker { taken: Taken::Member(member), .. })) => {
            if let Some(marked) = with_member(body, member, op) {
                *body = marked;
                headers.insert(CONTENT_LENGTH, body.len().into());
                for name in DIGESTS {
                    headers.remove(name);
                }
            }
            return;
        }
        Some(Probe::Upload(_)) | None => return,
    };
    let name = HeaderName::try_from(header).ok();
    let value = HeaderValue::try_from(op.to_string()).ok();
    // A client's own key stays: it is the same at each attempt, too.
    let kept = |name: &HeaderName| matches!(probe, Some(Probe::Key { .. })) && headers.contains_key(name);
    if let Some((name, value)) = name.filter(|name| !kept(name)).zip(value) {
        headers.insert(name, value);
    }
}

/// A document with the operation's name in it. `None`: it has no place for it.
fn with_member(document: &[u8], member: &str, op: &OpId) -> Option<Bytes> {
    let mut document = Exact::read(document)?;
    let (members, last) = document.around(member)?;
    members.insert(last, op.to_string().as_str().into());
    Some(Bytes::from(document.to_string()))
}

/// Whether the name of an operation is in what a service shows. `None`: a text that another write may have overwritten.
fn shows(shown: &Value, op: &OpId) -> Option<bool> {
    let name = op.to_string();
    match shown {
        Value::String(text) => (*text == name).then_some(true),
        Value::Array(names) => Some(names.iter().any(|text| text.as_str() == Some(&name))),
        Value::Object(names) => Some(names.contains_key(&name)),
        _ => None,
    }
}

/// A query with the texts that stand in it. What the document does not say is left out: the list is longer then.
fn filled(query: &str, op: &OpId, document: &[u8]) -> Option<String> {
    let document: Value = serde_json::from_slice(document).ok()?;
    let mut pairs = Vec::new();
    for pair in query.split('&') {
        let (name, value) = pair.split_once('=')?;
        let value = match value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            None => value.to_owned(),
            Some("operation") => encoded(&op.to_string()),
            Some(pointer) => match document.pointer(pointer) {
                None | Some(Value::Null) => continue,
                Some(Value::String(text)) => encoded(text),
                Some(value @ (Value::Bool(_) | Value::Number(_))) => encoded(&value.to_string()),
                Some(Value::Array(_) | Value::Object(_)) => return None,
            },
        };
        pairs.push(format!("{name}={value}"));
    }
    Some(pairs.join("&"))
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if plain(byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The collection that a creation was sent to, as it was sent.
fn collection(kept: &Kept) -> &str {
    if kept.method == "POST" {
        return &kept.path;
    }
    kept.path.trim_end_matches('/').rsplit_once('/').map_or("", |(collection, _)| collection)
}

/// Whether an id is a UUID, with hyphens or without.
fn is_uuid(id: &str) -> bool {
    let hyphens = |(at, byte): (usize, u8)| matches!(at, 8 | 13 | 18 | 23) == (byte == b'-');
    let digits = id.bytes().filter(u8::is_ascii_hexdigit).count();
    digits == 32 && (id.len() == 32 || id.len() == 36 && id.bytes().enumerate().all(hyphens))
}

/// The probe of a write, as its kind has it.
pub(super) fn probe_of<'k>(kind: &'k Kind, kept: &Kept, how: &How) -> Option<&'k Probe> {
    if *how == How::Create { kind.probe.as_ref() } else { kind.probe_of(&kept.method, &plain(&kept.below)) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn op() -> OpId {
        "A/0-0/7".parse().unwrap()
    }

    #[test]
    fn a_query_has_what_the_document_says_and_leaves_out_the_rest() {
        let document =
            json!({"user": {"name": "a&b é", "enabled": true, "domain_id": null, "of": []}}).to_string();
        let filled = |query: &str| filled(query, &op(), document.as_bytes());
        let expected = "name=a%26b%20%C3%A9&on=true&limit=2";
        let query = "name={/user/name}&on={/user/enabled}&domain_id={/user/domain_id}&x={/y}&limit=2";
        assert_eq!(filled(query).as_deref(), Some(expected));
        assert_eq!(filled("operation={operation}").unwrap(), "operation=A%2F0-0%2F7");
        assert_eq!(filled("of={/user/of}"), None);
    }

    #[test]
    fn a_name_is_there_or_not_but_another_text_says_nothing() {
        let name = op().to_string();
        assert_eq!(shows(&json!(name), &op()), Some(true));
        assert_eq!(shows(&json!("A/0-0/8"), &op()), None);
        assert_eq!(shows(&json!(["A/0-0/8", name]), &op()), Some(true));
        assert_eq!(shows(&json!([]), &op()), Some(false));
        assert_eq!(shows(&json!({name: 1}), &op()), Some(true));
        assert_eq!(shows(&json!(null), &op()), None);
    }

    #[test]
    fn a_uuid_is_told_from_a_name() {
        for id in ["5c0f6f2e-8f0b-4b52-9d5e-0c4b7d0f6a11", "5c0f6f2e8f0b4b529d5e0c4b7d0f6a11"] {
            assert!(is_uuid(id), "{id}");
        }
        for id in
            ["m1.small", "7", "", "5c0f6f2e8-f0b-4b52-9d5e-0c4b7d0f6a11", "5c0f6f2e8f0b4b529d5e0c4b7d0f6a1z"]
        {
            assert!(!is_uuid(id), "{id}");
        }
    }

    #[test]
    fn a_clients_own_idempotency_key_stays_and_any_other_mark_is_the_operations() {
        let (mut headers, mut body) = (HeaderMap::new(), Bytes::from_static(b"{\"user\":{\"n\":1e400}}"));
        let key = Probe::Key { header: "Idempotency-Key".to_owned() };
        mark(Some(&key), &op(), &mut headers, &mut body);
        assert_eq!(headers["idempotency-key"], op().to_string());
        headers.insert("idempotency-key", HeaderValue::from_static("own"));
        mark(Some(&key), &op(), &mut headers, &mut body);
        assert_eq!(headers["idempotency-key"], "own");
        let taken = Taken::Member("/user/op".to_owned());
        let marker = Probe::Marker(Marker { at: "/user/op".to_owned(), taken, list: None });
        mark(Some(&marker), &op(), &mut headers, &mut body);
        assert_eq!(body, format!("{{\"user\":{{\"n\":1e400,\"op\":\"{}\"}}}}", op()));
        assert_eq!(headers[CONTENT_LENGTH], body.len().to_string());
    }
}
