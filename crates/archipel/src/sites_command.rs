//! `archipel sites`: who is there, as one site sees it.

use clap::Args;
use http::Method;
use serde_json::Value;

use crate::Failure;
use crate::running::{Running, text};
use crate::table::table;

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel sites
  archipel sites --json

The state of a site is what all sites say of it: alive, suspect, dead, left or revoked. Whether it
can be reached is what this site found out: a site can be alive and yet not be reachable from here.
Requests are sent to sites that are reachable and not in quarantine. A site of a version that this
one does not understand is not reachable; a line below the table says so.")]
pub(crate) struct SitesCommand {
    /// Everything that is known, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    running: Running,
}

impl SitesCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let answer = self.running.ask(Method::GET, "/v1/sites", None)?;
        if self.json {
            return Ok(format!("{answer:#}"));
        }
        let mut rows =
            vec![["SITE", "STATE", "FROM HERE", "ROUND TRIP", "ADDRESS", "SERVICES"].map(String::from)];
        let sites = answer.get("sites").and_then(Value::as_array).cloned().unwrap_or_default();
        rows.extend(sites.iter().map(row));
        let misfits = sites.iter().filter(|site| site.get("misfit").is_some());
        let misfits = misfits.map(|site| format!("\n{}: {}", text(site, "site"), text(site, "misfit")));
        Ok(table(&rows) + &misfits.collect::<String>())
    }
}

fn row(site: &Value) -> [String; 6] {
    let quarantined = site.get("quarantined").and_then(Value::as_bool).unwrap_or_default();
    let reach = if quarantined { "quarantined" } else { text(site, "reach") };
    let millis = |field| site.get(field).and_then(Value::as_f64);
    let distance = match (millis("rtt_ms"), millis("rtt_error_ms")) {
        (Some(rtt), Some(error)) => format!("{rtt:.1} ms ± {error:.1}"),
        (Some(rtt), None) => format!("{rtt:.1} ms"),
        (None, _) => "-".to_owned(),
    };
    let services = site.get("services").and_then(Value::as_array).cloned().unwrap_or_default();
    let services: Vec<&str> = services.iter().filter_map(Value::as_str).collect();
    let texts = ["site", "status"].map(|field| text(site, field).to_owned());
    let [name, state] = texts;
    [name, state, reach.to_owned(), distance, text(site, "address").to_owned(), services.join(", ")]
}
