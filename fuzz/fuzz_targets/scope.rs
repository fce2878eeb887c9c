//! Any text: no panic, no hang, and what the language promises of the scopes that are valid.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use scope::{Atlas, Dialect, Site, Style, parse_duration};

static VIEW: LazyLock<Atlas> = LazyLock::new(|| {
    let names = ["A", "B", "C", "Site1", "Site2", "Site3", "Zone1", "Zone2", "Zone3", "DC 1", "DC 2", "App1"];
    let mut view = Atlas::new(names.into_iter().filter_map(Site::new)).expect("there are sites");
    for (from, to, rtt) in [(0, 1, "5ms"), (0, 2, "30ms"), (3, 4, "1ms"), (3, 5, "9ms")] {
        view.set_rtt(from, to, parse_duration(rtt).expect("a duration"));
    }
    view.set_label(0, "region", "eu");
    view.set_metric(1, "load", 0.5);
    for (name, text) in
        [("west", "A & B"), ("east", "C ; west | A"), ("safe", "(A & C) @strong"), ("lost", "A & Q")]
    {
        view.define_zone(name, text, &Dialect::default()).expect("a zone");
    }
    view
});

fuzz_target!(|text: &str| {
    let dialect = Dialect::default();
    let scope = match dialect.scope(text) {
        Ok(scope) => scope,
        Err(diagnostic) => {
            assert!(diagnostic.span().end <= text.len());
            drop(diagnostic.render(Style::Plain));
            return;
        }
    };
    let printed = scope.to_string();
    let again = dialect.scope(&printed).unwrap_or_else(|d| panic!("{}", d.render(Style::Plain)));
    assert_eq!(again, scope, "printed as {printed}");
    assert_eq!(again.to_string(), printed);
    match dialect.plan(&scope, "image", &*VIEW) {
        Err(diagnostic) => drop(diagnostic.render(Style::Coloured)),
        Ok(None) => {}
        Ok(Some(plan)) => {
            let planned = dialect.scope(&format!("image: {plan}")).expect("a plan prints as a location");
            assert_eq!(dialect.plan(&planned, "image", &*VIEW).expect("all its sites are known"), Some(plan));
        }
    }
});
