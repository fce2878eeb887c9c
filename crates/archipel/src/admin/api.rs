//! What can be asked and ordered, by method and path.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use http::{Method, StatusCode};
use link::Speaks;
use mesh::Mesh;
use serde_json::{Value, json};

use super::{Admin, replicas};
use crate::hex;
use crate::members::{Order, show};

/// An answer to an operator.
pub(super) enum Answer {
    Document(StatusCode, Value),
    /// For those who collect metrics.
    Text(String),
}

impl Answer {
    pub(super) fn refused(status: StatusCode, why: impl Into<String>) -> Answer {
        let why: String = why.into();
        Answer::Document(status, json!({ "title": why }))
    }

    pub(super) fn bad(why: &str) -> Answer {
        Answer::refused(StatusCode::BAD_REQUEST, why)
    }

    pub(super) fn ok(document: Value) -> Answer {
        Answer::Document(StatusCode::OK, document)
    }
}

pub(super) async fn answer(method: &Method, path: &str, body: &[u8], admin: &Admin) -> Answer {
    let body = match body {
        [] => Value::Null,
        body => match serde_json::from_slice(body) {
            Ok(body) => body,
            Err(error) => return Answer::bad(&format!("the body is not JSON: {error}")),
        },
    };
    let segments: Option<Vec<String>> = path.split('/').skip(1).map(unescaped).collect();
    let Some(segments) = segments else { return Answer::bad("the path is not well escaped") };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match (method.as_str(), segments.as_slice()) {
        ("GET", ["v1", "status"]) => with_mesh(admin, |mesh| Answer::ok(status(admin, mesh))),
        ("PUT", ["v1", "bypass"]) => with_mesh(admin, |mesh| match on(&body) {
            None => Answer::bad(ON_OR_OFF),
            Some(on) => {
                mesh.set_bypass(on);
                Answer::ok(status(admin, mesh))
            }
        }),
        ("GET", ["metrics"]) => with_mesh(admin, |mesh| {
            let sites = show::metrics(&admin.members.snapshot(), &admin.members.traffic());
            Answer::Text(mesh.metrics() + &sites + &admin.members.identity().metrics(SystemTime::now()))
        }),
        ("GET", ["v1", "sites"]) => sites(admin),
        ("POST", ["v1", "join"]) => match order(method, &segments, &body) {
            Some(Ok(Order::Join(addresses))) => join(admin, addresses).await,
            Some(Err(refused)) => refused,
            _ => Answer::bad(JOIN),
        },
        ("GET", ["v1", "zones"]) => Answer::ok(show::zones(&admin.members.snapshot())),
        _ => match order(method, &segments, &body) {
            Some(Ok(order)) => obey(admin, order).await,
            Some(Err(refused)) => refused,
            None => replicas::answer(method, &segments, &body, admin).await.unwrap_or_else(|| {
                Answer::refused(StatusCode::NOT_FOUND, format!("there is no {method} {path}"))
            }),
        },
    }
}

const JOIN: &str = "send {\"addresses\": [\"host:port\"]}";
const ON_OR_OFF: &str = "send {\"on\": true} or {\"on\": false}";

/// What is to be done to the membership, if this says so.
fn order(method: &Method, segments: &[&str], body: &Value) -> Option<Result<Order, Answer>> {
    let text = |field: &str| body.get(field).and_then(Value::as_str);
    Some(match (method.as_str(), segments) {
        ("POST", ["v1", "join"]) => {
            let addresses = body.get("addresses").and_then(Value::as_array);
            let read = |address: &Value| address.as_str().map(str::to_owned);
            match addresses.and_then(|addresses| addresses.iter().map(read).collect::<Option<Vec<_>>>()) {
                Some(addresses) if !addresses.is_empty() => Ok(Order::Join(addresses)),
                _ => Err(Answer::bad(JOIN)),
            }
        }
        ("POST", ["v1", "leave"]) => Ok(Order::Leave),
        ("PUT", ["v1", "zones", name]) => match text("location") {
            Some(text) => Ok(Order::Zone { name: (*name).to_owned(), text: Some(text.to_owned()) }),
            None => Err(Answer::bad("send {\"location\": \"Site1 & Site2\"}")),
        },
        ("DELETE", ["v1", "zones", name]) => Ok(Order::Zone { name: (*name).to_owned(), text: None }),
        ("PUT", ["v1", "sites", site, "quarantine"]) => match on(body) {
            Some(on) => Ok(Order::Quarantine { site: (*site).to_owned(), on }),
            None => Err(Answer::bad(ON_OR_OFF)),
        },
        ("POST", ["v1", "revocations"]) => match text("statement").and_then(hex::decode) {
            Some(statement) => {
                let force = body.get("force").and_then(Value::as_bool).unwrap_or(false);
                Ok(Order::Revoke { statement, force })
            }
            None => Err(Answer::bad("send {\"statement\": …}, in hexadecimal digits")),
        },
        ("PUT", ["v1", "metrics"]) => match body.as_object().and_then(metrics) {
            Some(metrics) => Ok(Order::Metrics(metrics)),
            None => Err(Answer::bad("send {\"load\": 0.7}: names with numbers, or null to forget one")),
        },
        _ => return None,
    })
}

fn on(body: &Value) -> Option<bool> {
    body.get("on").and_then(Value::as_bool)
}

fn metrics(body: &serde_json::Map<String, Value>) -> Option<BTreeMap<String, Option<f64>>> {
    let read = |value: &Value| match value {
        Value::Null => Some(None),
        value => value.as_f64().filter(|value| value.is_finite()).map(Some),
    };
    body.iter().map(|(name, value)| Some((name.clone(), read(value)?))).collect()
}

/// What was ordered is done when this returns, here; the other sites hear of it meanwhile.
async fn obey(admin: &Admin, order: Order) -> Answer {
    const PATIENCE: Duration = Duration::from_secs(10);
    let zone = match &order {
        Order::Zone { text, .. } => Some(text.clone()),
        _ => None,
    };
    match tokio::time::timeout(PATIENCE, admin.members.order(order)).await {
        Ok(Ok(())) => match zone {
            Some(text) => {
                let view = admin.members.snapshot();
                let unknown = text.map(|text| show::unknown_names(&view, &text));
                Answer::ok(with(show::zones(&view), "warnings", unknown.unwrap_or_default().into()))
            }
            None => sites(admin),
        },
        Ok(Err(why)) => Answer::refused(StatusCode::UNPROCESSABLE_ENTITY, why),
        Err(_) => Answer::refused(StatusCode::SERVICE_UNAVAILABLE, "the membership does not answer"),
    }
}

/// Meets other sites, and says which of them answered first: `answered` is null if none did.
async fn join(admin: &Admin, addresses: Vec<String>) -> Answer {
    /// Long enough for a name to be looked up and for a hello that was lost to be said again.
    const PATIENCE: Duration = Duration::from_secs(5);
    if let Some(why) = admin.members.identity().get().and_then(|own| own.closed(SystemTime::now())) {
        let why =
            format!("the link is closed: {why}, and no other site believes it: `archipel renew --help`");
        return Answer::refused(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    let mut places = Vec::new();
    for address in &addresses {
        let looked_up = tokio::time::timeout(PATIENCE, tokio::net::lookup_host(address)).await;
        places.extend(looked_up.ok().and_then(Result::ok).into_iter().flatten());
    }
    let met = admin.members.met(places, PATIENCE);
    match obey(admin, Order::Join(addresses.clone())).await {
        Answer::Document(StatusCode::OK, document) => {
            // One that is known to be there is not greeted again.
            let answered = match show::answers_at(&admin.members.snapshot(), &addresses) {
                Some(site) => Some(site),
                None => met.await.map(|site| site.name().to_owned()),
            };
            Answer::ok(with(document, "answered", answered.into()))
        }
        refused => refused,
    }
}

/// A document with one more member.
fn with(mut document: Value, name: &str, value: Value) -> Value {
    if let Some(members) = document.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
    document
}

fn sites(admin: &Admin) -> Answer {
    with_mesh(admin, |mesh| Answer::ok(show::sites(&admin.members.snapshot(), &mesh.peers())))
}

fn with_mesh(admin: &Admin, answer: impl FnOnce(&Mesh) -> Answer) -> Answer {
    match admin.mesh.upgrade() {
        Some(mesh) => answer(&mesh),
        None => Answer::refused(StatusCode::SERVICE_UNAVAILABLE, "it is stopping"),
    }
}

fn status(admin: &Admin, mesh: &Mesh) -> Value {
    let (attributed, unattributed) = mesh.observed();
    json!({
        "site": admin.site.name(),
        "bypass": mesh.bypass(),
        "protocol": { "oldest": Speaks::NOW.oldest(), "newest": Speaks::NOW.newest() },
        "in_flight": mesh.in_flight(),
        "link": admin.members.identity().status(SystemTime::now()),
        "observed": { "attributed": attributed, "unattributed": unattributed },
    })
}

/// A segment of a path, as it was meant.
fn unescaped(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let (digits, after) = after.split_at_checked(2)?;
            bytes.extend(hex::decode(str::from_utf8(digits).ok()?)?);
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok()
}
