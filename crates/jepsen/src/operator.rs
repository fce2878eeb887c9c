//! The operator: waits until nothing waits, and settles operations in doubt by the services' logs.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::time::sleep;

use crate::site::{RESPONSE_LIMIT, Site, name};

/// From the end of the faults until nothing may wait any more; far more than it takes, for machines that are busy.
const QUIET_LIMIT: Duration = Duration::from_secs(90);

/// Between two looks.
const POLL_INTERVAL: Duration = Duration::from_millis(400);

/// The result of waiting.
#[derive(Default)]
pub(crate) struct Quiet {
    /// What still waits at the end of the limit, if anything does.
    pub(crate) unquiet: Option<String>,
    /// Operations in doubt that were settled: by site and name, the class of each.
    pub(crate) in_doubt: BTreeMap<(usize, String), String>,
}

/// Waits until no site waits for anything, as its commands say, twice in a row. A site's service executes nothing of the
/// time of the faults any more once its response limit has passed: doubts are settled from then on.
pub(crate) async fn until_quiet(sites: &mut [Site]) -> io::Result<Quiet> {
    let (start, mut quiet, mut calm) = (Instant::now(), Quiet::default(), 0);
    while start.elapsed() < QUIET_LIMIT {
        let mut waiting = Vec::new();
        for (number, site) in sites.iter_mut().enumerate() {
            if let Some(dead) = site.dead()? {
                quiet.unquiet = Some(dead);
                return Ok(quiet);
            }
            // On a busy machine a command may be refused for once: then this site is not done.
            match look(number, site, &mut quiet, start.elapsed() > RESPONSE_LIMIT) {
                Ok(there) => waiting.extend(there),
                Err(why) => waiting.push(why.to_string()),
            }
        }
        calm = if waiting.is_empty() { calm + 1 } else { 0 };
        quiet.unquiet = (!waiting.is_empty()).then(|| waiting.join("; "));
        if calm == 2 {
            return Ok(quiet);
        }
        sleep(POLL_INTERVAL).await;
    }
    Ok(quiet)
}

/// Looks at one site: what it waits for. What is in doubt there is counted, and settled if it is time to.
fn look(number: usize, site: &Site, quiet: &mut Quiet, settles: bool) -> io::Result<Vec<String>> {
    let operations = site.shown(&["operations", "list"])?;
    for doubt in array(&operations, "in_doubt") {
        let [operation, what] = ["operation", "what"].map(|field| text(doubt, field).to_owned());
        if settles {
            settle(site, &operation)?;
        }
        quiet.in_doubt.insert((number, operation), what);
    }
    waits(number, site, &operations)
}

/// What a site says that it waits for.
fn waits(number: usize, site: &Site, operations: &Value) -> io::Result<Vec<String>> {
    let own = name(number);
    let mut waiting = Vec::new();
    for field in ["pending", "in_doubt"] {
        waiting.extend(array(operations, field).map(|one| format!("{own}: {field} {one}")));
    }
    if let Some(fault) = operations.get("fault").filter(|fault| !fault.is_null()) {
        waiting.push(format!("{own}: fault {fault}"));
    }
    let replicas = site.shown(&["replicas", "list"])?;
    for resource in
        array(&replicas, "replicas").filter(|resource| resource.get("deleted") != Some(&true.into()))
    {
        // Of the others a site knows what they confirmed; each says itself how it is.
        let here = array(resource, "sites").find(|place| text(place, "site") == own);
        let state = here.map_or("good", |place| text(place, "state"));
        if state != "good" {
            waiting.push(format!("{own}: {} is {state}", text(resource, "resource")));
        }
    }
    Ok(waiting)
}

/// Says what the service's log says of an operation.
fn settle(site: &Site, operation: &str) -> io::Result<()> {
    let executions = site.executions()?;
    let of = |own: &&crate::service::Execution| {
        own.operation.as_deref() == Some(operation) && own.changed.is_some()
    };
    let mut arguments = vec!["operations", "settle", operation];
    let executed = executions.iter().rfind(of);
    match executed {
        Some(executed) => {
            arguments.push("--executed");
            if executed.method == "POST" && executed.status == 201 {
                arguments.extend(["--id", executed.id().unwrap_or("")]);
            }
        }
        None => arguments.push("--not-executed"),
    }
    // It may have been settled by itself meanwhile; what is still in doubt is listed again.
    let _ = site.command(&arguments);
    Ok(())
}

/// The members of a list in a document.
pub(crate) fn array<'d>(document: &'d Value, field: &str) -> impl Iterator<Item = &'d Value> {
    document.get(field).and_then(Value::as_array).into_iter().flatten()
}

/// A text in a document, or nothing.
pub(crate) fn text<'d>(document: &'d Value, field: &str) -> &'d str {
    document.get(field).and_then(Value::as_str).unwrap_or("")
}
