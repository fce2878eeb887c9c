//! What a scope may cost: what is counted, and what is not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use scope::{Atlas, Code, Dialect, Limits, Plan, Site, Zone};

fn dialect(limits: Limits) -> Dialect {
    Dialect { limits, ..Dialect::default() }
}

/// Sites `S0`, `S1` and so on.
fn atlas(sites: usize) -> Atlas {
    Atlas::new((0..sites).filter_map(|n| Site::new(&format!("S{n}")))).unwrap()
}

fn plan(location: &str, dialect: &Dialect, atlas: &Atlas) -> Result<Plan, Code> {
    let scope = dialect.scope(&format!("image: {location}")).map_err(|error| error.code())?;
    let plan = dialect.plan(&scope, "image", atlas).map_err(|error| error.code())?;
    Ok(plan.expect("image is bound"))
}

fn names(sites: std::ops::Range<usize>) -> String {
    sites.map(|n| format!("S{n}")).collect::<Vec<_>>().join(" & ")
}

#[test]
fn what_stands_side_by_side_is_not_deep() {
    let dialect = dialect(Limits { depth: 2, ..Limits::default() });
    for part in ["!!S0", "((S0))", "all(all(S0))", "\"\\\"S0\\\"\"", "!(S0)", "(\"S0\")"] {
        let many = vec![part; 20].join(" | ");
        assert!(plan(&many, &dialect, &atlas(2)).is_ok(), "{many}");
        let deeper = format!("({part})");
        assert_eq!(plan(&deeper, &dialect, &atlas(2)), Err(Code::Limit), "{deeper}");
    }
    let many = names(0..300);
    assert!(plan(&many, &dialect, &atlas(300)).is_ok());
}

#[test]
fn no_limit_on_depth_goes_past_what_a_stack_bears() {
    let dialect = dialect(Limits { depth: usize::MAX, text_bytes: 1 << 16, ..Limits::default() });
    let nested = |depth: usize| format!("{}S0{}", "(".repeat(depth), ")".repeat(depth));
    assert!(plan(&nested(128), &dialect, &atlas(1)).is_ok());
    assert_eq!(plan(&nested(129), &dialect, &atlas(1)), Err(Code::Limit));
}

/// Zones of which each is the one before.
fn chain(zones: usize) -> Atlas {
    let mut atlas = atlas(2);
    let dialect = Dialect::default();
    atlas.define_zone("Z0", "S0 | S1", &dialect).unwrap();
    for n in 1..zones {
        atlas.define_zone(&format!("Z{n}"), &format!("Z{}", n - 1), &dialect).unwrap();
    }
    atlas
}

#[test]
fn zones_lead_a_long_way_but_not_further() {
    let usual = Dialect::default();
    assert!(plan("Z99", &usual, &chain(100)).is_ok());
    assert_eq!(plan("Z199", &usual, &chain(200)), Err(Code::Limit));
    let deepest = dialect(Limits { depth: 128, ..Limits::default() });
    assert!(plan("Z199", &deepest, &chain(200)).is_ok());
    assert_eq!(plan("Z299", &deepest, &chain(300)), Err(Code::Limit));
}

#[test]
fn zones_that_came_to_lead_back_to_themselves_are_refused_when_used() {
    // Each was read for itself, as those of other sites are.
    struct Ring(Atlas, [Zone; 2]);
    impl scope::View for Ring {
        fn here(&self) -> usize {
            self.0.here()
        }
        fn members(&self) -> &[Site] {
            self.0.members()
        }
        fn find(&self, name: &str) -> Option<usize> {
            self.0.find(name)
        }
        fn offers(&self, site: usize, service: &str) -> bool {
            self.0.offers(site, service)
        }
        fn services(&self) -> Option<std::collections::BTreeSet<&str>> {
            self.0.services()
        }
        fn rtt(&self, from: usize, to: usize) -> Option<std::time::Duration> {
            self.0.rtt(from, to)
        }
        fn label(&self, site: usize, label: &str) -> Option<&str> {
            self.0.label(site, label)
        }
        fn metric(&self, site: usize, metric: &str) -> Option<f64> {
            self.0.metric(site, metric)
        }
        fn zone(&self, name: &str) -> Option<&Zone> {
            ["east", "west"].iter().position(|zone| *zone == name).and_then(|at| self.1.get(at))
        }
        fn known(&self, _: scope::Known) -> Vec<&str> {
            vec!["east", "west"]
        }
    }
    let dialect = Dialect::default();
    let read = |name: &str, text: &str| Zone::read(name, text, &dialect).unwrap();
    let ring = Ring(atlas(2), [read("east", "S0 | west"), read("west", "S1 | east")]);
    let scope = dialect.scope("image: S0 ; east").unwrap();
    let error = dialect.plan(&scope, "image", &ring).unwrap_err();
    assert_eq!((error.code(), error.message()), (Code::Zone, "the zone `east` is defined by itself"));
    // Beside one another they are no ring.
    let apart = Ring(atlas(2), [read("east", "S0"), read("west", "east ; S1 ; east")]);
    let scope = dialect.scope("image: east ; west ; east").unwrap();
    assert_eq!(dialect.plan(&scope, "image", &apart).unwrap().unwrap().to_string(), "S0 ; S1");
}

#[test]
fn distances_between_very_many_sites_are_not_looked_up() {
    let limits = Limits { text_bytes: 1 << 20, sites: 1 << 20, ..Limits::default() };
    let dialect = dialect(limits);
    let half = |sites: usize| {
        let around = format!("around({}, 1s)", names(0..sites / 2));
        plan(&around, &dialect, &atlas(sites)).map(|plan| plan.sites().len())
    };
    assert_eq!(half(1_000), Ok(500), "none is known to be near");
    assert_eq!(half(1_900), Ok(950));
    assert_eq!(half(4_000), Err(Code::Limit));
}

#[test]
fn a_scope_with_many_repeats_is_the_one_without() {
    let many: Vec<String> = (0..40).map(|n| format!("S{}", n % 12)).collect();
    let plan = plan(&many.join(" ; "), &Dialect::default(), &atlas(12)).unwrap();
    assert_eq!(plan.to_string(), names(0..12).replace('&', ";"));
}
