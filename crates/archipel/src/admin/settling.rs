//! Many operations in doubt are settled at once, by what they have in common.

use std::time::Duration;

use http::StatusCode;
use mesh::replication::{Handle, OpId, Pending, Refused};
use serde_json::{Value, json};

use super::api::Answer;
use super::replicas::{Asking, ago, doubt, refused};

/// A look at a service that takes longer goes on, and its end is not waited for.
const LOOK_LIMIT: Duration = Duration::from_secs(5);

const HOW: &str = "send {\"executed\": true}, {\"executed\": false} or {\"probe\": true}, with any of \"operation\", \
                   \"service\", \"resource\", \"site\", \"older_than_seconds\" and \"dry_run\"";

const MEMBERS: [&str; 8] =
    ["executed", "probe", "operation", "service", "resource", "site", "older_than_seconds", "dry_run"];

/// What is to become of each operation.
#[derive(Clone, Copy)]
enum Verdict {
    Executed(bool),
    Probe,
}

/// What the operations have in common.
#[derive(Default)]
struct Filter<'b> {
    operation: Option<&'b str>,
    service: Option<&'b str>,
    resource: Option<&'b str>,
    site: Option<&'b str>,
    older_than: Option<u64>,
}

/// Settles the operations in doubt here that a filter leaves, or says which these are.
pub(super) async fn answer(keeper: &Handle, body: &Value) -> Asking {
    let (verdict, filter, dry_run) = read(body).ok_or_else(|| Answer::bad(HOW))?;
    let all = keeper.in_doubt().await.map_err(refused)?;
    let chosen: Vec<Pending> = all.into_iter().filter(|pending| filter.leaves(pending)).collect();
    if let Some(name) = filter.operation.filter(|_| chosen.is_empty()) {
        let why = format!("{name} is not in doubt here");
        return Err(Answer::refused(StatusCode::NOT_FOUND, why));
    }
    // All at once: each may have to look at a service.
    let begin = |pending: &Pending| {
        (!dry_run).then(|| tokio::spawn(settle(keeper.clone(), pending.op.clone(), verdict)))
    };
    let settlings: Vec<_> = chosen.iter().map(begin).collect();
    let mut settled = Vec::new();
    for (pending, settlings) in chosen.iter().zip(settlings) {
        let outcome = match settlings {
            None => planned(verdict).to_owned(),
            Some(task) => task.await.unwrap_or_else(|error| format!("still in doubt: {error}")),
        };
        let mut shown = doubt(pending);
        if let Some(members) = shown.as_object_mut() {
            members.insert("outcome".to_owned(), outcome.into());
        }
        settled.push(shown);
    }
    Ok(Answer::ok(json!({ "settled": settled, "dry_run": dry_run })))
}

fn read(body: &Value) -> Option<(Verdict, Filter<'_>, bool)> {
    let members = body.as_object()?;
    if members.keys().any(|name| !MEMBERS.contains(&name.as_str())) {
        return None;
    }
    let flag = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_bool().map(Some),
    };
    let text = |name: &str| match members.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_str().map(Some),
    };
    let verdict = match (flag("executed")?, flag("probe")?) {
        (Some(executed), None) => Verdict::Executed(executed),
        (None, Some(true)) => Verdict::Probe,
        _ => return None,
    };
    let older_than = match members.get("older_than_seconds") {
        None | Some(Value::Null) => None,
        Some(value) => Some(value.as_u64()?),
    };
    let filter = Filter {
        operation: text("operation")?,
        service: text("service")?,
        resource: text("resource")?,
        site: text("site")?,
        older_than,
    };
    Some((verdict, filter, flag("dry_run")?.unwrap_or(false)))
}

impl Filter<'_> {
    fn leaves(&self, pending: &Pending) -> bool {
        let resource = |own: &str| match own.strip_suffix('*') {
            Some(start) => pending.resource.starts_with(start),
            None => pending.resource == own,
        };
        self.operation.is_none_or(|own| pending.op.to_string() == own)
            && self.service.is_none_or(|own| pending.service == own)
            && self.resource.is_none_or(resource)
            && self.site.is_none_or(|own| pending.op.site.name() == own)
            && self.older_than.is_none_or(|seconds| ago(pending.since_ms) >= seconds)
    }
}

fn planned(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Executed(true) => "would be settled as executed",
        Verdict::Executed(false) => "would be executed again",
        Verdict::Probe => "would be looked for in the service",
    }
}

async fn settle(keeper: Handle, op: OpId, verdict: Verdict) -> String {
    let executed = match verdict {
        Verdict::Executed(executed) => keeper.settle(op, executed, None).await.map(|()| Some(executed)),
        Verdict::Probe => match tokio::time::timeout(LOOK_LIMIT, keeper.probe(op)).await {
            Ok(probed) => probed,
            Err(_) => return "is still looked for".to_owned(),
        },
    };
    match executed {
        Ok(Some(true)) => "settled as executed".to_owned(),
        Ok(Some(false)) => "not executed, and executed again".to_owned(),
        Ok(None) => "still in doubt: nothing in the service tells".to_owned(),
        Err(Refused::Unknown) => "settled meanwhile".to_owned(),
        Err(why) => format!("still in doubt: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_of_three_and_what_is_misspelt_is_refused() {
        for body in [
            json!({}),
            json!({ "dry_run": true }),
            json!({ "executed": true, "probe": true }),
            json!({ "probe": false }),
            json!({ "executed": "yes" }),
            json!({ "executed": true, "older_than": 5 }),
            json!({ "executed": true, "older_than_seconds": "5m" }),
            json!([]),
        ] {
            assert!(read(&body).is_none(), "{body}");
        }
        let body = json!({ "executed": false, "service": "image", "dry_run": true });
        let (verdict, filter, dry_run) = read(&body).unwrap();
        assert!(matches!(verdict, Verdict::Executed(false)) && dry_run);
        assert_eq!(filter.service, Some("image"));
    }

    #[test]
    fn a_filter_leaves_what_has_all_that_it_says() {
        let pending = Pending {
            op: "Site1/0-0/7".parse().unwrap(),
            service: "image".to_owned(),
            resource: "image:/images/7f".to_owned(),
            class: "add",
            user: String::new(),
            since_ms: 0,
        };
        let leaves = |filter: Filter<'_>| filter.leaves(&pending);
        assert!(leaves(Filter::default()));
        assert!(leaves(Filter { resource: Some("image:/images/*"), ..Filter::default() }));
        assert!(leaves(Filter { resource: Some("image:/images/7f"), ..Filter::default() }));
        assert!(!leaves(Filter { resource: Some("image:/images/7"), ..Filter::default() }));
        assert!(leaves(Filter { site: Some("Site1"), older_than: Some(600), ..Filter::default() }));
        assert!(!leaves(Filter { site: Some("Site2"), ..Filter::default() }));
        assert!(!leaves(Filter { service: Some("compute"), ..Filter::default() }));
        assert!(!leaves(Filter { older_than: Some(u64::MAX), ..Filter::default() }));
        assert!(leaves(Filter { operation: Some("Site1/0-0/7"), ..Filter::default() }));
    }
}
