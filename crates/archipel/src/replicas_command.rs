//! `archipel replicas`: the replicated resources of a running site, and where their replicas are.

use std::time::Duration;

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::Failure;
use crate::running::{Running, array, segment, text};
use crate::table::table;

/// Between two looks at a copy that is under way.
const LOOK: Duration = Duration::from_millis(500);

#[derive(Subcommand)]
pub(crate) enum ReplicasCommand {
    /// The replicated resources that this site has a part in.
    List {
        /// Everything that is known, for programs.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        running: Running,
    },
    /// One of them: its replicas, and what each still lacks.
    #[command(after_help = "\
Example:
  archipel replicas show image:/images/7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f4e11")]
    Show(One),
    /// Compare the replicas: what each site has, by a digest of its content.
    Diff(One),
    /// Add a replica at one more site, copied from one that is there.
    #[command(after_help = "\
Example:
  archipel replicas extend image:/images/7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f4e11 --to Site4")]
    Extend {
        #[command(flatten)]
        one: One,
        /// The site that gets a replica.
        #[arg(long, value_name = "SITE")]
        to: String,
        /// Return when the site has it, and say how far it is meanwhile.
        #[arg(long)]
        wait: bool,
    },
    /// Remove the replica at a site.
    Shrink {
        #[command(flatten)]
        one: One,
        /// The site that loses its replica.
        #[arg(long, value_name = "SITE")]
        from: String,
    },
    /// Move a replica from one site to another.
    Move {
        #[command(flatten)]
        one: One,
        /// The site that loses its replica.
        #[arg(long, value_name = "SITE")]
        from: String,
        /// The site that gets one.
        #[arg(long, value_name = "SITE")]
        to: String,
        /// Return when the site has it, and say how far it is meanwhile.
        #[arg(long)]
        wait: bool,
    },
    /// Give the replica at this site the state of the one at another, which is good.
    Repair {
        #[command(flatten)]
        one: One,
        /// The site whose replica is good.
        #[arg(long, value_name = "SITE")]
        from: String,
    },
    /// Let the replicas go: each becomes an ordinary resource of its site, for ever.
    Detach(One),
    /// Go on with a replica that refused what another executed, once the reason is mended.
    Mend(One),
}

/// Which resource is meant.
#[derive(Args)]
pub(crate) struct One {
    /// Its name, as `archipel replicas list` tells it: SERVICE:PATH.
    resource: String,
    /// Everything that is known, for programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    running: Running,
}

impl One {
    fn path(&self) -> String {
        format!("/v1/replicas/{}", segment(&self.resource))
    }

    fn order(&self, what: &str, body: Option<Value>) -> Result<Value, Failure> {
        self.running.ask(Method::POST, &format!("{}/{what}", self.path()), body)
    }

    fn shown(&self, resource: &Value) -> String {
        if self.json { format!("{resource:#}") } else { shown(resource) }
    }

    /// Waits until a site has its replica, and says on standard error how far it is.
    fn until_there(&self, site: &str) -> Result<Value, Failure> {
        let mut last = String::new();
        loop {
            let resource = self.running.ask(Method::GET, &self.path(), None)?;
            let places = resource.get("sites").and_then(Value::as_array);
            let place = places.into_iter().flatten().find(|place| text(place, "site") == site);
            let state = place.map_or("not there yet", |place| text(place, "state"));
            if state == "good" {
                return Ok(resource);
            }
            if state != last {
                crate::say(&format!("{site}: {state}"));
                state.clone_into(&mut last);
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl ReplicasCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        match &self {
            ReplicasCommand::List { json, running } => {
                let answer = running.ask(Method::GET, "/v1/replicas", None)?;
                Ok(if *json { format!("{answer:#}") } else { listed(&answer) })
            }
            ReplicasCommand::Show(one) => Ok(one.shown(&one.running.ask(Method::GET, &one.path(), None)?)),
            ReplicasCommand::Diff(one) => Ok(one.shown(&one.order("diff", None)?)),
            ReplicasCommand::Extend { one, to, wait } => {
                let changed = one.order("extend", Some(json!({ "site": to })))?;
                Ok(one.shown(&if *wait { one.until_there(to)? } else { changed }))
            }
            ReplicasCommand::Shrink { one, from } => {
                Ok(one.shown(&one.order("shrink", Some(json!({ "site": from })))?))
            }
            ReplicasCommand::Move { one, from, to, wait } => {
                let changed = one.order("move", Some(json!({ "from": from, "to": to })))?;
                Ok(one.shown(&if *wait { one.until_there(to)? } else { changed }))
            }
            ReplicasCommand::Repair { one, from } => {
                Ok(one.shown(&one.order("repair", Some(json!({ "from": from })))?))
            }
            ReplicasCommand::Detach(one) => Ok(one.shown(&one.order("detach", None)?)),
            ReplicasCommand::Mend(one) => Ok(one.shown(&one.order("mend", None)?)),
        }
    }
}

fn listed(answer: &Value) -> String {
    let mut rows = vec![["RESOURCE", "LEVEL", "SITES"].map(String::from)];
    rows.extend(array(answer, "replicas").map(|resource| {
        let sites = array(resource, "sites").map(|place| match text(place, "state") {
            "good" => text(place, "site").to_owned(),
            state => format!("{} ({state})", text(place, "site")),
        });
        let sites = sites.collect::<Vec<_>>().join(", ");
        [text(resource, "resource").to_owned(), text(resource, "level").to_owned(), sites]
    }));
    if rows.len() == 1 {
        return "nothing is replicated here".to_owned();
    }
    table(&rows)
}

fn shown(resource: &Value) -> String {
    if array(resource, "sites").next().is_none() {
        return format!("{} has no replicas any more", text(resource, "resource"));
    }
    let mut rows = vec![["SITE", "STATE", "PENDING", "LOCAL NAME", "DIGEST"].map(String::from)];
    rows.extend(array(resource, "sites").map(|place| {
        let pending = place.get("pending").and_then(Value::as_u64).unwrap_or(0).to_string();
        let [site, state, local, digest] =
            ["site", "state", "local", "digest"].map(|field| text(place, field).to_owned());
        [site, state, pending, local, digest]
    }));
    format!("{} ({})\n{}", text(resource, "resource"), text(resource, "level"), table(&rows))
}
