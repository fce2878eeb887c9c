//! What a scenario is told with: requests and orders, what came of them, and how long it took.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Method;
use sample::wan::Cut;
use serde_json::Value;

use super::client::{Answer, Client};
use super::world::World;

/// What a scenario waits for comes sooner than that, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// One scenario being played.
pub struct Story<'s> {
    pub(super) world: &'s World,
    pub(super) client: &'s Client,
    pub(super) tell: &'s mut dyn FnMut(&str),
}

impl Story<'_> {
    pub(super) fn tell(&mut self, line: &str) {
        (self.tell)(line);
    }

    /// Asks a service at a site, and tells what was typed and what came back.
    pub(super) fn ask(
        &mut self,
        method: &str,
        at: (usize, &str),
        path: &str,
        scope: Option<&str>,
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let headers: Vec<(&str, &str)> = scope.map(|scope| ("X-Scope", scope)).into_iter().collect();
        self.ask_with(method, at, path, &headers, body)
    }

    /// The same with any headers.
    pub(super) fn ask_with(
        &mut self,
        method: &str,
        (site, service): (usize, &str),
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let to = self.world.address(site, service)?;
        let answer = self.client.ask(method, to, path, headers, body)?;
        self.tell(&format!("$ {}", answer.command));
        let mut line = format!("  {}", answer.status);
        let items = answer.sites();
        // That of a merged list is the first site's.
        let by = if items.is_empty() { answer.header("x-served-by") } else { "" };
        for (what, value) in [("by", by), ("sites", answer.header("scope-sites"))] {
            if !value.is_empty() {
                line.push_str(&format!("  {what} {value}"));
            }
        }
        self.tell(&format!("{line}  in {}", ms(answer.took)));
        if !items.is_empty() {
            self.tell(&format!("  {} items: {}", items.len(), counted(&items)));
        }
        Ok(answer)
    }

    /// Orders something of a site's Archipel, as the command does that is told.
    pub(super) fn order(
        &mut self,
        site: usize,
        command: &str,
        (method, path, body): (Method, &str, Option<Value>),
    ) -> Result<(), String> {
        self.tell(&format!("$ archipel {command} --config {}", self.world.file(site)?.display()));
        let began = Instant::now();
        self.world.order(site, method, path, body)?;
        self.tell(&format!("  done at Site{} in {}", site + 1, ms(began.elapsed())));
        Ok(())
    }

    /// Waits until something is so.
    pub(super) fn until(
        &self,
        what: &str,
        holds: impl FnMut(&World) -> Result<bool, String>,
    ) -> Result<(), String> {
        until(self.world, what, holds)
    }

    /// An image with content, at one site.
    pub(super) fn image(&mut self, site: usize, name: &str) -> Result<String, String> {
        let created =
            self.ask("POST", (site, "image"), "/images", None, Some(&format!("{{\"name\":\"{name}\"}}")))?;
        expect(&created, 201)?;
        let id = created.text("id");
        let uploaded =
            self.ask("PUT", (site, "image"), &format!("/images/{id}/file"), None, Some("debian"))?;
        expect(&uploaded, 200)?;
        Ok(id)
    }

    pub(super) fn boot(&mut self, site: usize, image: &str, scope: Option<&str>) -> Result<Answer, String> {
        let body = format!("{{\"name\":\"vm\",\"image\":\"{image}\"}}");
        self.ask("POST", (site, "compute"), "/servers", scope, Some(&body))
    }

    /// Cuts sites off while something is done, and joins them again whatever comes of it.
    pub(super) fn while_cut<T>(
        &mut self,
        sites: &[usize],
        act: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        for site in sites {
            self.world.cut(*site, Some(Cut::Reset))?;
            self.tell(&format!("  Site{} is cut off", site + 1));
        }
        let outcome = act(self);
        for site in sites {
            self.world.cut(*site, None)?;
        }
        self.until_joined()?;
        outcome
    }

    /// Waits until every site reaches every other again: they try by themselves, ever less often.
    pub(super) fn until_joined(&self) -> Result<(), String> {
        let count = self.world.names().len();
        for (from, to) in (0..count).flat_map(|from| (0..count).map(move |to| (from, to))) {
            let scope = format!("image: Site{}", to + 1);
            let address = self.world.address(from, "image")?;
            self.until(&format!("Site{} finds Site{} again", from + 1, to + 1), |_| {
                let answer = self.client.ask("GET", address, "/images", &[("X-Scope", &scope)], None)?;
                Ok(answer.status.is_success())
            })?;
        }
        Ok(())
    }
}

/// Waits until something is so.
pub(super) fn until(
    world: &World,
    what: &str,
    mut holds: impl FnMut(&World) -> Result<bool, String>,
) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while !holds(world)? {
        check(Instant::now() < deadline, || format!("not so within {PATIENCE:?}: {what}"))?;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// How many items are of which site.
fn counted(sites: &[String]) -> String {
    let names: BTreeSet<&String> = sites.iter().collect();
    let count = |name: &String| sites.iter().filter(|site| *site == name).count();
    let of: Vec<String> = names.into_iter().map(|name| format!("{} of {name}", count(name))).collect();
    of.join(", ")
}

/// A time, as people read it.
pub(super) fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1000.0)
}

pub(super) fn expect(answer: &Answer, status: u16) -> Result<(), String> {
    check(answer.status == status, || {
        format!(
            "{} gave {}, not {status}: {}",
            answer.command,
            answer.status,
            String::from_utf8_lossy(&answer.body)
        )
    })
}

pub(super) fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

pub(super) fn served_by(answer: &Answer, whom: &str) -> Result<(), String> {
    check(answer.header("x-served-by") == whom, || {
        format!("{} was served by `{}`, not by {whom}", answer.command, answer.header("x-served-by"))
    })
}
