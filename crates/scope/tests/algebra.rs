//! The laws of the language, for any scope; and that no text at all upsets it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use proptest::prelude::*;
use scope::{Atlas, Code, Dialect, Plan, Scope, Site, Style, parse_duration};

const OPERATORS: [&str; 4] = ["&", "^", "|", ";"];

fn atlas() -> Atlas {
    let mut atlas = Atlas::new(["A", "B", "C", "DC 1"].into_iter().filter_map(Site::new)).unwrap();
    for (from, to, rtt) in [(0, 1, "3ms"), (0, 2, "7ms"), (1, 3, "1s")] {
        atlas.set_rtt(from, to, parse_duration(rtt).unwrap());
    }
    atlas.set_label(1, "region", "eu");
    atlas.set_metric(2, "load", 0.5);
    for (name, text) in [("west", "A & B"), ("east", "C ; west"), ("safe", "(B & C) @strong")] {
        atlas.define_zone(name, text, &Dialect::default()).unwrap();
    }
    atlas
}

fn scope_of(location: &str) -> Result<Scope, scope::Diagnostic> {
    Dialect::default().scope(&format!("image: {location}"))
}

fn plan_of(location: &str) -> Result<Plan, Code> {
    let dialect = Dialect::default();
    let scope = scope_of(location).map_err(|diagnostic| diagnostic.code())?;
    dialect.plan(&scope, "image", &atlas()).map_err(|d| d.code()).map(|plan| plan.expect("image is bound"))
}

fn sites(location: &str) -> Option<BTreeSet<Site>> {
    plan_of(location).ok().map(|plan| plan.sites().into_iter().collect())
}

/// Texts of locations, in parentheses where they have an operator, so that they can be put anywhere.
fn location() -> impl Strategy<Value = String> {
    let leaf = prop::sample::select(vec!["A", "B", "C", "DC 1", "west", "east", "safe", "here", "*"]);
    leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
        let operator = prop::sample::select(OPERATORS.to_vec());
        let level = prop::sample::select(vec!["weak", "eventual", "quorum", "strong"]);
        let function = prop::sample::select(vec!["all", "any", "one", "first"]);
        prop_oneof![
            4 => (prop::collection::vec(inner.clone(), 2..4), operator)
                .prop_map(|(parts, operator)| format!("({})", parts.join(&format!(" {operator} ")))),
            2 => (prop::collection::vec(inner.clone(), 1..3), level)
                .prop_map(|(parts, level)| format!("(({}) @{level})", parts.join(" & "))),
            1 => inner.clone().prop_map(|l| format!("({l} & ({l} @eventual))")),
            1 => inner.clone().prop_map(|l| format!("!{l}")),
            1 => (function, inner.clone()).prop_map(|(function, l)| format!("{function}({l})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(l, m)| format!("except({l}, {m})")),
            1 => (inner.clone(), inner.clone()).prop_map(|(l, m)| format!("common({l}, {m})")),
            1 => (inner.clone(), 0..2000_u32).prop_map(|(l, n)| format!("around({l}, {n}ms)")),
            1 => (0..5_u32, inner.clone()).prop_map(|(n, l)| format!("nearest({n}, {l})")),
            1 => (0..90_u32, inner.clone()).prop_map(|(n, l)| format!("within({n}s, {l})")),
            1 => inner.prop_map(|l| format!("by(load, {l})")),
            1 => Just("where(region = eu)".to_owned()),
        ]
    })
}

/// The same text in another spelling: free white space and doubled operators.
fn respell(text: &str, choices: &[bool]) -> String {
    let mut choices = choices.iter().copied().cycle();
    let mut spelt = String::new();
    for character in text.chars() {
        let yes = choices.next().unwrap_or_default();
        match character {
            '&' | '|' if yes => spelt.extend([character, character]),
            '(' | ')' | ',' | ';' | '^' | '@' | '!' if yes => spelt.extend(['\n', character, '\t', ' ']),
            other => spelt.push(other),
        }
    }
    spelt
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_printed_is_read_as_the_same_scope(location in location()) {
        if let Ok(scope) = scope_of(&location) {
            let printed = scope.to_string();
            let again = Dialect::default().scope(&printed);
            let again = again.map_err(|d| TestCaseError::fail(format!("{location}\n{}", d.render(Style::Plain))))?;
            prop_assert_eq!(&again, &scope, "{} printed {}", location, printed);
            prop_assert_eq!(again.to_string(), printed);
        }
    }

    #[test]
    fn another_spelling_is_the_same_scope(
        location in location(),
        choices in prop::collection::vec(any::<bool>(), 16),
        quoted in any::<bool>(),
    ) {
        if let Ok(scope) = scope_of(&location) {
            let spelt = respell(&location, &choices);
            let text = if quoted {
                let value = spelt.replace('\n', "\\n").replace('\t', "\\t");
                format!("{{\"Image\": \"{value}\",}}")
            } else {
                format!("{{ IMAGE :{spelt} }}")
            };
            let other = Dialect::default().scope(&text);
            let other = other.map_err(|d| TestCaseError::fail(d.render(Style::Plain)))?;
            prop_assert_eq!(other.to_string(), scope.to_string());
        }
    }

    #[test]
    fn a_plan_is_a_location_whose_plan_is_itself(location in location()) {
        if let Ok(plan) = plan_of(&location) {
            let again = plan_of(&plan.to_string());
            prop_assert_eq!(again.as_ref(), Ok(&plan), "{} is {}", location, plan);
        }
    }

    #[test]
    fn binary_operators_are_associative(
        a in location(), b in location(), c in location(), operator in prop::sample::select(OPERATORS.to_vec())
    ) {
        let flat = format!("{a} {operator} {b} {operator} {c}");
        for nested in [format!("({a} {operator} {b}) {operator} {c}"), format!("{a} {operator} ({b} {operator} {c})")] {
            prop_assert_eq!(scope_of(&nested).ok(), scope_of(&flat).ok(), "{}", flat);
            prop_assert_eq!(plan_of(&nested), plan_of(&flat), "{}", flat);
        }
    }

    #[test]
    fn a_location_joined_with_itself_is_itself(a in location(), operator in prop::sample::select(OPERATORS.to_vec())) {
        let twice = format!("{a} {operator} {a}");
        if plan_of(&a).is_ok() {
            prop_assert_eq!(plan_of(&twice), plan_of(&a), "{}", twice);
        }
    }

    #[test]
    fn not_not_names_the_same_sites(a in location()) {
        if let Some(named) = sites(&a) {
            prop_assert_eq!(sites(&format!("!!{a}")), Some(named), "{}", a);
        }
    }

    #[test]
    fn not_names_exactly_the_others(a in location()) {
        if let (Some(named), Some(others)) = (sites(&a), sites(&format!("!{a}"))) {
            prop_assert!(named.is_disjoint(&others), "{}", a);
            prop_assert_eq!(named.len() + others.len(), 4, "{}", a);
        }
    }

    #[test]
    fn combining_anew_keeps_the_sites_and_their_order(a in location()) {
        if let Ok(plan) = plan_of(&a) {
            for function in ["all", "any", "one", "first"] {
                let again = plan_of(&format!("{function}({a})")).map(|plan| plan.sites());
                prop_assert_eq!(again, Ok(plan.sites()), "{}({})", function, a);
            }
        }
    }

    #[test]
    fn except_and_common_part_the_sites(a in location(), b in location()) {
        // A level that is left on one `;`, `|` or `^` is refused: then there is nothing to compare.
        let part = |location: &str| match plan_of(location) {
            Ok(plan) => Some(plan.sites().into_iter().collect()),
            Err(Code::NoSite) => Some(BTreeSet::new()),
            Err(_) => None,
        };
        let (except, common) = (part(&format!("except({a}, {b})")), part(&format!("common({a}, {b})")));
        if let (Some(all), Some(_), Some(except), Some(common)) = (sites(&a), sites(&b), except, common) {
            prop_assert!(except.is_disjoint(&common));
            prop_assert_eq!(&except | &common, all, "{} and {}", a, b);
        }
    }

    #[test]
    fn a_zone_means_what_its_location_means(a in location()) {
        let dialect = Dialect::default();
        let mut atlas = atlas();
        if atlas.define_zone("z", &a, &dialect).is_ok() {
            for around in ["Z", "Z & DC 1", "(Z & DC 1) @quorum", "Z | DC 1", "Z ; Z", "!Z", "any(Z)", "except(Z, A)"] {
                let plan = |text: &str| {
                    let scope = dialect.scope(&format!("image: {}", around.replace('Z', text))).map_err(|d| d.code())?;
                    dialect.plan(&scope, "image", &atlas).map_err(|d| d.code())
                };
                prop_assert_eq!(plan("z"), plan(&a), "{} in {}", a, around);
            }
        }
    }

    #[test]
    fn the_order_of_services_does_not_matter(a in location(), b in location()) {
        let dialect = Dialect::default();
        let one = dialect.scope(&format!("image: {a}, compute: {b}"));
        let other = dialect.scope(&format!("compute: {b}, image: {a},"));
        if let (Ok(one), Ok(other)) = (one, other) {
            prop_assert_eq!(one.to_string(), other.to_string());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_text_upsets_it(text in any_text()) {
        let dialect = Dialect::default();
        match dialect.scope(&text) {
            Err(diagnostic) => {
                let span = diagnostic.span();
                prop_assert!(span.start <= span.end && span.end <= text.len());
                prop_assert!(!diagnostic.render(Style::Plain).is_empty());
                prop_assert!(diagnostic.render(Style::Coloured).len() > diagnostic.message().len());
            }
            Ok(scope) => {
                if let Err(diagnostic) = dialect.plan(&scope, "image", &atlas()) {
                    prop_assert!(!diagnostic.render(Style::Plain).is_empty());
                }
                let again = dialect.scope(&scope.to_string());
                prop_assert_eq!(again.ok(), Some(scope));
            }
        }
    }
}

/// Anything, and anything made of the language's own pieces.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
        "image",
        "compute",
        ":",
        ",",
        "{",
        "}",
        "(",
        ")",
        "&",
        "&&",
        "|",
        "||",
        "^",
        ";",
        "!",
        "@",
        "*",
        "=",
        "\"",
        "\\\"",
        "\\u0041",
        "\\",
        " ",
        "  ",
        "\n",
        "A",
        "B",
        "DC 1",
        "west",
        "here",
        "quorum",
        "around",
        "nearest",
        "where",
        "within",
        "10ms",
        "3",
        "99999999999999999999min",
        "region",
        "é",
        "\u{0}",
        "日本",
        "#",
        "'",
        "[",
    ];
    prop_oneof![
        any::<String>(),
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..40)
            .prop_map(|pieces| pieces.concat()),
        prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..20)
            .prop_map(|pieces| format!("image: {}", pieces.concat())),
    ]
}
