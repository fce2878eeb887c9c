//! Replicated resources and their operations, for operators.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, StatusCode};
use mesh::replication::{
    Change, Fate, Handle, Has, Level, OpId, Pending, Refusal, Refused, Replica, Reservation,
    ReservationState, Resource, Stand, Transfer, Withheld,
};
use scope::{Site, View as _};
use serde_json::{Value, json};

use super::api::Answer;
use super::{Admin, settling};
use crate::hex;

/// The keeper answers sooner, unless its disk does not.
const PATIENCE: Duration = Duration::from_secs(10);

/// Answers, if this is about replicas.
pub(super) async fn answer(
    method: &Method,
    segments: &[&str],
    body: &Value,
    admin: &Admin,
) -> Option<Answer> {
    if !matches!(segments, ["v1", "replicas" | "operations" | "reservations", ..]) {
        return None;
    }
    let Some(mesh) = admin.mesh.upgrade() else {
        return Some(Answer::refused(StatusCode::SERVICE_UNAVAILABLE, "it is stopping"));
    };
    let Some(keeper) = mesh.replication() else {
        return Some(Answer::refused(
            StatusCode::NOT_FOUND,
            "this site keeps no replicas: see [replication]",
        ));
    };
    let asked = Asked { keeper, admin, body };
    match tokio::time::timeout(PATIENCE, asked.answer(method.as_str(), segments)).await {
        Ok(Ok(answer) | Err(answer)) => Some(answer),
        Err(_) => {
            Some(Answer::refused(StatusCode::SERVICE_UNAVAILABLE, "the keeper of replicas does not answer"))
        }
    }
}

struct Asked<'a> {
    keeper: Handle,
    admin: &'a Admin,
    body: &'a Value,
}

pub(super) type Asking = Result<Answer, Answer>;

pub(super) fn refused(why: Refused) -> Answer {
    let status = match why {
        Refused::Unknown => StatusCode::NOT_FOUND,
        Refused::Unchangeable(_) => StatusCode::CONFLICT,
        Refused::Nameless | Refused::BadId => StatusCode::UNPROCESSABLE_ENTITY,
        Refused::Ends => StatusCode::SERVICE_UNAVAILABLE,
    };
    Answer::refused(status, why.to_string())
}

fn no_such_path() -> Answer {
    Answer::refused(StatusCode::NOT_FOUND, "there is no such thing about replicas")
}

impl Asked<'_> {
    async fn answer(&self, method: &str, segments: &[&str]) -> Asking {
        match (method, segments) {
            ("GET", ["v1", "replicas"]) => {
                let resources = self.keeper.resources().await.map_err(refused)?;
                let shown: Vec<Value> = resources.iter().map(|resource| self.shown(resource)).collect();
                Ok(Answer::ok(json!({ "replicas": shown })))
            }
            ("GET", ["v1", "replicas", name]) => self.one(name).await,
            ("POST", ["v1", "replicas", name, "mend"]) => {
                self.keeper.mended(name).await.map_err(refused)?;
                self.one(name).await
            }
            ("POST", ["v1", "replicas", name, "diff"]) => self.diff(name).await,
            ("POST", ["v1", "replicas", name, "repair"]) => {
                let from = self.site("from")?;
                self.keeper.repair(name, from).await.map_err(refused)?;
                self.one(name).await
            }
            ("POST", ["v1", "replicas", name, change]) => {
                let change = self.change(change)?;
                self.keeper.change(name, change).await.map_err(refused)?;
                self.changed(name).await
            }
            ("GET", ["v1", "operations"]) => self.operations().await,
            ("GET", ["v1", "operations", op @ ..]) => {
                let op = operation(op)?;
                let fate = self.keeper.fate(op.clone()).await.map_err(refused)?;
                Ok(Answer::ok(told(&op, &fate)))
            }
            ("POST", ["v1", "operations", "settle"]) => settling::answer(&self.keeper, self.body).await,
            ("POST", ["v1", "operations", op @ .., "settle"]) => {
                let op = operation(op)?;
                let Some(executed) = self.body.get("executed").and_then(Value::as_bool) else {
                    return Err(Answer::bad("send {\"executed\": true} or {\"executed\": false}"));
                };
                let local = self.body.get("id").and_then(Value::as_str);
                self.keeper.settle(op, executed, local).await.map_err(refused)?;
                self.operations().await
            }
            ("GET", ["v1", "reservations"]) => self.reservations().await,
            ("POST", ["v1", "reservations", "clear"]) => {
                let Some(name) = self.body.get("name").and_then(Value::as_str) else {
                    return Err(Answer::bad("send {\"name\": \"image:/v2/images/…\"}"));
                };
                self.keeper.clear_reservation(name).await.map_err(refused)?;
                self.reservations().await
            }
            _ => Err(no_such_path()),
        }
    }

    async fn reservations(&self) -> Asking {
        let reservations = self.keeper.reservations().await.map_err(refused)?;
        let shown: Vec<Value> = reservations.iter().map(reservation).collect();
        Ok(Answer::ok(json!({ "reservations": shown })))
    }

    fn site(&self, field: &str) -> Result<Site, Answer> {
        let name = self.body.get(field).and_then(Value::as_str);
        let Some(site) = name.and_then(Site::new) else {
            return Err(Answer::bad(&format!("send {{\"{field}\": \"Site4\"}}")));
        };
        if self.admin.members.snapshot().find(site.name()).is_none() {
            let why = format!("there is no site {site}");
            return Err(Answer::refused(StatusCode::UNPROCESSABLE_ENTITY, why));
        }
        Ok(site)
    }

    fn change(&self, change: &str) -> Result<Change, Answer> {
        Ok(match change {
            "extend" => Change::Extend(self.site("site")?),
            "shrink" => Change::Shrink(self.site("site")?),
            "move" => Change::Move { from: self.site("from")?, to: self.site("to")? },
            "detach" => Change::Detach,
            _ => return Err(no_such_path()),
        })
    }

    async fn one(&self, name: &str) -> Asking {
        let found = self.keeper.resource(name).await.map_err(refused)?;
        Ok(Answer::ok(self.shown(&found)))
    }

    /// The same after a change, which may have been the end of it.
    async fn changed(&self, name: &str) -> Asking {
        match self.keeper.resource(name).await {
            Ok(found) => Ok(Answer::ok(self.shown(&found))),
            Err(Refused::Unknown) => Ok(Answer::ok(json!({ "resource": name, "sites": [] }))),
            Err(why) => Err(refused(why)),
        }
    }

    /// The resource, with what each site says that it has.
    async fn diff(&self, name: &str) -> Asking {
        let compared = self.keeper.compare(name).await.map_err(refused)?;
        let mut shown = self.shown(&self.keeper.resource(name).await.map_err(refused)?);
        let places = shown.get_mut("sites").and_then(Value::as_array_mut);
        for place in places.into_iter().flatten() {
            let of = compared.iter().find(|compared| place.get("site") == Some(&compared.site.name().into()));
            let has = match of.map(|compared| (compared.answered, compared.content)) {
                Some((true, Some(Has::Digest(digest)))) => hex::encode(&digest).chars().take(16).collect(),
                Some((true, Some(Has::Nothing))) => "nothing".to_owned(),
                Some((true, Some(Has::Unread))) => "cannot be read".to_owned(),
                Some((true, None)) => "busy".to_owned(),
                Some((false, _)) | None => "no answer".to_owned(),
            };
            if let Some(place) = place.as_object_mut() {
                place.insert("digest".to_owned(), has.into());
            }
        }
        if let Some(places) = shown.get_mut("sites").and_then(Value::as_array_mut) {
            say_which_differ(places);
        }
        Ok(Answer::ok(shown))
    }

    async fn operations(&self) -> Asking {
        let of_each = self.keeper.waiting().await.map_err(refused)?;
        let waiting = of_each.iter().filter(|(_, waiting)| waiting.unexecuted > 0).map(|(site, waiting)| {
            let seconds = waiting.since_ms.map(ago);
            json!({ "site": site.name(), "count": waiting.unexecuted, "seconds": seconds })
        });
        let waiting: Vec<Value> = waiting.collect();
        let in_doubt = self.keeper.in_doubt().await.map_err(refused)?;
        let withheld = self.keeper.withheld().await.map_err(refused)?;
        let refusals = self.keeper.refusals().await.map_err(refused)?;
        let counts = self.keeper.counts().await.map_err(refused)?;
        let in_doubt: Vec<Value> = in_doubt.iter().map(doubt).collect();
        let withheld: Vec<Value> = withheld.iter().map(held).collect();
        let refusals: Vec<Value> = refusals.iter().map(refusal).collect();
        Ok(Answer::ok(json!({
            "pending": waiting,
            "in_doubt": in_doubt,
            "withheld": withheld,
            "refused": refusals,
            "kept": { "operations": counts.operations, "bytes": counts.kept_bytes },
            "fault": counts.fault,
        })))
    }

    fn shown(&self, resource: &Resource) -> Value {
        let sites: Vec<Value> = resource
            .replicas
            .iter()
            .map(|replica| {
                json!({
                    "site": replica.site.name(),
                    "state": self.state(resource, replica),
                    "local": replica.local,
                    "pending": replica.pending,
                    "seconds": replica.since_ms.map(ago),
                })
            })
            .collect();
        let transfer = |own: &Transfer| json!({ "from": own.from.name(), "bytes": own.bytes, "of": own.of });
        let transfers: Vec<Value> = resource.transfers.iter().map(transfer).collect();
        json!({
            "resource": resource.name,
            "kind": resource.kind,
            "level": level(resource.level),
            "deleted": resource.deleted,
            "sites": sites,
            "transfers": transfers,
        })
    }

    fn state(&self, resource: &Resource, replica: &Replica) -> String {
        resource.state(replica, &self.admin.site).to_string()
    }
}

/// What has another digest than most is not good, whatever is known of it. Without a majority nobody knows which is.
fn say_which_differ(places: &mut [Value]) {
    let mut counts = BTreeMap::<String, usize>::new();
    let digest = |place: &Value| place.get("digest").and_then(Value::as_str).map(str::to_owned);
    let is_good = |place: &Value| place.get("state").and_then(Value::as_str) == Some("good");
    // What is busy, or did not answer, says nothing.
    let says = |digest: &String| digest == "nothing" || digest.bytes().all(|byte| byte.is_ascii_hexdigit());
    for digest in places.iter().filter(|place| is_good(place)).filter_map(digest).filter(says) {
        *counts.entry(digest).or_default() += 1;
    }
    let (all, most) = (counts.values().sum::<usize>(), counts.iter().max_by_key(|(_, count)| **count));
    let usual = most.filter(|(_, count)| **count * 2 > all).map(|(digest, _)| digest.clone());
    for place in places.iter_mut().filter(|place| is_good(place)) {
        let own = digest(place).filter(says);
        if counts.len() > 1
            && own.is_some()
            && own != usual
            && let Some(place) = place.as_object_mut()
        {
            place.insert("state".to_owned(), "differs".into());
        }
    }
}

fn level(level: Level) -> &'static str {
    match level {
        Level::Weak => "weak",
        Level::Eventual => "eventual",
        Level::Quorum => "quorum",
        Level::Strong => "strong",
    }
}

pub(super) fn doubt(pending: &Pending) -> Value {
    json!({
        "operation": pending.op.to_string(),
        "service": pending.service,
        "resource": pending.resource,
        "what": pending.class,
        "user": pending.user,
        "seconds": ago(pending.since_ms),
    })
}

fn reservation(own: &Reservation) -> Value {
    let sites: Vec<&str> = own.sites.iter().map(Site::name).collect();
    json!({
        "name": own.name,
        "holder": own.holder,
        "sites": sites,
        "seconds": ago(own.since_ms),
        "state": match own.state {
            ReservationState::Held => "held",
            ReservationState::Executing => "executing",
            ReservationState::Inquiring => "inquiring",
            ReservationState::InDoubt => "in doubt",
            ReservationState::Releasing => "releasing",
        },
    })
}

/// An operation that waits, with the reason.
fn held(withheld: &Withheld) -> Value {
    let mut shown = doubt(&withheld.operation);
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("reason".to_owned(), withheld.why.to_string().into());
        shown.insert("status".to_owned(), withheld.why.status().into());
    }
    shown
}

/// An operation that was refused, with the service's status.
fn refusal(refusal: &Refusal) -> Value {
    let mut shown = doubt(&refusal.operation);
    if let Some(shown) = shown.as_object_mut() {
        shown.insert("status".to_owned(), refusal.status.into());
    }
    shown
}

fn told(op: &OpId, fate: &Fate) -> Value {
    let site = |(site, stand): &(Site, Stand)| {
        let (state, status) = match stand {
            Stand::Done(status) => ("done", *status),
            Stand::Pending => ("pending", None),
            Stand::Diverged(status) => ("diverged", Some(*status)),
            Stand::InDoubt => ("in doubt", None),
            Stand::Held(held) => ("pending", held.status()),
            Stand::Refused(status) => ("refused", Some(*status)),
            Stand::Answered => ("answered", None),
        };
        let reason = match stand {
            Stand::Held(held) => Some(held.to_string()),
            _ => None,
        };
        json!({ "site": site.name(), "state": state, "status": status, "reason": reason })
    };
    let sites: Vec<Value> = fate.sites.iter().map(site).collect();
    json!({ "operation": op.to_string(), "resource": &*fate.meta.0, "sites": sites })
}

/// Seconds since a moment of the wall clock.
pub(super) fn ago(ms: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(ms)).as_secs()
}

fn operation(segments: &[&str]) -> Result<OpId, Answer> {
    let named = segments.join("/").parse();
    named.map_err(|_| Answer::bad("an operation is named as the answer to the write names it: Site1/…/42"))
}
