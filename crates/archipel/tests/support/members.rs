//! What the sites of a world know of each other, and the commands of their administrators.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufReader, Write};
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use archipel::demo::World;
use archipel::members::show;
use serde_json::Value;

use super::sites::Site;
use super::{Message, get};

/// Longer than it takes to find a site dead, to look for it again, and to learn how far it is.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// Between two looks at what changes by itself.
const LOOK: Duration = Duration::from_millis(20);

pub fn name(site: Site) -> String {
    format!("Site{}", site + 1)
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(LOOK);
    }
}

/// What a site knows of another.
pub fn seen(world: &World, by: Site, of: Site) -> Value {
    let known = show::sites(&world.seen_by(by).unwrap(), &[]);
    let sites = known["sites"].as_array().cloned().unwrap_or_default();
    sites.into_iter().find(|site| site["site"] == name(of).as_str()).unwrap_or_default()
}

/// Waits until each of these sites sees another like this.
pub fn until_seen(world: &World, by: &[Site], of: Site, fields: &[(&str, Value)]) {
    for by in by {
        let what = format!("{} sees {} as {fields:?}", name(*by), name(of));
        until(&what, || {
            let seen = seen(world, *by, of);
            fields.iter().all(|(field, value)| seen[*field] == *value)
        });
    }
}

pub fn until_status(world: &World, by: &[Site], of: Site, status: &str) {
    until_seen(world, by, of, &[("status", status.into())]);
}

/// What a site knows that should not change by itself: not the distances, and not for how long.
pub fn lasting(world: &World, by: Site) -> (BTreeMap<String, Value>, Value) {
    let view = world.seen_by(by).unwrap();
    let known = show::sites(&view, &[]);
    let sites = known["sites"].as_array().cloned().unwrap_or_default();
    let lasting = |mut site: Value| {
        for field in ["rtt_ms", "rtt_error_ms"] {
            site[field] = Value::Null;
        }
        (site["site"].to_string(), site)
    };
    (sites.into_iter().map(lasting).collect(), show::zones(&view))
}

fn state(world: &World, site: Site) -> PathBuf {
    world.home(&name(site)).join("state")
}

/// Runs a command as the administrator of a site that runs.
pub fn archipel(world: &World, site: Site, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_archipel"));
    command.args(arguments).arg("--state").arg(state(world, site)).stdin(Stdio::null());
    command.output().unwrap()
}

/// What it printed; it must have succeeded.
pub fn ordered(world: &World, site: Site, arguments: &[&str]) -> String {
    let done = archipel(world, site, arguments);
    assert!(done.status.success(), "{arguments:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// What it complained of; it must have failed.
pub fn refused(world: &World, site: Site, arguments: &[&str]) -> String {
    let done = archipel(world, site, arguments);
    assert!(!done.status.success(), "{arguments:?}: {done:?}");
    String::from_utf8(done.stderr).unwrap()
}

/// Bytes to the admin socket of a site, and its answer.
pub fn tell_admin(world: &World, site: Site, bytes: &[u8]) -> Message {
    let mut stream = UnixStream::connect(state(world, site).join("admin.sock")).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // It may answer, and hang up, before it has read all.
    let _ = stream.write_all(bytes);
    Message::read(&mut BufReader::new(stream)).unwrap()
}

/// A counter of a site.
pub fn counted(world: &World, site: Site, counter: &str) -> u64 {
    let text = tell_admin(world, site, b"GET /metrics HTTP/1.1\r\nhost: admin\r\n\r\n").text();
    let line = text.lines().find(|line| line.split(' ').next() == Some(counter));
    line.unwrap_or_else(|| panic!("no {counter} in {text}")).rsplit(' ').next().unwrap().parse().unwrap()
}

/// A list of images through a site.
pub fn list(world: &World, at: Site, location: &str) -> Message {
    get(world.address(at, "image").unwrap(), "/images", &[("x-scope", &format!("image: {location}"))])
}

/// A value of a site's configuration, between quotes.
pub fn configured(world: &World, site: Site, key: &str) -> SocketAddr {
    let text = std::fs::read_to_string(world.home(&name(site)).join("archipel.toml")).unwrap();
    let line = text.lines().find(|line| line.starts_with(&format!("{key} = "))).unwrap();
    line.split('"').nth(1).unwrap().parse().unwrap()
}

/// Changes a site's configuration file.
pub fn configure(world: &World, site: Site, change: impl FnOnce(String) -> String) {
    let file = world.home(&name(site)).join("archipel.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(file, change(text)).unwrap();
}
