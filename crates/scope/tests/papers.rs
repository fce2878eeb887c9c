//! Every scope that the five papers print, as they print it, with its canonical form.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use scope::{Atlas, Dialect, Services, Site};

/// Each paper's spelling, spaces included; a line that the paper breaks with `\` is broken here too.
const PRINTED: [(&str, &str); 19] = [
    // Research report 2020, sections 3 and 4.
    ("{ compute: Site1 , image: Site2 }", "compute: Site1, image: Site2"),
    ("{ compute: Site1&Site2 }", "compute: Site1 & Site2"),
    ("{ compute: Site1 , image: Site1|Site2 }", "compute: Site1, image: Site1 | Site2"),
    ("{ compute: Site1 , \n    image: around(Site1 , 10ms) }", "compute: Site1, image: around(Site1, 10ms)"),
    ("{ glance: Site1&Site2&Site3 }", "image: Site1 & Site2 & Site3"),
    ("{ compute: Site1 , network: Site2 }", "compute: Site1, network: Site2"),
    // PhD position 2019.
    (r#"{"Compute": "Zone1", "Image": "Zone2"}"#, "compute: Zone1, image: Zone2"),
    (
        r#"{"Identity": "Zone1", "Image": "Zone1 && Zone2 && Zone3"}"#,
        "identity: Zone1, image: Zone1 & Zone2 & Zone3",
    ),
    (
        r#"{"Identity": "Zone1", "Compute": "Zone1||Zone2", "Image": "Zone1"}"#,
        "compute: Zone1 | Zone2, identity: Zone1, image: Zone1",
    ),
    // Euro-Par 2021, sections 3 and 4.
    ("s : App_1, t : App_2", "s: App_1, t: App_2"),
    ("s: App1, t: App2", "s: App1, t: App2"),
    ("t : App_1 & App_2", "t: App_1 & App_2"),
    ("s:App_i, t:App_i", "s: App_i, t: App_i"),
    ("s: Loc1; Loc2", "s: Loc1 ; Loc2"),
    ("t: around(App1, 10ms)", "t: around(App1, 10ms)"),
    ("t: App1;App2;Appn", "t: App1 ; App2 ; Appn"),
    ("{ compute: DC 1, image: DC 1 }", "compute: DC 1, image: DC 1"),
    ("{ compute: DC 1, image: DC 2 }", "compute: DC 1, image: DC 2"),
    ("{ image: DC 1 & DC 2 }", "image: DC 1 & DC 2"),
];

fn dialect() -> Dialect {
    let services =
        [("compute", "nova"), ("image", "glance"), ("identity", "keystone"), ("network", "neutron")];
    let mut known = Services::open().with("s", []).with("t", []);
    for (name, alias) in services {
        known = known.with(name, [alias]);
    }
    Dialect { services: known, ..Dialect::default() }
}

#[test]
fn every_scope_of_the_papers_has_its_canonical_form() {
    let dialect = dialect();
    for (printed, canonical) in PRINTED {
        match dialect.scope(printed) {
            Ok(scope) => assert_eq!(scope.to_string(), canonical, "{printed}"),
            Err(diagnostic) => panic!("{}", diagnostic.render(scope::Style::Plain)),
        }
    }
}

#[test]
fn every_scope_of_the_papers_has_a_plan_for_each_of_its_services() {
    let dialect = dialect();
    let sites = ["Site", "Zone", "App", "App_", "Loc", "DC "].into_iter();
    let names = sites.flat_map(|site| ["1", "2", "3", "n", "i"].map(|n| format!("{site}{n}")));
    let view = Atlas::new(names.filter_map(|name| Site::new(&name))).unwrap();
    for (printed, _) in PRINTED {
        let scope = dialect.scope(printed).unwrap();
        for service in ["compute", "image", "identity", "network", "s", "t"] {
            let plan = dialect.plan(&scope, service, &view).unwrap();
            assert_eq!(plan.is_some(), scope.location(service).is_some(), "{printed}: {service}");
        }
    }
}
