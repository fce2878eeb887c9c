//! `archipel run`: one site's mesh, until it is told to stop.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use archipel::admin::{self, Admin};
use archipel::assemble;
use archipel::config::{Config, Error, needs_restart};
use archipel::identity::IdentityLog;
use archipel::members::Members;
use clap::Args;
use mesh::Mesh;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::LocalSet;

use crate::{Failure, check_command, memory, say};

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel run
  archipel run /etc/archipel/archipel.toml

SIGHUP reads the file again, without dropping a request; a file with faults is refused, and the
old one stays. SIGTERM and SIGINT stop to accept, and answer what is in flight.")]
pub(crate) struct RunCommand {
    /// The configuration.
    #[arg(value_name = "FILE", default_value = "archipel.toml")]
    file: PathBuf,
}

impl RunCommand {
    pub(crate) fn run(self) -> Result<String, Failure> {
        // Its warnings are told in the log, once it runs.
        let (config, _) = check_command::load_to_run(&self.file)?;
        let audit = assemble::audit(&config).map_err(Failure::Usage)?;
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Io)?;
        LocalSet::new().block_on(&runtime, async {
            // Bound first: it also keeps a second process away from the state directory.
            let socket = admin::listen(&config.state).await.map_err(Failure::Io)?;
            let started = assemble::start(&config, audit, say).inspect_err(|_| {
                let _ = std::fs::remove_file(admin::path(&config.state));
            });
            let (mesh, members) = started.map_err(Failure::Usage)?;
            // Before anybody is told that it is there: a SIGHUP that nobody waits for ends a process.
            let signals = Signals::wait().map_err(Failure::Io)?;
            announce(&config, &mesh);
            let identity = IdentityLog::new(members.identity().clone());
            let admin =
                Admin { site: config.site.clone(), mesh: Arc::downgrade(&mesh), members: members.clone() };
            let serving = tokio::task::spawn_local(admin::serve(socket, admin));
            tokio::task::spawn_local(memory::give_back_start());
            self.follow(signals, identity, &config, &mesh, &members).await;
            serving.abort();
            let _ = std::fs::remove_file(admin::path(&config.state));
            say("stopping: no new connections; answering what is in flight");
            members.stop();
            alone(mesh).await?.drain(config.timeouts.drain);
            Ok("stopped".to_owned())
        })
    }

    /// Reloads when told to, and returns when told to stop.
    async fn follow(
        &self,
        mut signals: Signals,
        mut identity: IdentityLog,
        started_with: &Config,
        mesh: &Mesh,
        members: &Members,
    ) {
        loop {
            identity.news(SystemTime::now()).iter().for_each(|line| say(line));
            let rest = identity.rest(SystemTime::now());
            tokio::select! {
                () = tokio::time::sleep(rest) => {}
                _ = signals.terminate.recv() => return,
                _ = signals.interrupt.recv() => return,
                _ = signals.hangup.recv() => self.reload(started_with, mesh, members),
            }
        }
    }

    fn reload(&self, started_with: &Config, mesh: &Mesh, members: &Members) {
        let outcome = Config::load(&self.file).map_err(|error| match error {
            Error::Unreadable { ref source, .. } => format!("{error}: {source}"),
            Error::Invalid(faults) => faults.to_string(),
        });
        let outcome = outcome.and_then(|config| {
            assemble::reload(&config, started_with, mesh, members)?;
            Ok(needs_restart(started_with, &config))
        });
        match outcome {
            Ok(later) => {
                if !later.is_empty() {
                    say(&format!("takes effect only after a restart: {}", later.join(", ")));
                }
                say("reloaded");
            }
            Err(why) => say(&format!("not reloaded, the old configuration stays:\n{why}")),
        }
    }
}

/// What an operator tells a process by signals.
struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// From now on they are waited for.
    fn wait() -> io::Result<Signals> {
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }
}

/// The mesh, once nobody else borrows it: the admin socket and the membership do, for a moment at a time.
async fn alone(mut mesh: Arc<Mesh>) -> Result<Mesh, Failure> {
    const TRIES: usize = 1000;
    for _ in 0..TRIES {
        mesh = match Arc::try_unwrap(mesh) {
            Ok(mesh) => return Ok(mesh),
            Err(borrowed) => borrowed,
        };
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    Err(Failure::Io(io::Error::other("the mesh is in use, and what is in flight is not waited for")))
}

fn announce(config: &Config, mesh: &Mesh) {
    for name in config.services.keys() {
        for (kind, internal) in [("public", false), ("internal", true)] {
            for address in mesh.addresses(name, internal) {
                say(&format!("{name} listens at {address} ({kind})"));
            }
        }
    }
    if let Some(address) = mesh.link_address() {
        say(&format!("the link listens at {address}"));
    }
    say(&format!("site {} is ready", config.site));
}
