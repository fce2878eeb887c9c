//! Which models are explored.

use replica::{Class, Doubt, Settings};

use crate::steps::Sites;
use crate::world::{Faults, Plan};

fn add(at: usize, body: &'static str) -> Plan {
    Plan { at, class: Class::Add, doubt: Doubt::Ask, body }
}

fn set(at: usize, body: &'static str) -> Plan {
    Plan { at, class: Class::Replace, doubt: Doubt::Repeat, body }
}

fn patch(at: usize, body: &'static str) -> Plan {
    Plan { at, class: Class::Patch(["x".into()].into()), doubt: Doubt::Repeat, body }
}

fn delete(at: usize) -> Plan {
    Plan { at, class: Class::Delete, doubt: Doubt::Repeat, body: "delete" }
}

fn create(at: usize, body: &'static str) -> Plan {
    Plan { at, class: Class::Create, doubt: Doubt::Repeat, body }
}

fn model(sites: usize, plans: Vec<Plan>, faults: Faults) -> Sites {
    Sites { count: sites, plans, faults, settings: Settings::default() }
}

/// Explored by each run of the tests.
pub(crate) fn small() -> Vec<(&'static str, Sites)> {
    let none = Faults::default();
    let apart = || vec![set(0, "set 29"), add(1, "add 13")];
    let patches = vec![patch(0, "patch x=1"), patch(1, "patch x=2")];
    let ended = vec![delete(0), add(1, "add 13"), create(0, "set 5")];
    let adds = vec![add(0, "add 1"), add(1, "add 13")];
    vec![
        ("two sites, one ends", model(2, apart(), Faults { crashes: 1, ..none })),
        ("two sites, a message lost", model(2, apart(), Faults { losses: 1, ..none })),
        ("two sites, failing services", model(2, adds, Faults { failures: 2, ..none })),
        ("two sites, cut", model(2, patches, Faults { cuts: 1, ..none })),
        ("two sites, a delete", model(2, ended, none)),
        ("three sites, a message twice", model(3, vec![add(0, "add 1")], Faults { doubles: 1, ..none })),
    ]
}

/// Explored by hand: larger than a run of the tests should wait for.
#[allow(dead_code, reason = "the tests explore the small ones only")]
pub(crate) fn large() -> Vec<(&'static str, Sites)> {
    let none = Faults::default();
    let apart = || vec![set(0, "set 29"), add(1, "add 13")];
    let (network, all) = (
        Faults { losses: 1, doubles: 1, timers: 1, ..none },
        Faults { crashes: 1, losses: 1, timers: 1, failures: 1, ..none },
    );
    vec![
        ("three sites, two writes apart", model(3, apart(), none)),
        ("two sites, a bad network", model(2, apart(), network)),
        ("two sites, an end, a loss, a timer, a failure", model(2, apart(), all)),
        ("two sites, two ends", model(2, apart(), Faults { crashes: 2, ..none })),
        ("three sites, one ends", model(3, vec![add(0, "add 1")], Faults { crashes: 1, ..none })),
        ("three sites, set 29, +13, -12", model(3, [apart(), vec![add(2, "add -12")]].concat(), none)),
    ]
}
