//! `archipel zone`: names for locations, at every site.

use clap::Subcommand;
use http::Method;
use serde_json::{Value, json};

use crate::running::{Running, array, segment, text};
use crate::{Failure, warn};

#[derive(Subcommand)]
pub(crate) enum ZoneCommand {
    /// Define a zone, or define it anew. The later definition wins, at every site.
    #[command(after_help = "\
Examples:
  archipel zone set west='Site1 & Site2'
  archipel zone set backup='Site3 ; Site4'")]
    Set {
        /// The name, and what it stands for.
        #[arg(value_name = "NAME=LOCATION")]
        definition: String,
        #[command(flatten)]
        running: Running,
    },
    /// Forget a zone, at every site.
    Remove {
        /// The name.
        name: String,
        #[command(flatten)]
        running: Running,
    },
    /// The zones that there are.
    List {
        #[command(flatten)]
        running: Running,
    },
}

impl ZoneCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let zones = match &self {
            ZoneCommand::Set { definition, running } => {
                let (name, location) = definition.split_once('=').ok_or_else(|| {
                    Failure::Usage(format!("`{definition}`: write NAME=LOCATION, as in west='Site1 & Site2'"))
                })?;
                let path = format!("/v1/zones/{}", segment(name.trim()));
                running.ask(Method::PUT, &path, Some(json!({ "location": location.trim() })))?
            }
            ZoneCommand::Remove { name, running } => {
                running.ask(Method::DELETE, &format!("/v1/zones/{}", segment(name)), None)?
            }
            ZoneCommand::List { running } => running.ask(Method::GET, "/v1/zones", None)?,
        };
        // A site may come later, so it is no error.
        for warning in array(&zones, "warnings").filter_map(Value::as_str) {
            warn(&format!("{warning}. The zone is defined all the same: the site may join later"));
        }
        let zones = zones.get("zones").and_then(Value::as_array).cloned().unwrap_or_default();
        let lines = zones.iter().map(|zone| format!("{} = {}", text(zone, "name"), text(zone, "location")));
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }
}
