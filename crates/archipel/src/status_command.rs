//! `archipel status`: what a running mesh says of itself.

use clap::Args;
use http::Method;
use serde_json::Value;

use crate::Failure;
use crate::running::Running;

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel status
  archipel status --json | jq .in_flight

With `mode = \"observe\"` it counts the calls that could be told to be caused by a client's request,
and those that could not: the latter would not follow a scope. Calls that no client caused, such as those
of a timer, are among them.")]
pub(crate) struct StatusCommand {
    #[command(flatten)]
    running: Running,
    /// As one JSON object.
    #[arg(long)]
    json: bool,
}

impl StatusCommand {
    /// The lines to print.
    pub(crate) fn run(self) -> Result<String, Failure> {
        let status = self.running.ask(Method::GET, "/v1/status", None)?;
        Ok(if self.json { status.to_string() } else { in_words(&status) })
    }
}

fn in_words(status: &Value) -> String {
    let site = status.get("site").and_then(Value::as_str).unwrap_or("unknown");
    let bypass = status.get("bypass").and_then(Value::as_bool).unwrap_or_default();
    let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let link = match text("/link/state") {
        "open" => format!("open; the identity is valid until {}", text("/link/valid_until")),
        "closed" => format!("closed: {}", text("/link/why")),
        _ => "none".to_owned(),
    };
    let warnings = status.pointer("/link/warnings").and_then(Value::as_array).into_iter().flatten();
    let warnings = warnings.filter_map(Value::as_str).map(|line| format!("\nwarning    {line}"));
    let count = |path: &str| status.pointer(path).and_then(Value::as_u64).unwrap_or_default();
    format!(
        "site       {site}\n\
         bypass     {}\n\
         protocol   versions {} to {}\n\
         link       {link}\n\
         in flight  {} requests\n\
         observed   {} calls with a known cause, {} without{}",
        if bypass { "on: scopes are not followed" } else { "off" },
        count("/protocol/oldest"),
        count("/protocol/newest"),
        count("/in_flight"),
        count("/observed/attributed"),
        count("/observed/unattributed"),
        warnings.collect::<String>(),
    )
}
