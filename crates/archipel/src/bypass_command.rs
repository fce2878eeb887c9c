//! `archipel bypass`: a running mesh as plain forwarding, at once, and back.

use std::path::PathBuf;

use archipel::admin;
use clap::{Args, ValueEnum};
use http::Method;
use serde_json::json;
use tokio::task::LocalSet;

use crate::{Failure, check_command};

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel bypass on        every request goes to this site's own services, whatever its scope
  archipel bypass off       scopes are followed again
  archipel bypass show")]
pub(crate) struct BypassCommand {
    /// What to do.
    action: Action,
    /// The configuration that the mesh was started with.
    #[arg(value_name = "FILE", default_value = "archipel.toml")]
    file: PathBuf,
    /// Its state directory, if the file cannot be read just now.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
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
        let state = match self.state {
            Some(state) => state,
            None => check_command::load(&self.file)?.state.clone(),
        };
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Io)?;
        let answer = LocalSet::new().block_on(&runtime, async {
            match self.action {
                Action::Show => admin::ask(&state, Method::GET, "/v1/status", None).await,
                Action::On | Action::Off => {
                    let body = json!({ "on": matches!(self.action, Action::On) });
                    admin::ask(&state, Method::PUT, "/v1/bypass", Some(body)).await
                }
            }
        });
        let answer = answer.map_err(|why| Failure::Io(std::io::Error::other(why)))?;
        let on = answer.get("bypass").and_then(serde_json::Value::as_bool).unwrap_or_default();
        let site = answer.get("site").and_then(serde_json::Value::as_str).unwrap_or_default();
        Ok(format!("bypass is {} at {site}", if on { "on" } else { "off" }))
    }
}
