//! `archipel join`, `leave`, `quarantine`, `revoke` and `metric`: what an administrator says of sites.

use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use http::Method;
use link::Authority;
use serde_json::{Map, Value, json};

use crate::running::{Running, segment};
use crate::{Failure, renew_command, warn};

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel join site1.example:7400
  archipel join 192.0.2.1:7400 192.0.2.2:7400      any one of them is enough

The addresses are those of the links of sites that are there already. Sites that it meets are
remembered: it finds them again after a restart. To have addresses in the configuration, write
join = [\"site1.example:7400\"] under [link].")]
pub(crate) struct JoinCommand {
    /// Where other sites' links listen.
    #[arg(value_name = "HOST:PORT", required = true)]
    addresses: Vec<String>,
    #[command(flatten)]
    running: Running,
}

impl JoinCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let answer =
            self.running.ask(Method::POST, "/v1/join", Some(json!({ "addresses": self.addresses })))?;
        let Some(site) = answer.get("answered").and_then(Value::as_str) else {
            return Err(Failure::Io(std::io::Error::other(format!(
                "nobody answered at {} within 5 s; it is asked again every now and then\n\
                 help: does an Archipel of the same authority run there, and do TCP and UDP pass to that port?",
                self.addresses.join(", ")
            ))));
        };
        let count = answer.get("sites").and_then(Value::as_array).map_or(0, Vec::len);
        Ok(format!("{site} answered; {count} sites are known now, see `archipel sites`"))
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel leave

Tells the other sites that this one goes, so that none waits for it. It goes on to serve its own
clients. `archipel join` takes it back.")]
pub(crate) struct LeaveCommand {
    #[command(flatten)]
    running: Running,
}

impl LeaveCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        self.running.ask(Method::POST, "/v1/leave", None)?;
        Ok("this site has left the others".to_owned())
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel quarantine Site3           no site sends requests to Site3; it stays visible
  archipel quarantine Site3 --lift

Every site follows, at once where it can be reached, and else when it is back.")]
pub(crate) struct QuarantineCommand {
    /// The site.
    site: String,
    /// Use it again.
    #[arg(long)]
    lift: bool,
    #[command(flatten)]
    running: Running,
}

impl QuarantineCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let path = format!("/v1/sites/{}/quarantine", segment(&self.site));
        self.running.ask(Method::PUT, &path, Some(json!({ "on": !self.lift })))?;
        Ok(format!("{} is {}", self.site, if self.lift { "used again" } else { "in quarantine" }))
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel revoke Site3 --authority /media/vault/authority

For a box that was stolen: every identity that was issued to this site until now is shut out, at
every site, for good. Sites that cannot be reached follow when they are back. It takes the
operator's authority, so that no site can shut out another. `archipel init` can then make the site
anew.")]
pub(crate) struct RevokeCommand {
    /// The site.
    site: String,
    /// The directory of the operator's certificate authority.
    #[arg(long, value_name = "DIR", default_value = "authority")]
    authority: PathBuf,
    /// Also if no site of this name is known, or it is the one that is asked.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    running: Running,
}

impl RevokeCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let failed = |error: link::IdentityError| Failure::Usage(error.to_string());
        let authority = Authority::load(&self.authority).map_err(failed)?;
        let now = SystemTime::now();
        let revocation = authority.revoke(&self.site, now).map_err(failed)?;
        // A key that was stolen is given no new certificate.
        if let Err(error) = renew_command::note_revoked(&self.authority, &self.site, now) {
            let directory = self.authority.display();
            warn(&format!("`{directory}` does not remember this, so never renew `{}`: {error}", self.site));
        }
        let statement = archipel::hex::encode(&revocation.to_bytes());
        let order = json!({ "statement": statement, "force": self.force });
        self.running.ask(Method::POST, "/v1/revocations", Some(order))?;
        Ok(format!("{} is shut out", self.site))
    }
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel metric load=0.7 carbon=210      for scopes such as `image: by(load, *)`
  archipel metric price=                   forget it

Metrics of this site, told to all others. With [metrics] file = \"…\" in the configuration they are
read from a file instead, again and again.")]
pub(crate) struct MetricCommand {
    /// Names and numbers.
    #[arg(value_name = "NAME=NUMBER", required = true)]
    metrics: Vec<String>,
    #[command(flatten)]
    running: Running,
}

impl MetricCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        let mut metrics = Map::new();
        for metric in &self.metrics {
            let usage = || Failure::Usage(format!("`{metric}`: write NAME=NUMBER, as in load=0.7"));
            let (name, value) = metric.split_once('=').ok_or_else(usage)?;
            let value = match value {
                "" => Value::Null,
                value => {
                    value.parse::<f64>().ok().filter(|value| value.is_finite()).ok_or_else(usage)?.into()
                }
            };
            metrics.insert(name.to_owned(), value);
        }
        self.running.ask(Method::PUT, "/v1/metrics", Some(Value::Object(metrics)))?;
        Ok("told".to_owned())
    }
}
