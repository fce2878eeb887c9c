//! Replicated networks and subnets of a service that gives them ids of its own, at each site others, and that takes no subnet of a
//! network that it does not know: clients name a network by one id, wherever they are.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use sample::wan::Cut;
use serde_json::{Value, json};
use support::fleet::{Common, Fleet, name, until};
use support::upstream::Upstream;
use support::{Message, ask, get};

const SITES: usize = 3;
const ALL: &str = "net: Site1 & Site2 & Site3";

const PROFILE: &str = r#"
description = "networks"
[services]
net = []
[[kinds]]
name = "network"
service = "net"
path = "/networks"
ids = "uuid"
[[kinds]]
name = "subnet"
service = "net"
path = "/subnets"
ids = "uuid"
"#;

/// One site's service: what it has, by kind and id.
#[derive(Clone, Default)]
struct Net(Arc<Mutex<BTreeMap<String, BTreeMap<String, Value>>>>);

impl Net {
    fn start(&self, number: usize) -> SocketAddr {
        let own = self.clone();
        Upstream::json(move |request| own.answer(number, request)).address
    }

    fn answer(&self, number: usize, request: &Message) -> (u16, String) {
        let mut all = self.0.lock().unwrap();
        let path: Vec<&str> = request.path().split('/').skip(1).collect();
        let mut body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let network = body["network_id"].as_str();
        let known = network.is_none_or(|id| all.get("networks").is_some_and(|all| all.contains_key(id)));
        let count: usize = all.values().map(BTreeMap::len).sum();
        let (status, document) = match (request.method(), path.as_slice()) {
            ("POST", [_]) if !known => (400, json!({ "error": "there is no such network" })),
            ("POST", [kind]) => {
                let id = format!("{number:08x}-0000-4000-8000-{count:012x}");
                body["id"] = id.clone().into();
                all.entry((*kind).to_owned()).or_default().insert(id, body.clone());
                (201, body)
            }
            ("GET", [kind, id]) => match all.get(*kind).and_then(|all| all.get(*id)) {
                Some(found) => (200, found.clone()),
                None => (404, json!({})),
            },
            _ => (405, json!({})),
        };
        (status, document.to_string())
    }

    /// The id of the network, and what the subnet of this name says, by the service's own words.
    fn of(&self, network: &str, subnet: &str) -> (Option<String>, Option<String>) {
        let all = self.0.lock().unwrap();
        let find = |kind: &str, name: &str| {
            let found = all.get(kind)?.values().find(|one| one["name"] == name)?;
            Some(found.clone())
        };
        let text = |one: Value, member: &str| one[member].as_str().map(str::to_owned);
        let network = find("networks", network).and_then(|one| text(one, "id"));
        (network, find("subnets", subnet).and_then(|one| text(one, "network_id")))
    }
}

struct Stage {
    fleet: Fleet,
    nets: Vec<Net>,
    _profiles: tempfile::TempDir,
}

impl Stage {
    fn start() -> Stage {
        let nets: Vec<Net> = (0..SITES).map(|_| Net::default()).collect();
        let services: Vec<_> = nets.iter().enumerate().map(|(number, net)| net.start(number)).collect();
        let profiles = tempfile::tempdir().unwrap();
        std::fs::write(profiles.path().join("net.toml"), PROFILE).unwrap();
        let head = format!("profile = \"net\"\nprofiles = {:?}\n", profiles.path().display().to_string());
        let tables = "[timeouts]\nconnect = \"300ms\"\npeer_response = \"1s\"\n";
        let fleet = Fleet::start(&Common { service: "net", head: &head, tables }, &services);
        Stage { fleet, nets, _profiles: profiles }
    }

    fn post(&self, site: usize, path: &str, scope: &str, body: &Value) -> Message {
        let headers = [("x-scope", scope), ("content-type", "application/json")];
        ask(self.fleet.address(site), "POST", path, &headers, &body.to_string()).unwrap()
    }

    /// Makes something. At another site what it names is known a moment later.
    fn make(&self, site: usize, path: &str, scope: &str, body: &Value) -> String {
        let mut id = String::new();
        until("it is made", || {
            let made = self.post(site, path, scope, body);
            id = if made.status() == 201 { made.field("id") } else { String::new() };
            !id.is_empty()
        });
        id
    }

    /// At every site the subnet is in the network that the service there has, and clients see one id.
    fn until_in_place(&self, (network, meta): (&str, &str), (subnet, id): (&str, &str)) {
        for (site, net) in self.nets.iter().enumerate() {
            until(&format!("{} has its subnet in its own network", name(site)), || {
                let (own, said) = net.of(network, subnet);
                own.is_some() && own == said
            });
            until(&format!("clients of {} know the network by its one id", name(site)), || {
                let read = get(self.fleet.address(site), &format!("/subnets/{id}"), &[]);
                read.status() == 200 && read.field("network_id") == meta
            });
        }
    }
}

#[test]
fn a_replicated_subnet_is_in_the_network_that_each_site_has() {
    let stage = Stage::start();
    let blue = stage.make(0, "/networks", ALL, &json!({ "name": "blue" }));
    let east = json!({ "name": "east", "network_id": blue });
    let id = stage.make(1, "/subnets", ALL, &east);
    stage.until_in_place(("blue", &blue), ("east", &id));

    // No client knows the id that Site2 has for it.
    let (local, _) = stage.nets[1].of("blue", "east");
    let named = json!({ "name": "west", "network_id": local });
    assert_eq!(stage.post(1, "/subnets", ALL, &named).status(), 404);

    // A site that is away hears of both later, in any order.
    stage.fleet.isolate(2, Some(Cut::Reset));
    let green = stage.make(0, "/networks", ALL, &json!({ "name": "green" }));
    let north = stage.make(0, "/subnets", ALL, &json!({ "name": "north", "network_id": green }));
    let south = stage.make(0, "/subnets", ALL, &json!({ "name": "south", "network_id": green }));
    stage.fleet.isolate(2, None);
    stage.until_in_place(("green", &green), ("north", &north));
    stage.until_in_place(("green", &green), ("south", &south));

    // A state that is copied.
    let two = "net: Site1 & Site2";
    let last = stage.make(0, "/subnets", two, &json!({ "name": "last", "network_id": green }));
    let resource = format!("net:/subnets/{last}");
    stage.fleet.json(0, &["replicas", "extend", &resource, "--to", "Site3", "--wait"]);
    stage.until_in_place(("green", &green), ("last", &last));
    let compared = stage.fleet.json(0, &["replicas", "diff", &resource]);
    let digests: Vec<&Value> =
        compared["sites"].as_array().unwrap().iter().map(|one| &one["digest"]).collect();
    assert!(digests.len() == SITES && digests.iter().all(|one| *one == digests[0]), "{compared}");
}
