//! From a client's request to a write that can be kept: its body, the headers that the service needs, and whether
//! it can be executed elsewhere and later at all.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use profile::{Kind, Profile};
use replica::{Body, Class, Doubt, Subject, Who, Write};
use serde_json::Value;

use super::exact::Exact;
use super::upload::Taken;
use super::write_name::WriteName;
use super::{Kept, Scoped, Wanted, understand};
use crate::body::LegBody;
use crate::core::{Core, State};
use crate::identity::{self, Bearer, Refused};
use crate::leg::Carried;
use crate::problem::Problem;
use crate::settings::Settings;

/// A header or a parameter of a query with one of these in its name is a credential, whatever the application:
/// `Cookie`, `X-Service-Token`, `X-Api-Key`, `X-Amz-Signature`, `temp_url_sig`, ...
const CREDENTIALS: [&str; 11] = [
    "authorization",
    "cookie",
    "token",
    "secret",
    "password",
    "credential",
    "signature",
    "accesskey",
    "apikey",
    "api-key",
    "api_key",
];
/// So is one of which one of these is a word.
const CREDENTIAL_WORDS: [&str; 2] = ["sig", "auth"];

/// Headers that only the first replica gets: of one hop or one connection, conditions that are decided once, what a
/// key is handed on in, and digests, which do not hold where ids are rewritten.
const ONCE: [&str; 20] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept-encoding",
    "traceparent",
    "tracestate",
    "baggage",
    "forwarded",
    "via",
    "date",
    "content-digest",
    "repr-digest",
    "digest",
    "content-md5",
];

/// Headers with these starts are not kept either.
const ONCE_BY_START: [&str; 6] = ["if-", "proxy-", "archipel-", "x-scope", "x-forwarded-", "x-amz-"];

/// A write that was understood.
#[derive(Clone)]
pub(crate) struct Understood<'u> {
    pub(crate) kind: &'u Kind,
    pub(crate) subject: Subject,
    pub(crate) class: Class,
    pub(crate) doubt: Doubt,
    /// As in [`Kept::path`] and [`Kept::below`].
    pub(crate) path: String,
    pub(crate) below: String,
}

/// With which scope a write was sent, and by whom, where that is known.
pub(crate) struct Sent<'s> {
    pub(crate) carried: Option<&'s Carried>,
    pub(crate) by: Option<Bearer>,
}

/// A body that has to be read as a whole.
pub(crate) async fn take_body(body: LegBody, most: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, most).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "body-too-long",
            "The body is too long for ids in it to be rewritten",
        )
        .detail(format!("at most {most} bytes can be: see `replay_bytes` in [limits]"))),
        Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The body cannot be read")
            .detail(error.to_string())),
    }
}

/// Whether a header, or a parameter of a query, proves who sent it. Better one too many than one on a disk.
fn is_credential(name: &str, profile: &Profile) -> bool {
    let name = name.to_ascii_lowercase();
    CREDENTIALS.iter().any(|part| name.contains(part))
        || name.split(['-', '_', '.']).any(|word| CREDENTIAL_WORDS.contains(&word))
        || profile.propagation.sender.iter().any(|sender| name.eq_ignore_ascii_case(sender))
}

/// Whether a request has a credential anywhere: among its headers, or in its query.
fn is_by_somebody(head: &Parts, profile: &Profile) -> bool {
    let query = head.uri.query();
    has_credential(&head.headers, profile) || query.is_some_and(|query| kept_query(query, profile) != query)
}

/// Whether a request says on whose behalf it is.
fn has_credential(headers: &HeaderMap, profile: &Profile) -> bool {
    headers.keys().any(|name| is_credential(name.as_str(), profile))
}

/// Refuses to make what this site could not write to later, on behalf of its owner.
pub(crate) fn check_credential(
    settings: &Settings,
    service: &str,
    headers: &HeaderMap,
) -> Result<(), Problem> {
    let own = settings.replication.as_ref().is_some_and(|own| own.credentials.contains_key(service));
    if own || identity::has_login(settings) || !has_credential(headers, &settings.profile) {
        return Ok(());
    }
    Err(Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "no-credential",
        "Other sites' writes could not be executed here on the owner's behalf",
    )
    .detail(format!(
        "the request has a credential, and {} has none of its own for `{service}`: its administrator sets one in \
         [replication.credentials], or a login in [tokens]",
        settings.site
    )))
}

/// A request whose signature covers what would be rewritten.
pub(crate) fn is_signed(head: &Parts) -> bool {
    let headers = &head.headers;
    let aws = |value: &http::HeaderValue| value.as_bytes().starts_with(b"AWS4-");
    headers.get(header::AUTHORIZATION).is_some_and(aws)
        || headers.contains_key("signature")
        || headers.contains_key("signature-input")
        || head.uri.query().is_some_and(|query| query.to_ascii_lowercase().contains("x-amz-signature="))
}

/// Why a signed request cannot be rewritten.
pub(crate) fn signed() -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "signed", "A signed request cannot be rewritten")
        .detail(
            "the resource has another id in the service here, which the signature does not cover: sign no requests \
             to replicated resources, or use ids that clients choose",
        )
}

/// The headers that every replica's service needs.
fn kept(headers: &HeaderMap, profile: &Profile) -> Vec<(String, Vec<u8>)> {
    let propagation = &profile.propagation;
    let is = |name: &str, other: &String| name.eq_ignore_ascii_case(other);
    let stays = |name: &HeaderName| {
        let text = name.as_str();
        !is_credential(text, profile)
            && !ONCE.contains(&text)
            && !ONCE_BY_START.iter().any(|start| text.starts_with(start))
            && !propagation.headers.iter().any(|other| is(text, &other.name))
    };
    let kept = headers.iter().filter(|(name, _)| stays(name));
    kept.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_vec())).collect()
}

/// The query that every replica's service needs: without credentials, which some applications take there.
fn kept_query(query: &str, profile: &Profile) -> String {
    let stays = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        let name = understand::plain(name).to_ascii_lowercase();
        !is_credential(&name, profile) && !["x-amz-", "x-goog-"].iter().any(|start| name.starts_with(start))
    };
    query.split('&').filter(stays).collect::<Vec<_>>().join("&")
}

/// A write as the keeper takes it.
pub(crate) fn wanted(
    core: &Core,
    settings: &Settings,
    service: &str,
    understood: &Understood<'_>,
    head: &Parts,
    body: &Taken,
    sent: &Sent<'_>,
) -> Box<Wanted> {
    let carried = sent.carried;
    let (id, content): (Arc<str>, _) = body.kept(|| {
        let mut random = [0; 16];
        core.random(&mut random);
        format!("{:032x}", u128::from_be_bytes(random)).into()
    });
    let mut kept = Kept {
        id: Arc::clone(&id),
        service: service.to_owned(),
        kind: understood.kind.name.clone(),
        method: head.method.as_str().to_owned(),
        path: understood.path.clone(),
        below: understood.below.clone(),
        query: head
            .uri
            .query()
            .map(|query| kept_query(query, &settings.profile))
            .filter(|query| !query.is_empty()),
        headers: kept(&head.headers, &settings.profile),
        content,
        names: Vec::new(),
        signed: None,
    };
    if !is_by_somebody(head, &settings.profile) {
        kept.mark_anonymous();
    }
    let scoped = carried.map(|carried| Scoped {
        text: (*carried.scope.text).into(),
        entered: carried.entered.clone(),
        hops: carried.hops,
        sender: carried.sender,
        token: carried.token,
    });
    let write = Write {
        subject: understood.subject.clone(),
        class: understood.class.clone(),
        doubt: understood.doubt,
        on_behalf_of: who(settings, sent),
        body: Body(id),
        long: matches!(body, Taken::Spooled(_)),
    };
    Box::new(Wanted { write, kept, head: Box::new(head.clone()), scoped, named: WriteName::default() })
}

/// Who sends a write, as this site knows them, where the application's tokens tell. Where other sites are to execute it
/// under their logins it must be known.
pub(crate) async fn sender(
    core: &Core,
    state: &State,
    service: &str,
    headers: &HeaderMap,
) -> Result<Option<Bearer>, Problem> {
    let settings = state.settings();
    let own = settings.replication.as_ref().is_some_and(|own| own.credentials.contains_key(service));
    let needed = !own && identity::has_login(settings);
    let title = "Other sites could not execute this on its sender's behalf";
    match identity::sender(core, state, headers).await {
        Ok(sender) => Ok(sender),
        Err(_) if !needed => Ok(None),
        Err(Refused::NotValid(why)) => {
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "no-identity", title).detail(why))
        }
        Err(Refused::Unavailable(why)) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no-identity", title).detail(why).unsent())
        }
    }
}

/// Who sent it, as far as the mesh knows: the user, where tokens tell; else a hash of the token or the address.
fn who(settings: &Settings, sent: &Sent<'_>) -> Who {
    let (carried, sender) = (sent.carried, sent.by.as_ref());
    let now = outside::time_of_day().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let hash = || carried.map_or_else(String::new, |carried| carried.sender.to_string());
    Who {
        site: settings.site.clone(),
        user: sender.map_or_else(hash, |sender| sender.user.to_string()).into(),
        project: sender.map(|sender| sender.project.to_string().into()),
        roles: sender
            .map(|sender| sender.roles.iter().map(|role| role.as_str().into()).collect())
            .unwrap_or_default(),
        time_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
    }
}

/// A UUID that the mesh chose, of version 4.
pub(crate) fn uuid(core: &Core) -> String {
    let mut bytes = [0; 16];
    core.random(&mut bytes);
    let bits = u128::from_be_bytes(bytes);
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 4 << 76 | 2 << 62;
    let digits = format!("{bits:032x}");
    let part = |from, to| digits.get(from..to).unwrap_or_default();
    [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-")
}

/// The longest id that a client may choose.
const LONGEST_ID: usize = 256;

/// The id that a client chose in the body of what it makes; else one that is put there, with the new body.
pub(crate) fn name_in(
    kind: &Kind,
    body: &[u8],
    fresh: impl FnOnce() -> String,
) -> Result<(String, Option<Bytes>), Problem> {
    let mut document = Exact::read(body).ok_or_else(|| unnameable(kind, "is no JSON"))?;
    let (members, last) = document.around(&kind.id).ok_or_else(|| unnameable(kind, "has no place for it"))?;
    let chosen = match members.get(&last) {
        None | Some(Exact::Plain(Value::Null)) => None,
        Some(Exact::Plain(Value::String(id))) => Some(id.clone()).filter(|id| !kind.unnamed.contains(id)),
        Some(Exact::Plain(Value::Number(id))) => Some(id.to_string()),
        Some(Exact::Long(id)) => Some(id.to_string()),
        Some(_) => return Err(unnameable(kind, "has something else in its place")),
    };
    let Some(id) = chosen else {
        let id = fresh();
        members.insert(last, id.as_str().into());
        return Ok((id, Some(Bytes::from(document.to_string()))));
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let fits = !id.is_empty() && id.len() <= LONGEST_ID && id.bytes().all(plain);
    if !fits || matches!(id.as_str(), "." | "..") {
        return Err(unnameable(kind, "has one that cannot be a part of a path as it is"));
    }
    Ok((id, None))
}

fn unnameable(kind: &Kind, why: &str) -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "not-replicable",
        "This write cannot be made at several sites",
    )
    .detail(format!("the body says at `{}` which id a new {} has, and this one {why}", kind.id, kind.name))
}

/// A head for another body than the client sent.
pub(crate) fn set_length(head: &mut Parts, length: usize) {
    for name in ["content-digest", "repr-digest", "digest", "content-md5"] {
        head.headers.remove(name);
    }
    head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
}

/// Turns a POST to a collection into a PUT of a new item.
pub(crate) fn put_at(head: &mut Parts, path: &str) {
    head.method = Method::PUT;
    set_path(head, path);
}

/// Sets the path; the query stays.
pub(crate) fn set_path(head: &mut Parts, path: &str) {
    let target = match head.uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    if let Ok(uri) = target.parse() {
        head.uri = uri;
    }
}
