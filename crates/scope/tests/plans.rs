//! What locations mean: the plans that they make, and why some make none.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use scope::{Atlas, Code, Diagnostic, Dialect, Limits, Services, Site, Style, Zone, parse_duration};

fn atlas() -> Atlas {
    let mut atlas = Atlas::new(["A", "B", "C", "D", "DC 1"].into_iter().filter_map(Site::new)).unwrap();
    let rtts = [(0, 1, "5ms"), (0, 2, "30ms"), (1, 2, "8ms"), (0, 3, "9ms"), (2, 3, "2ms")];
    for (from, to, rtt) in rtts {
        atlas.set_rtt(from, to, parse_duration(rtt).unwrap());
    }
    for (site, region) in [(0, "eu"), (1, "us"), (2, "eu")] {
        atlas.set_label(site, "region", region);
    }
    atlas.set_label(2, "tier", "2");
    for (site, load) in [(0, 0.9), (1, 0.1), (3, -1.0)] {
        atlas.set_metric(site, "load", load);
    }
    let zones = [
        ("west", "A & B"),
        ("backup", "C ; D"),
        ("nested", "west & backup"),
        ("safe", "(A & B) @strong"),
        ("race", "A | B"),
        ("rush", "A | B"),
        ("calm", "(A & B) @eventual"),
        ("lost", "A & Q"),
    ];
    for (name, text) in zones {
        atlas.define_zone(name, text, &Dialect::default()).unwrap();
    }
    atlas
}

fn try_plan(location: &str) -> Result<String, Diagnostic> {
    let dialect = Dialect::default();
    let scope = dialect.scope(&format!("image: {location}"))?;
    Ok(dialect.plan(&scope, "image", &atlas())?.map_or_else(|| "here".to_owned(), |plan| plan.to_string()))
}

#[track_caller]
fn plan(location: &str) -> String {
    try_plan(location).unwrap_or_else(|diagnostic| panic!("{}", diagnostic.render(Style::Plain)))
}

#[track_caller]
fn error(location: &str) -> (Code, String) {
    let diagnostic = try_plan(location).expect_err(location);
    (diagnostic.code(), diagnostic.to_string())
}

#[test]
fn operators_bind_as_the_reference_says() {
    assert_eq!(plan("A & B | C ^ D ; DC 1"), "A & B | C ^ D ; DC 1");
    assert_eq!(plan("A ; (B | (C ^ (D & DC 1)))"), "A ; B | C ^ D & DC 1");
    assert_eq!(plan("(A ; B) | C"), "(A ; B) | C");
    assert_eq!(plan("(A | B) & C"), "(A | B) & C");
    assert_eq!(plan("!(A | B) @quorum"), "(C & D & DC 1) @quorum");
}

#[test]
fn plans_are_flat_and_without_repeats() {
    assert_eq!(plan("(A & B) & (B & C)"), "A & B & C");
    assert_eq!(plan("A ; B ; A"), "A ; B");
    assert_eq!(plan("A & A"), "A");
    assert_eq!(plan("west & B & A"), "A & B");
    assert_eq!(plan("race | C"), "A | B | C");
    assert_eq!(plan("(A & B | A & B) ; A & B"), "A & B");
}

#[test]
fn stars_and_not_range_over_the_members_in_order() {
    assert_eq!(plan("*"), "A & B & C & D & DC 1");
    assert_eq!(plan("!C"), "A & B & D & DC 1");
    assert_eq!(plan("!west"), "C & D & DC 1");
    assert_eq!(plan("!!(B ; A)"), "A & B");
    assert_eq!(plan("!!*"), plan("*"));
}

#[test]
fn members_are_those_that_offer_the_service() {
    let mut atlas = atlas();
    atlas.set_services(1, ["compute"]);
    let dialect = Dialect::default();
    let plan = |text: &str| {
        dialect.plan(&dialect.scope(text).unwrap(), "image", &atlas).unwrap().unwrap().to_string()
    };
    assert_eq!(plan("image: !C"), "A & D & DC 1");
    assert_eq!(plan("image: around(A, 10ms)"), "A ; D");
    assert_eq!(plan("image: where(region = eu)"), "A & C");
    assert_eq!(plan("image: B"), "B", "a site that is named is taken at its word");
}

#[test]
fn around_has_its_sites_first_then_the_others_by_distance() {
    assert_eq!(plan("around(A, 10ms)"), "A ; B ; D");
    assert_eq!(plan("around(A, 9ms)"), "A ; B ; D", "the radius is inside");
    assert_eq!(plan("around(A, 8ms)"), "A ; B");
    assert_eq!(plan("around(C & A, 5ms)"), "C ; A ; D ; B", "to the nearest of its sites");
    assert_eq!(plan("around(DC 1, 1min)"), "DC 1", "an unknown distance is outside");
    assert_eq!(plan("any(around(A, 8ms))"), "A | B");
}

#[test]
fn nearest_counts_from_here_and_puts_unknown_distances_last() {
    assert_eq!(plan("nearest(2, !here)"), "B ; D");
    assert_eq!(plan("nearest(9, DC 1 & C & B)"), "B ; C ; DC 1");
    assert_eq!(plan("nearest(1, *)"), "A");
}

#[test]
fn by_is_lowest_first_and_unknown_last() {
    assert_eq!(plan("by(load, *)"), "D ; B ; A ; C ; DC 1");
    assert_eq!(plan("by(load, C & A)"), "A ; C");
}

#[test]
fn where_takes_sites_that_have_all_the_labels() {
    assert_eq!(plan("where(region = eu)"), "A & C");
    assert_eq!(plan("where(region = eu, tier = 2)"), "C");
}

#[test]
fn except_and_common_keep_the_combination() {
    assert_eq!(plan("except(A | B ; C, A)"), "B ; C");
    assert_eq!(plan("common(A ^ B ^ C, west)"), "A ^ B");
    assert_eq!(plan("except((A & B & C) @quorum, C)"), "(A & B) @quorum");
    assert_eq!(plan("except(within(2s, A) ; B, A)"), "B");
}

#[test]
fn the_shorter_deadline_holds() {
    assert_eq!(plan("within(2s, within(100ms, A & B))"), "within(100ms, A & B)");
    assert_eq!(plan("within(2000ms, A) ; B"), "within(2s, A) ; B");
}

#[test]
fn here_is_where_the_client_entered() {
    let mut atlas = atlas();
    atlas.set_here(2);
    let dialect = Dialect::default();
    let plan = |text: &str| {
        dialect.plan(&dialect.scope(text).unwrap(), "image", &atlas).unwrap().unwrap().to_string()
    };
    assert_eq!(plan("image: here & A"), "C & A");
    assert_eq!(plan("image: nearest(2, *)"), "C ; D");
}

#[test]
fn levels_stay_with_their_group() {
    assert_eq!(plan("(A & B) @quorum"), "(A & B) @quorum");
    assert_eq!(plan("west @quorum"), "(A & B) @quorum");
    assert_eq!(plan("* @weak"), "(A & B & C & D & DC 1) @weak");
    assert_eq!(plan("((A & B) @quorum & C) @quorum"), "(A & B & C) @quorum");
    assert_eq!(plan("(A & B) @quorum & C"), "(A & B) @quorum & C");
    assert_eq!(plan("((A & B) @eventual & C) @quorum"), "((A & B) @eventual & C) @quorum");
    assert_eq!(plan("((A & B) & C) @quorum"), "(A & B & C) @quorum");
    assert_eq!(plan("(A & B) @eventual"), "A & B");
    assert_eq!(plan("A @quorum"), "A @quorum");
    assert_eq!(plan("within(1s, A & B) @strong"), "within(1s, (A & B) @strong)");
    assert_eq!(plan("safe @strong"), "(A & B) @strong");
    assert_eq!(plan("safe & C"), "(A & B) @strong & C");
    assert_eq!(plan("A & (B @quorum)"), "A & (B @quorum)");
    assert_eq!(plan("all(A | B) @quorum"), "(A & B) @quorum", "as is suggested for `(A | B) @quorum`");
    assert_eq!(plan("where(region = eu) @strong"), "(A & C) @strong");
    assert_eq!(plan("(calm & C) @quorum"), "((A & B) @eventual & C) @quorum", "a zone's level is its own");
}

#[test]
fn levels_that_make_no_sense_are_refused() {
    for location in ["A & B @quorum", "A @quorum & B", "A & here @strong", "C | A & B @weak"] {
        let (code, text) = error(location);
        assert_eq!(code, Code::Level);
        assert!(text.contains("put the group in parentheses"), "{text}");
    }
    for location in
        ["(A | B) @quorum", "(A ^ B) @weak", "(A ; B) @strong", "around(A, 1s) @quorum", "race @quorum"]
    {
        assert_eq!(error(location).0, Code::Level, "{location}");
    }
    for location in ["(race & rush) @strong", "except((A & (C @eventual)) @quorum, A)"] {
        assert_eq!(error(location).0, Code::Level, "a level is never dropped without a word: {location}");
    }
    for location in ["safe @quorum", "calm @quorum", "((A & B) @quorum) @strong", "(A @weak) @strong"] {
        assert_eq!(error(location).0, Code::Level, "{location}");
    }
}

#[test]
fn unknown_names_are_refused_wherever_they_stand() {
    for location in ["Q", "A ; Q", "!Q", "around(Q, 1s)", "except(A, Q)", "by(load, Q)", "a", "DC 2", "lost"]
    {
        assert_eq!(error(location).0, Code::UnknownName, "{location}");
    }
    assert_eq!(error("where(regoin = eu)").0, Code::UnknownLabel);
    assert_eq!(error("by(laod, *)").0, Code::UnknownMetric);
}

#[test]
fn a_location_without_a_site_is_refused() {
    for location in
        ["!*", "nearest(0, *)", "except(A, A)", "common(A, B)", "where(region = mars)", "A ; !*", "all(!*)"]
    {
        assert_eq!(error(location).0, Code::NoSite, "{location}");
    }
}

#[test]
fn only_what_is_asked_of_one_service_must_make_sense() {
    let dialect = Dialect::default();
    let scope = dialect.scope("image: A, compute: Nowhere").unwrap();
    assert!(dialect.plan(&scope, "image", &atlas()).is_ok());
    assert!(dialect.plan(&scope, "compute", &atlas()).is_err());
}

#[test]
fn a_star_binds_the_services_that_are_not_named() {
    let dialect = Dialect { services: Services::open(), ..Dialect::default() };
    let scope = dialect.scope("*: B, identity: A").unwrap();
    let plan = |service| dialect.plan(&scope, service, &atlas()).unwrap().unwrap().to_string();
    assert_eq!((plan("identity"), plan("image")), ("A".to_owned(), "B".to_owned()));
    assert_eq!(scope.to_string(), "identity: A, *: B");
}

#[test]
fn what_was_written_is_kept_beside_what_it_means() {
    let dialect = Dialect::default();
    let zone = Zone::read("west", "A&&B", &dialect).unwrap();
    assert_eq!((zone.text(), zone.location().to_string().as_str()), ("A&&B", "A & B"));
    let scope = dialect.scope("*: B, image:A, Compute :A").unwrap();
    assert_eq!(scope.text(), "*: B, image:A, Compute :A");
    assert!(scope.services().eq(["compute", "image"]) && !scope.is_empty());
    assert!(dialect.scope("{}").unwrap().is_empty());
}

#[test]
fn zones_that_lead_back_to_themselves_are_refused_when_defined() {
    let mut atlas = atlas();
    let dialect = Dialect::default();
    atlas.define_zone("later", "A | nested", &dialect).unwrap();
    let error = atlas.define_zone("west", "C & later", &dialect).unwrap_err();
    assert_eq!(error.code(), Code::Zone);
    assert_eq!(atlas.define_zone("self", "self", &dialect).unwrap_err().code(), Code::Zone);
    assert_eq!(atlas.define_zone("A", "B", &dialect).unwrap_err().code(), Code::Zone);
    assert_eq!(atlas.define_zone("here", "B", &dialect).unwrap_err().code(), Code::Zone);
    assert_eq!(atlas.define_zone("9", "B", &dialect).unwrap_err().code(), Code::Zone);
    assert_eq!(plan("west"), "A & B", "nothing changed");
}

#[test]
fn a_zone_bomb_is_refused_in_bounded_work() {
    let mut atlas = Atlas::new(["A", "B"].into_iter().filter_map(Site::new)).unwrap();
    let dialect = Dialect::default();
    atlas.define_zone("z0", "A | B", &dialect).unwrap();
    for n in 1..64 {
        let before = n - 1;
        let text = format!("any(z{before}) & (z{before} ; within({n}s, z{before}))");
        atlas.define_zone(&format!("z{n}"), &text, &dialect).unwrap();
    }
    let scope = dialect.scope("image: z63").unwrap();
    assert_eq!(dialect.plan(&scope, "image", &atlas).unwrap_err().code(), Code::Limit);
    let scope = dialect.scope("image: z20").unwrap();
    assert_eq!(dialect.plan(&scope, "image", &atlas).unwrap_err().code(), Code::Limit);
}

#[test]
fn limits_are_the_last_that_is_accepted() {
    let dialect =
        Dialect { limits: Limits { sites: 3, depth: 4, ..Limits::default() }, ..Dialect::default() };
    let plan = |text: &str| dialect.scope(text).and_then(|scope| dialect.plan(&scope, "image", &atlas()));
    assert!(plan("image: A & B & C").is_ok());
    assert_eq!(plan("image: A & B & C & D").unwrap_err().code(), Code::Limit);
    assert!(plan("image: nearest(2, *)").is_ok(), "only the sites of the plan count");
    for (open, close) in [("(", ")"), ("!", ""), ("all(", ")")] {
        let nested = |depth: usize| format!("image: {}A{}", open.repeat(depth), close.repeat(depth));
        assert!(dialect.scope(&nested(4)).is_ok(), "{open}");
        assert_eq!(dialect.scope(&nested(5)).unwrap_err().code(), Code::Limit, "{open}");
    }
    let padded = |bytes: usize| format!("image: A{}", " ".repeat(bytes - 8));
    assert!(dialect.scope(&padded(4096)).is_ok());
    assert_eq!(dialect.scope(&padded(4097)).unwrap_err().code(), Code::Limit);
}

#[test]
fn a_time_limit_stays_around_what_is_left_inside() {
    assert_eq!(plan("except(within(1s, A & B), A)"), "within(1s, B)");
    assert_eq!(plan("except(C ; within(1s, A & B), A & B)"), "C");
}

#[test]
fn a_level_stands_on_what_is_a_group_by_itself() {
    assert_eq!(plan("all(nearest(2, B & C)) @quorum & A"), "(B & C) @quorum & A");
    assert_eq!(plan("A & (B) @quorum"), "A & (B @quorum)");
}

#[test]
fn here_is_a_site_that_there_is() {
    let mut atlas = atlas();
    for (said, here) in [(1, "B"), (4, "DC 1"), (5, "DC 1")] {
        atlas.set_here(said);
        let dialect = Dialect::default();
        let plan = dialect.plan(&dialect.scope("image: here").unwrap(), "image", &atlas).unwrap().unwrap();
        assert_eq!(plan.to_string(), here);
    }
}

#[test]
fn a_site_is_shown_by_its_name() {
    assert_eq!(Site::new("DC 1").unwrap().to_string(), "DC 1");
}
