//! `archipel reservations`: the names that writes to `A ^ B` have reserved.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use crate::Failure;
use crate::running::{Running, array, text};
use crate::table::table;

#[derive(Subcommand)]
pub(crate) enum ReservationsCommand {
    /// The names that are reserved here, and those that requests which entered here have reserved.
    List {
        /// Everything that is known, for programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        running: Running,
    },
    /// Say that the outcome of a write to a reserved name is known, having looked at the services.
    #[command(after_help = "\
A name stays reserved while a service was asked to make it, gave no answer, and does not show it. Look at that
service, see that it is not at it any more, then clear the name at the site at which the request entered (the
first part of HOLDER). That site tells the others. Where it is gone for good, clear the name at every other site.

Example:
  archipel reservations clear image:/v2/images/7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f4e11")]
    Clear {
        /// The name, as `list` shows it: service, colon, path.
        name: String,
        #[command(flatten)]
        running: Running,
    },
}

impl ReservationsCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        match &self {
            ReservationsCommand::List { json, running } => {
                let answer = running.ask(Method::GET, "/v1/reservations", None)?;
                Ok(if *json { format!("{answer:#}") } else { listed(&answer) })
            }
            ReservationsCommand::Clear { name, running } => {
                let body = json!({ "name": name });
                let answer = running.ask(Method::POST, "/v1/reservations/clear", Some(body))?;
                Ok(listed(&answer))
            }
        }
    }
}

fn listed(answer: &Value) -> String {
    let mut rows = vec![["NAME", "STATE", "SITES", "SINCE", "HOLDER"].map(String::from)];
    rows.extend(array(answer, "reservations").map(|one| {
        let sites: Vec<&str> = array(one, "sites").filter_map(Value::as_str).collect();
        let seconds = one.get("seconds").and_then(Value::as_u64);
        let since = seconds.map(|seconds| format!("{seconds} s")).unwrap_or_default();
        let [name, state, holder] = ["name", "state", "holder"].map(|field| text(one, field).to_owned());
        [name, state, sites.join(", "), since, holder]
    }));
    if rows.len() == 1 { "no name is reserved".to_owned() } else { table(&rows) }
}
