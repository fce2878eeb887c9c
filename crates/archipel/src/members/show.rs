//! What is known of the sites, as documents.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mesh::{PeerSeen, Sites};
use scope::View as _;
use serde_json::{Value, json};
use sites::{Reach, Seen, Status};

use super::{Traffic, View};

/// Every site, as `GET /v1/sites` gives them, with what the link knows of these peers.
#[must_use]
pub fn sites(view: &View, peers: &[PeerSeen]) -> Value {
    let here = view.members().get(view.here()).map(|site| site.name().to_owned());
    let known = view.heard().into_iter().flat_map(sites::Snapshot::all).map(|seen| site(view, seen));
    let file = view.only_in_file().map(|site| of_file(view, site));
    let mut sites: Vec<Value> = known.chain(file).collect();
    for site in &mut sites {
        let name = site.get("site").and_then(Value::as_str);
        let Some(peer) = peers.iter().find(|peer| Some(peer.site.name()) == name) else { continue };
        site["protocol"] = peer.version.into();
        if let Some(misfit) = peer.misfit {
            site["misfit"] = misfit.to_string().into();
        }
    }
    json!({ "here": here, "sites": sites })
}

fn site(view: &View, seen: &Seen) -> Value {
    let record = &seen.record;
    let position = view.find(record.site.name());
    let here = position == Some(view.here());
    let reach = match seen.reach {
        _ if here => "here",
        Reach::Reachable => "reachable",
        Reach::Unreachable => "unreachable",
    };
    let distance = position.and_then(|site| view.heard()?.distance(view.here(), site));
    let millis = |rtt: Duration| rtt.as_secs_f64() * 1000.0;
    let address = position.and_then(|site| view.address(site)).unwrap_or(&record.says.address);
    json!({
        "site": record.site.name(),
        "status": word(seen.status),
        "reach": reach,
        "quarantined": seen.quarantined,
        "address": address,
        "services": record.says.services,
        "kind": record.says.kind,
        "kind_version": record.says.kind_version,
        "archipel": record.says.version,
        "labels": record.says.labels,
        "metrics": seen.metrics.as_deref(),
        "rtt_ms": distance.map(|(rtt, _)| millis(rtt)),
        "rtt_error_ms": distance.map(|(rtt, error)| millis(rtt) * f64::from(error)),
    })
}

/// A peer of the file that was never heard of.
fn of_file(view: &View, site: usize) -> Value {
    let rtt = view.rtt(view.here(), site).map(|rtt| rtt.as_secs_f64() * 1000.0);
    let here = site == view.here();
    json!({
        "site": view.members().get(site).map(scope::Site::name),
        "status": "configured",
        "reach": if here { "here" } else { "reachable" },
        "quarantined": false,
        "address": view.address(site),
        "rtt_ms": rtt,
    })
}

fn word(status: Status) -> &'static str {
    match status {
        Status::Alive => "alive",
        Status::Suspect => "suspect",
        Status::Dead => "dead",
        Status::Left => "left",
        Status::Revoked => "revoked",
    }
}

/// Every zone, as `GET /v1/zones` gives them.
#[must_use]
pub fn zones(view: &View) -> Value {
    let zone = |name: &str| json!({ "name": name, "location": view.zone(name).map(scope::Zone::text) });
    json!({ "zones": view.known(scope::Known::Zones).into_iter().map(zone).collect::<Vec<_>>() })
}

/// The site that says of itself that it is at one of these addresses, and that this site reaches.
#[must_use]
pub fn answers_at(view: &View, addresses: &[String]) -> Option<String> {
    let here = view.members().get(view.here());
    let mut known = view.heard().into_iter().flat_map(sites::Snapshot::all);
    let answers = known.find(|seen| {
        let (site, at) = (&seen.record.site, &*seen.record.says.address);
        let works = seen.status == Status::Alive && seen.reach == Reach::Reachable;
        works && Some(site) != here && addresses.iter().any(|address| address == at)
    });
    answers.map(|seen| seen.record.site.name().to_owned())
}

/// The names in a location that are those of no site and no zone, each as a warning: it may be one that comes later.
#[must_use]
pub fn unknown_names(view: &View, location: &str) -> Vec<String> {
    let zones = view.known(scope::Known::Zones);
    let known = || view.members().iter().map(scope::Site::name).chain(zones.iter().copied());
    // Whoever defined it made sure that it can be read.
    let Ok(location) = scope::Dialect::default().location(location) else { return Vec::new() };
    let mut warnings = Vec::new();
    location.names(&mut |name, _| {
        if view.find(name).is_some() || view.zone(name).is_some() {
            return;
        }
        let near = scope::nearest(name, known());
        let meant = near.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" or ");
        let hint = if near.is_empty() { String::new() } else { format!("; did you mean {meant}?") };
        warnings.push(format!("no site or zone is called `{name}`{hint}"));
    });
    warnings
}

/// Counters and gauges, in the text format of Prometheus.
#[must_use]
pub fn metrics(view: &View, traffic: &Traffic) -> String {
    let mut text =
        String::from("# HELP archipel_sites Sites, by what is known of them.\n# TYPE archipel_sites gauge\n");
    for status in [Status::Alive, Status::Suspect, Status::Dead, Status::Left, Status::Revoked] {
        let count = view.heard().map_or(0, |known| known.all().filter(|seen| seen.status == status).count());
        // A string takes what it is given.
        let _ = writeln!(text, "archipel_sites{{status=\"{}\"}} {count}", word(status));
    }
    let unreachable = |seen: &&Seen| seen.status == Status::Alive && seen.reach == Reach::Unreachable;
    let count = view.heard().map_or(0, |known| known.all().filter(unreachable).count());
    let _ = writeln!(
        text,
        "# HELP archipel_sites_unreachable Sites that are alive and cannot be reached from here.\n\
         # TYPE archipel_sites_unreachable gauge\narchipel_sites_unreachable {count}"
    );
    let load = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
    for (name, help, value) in [
        ("datagrams_sent", "Datagrams of the membership sent.", load(&traffic.sent.0)),
        ("datagram_bytes_sent", "Bytes of these.", load(&traffic.sent.1)),
        ("datagrams_received", "Datagrams of the membership received.", load(&traffic.received.0)),
        ("datagram_bytes_received", "Bytes of these.", load(&traffic.received.1)),
        ("datagrams_refused", "Datagrams that were not believed.", load(&traffic.refused)),
    ] {
        let _ = writeln!(
            text,
            "# HELP archipel_{name}_total {help}\n# TYPE archipel_{name}_total counter\narchipel_{name}_total {value}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use link::{Authority, Misfit, Speaks};

    use super::*;
    use crate::config::Config;

    #[test]
    fn a_site_says_which_version_it_is_spoken_to_in_or_why_it_is_not() {
        let text = "site = 'A'\nprofile = 'rest'\nidentity = '.'\n[services.image]\npublic = ['127.0.0.1:0']\nupstreams = ['http://127.0.0.1:1']\n\
            [link]\nlisten = '127.0.0.1:0'\n[peers.B]\naddress = '127.0.0.1:2'\n[peers.C]\naddress = '127.0.0.1:3'\n";
        let directory = tempfile::tempdir().unwrap();
        Authority::create("Test").unwrap().issue("A").unwrap().save(directory.path()).unwrap();
        let config = Config::read("the file", text, directory.path()).unwrap();
        let speaks = |oldest, newest| Speaks::new(oldest, newest).unwrap();
        let peer = |name, version: Option<u16>, misfit| PeerSeen {
            site: scope::Site::new(name).unwrap(),
            works: version.is_some(),
            rtt: None,
            version,
            misfit,
        };
        let misfit = Misfit { ours: speaks(1, 2), theirs: speaks(4, 5) };
        let shown =
            sites(&View::of_file(&config), &[peer("B", Some(2), None), peer("C", None, Some(misfit))]);
        let of =
            |name: &str| shown["sites"].as_array().unwrap().iter().find(|site| site["site"] == name).unwrap();
        assert_eq!((&of("B")["protocol"], of("B").get("misfit")), (&json!(2), None));
        assert_eq!(of("C")["protocol"], Value::Null);
        assert_eq!(of("C")["misfit"], misfit.to_string());
    }
}
