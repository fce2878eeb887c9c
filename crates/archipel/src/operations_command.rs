//! `archipel operations`: what sites still have to execute, and what is in doubt.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use crate::Failure;
use crate::running::{Running, array, segment, text};
use crate::table::table;

#[derive(Subcommand)]
pub(crate) enum OperationsCommand {
    /// How many operations wait for each site, since when, and which are in doubt.
    List {
        /// Everything that is known, for programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        running: Running,
    },
    /// What became of one.
    #[command(after_help = "\
Example:
  archipel operations show Site1/3f9c/42")]
    Show {
        /// Its name, as the answer to the write told it: SITE/RUN/NUMBER.
        operation: String,
        /// Everything that is known, for programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        running: Running,
    },
    /// Say what became of an operation in doubt, having looked at the service.
    #[command(after_help = "\
An operation is in doubt where this site crashed, or its service gave no answer, while it was executed, and
nothing tells whether it was. Look at the service, then say so; if it was not executed, it is executed now.

Examples:
  archipel operations settle Site1/3f9c/42 --executed
  archipel operations settle Site1/3f9c/43 --executed --id 7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f4e11
  archipel operations settle Site1/3f9c/44 --not-executed")]
    Settle {
        /// Its name: SITE/RUN/NUMBER.
        operation: String,
        /// The service executed it.
        #[arg(long, conflicts_with = "not_executed", required_unless_present = "not_executed")]
        executed: bool,
        /// The service did not.
        #[arg(long)]
        not_executed: bool,
        /// The id that the service gave what it made, if it made something.
        #[arg(long, value_name = "ID", conflicts_with = "not_executed")]
        id: Option<String>,
        #[command(flatten)]
        running: Running,
    },
}

impl OperationsCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        match &self {
            OperationsCommand::List { json, running } => {
                let answer = running.ask(Method::GET, "/v1/operations", None)?;
                Ok(if *json { format!("{answer:#}") } else { listed(&answer) })
            }
            OperationsCommand::Show { operation, json, running } => {
                let answer = running.ask(Method::GET, &path(operation)?, None)?;
                Ok(if *json { format!("{answer:#}") } else { shown(&answer) })
            }
            OperationsCommand::Settle { operation, executed, id, running, .. } => {
                let body = json!({ "executed": executed, "id": id });
                let answer =
                    running.ask(Method::POST, &format!("{}/settle", path(operation)?), Some(body))?;
                Ok(listed(&answer))
            }
        }
    }
}

fn path(operation: &str) -> Result<String, Failure> {
    if !operation.contains('/') {
        return Err(Failure::Usage(format!(
            "`{operation}`: write it as the answer to the write named it, Site1/…/42"
        )));
    }
    let segments: Vec<String> = operation.split('/').map(segment).collect();
    Ok(format!("/v1/operations/{}", segments.join("/")))
}

fn listed(answer: &Value) -> String {
    let mut waiting = vec![["SITE", "OPERATIONS", "SINCE"].map(String::from)];
    waiting.extend(array(answer, "pending").map(|pending| {
        let count = pending.get("count").and_then(Value::as_u64).unwrap_or(0).to_string();
        let seconds = pending.get("seconds").and_then(Value::as_u64).unwrap_or(0);
        [text(pending, "site").to_owned(), count, format!("{seconds} s")]
    }));
    let mut doubt = vec![["IN DOUBT", "RESOURCE", "WHAT"].map(String::from)];
    doubt.extend(
        array(answer, "in_doubt")
            .map(|one| ["operation", "resource", "what"].map(|field| text(one, field).to_owned())),
    );
    let parts = [waiting, doubt].into_iter().filter(|rows| rows.len() > 1).map(|rows| table(&rows));
    let parts = parts.collect::<Vec<_>>().join("\n\n");
    if parts.is_empty() { "nothing waits, and nothing is in doubt".to_owned() } else { parts }
}

fn shown(answer: &Value) -> String {
    let mut rows = vec![["SITE", "STATE", "STATUS"].map(String::from)];
    rows.extend(array(answer, "sites").map(|place| {
        let status = place.get("status").and_then(Value::as_u64).map(|status| status.to_string());
        [text(place, "site").to_owned(), text(place, "state").to_owned(), status.unwrap_or_default()]
    }));
    format!("{} on {}\n{}", text(answer, "operation"), text(answer, "resource"), table(&rows))
}
