//! `archipel bypass`: a running mesh as plain forwarding, at once, and back.

use clap::{Args, ValueEnum};
use http::Method;
use serde_json::json;

use crate::Failure;
use crate::running::{Running, text};

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel bypass on        every request goes to this site's own services, whatever its scope
  archipel bypass off       scopes are followed again
  archipel bypass show")]
pub(crate) struct BypassCommand {
    /// What to do.
    action: Action,
    #[command(flatten)]
    running: Running,
}

#[derive(Clone, Copy, ValueEnum)]
enum Action {
    /// Forward everything.
    On,
    /// Follow scopes again.
    Off,
    /// Say which it is.
    Show,
}

impl BypassCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let answer = match self.action {
            Action::Show => self.running.ask(Method::GET, "/v1/status", None)?,
            Action::On | Action::Off => {
                let body = json!({ "on": matches!(self.action, Action::On) });
                self.running.ask(Method::PUT, "/v1/bypass", Some(body))?
            }
        };
        let on = answer.get("bypass").and_then(serde_json::Value::as_bool).unwrap_or_default();
        Ok(format!("bypass is {} at {}", if on { "on" } else { "off" }, text(&answer, "site")))
    }
}
