//! `archipel operations`: what sites still have to execute, and what is in doubt.

use clap::{ArgGroup, Args, Subcommand};
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
    /// Say what became of operations in doubt: one, or all that fit.
    #[command(after_help = "\
An operation is in doubt where this site crashed, or its service gave no answer, while it was executed, and
nothing tells whether it was. There are three answers:
  --executed       you looked at the service, and it has it. Of a creation, --id says which id it has there
  --not-executed   you looked, and it has not: it is executed now
  --probe          Archipel looks again, as the profile says; what it cannot tell stays in doubt

With --all, the answer is for every operation in doubt at this site that fits --service, --resource, --site
and --older-than. See with --dry-run which these are.

Examples:
  archipel operations settle Site1/3f9c/42 --executed
  archipel operations settle Site1/3f9c/43 --executed --id 7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f4e11
  archipel operations settle Site1/3f9c/44 --not-executed
  archipel operations settle Site1/3f9c/45 --probe
  archipel operations settle --all --probe
  archipel operations settle --all --service image --resource 'image:/images/*' --older-than 10m \\
      --not-executed --dry-run")]
    Settle(Settle),
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
            OperationsCommand::Settle(settle) => settle.run(),
        }
    }
}

/// An answer to what is in doubt.
#[derive(Args)]
#[command(group(ArgGroup::new("answer").args(["executed", "not_executed", "probe"])))]
#[allow(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct Settle {
    /// Its name: SITE/RUN/NUMBER.
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    operation: Option<String>,
    /// Every operation in doubt at this site that fits.
    #[arg(long)]
    all: bool,
    /// Of this service.
    #[arg(long, value_name = "NAME", requires = "all", conflicts_with = "operation")]
    service: Option<String>,
    /// On this resource, or on all whose names begin so: `image:/images/*`.
    #[arg(long, value_name = "NAME", requires = "all", conflicts_with = "operation")]
    resource: Option<String>,
    /// That this site accepted.
    #[arg(long, value_name = "SITE", requires = "all", conflicts_with = "operation")]
    site: Option<String>,
    /// That were accepted so long ago or longer, such as 10m.
    #[arg(long, value_name = "TIME", requires = "all", conflicts_with = "operation")]
    older_than: Option<String>,
    /// The service executed it.
    #[arg(long)]
    executed: bool,
    /// The service did not: it is executed now.
    #[arg(long)]
    not_executed: bool,
    /// Have Archipel look again, as the profile says.
    #[arg(long)]
    probe: bool,
    /// The id that the service gave what it made, if it made something.
    #[arg(long, value_name = "ID", requires = "executed", conflicts_with_all = ["all", "not_executed", "probe"])]
    id: Option<String>,
    /// Only print what would be settled.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    running: Running,
}

impl Settle {
    fn run(&self) -> Result<String, Failure> {
        self.check_answered()?;
        if let Some(operation) = self.operation.as_ref().filter(|_| !self.probe && !self.dry_run) {
            let body = json!({ "executed": self.executed, "id": self.id });
            let path = format!("{}/settle", path(operation)?);
            return Ok(listed(&self.running.ask(Method::POST, &path, Some(body))?));
        }
        let answer = self.running.ask(Method::POST, "/v1/operations/settle", Some(self.order()?))?;
        Ok(settled(&answer))
    }

    /// Refuses an order without an answer, and says which answers there are: `clap` would name one of them only.
    fn check_answered(&self) -> Result<(), Failure> {
        if self.executed || self.not_executed || self.probe {
            return Ok(());
        }
        let which = self.operation.as_deref().unwrap_or("--all");
        Err(Failure::Usage(format!(
            "say what became of it, by one of these:\n  \
             archipel operations settle {which} --executed       the service has it (of a creation, with --id ID)\n  \
             archipel operations settle {which} --not-executed   the service has it not: it is executed now\n  \
             archipel operations settle {which} --probe          Archipel looks again, as the profile says"
        )))
    }

    /// What is asked of the running site.
    fn order(&self) -> Result<Value, Failure> {
        self.check_answered()?;
        let seconds =
            |time: &String| age(time).map_err(|why| Failure::Usage(format!("--older-than {time}: {why}")));
        let (word, told) = if self.probe { ("probe", true) } else { ("executed", self.executed) };
        let order = json!({
            "operation": self.operation,
            "service": self.service,
            "resource": self.resource,
            "site": self.site,
            "dry_run": self.dry_run,
            "older_than_seconds": self.older_than.as_ref().map(seconds).transpose()?,
            word: told,
        });
        Ok(order)
    }
}

/// An age, in seconds: `30s`, `10min`, and as people write it, `10m` and `2h`.
fn age(text: &str) -> Result<u64, String> {
    let count = |unit| text.strip_suffix(unit).and_then(|count: &str| count.parse::<u64>().ok());
    match (count('m'), count('h')) {
        (Some(minutes), _) => Ok(minutes.saturating_mul(60)),
        (None, Some(hours)) => Ok(hours.saturating_mul(3_600)),
        (None, None) => scope::parse_duration(text).map(|age| age.as_secs()),
    }
}

fn settled(answer: &Value) -> String {
    let mut rows = vec![["OPERATION", "RESOURCE", "WHAT", "OUTCOME"].map(String::from)];
    rows.extend(
        array(answer, "settled")
            .map(|one| ["operation", "resource", "what", "outcome"].map(|field| text(one, field).to_owned())),
    );
    if rows.len() > 1 { table(&rows) } else { "nothing in doubt fits".to_owned() }
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
    let mut withheld = vec![["WITHHELD", "RESOURCE", "WHAT", "WHY"].map(String::from)];
    withheld.extend(
        array(answer, "withheld")
            .map(|one| ["operation", "resource", "what", "reason"].map(|field| text(one, field).to_owned())),
    );
    let mut refused = vec![["REFUSED", "RESOURCE", "WHAT", "STATUS"].map(String::from)];
    refused.extend(array(answer, "refused").map(|one| {
        let [operation, resource, what] =
            ["operation", "resource", "what"].map(|field| text(one, field).to_owned());
        [operation, resource, what, status(one)]
    }));
    let parts = [rows(&waiting), rows(&doubt), rows(&withheld), rows(&refused)];
    let parts = parts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    if parts.is_empty() { "nothing waits, and nothing is in doubt".to_owned() } else { parts }
}

/// A table, if there is anything in it.
fn rows<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> Option<String> {
    (rows.len() > 1).then(|| table(rows))
}

fn status(one: &Value) -> String {
    one.get("status").and_then(Value::as_u64).map(|status| status.to_string()).unwrap_or_default()
}

fn shown(answer: &Value) -> String {
    let mut rows = vec![["SITE", "STATE", "STATUS", "WHY"].map(String::from)];
    rows.extend(array(answer, "sites").map(|place| {
        let [site, state, why] = ["site", "state", "reason"].map(|field| text(place, field).to_owned());
        [site, state, status(place), why]
    }));
    // A column that nobody needs is not shown.
    let shown = if rows.iter().skip(1).all(|[.., why]| why.is_empty()) {
        table(&rows.into_iter().map(|[site, state, status, _]| [site, state, status]).collect::<Vec<_>>())
    } else {
        table(&rows)
    };
    format!("{} on {}\n{shown}", text(answer, "operation"), text(answer, "resource"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        settle: Settle,
    }

    fn order(line: &str) -> Option<Value> {
        let words = ["settle"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).ok().and_then(|line| line.settle.order().ok())
    }

    #[test]
    fn one_answer_is_given_to_one_operation_or_to_all_that_fit() {
        for line in [
            "",
            "A/0-0/1",
            "--all",
            "--executed",
            "A/0-0/1 --all --executed",
            "A/0-0/1 --executed --probe",
            "A/0-0/1 --executed --service image",
            "A/0-0/1 --probe --id 7",
            "--all --executed --id 7",
            "--all --probe --older-than soon",
        ] {
            assert_eq!(order(line), None, "{line}");
        }
        let all =
            order("--all --not-executed --service image --site Site2 --older-than 10m --dry-run").unwrap();
        let expected = json!({ "operation": null, "service": "image", "resource": null, "site": "Site2",
            "dry_run": true, "older_than_seconds": 600, "executed": false });
        assert_eq!(all, expected);
        let one = order("A/0-0/1 --probe").unwrap();
        assert_eq!((&one["operation"], &one["probe"]), (&json!("A/0-0/1"), &json!(true)));
        assert!(one.get("executed").is_none());
    }

    #[test]
    fn an_age_is_written_as_people_do() {
        for (text, seconds) in [("30s", 30), ("10m", 600), ("10min", 600), ("2h", 7_200)] {
            assert_eq!(age(text), Ok(seconds), "{text}");
        }
        assert!(age("soon").is_err() && age("m").is_err());
    }
}
