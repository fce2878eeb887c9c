//! What administrators, files and the end of the process order.

use std::sync::Arc;
use std::time::Duration;

use link::{Identity, Revocation, datagram};
use scope::Site;
use sites::{Effect, Event, Notice};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::super::{Command, Order};
use super::{Driver, micros, pool, proven, says, seeds};
use crate::config::Config;

/// A site that leaves goes on for so long, so that it is heard.
const GOODBYE: Duration = Duration::from_millis(700);

impl Driver {
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Order(order, reply) => {
                let outcome = self.order(order);
                self.replies.push((reply, outcome));
                self.keep();
            }
            Command::Meet(addresses, reply) => {
                // Whoever gave up waiting needs no answer any more.
                self.meeting.retain(|(_, reply)| !reply.is_closed());
                self.meeting.push((addresses, reply));
            }
            Command::Sync { question, reply } => {
                let mut effects = Vec::new();
                let answer = Site::new(&question.from).and_then(|from| {
                    let identity = sites::Identity {
                        fingerprint: *question.fingerprint.as_bytes(),
                        issued: micros(question.issued),
                    };
                    self.machine.answer(&from, &identity, &question.body, self.now(), &mut effects)
                });
                self.carry_out(effects);
                let _ = reply.send(answer);
            }
            Command::Reload(config, identity) => self.reload(*config, identity),
            Command::Attach(mesh) => {
                self.mesh = mesh;
                self.publish();
            }
            Command::Stop(_) => {}
        }
    }

    fn order(&mut self, order: Order) -> Result<(), String> {
        match order {
            Order::Join(addresses) => {
                for address in &addresses {
                    crate::config::endpoint(address).map_err(|why| format!("`{address}`: {why}"))?;
                }
                let addresses = addresses.into_iter().map(String::into_boxed_str).collect();
                self.on(Event::Join { addresses });
            }
            Order::Leave => self.on(Event::Leave),
            Order::Zone { name, text } => self.define_zone(&name, text.as_deref())?,
            Order::Quarantine { site, on } => {
                let known = self.inbox.view.borrow().heard().is_some_and(|known| known.site(&site).is_some());
                let site =
                    Site::new(&site).filter(|_| known).ok_or_else(|| format!("there is no site `{site}`"))?;
                if site == self.start.config.site {
                    return Err(
                        "a site cannot put itself in quarantine: `archipel leave` is what you want".into()
                    );
                }
                let mut effects = Vec::new();
                self.machine.on(Event::Quarantine { site: site.clone(), on }, self.now(), &mut effects);
                let fits = fits(&effects, site.name());
                self.carry_out(effects);
                fits?;
            }
            Order::Revoke { statement, force } => {
                if !force {
                    self.check_revoked(&statement)?;
                }
                self.revoke(&statement)?;
            }
            Order::Metrics(metrics) => {
                let mut pushed = self.pushed.clone();
                for (name, value) in metrics {
                    match value {
                        Some(value) => pushed.insert(name.into(), value),
                        None => pushed.remove(&*name),
                    };
                }
                let before = std::mem::replace(&mut self.pushed, pushed);
                if let Err(why) = self.tell_metrics() {
                    self.pushed = before;
                    return Err(why);
                }
                self.publish();
            }
        }
        Ok(())
    }

    fn define_zone(&mut self, name: &str, text: Option<&str>) -> Result<(), String> {
        if text.is_none() && !self.machine.has_zone(name) {
            return Err(format!("there is no zone `{name}`"));
        }
        let mut effects = Vec::new();
        let outcome = self.machine.set_zone(name, text, self.now(), &mut effects);
        let fits = fits(&effects, name);
        self.carry_out(effects);
        outcome.map_err(|diagnostic| diagnostic.render(scope::Style::Plain))?;
        fits
    }

    /// The zones of the file. What was defined or removed while sites ran wins.
    pub(super) fn define_zones(&mut self) {
        for (name, text) in self.start.config.zones.clone() {
            let mut effects = Vec::new();
            let outcome = self.machine.set_zone_of_file(&name, &text, self.now(), &mut effects);
            self.carry_out(effects);
            if let Err(why) = outcome {
                let why = why.render(scope::Style::Plain);
                (self.start.say)(&format!("the zone `{name}` of the file is not defined:\n{why}"));
            }
        }
    }

    /// What is revoked stays so: a name that is mistyped, or this site's own, is most likely not meant.
    fn check_revoked(&self, statement: &[u8]) -> Result<(), String> {
        let revocation =
            Revocation::from_bytes(statement, &self.start.identity).map_err(|error| error.to_string())?;
        let site = revocation.site();
        if site == self.start.config.site.name() {
            return Err(format!("`{site}` is this site itself; with --force it is revoked all the same"));
        }
        let known = self.machine.snapshot().site(site).is_some();
        known.then_some(()).ok_or_else(|| {
            format!("there is no site `{site}`; with --force it is revoked all the same, should there be one")
        })
    }

    /// Shuts a site's identities out, if the statement is the operator's.
    pub(super) fn revoke(&mut self, statement: &[u8]) -> Result<(), String> {
        let revocation =
            Revocation::from_bytes(statement, &self.start.identity).map_err(|error| error.to_string())?;
        let (site, before) = (revocation.site().to_owned(), micros(revocation.at()).saturating_add(1));
        self.start.revoked.add(revocation);
        let site = Site::new(&site).ok_or("no site can have that name")?;
        self.on(Event::Revoked { statement: statement.to_vec(), site, before });
        Ok(())
    }

    /// The file was read again: what it says of this site is told to the others.
    fn reload(&mut self, config: Config, identity: Option<Arc<Identity>>) {
        let source = |config: &Config| config.link.as_ref().and_then(|link| link.source);
        let moved = source(&config) != source(&self.start.config);
        let renewed = identity.filter(|identity| !identity.is_same_as(&self.start.identity));
        let before = seeds(&self.start.config);
        self.start.config = config;
        if (moved || renewed.is_some())
            && let Err(why) = self.renew(renewed)
        {
            (self.start.say)(&format!("the membership keeps the old identity: {why}"));
        }
        let mut effects = Vec::new();
        let says = says(&self.start.config, self.start.address);
        if let Err(why) = self.machine.set_own(says, self.now(), &mut effects) {
            (self.start.say)(&format!("the other sites are not told: {why}"));
        }
        self.carry_out(effects);
        self.define_zones();
        self.read_metrics();
        self.publish();
        let mut addresses = seeds(&self.start.config);
        addresses.retain(|address| !before.contains(address));
        // A site that has left stays so until somebody says otherwise.
        if !addresses.is_empty() && !self.machine.is_leaving() {
            self.on(Event::Join { addresses });
        }
    }

    /// Takes on a new identity, if there is one, and makes connections anew.
    fn renew(&mut self, identity: Option<Arc<Identity>>) -> Result<(), String> {
        let identity = identity.unwrap_or_else(|| Arc::clone(&self.start.identity));
        let pool = pool(&self.start, &identity)?;
        if identity.is_same_as(&self.start.identity) {
            self.pool = pool;
            return Ok(());
        }
        let pair = datagram::pair(&identity, self.start.revoked.clone());
        (self.sealer, self.opener) = pair.map_err(|error| error.to_string())?;
        (self.pool, self.start.identity) = (pool, identity);
        let mut effects = Vec::new();
        self.machine.set_identity(proven(&self.start.identity), self.now(), &mut effects);
        self.carry_out(effects);
        Ok(())
    }

    pub(super) async fn stop(mut self, done: oneshot::Sender<()>) {
        // What was said last still has to go out, and again where it got lost.
        let until = Instant::now() + GOODBYE;
        while self.machine.is_leaving() && !self.peers.is_empty() && Instant::now() < until {
            let wake = self.wake.unwrap_or(until).min(until);
            sleep_until(wake).await;
            self.on(Event::Tick);
        }
        self.keep_last().await;
        let _ = done.send(());
    }
}

/// Whether there was room for what was to be done.
fn fits(effects: &[Effect], name: &str) -> Result<(), String> {
    let full =
        |effect: &Effect| matches!(effect, Effect::Notice(Notice::Full(kept_out)) if **kept_out == *name);
    let full = effects.iter().any(full);
    if full { Err(format!("there is no room for `{name}`: there are too many")) } else { Ok(()) }
}
