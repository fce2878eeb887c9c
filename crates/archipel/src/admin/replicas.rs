//! Replicated resources and their operations, for operators.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{Method, StatusCode};
use mesh::replication::{
    Change, Condition, Fate, Handle, Has, Level, OpId, Pending, Refused, Replica, Resource, Stand, Transfer,
};
use scope::{Site, View as _};
use serde_json::{Value, json};

use super::Admin;
use super::api::Answer;
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
    if !matches!(segments, ["v1", "replicas" | "operations", ..]) {
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

type Asking = Result<Answer, Answer>;

fn refused(why: Refused) -> Answer {
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
            ("POST", ["v1", "operations", op @ .., "settle"]) => {
                let op = operation(op)?;
                let Some(executed) = self.body.get("executed").and_then(Value::as_bool) else {
                    return Err(Answer::bad("send {\"executed\": true} or {\"executed\": false}"));
                };
                let local = self.body.get("id").and_then(Value::as_str);
                self.keeper.settle(op, executed, local).await.map_err(refused)?;
                self.operations().await
            }
            _ => Err(no_such_path()),
        }
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
        let counts = self.keeper.counts().await.map_err(refused)?;
        let in_doubt: Vec<Value> = in_doubt.iter().map(doubt).collect();
        Ok(Answer::ok(json!({
            "pending": waiting,
            "in_doubt": in_doubt,
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
        if replica.site == self.admin.site {
            return match resource.condition {
                Condition::Good => "good".to_owned(),
                Condition::Absent => "absent".to_owned(),
                Condition::Diverged(status) => format!("diverged ({status})"),
                Condition::Differs => "differs".to_owned(),
                Condition::Copying => "copying".to_owned(),
                Condition::InDoubt => "in doubt".to_owned(),
            };
        }
        if let Some(status) = replica.refused {
            return if status == 403 {
                "refused by policy (403)".to_owned()
            } else {
                format!("refused ({status})")
            };
        }
        // What another site has is known from what it confirmed.
        if replica.pending > 0 || replica.local.is_none() { "pending" } else { "good" }.to_owned()
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

fn doubt(pending: &Pending) -> Value {
    json!({
        "operation": pending.op.to_string(),
        "resource": pending.resource,
        "what": pending.class,
        "user": pending.user,
        "seconds": ago(pending.since_ms),
    })
}

fn told(op: &OpId, fate: &Fate) -> Value {
    let site = |(site, stand): &(Site, Stand)| {
        let (state, status) = match stand {
            Stand::Done(status) => ("done", *status),
            Stand::Pending => ("pending", None),
            Stand::Diverged(status) => ("diverged", Some(*status)),
            Stand::InDoubt => ("in doubt", None),
        };
        json!({ "site": site.name(), "state": state, "status": status })
    };
    let sites: Vec<Value> = fate.sites.iter().map(site).collect();
    json!({ "operation": op.to_string(), "resource": &*fate.meta.0, "sites": sites })
}

/// Seconds since a moment of the wall clock.
fn ago(ms: u64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_millis(ms)).as_secs()
}

fn operation(segments: &[&str]) -> Result<OpId, Answer> {
    let named = segments.join("/").parse();
    named.map_err(|_| Answer::bad("an operation is named as the answer to the write names it: Site1/…/42"))
}
