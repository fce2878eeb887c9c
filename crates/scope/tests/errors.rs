//! What is said of each mistake, and what it points at: the character, and what to write instead.
//!
//! How a diagnostic is drawn is in `archipel/tests/cmd/scope-errors.trycmd`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::string_slice,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use scope::{Atlas, Code, Diagnostic, Dialect, Limits, Services, Site, Style, Zone, nearest, some_of};

fn atlas() -> Atlas {
    let sites = ["Site1", "Site2", "Site3", "Oslo", "Lima"];
    let mut atlas = Atlas::new(sites.into_iter().filter_map(Site::new)).unwrap();
    atlas.set_label(0, "region", "eu");
    atlas.set_metric(0, "load", 1.0);
    for (name, text) in [("north", "Oslo & Lyma"), ("race", "Oslo | Lima"), ("safe", "(Oslo & Lima) @strong")]
    {
        atlas.define_zone(name, text, &Dialect::default()).unwrap();
    }
    atlas
}

fn mistake(text: &str, services: Services) -> Diagnostic {
    let dialect = Dialect { services, ..Dialect::default() };
    let plan = dialect.scope(text).and_then(|scope| dialect.plan(&scope, "image", &atlas()));
    plan.expect_err(text)
}

/// Of each mistake two lines: the text, and below what it points at, or `|` where something is missing, what is said.
#[track_caller]
fn said(services: &Services, mistakes: &str) {
    let lines: Vec<&str> = mistakes.lines().skip(1).collect();
    for pair in lines.chunks(2) {
        let [text, expected] = pair else { panic!("{pair:?}") };
        let diagnostic = mistake(text, services.clone());
        let columns = |at: usize| text[..at].chars().count();
        let (start, end) = (columns(diagnostic.span().start), columns(diagnostic.span().end));
        let mark = if start == end { "|".to_owned() } else { "^".repeat(end - start) };
        let code = diagnostic.code().as_str();
        assert_eq!(format!("{}{mark} {code}: {diagnostic}", " ".repeat(start)), *expected, "\n{text}");
    }
}

#[test]
fn characters_that_mean_nothing() {
    said(
        &Services::open(),
        r"
image: A # no
         ^ syntax: unexpected character `#` (remove everything from the `#` on)
image: 'A'
       ^ syntax: unexpected character `'` (strings have double quotes, as in JSON)
image: [A]
       ^ syntax: unexpected character `[` (join sites with an operator, such as `A & B`)
image: ]
       ^ syntax: unexpected character `]` (join sites with an operator, such as `A & B`)
image: ~A
       ^ syntax: unexpected character `~` (every site but one is `!Site1`)
image: A & -B
           ^ syntax: unexpected character `-` (every site but one is `!Site1`)
image: A + B
         ^ syntax: unexpected character `+` (both sites are `A & B`, one of them is `A | B`)
image: é
       ^ syntax: unexpected character `é` (names have letters, digits, `.`, `_` and `-`)
image: A % B
         ^ syntax: unexpected character `%` (the operators are `&` `|` `^` `;` `!` and `@`)
",
    );
}

#[test]
fn strings_that_are_none() {
    said(
        &Services::open(),
        r#"
{"image": "A
          ^^ syntax: this string has no end
{"image": "A\
          ^^^ syntax: this string has no end
{"image": "A \q"}
             ^^ syntax: not a JSON string
{"image": "A \b"}
             ^^ syntax: unexpected character `\u{8}` (the operators are `&` `|` `^` `;` `!` and `@`)
{"image": "A \f"}
             ^^ syntax: unexpected character `\u{c}` (the operators are `&` `|` `^` `;` `!` and `@`)
{"image": "A \u00g1"}
             ^^^^^ syntax: not a JSON string
{"image": "A \u12"}
             ^^^^ syntax: not a JSON string
image: "Site1 )"
              ^ syntax: expected an operator, or the end of the string, found `)` (no `(` opens this parenthesis)
{"9": Site1}
  ^ syntax: expected a service, found `9`
{"image: x": Site1}
       ^ syntax: expected the end of the service's name, found `:`
"#,
    );
}

#[test]
fn scopes_that_do_not_end_or_go_on() {
    said(
        &Services::open(),
        r#"
{ image: Site1
              | syntax: expected `,` or `}`, found the end
{ image: Site1 ) }
               ^ syntax: expected an operator, `,` or `}`, found `)` (no `(` opens this parenthesis)
image: Site1 }
             ^ syntax: this brace closes nothing
{ image: Site1 } compute
                 ^^^^^^^ syntax: expected the end, found the name `compute`
image: Site1 )
             ^ syntax: expected an operator, `,` or the end, found `)` (no `(` opens this parenthesis)
image: (Site1) Site2
               ^^^^^ syntax: expected an operator, `,` or the end, found the name `Site2`
image: Site1 {Site2}
             ^ syntax: expected an operator, `,` or the end, found `{` (parts of a location are grouped with `(` and `)`)
image: "Site1" "Site2"
               ^^^^^^^ syntax: expected an operator, `,` or the end, found a string
image: Site1  2
              ^ syntax: expected an operator, `,` or the end, found `2` (the words of one name have exactly one space between them)
image: Site1  Site2
              ^^^^^ syntax: expected an operator, `,` or the end, found the name `Site2` (the words of one name have exactly one space between them)
image: (Site1 & Site2
                     | syntax: expected an operator or `)`, found the end
image: (Site1  Site2)
               ^^^^^ syntax: expected an operator or `)`, found the name `Site2` (the words of one name have exactly one space between them)
image: around(Site1  Site2, 10ms)
                     ^^^^^ syntax: expected `,` or `)`, found the name `Site2` (the words of one name have exactly one space between them)
"#,
    );
}

#[test]
fn services_without_a_location() {
    said(
        &Services::open(),
        r#"
9: Site1
^ syntax: expected a service, such as `image`, or `*` for all others, found `9`
image Site1
           | syntax: expected `:`, found the end (a service and its location have a colon between them: `image: Site1`)
image = Site1
      ^ syntax: expected `:`, found `=` (a service is bound by a colon: `:`)
image
     | syntax: expected `:`, found the end (a scope binds services to locations, such as `image: Site1`)
image: Site1, Site2
                   | syntax: expected `:`, found the end (if `Site2` is a service, say where it runs: `Site2: Site1`)
image: Site1, "compute"
                       | syntax: expected `:`, found the end
image: Site1 compute: Site2
                    ^ syntax: expected an operator, `,` or the end, found `:` (a comma is missing before the next service: `Site1, compute`)
image: Site1 & Site2: Site1
                    ^ syntax: expected an operator, `,` or the end, found `:` (if `Site2` is a service, put `,` before it)
image: 10ms
       ^^^^ syntax: expected a location, found `10ms` (only functions take durations, such as `within(2s, Site1)`)
image: 3
       ^ syntax: expected a location, found `3` (the name of a site starts with a letter)
image: ,
       ^ syntax: expected a location, found `,`
*: Site1, *: Site2
          ^ service: `*` is bound twice (to use it at several sites, join them: `A & B`, `A | B` or `A ; B`)
"#,
    );
}

#[test]
fn services_that_the_application_has_not() {
    let services = Services::open().with("image", ["glance"]).with("compute", ["nova"]);
    said(
        &services,
        r#"
image: Site1, glance: Site2
              ^^^^^^ service: the service `image` is bound twice (to use it at several sites, join them: `A & B`, `A | B` or `A ; B`)
imge: Site1
^^^^ service: no service is called `imge` (there is a service with a similar name: `image`)
storage: Site1
^^^^^^^ service: no service is called `storage` (known are `compute`, `glance`, `image`, `nova`)
{"image x": Site1}
  ^^^^^^^ service: no service is called `image x` (there is a service with a similar name: `image`)
"#,
    );
}

#[test]
fn levels_that_stand_where_they_mean_nothing() {
    said(
        &Services::open(),
        r"
image: Site1 @
              | syntax: expected a level, found the end (the levels are `weak`, `eventual`, `quorum`, `strong`)
image: (Site1 & Site2) @qorum
                        ^^^^^ level: no level is called `qorum` (there is a level with a similar name: `quorum`)
image: (Site1 & Site2) @quorum Oslo
                        ^^^^^^^^^^^ syntax: an operator is missing after `@quorum`
image: (Site1 & Site2) @nothing like it
                        ^^^^^^^^^^^^^^^ level: no level is called `nothing like it` (known are `weak`, `eventual`, `quorum`, `strong`)
image: (Site1 & Site2) @quorum @strong
                               ^ syntax: expected an operator, `,` or the end, found `@` (a group has one level)
image: Site1 & Site2 @quorum
               ^^^^^^^^^^^^^ level: a level belongs to a whole group, not to one name in it (put the group in parentheses: `(Site1 & Site2) @quorum`)
image: (Site1 | Site2) & Lima @quorum
                         ^^^^^^^^^^^^ level: a level belongs to a whole group, not to one name in it (put the group in parentheses: `((Site1 | Site2) & Lima) @quorum`)
image: Site1 @weak & Site2 @quorum
       ^^^^^^^^^^^ level: a level belongs to a whole group, not to one name in it (a zone inside a longer group has its level in parentheses too: `A & (west @quorum)`)
image: (Site1 | Site2) @quorum
       ^^^^^^^^^^^^^^^ level: @quorum says how replicas agree, and `|` makes none (replicas are made by `&`: `all(Site1 | Site2)`)
image: around(Site1, 1s) @weak
       ^^^^^^^^^^^^^^^^^ level: @weak says how replicas agree, and `;` makes none (replicas are made by `&`: `all(around(Site1, 1s))`)
image: race @quorum
       ^^^^ level: @quorum says how replicas agree, and `|` makes none (give a level to a group of `&`, such as `(A & B) @quorum` or `all(…) @quorum`)
image: safe @quorum
       ^^^^ level: this is @strong already (leave out one of the levels: a group of `&` has one, here @strong)
",
    );
}

#[test]
fn calls_whose_arguments_do_not_fit() {
    said(
        &Services::open(),
        r"
image: here()
           ^ function: `here` is a site, not a function
image: aruond(Site1, 10ms)
       ^^^^^^ function: no function is called `aruond` (there is a function with a similar name: `around`)
image: around(Site1)
       ^^^^^^^^^^^^^ function: `around` takes 2 arguments, not 1 (it is written `around(location, radius)`)
image: around()
       ^^^^^^^^ function: `around` takes 2 arguments, not 0 (it is written `around(location, radius)`)
image: nearest(1, Site1, Site2)
                       ^ function: `nearest` takes 2 arguments, not 3 (it is written `nearest(count, location)`)
image: nearest(1, Site1, (A & any(B, C)), any(A), B
                       ^ function: `nearest` takes 2 arguments, not 5 (it is written `nearest(count, location)`)
image: all(Site1, Site2)
                ^ function: `all` takes 1 argument, not 2 (it is written `all(location)`)
image: around(Site1,)
                   ^ function: an argument is missing after this comma (it is written `around(location, radius)`)
image: around(Site1, 10)
                     ^^ function: `10` is not a duration (it is written `around(location, radius)`)
image: around(Site1, 10 ms)
                     ^^ function: `10` is not a duration (a number and its unit have no space between them: `10ms`)
image: around(Site1, 10 parsecs)
                     ^^ function: `10` is not a duration (it is written `around(location, radius)`)
image: around(Site1, ms)
                     ^^ function: expected a duration, such as `10ms`, found the name `ms` (it is written `around(location, radius)`)
image: around(10ms, Site1)
              ^^^^ function: expected a location, such as `Site1`, found `10ms` (it is written `around(location, radius)`)
image: nearest(x, *)
               ^ function: expected a count, such as `3`, found the name `x` (it is written `nearest(count, location)`)
image: nearest(99999999999999999999, *)
               ^^^^^^^^^^^^^^^^^^^^ function: `99999999999999999999` is not a count (it is written `nearest(count, location)`)
image: by(3, *)
          ^ function: expected the name of a metric, such as `load`, found `3` (it is written `by(metric, location)`)
image: by(the load, *)
          ^^^^^^^^ function: `the load` is more than one word (it is written `by(metric, location)`)
image: where(region)
                   ^ function: expected `=`, found `)` (it is written `where(label = value, …)`)
image: where(region = )
                      ^ function: expected a word, found `)` (it is written `where(label = value, …)`)
image: where(*)
             ^ function: expected a label and its value, such as `region = eu`, found `*` (it is written `where(label = value, …)`)
",
    );
}

#[test]
fn names_that_nobody_has() {
    said(
        &Services::open(),
        r"
image: site2
       ^^^^^ unknown-name: no site or zone is called `site2` (there is a site or zone with a similar name: `Site2`)
image: Site4
       ^^^^^ unknown-name: no site or zone is called `Site4` (similar are `Site1`, `Site2`, `Site3`)
image: Quito
       ^^^^^ unknown-name: no site or zone is called `Quito` (known are `Site1`, `Site2`, `Site3`, `Oslo`, `Lima`, `north`, `race`, `safe`)
image: Site1 and Site2
       ^^^^^^^^^^^^^^^ unknown-name: no site or zone is called `Site1 and Site2` (sites are joined by an operator: `Site1 & Site2`)
image: Site1 or race
       ^^^^^^^^^^^^^ unknown-name: no site or zone is called `Site1 or race` (sites are joined by an operator: `Site1 | race`)
image: Site1 Oslo
       ^^^^^^^^^^ unknown-name: no site or zone is called `Site1 Oslo` (sites are joined by an operator: `Site1 & Oslo`)
image: Oslo and Quito
       ^^^^^^^^^^^^^^ unknown-name: no site or zone is called `Oslo and Quito` (known are `Site1`, `Site2`, `Site3`, `Oslo`, `Lima`, `north`, `race`, `safe`)
image: by(laod, *)
          ^^^^ unknown-metric: no metric is called `laod` (there is a metric with a similar name: `load`)
image: where(regoin = eu)
             ^^^^^^ unknown-label: no label is called `regoin` (there is a label with a similar name: `region`)
image: Oslo ; except(Lima, Lima)
              ^^^^^^^^^^^^^^^^^^ no-site: this location has no site (a request must run somewhere: name at least one site)
",
    );
}

#[test]
fn characters_that_a_terminal_would_obey_are_shown_in_letters() {
    let diagnostic = mistake("image: A \u{1b}[2J", Services::open());
    assert!(diagnostic.message().contains("`\\u{1b}`"), "{diagnostic}");
    assert_eq!(mistake("{\"image\": \"A\tB\"}", Services::open()).message(), "not a JSON string");
}

#[test]
fn a_zone_at_fault_is_shown_with_the_end_and_the_start_of_the_way_to_it() {
    let mut atlas = atlas();
    for (name, text) in [("a", "north"), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "d")] {
        atlas.define_zone(name, text, &Dialect::default()).unwrap();
    }
    let dialect = Dialect::default();
    let shown = |text: &str| {
        let scope = dialect.scope(text).unwrap();
        dialect.plan(&scope, "image", &atlas).unwrap_err().render(Style::Plain)
    };
    let places = |shown: &str| -> Vec<String> {
        let at = shown
            .lines()
            .filter_map(|line| line.trim().strip_prefix("--> ").or(line.trim().strip_prefix("::: ")));
        at.map(str::to_owned).collect()
    };
    assert_eq!(places(&shown("image: Lima ; a")), ["zone north:1:8", "zone a:1:1", "scope:1:15"]);
    assert_eq!(
        places(&shown("image: Lima ; e")),
        ["zone north:1:8", "zone a:1:1", "zone b:1:1", "scope:1:15"]
    );
}

#[test]
fn what_is_not_labelled_is_pointed_at_as_a_whole() {
    let dialect = Dialect { limits: Limits { steps: 3, ..Limits::default() }, ..Dialect::default() };
    let text = "compute: Oslo, image: Oslo & Lima";
    let diagnostic = dialect.plan(&dialect.scope(text).unwrap(), "image", &atlas()).unwrap_err();
    assert_eq!((diagnostic.code(), text.get(diagnostic.span().range())), (Code::Limit, Some("Oslo & Lima")));
}

#[test]
fn what_is_missing_at_the_end_is_missing_after_the_last_word() {
    for text in ["image: Oslo &", "image: Oslo &  \n"] {
        assert_eq!(mistake(text, Services::open()).span().range(), 13..13, "{text:?}");
    }
}

#[test]
fn a_level_is_part_of_what_is_too_much() {
    let dialect = Dialect { limits: Limits { steps: 3, ..Limits::default() }, ..Dialect::default() };
    let text = "image: (Oslo & Lima) @quorum";
    let diagnostic = dialect.plan(&dialect.scope(text).unwrap(), "image", &atlas()).unwrap_err();
    assert_eq!(text.get(diagnostic.span().range()), Some("(Oslo & Lima) @quorum"));
}

#[test]
fn a_zone_that_leads_back_to_itself_says_how() {
    let mut atlas = atlas();
    let dialect = Dialect::default();
    atlas.define_zone("outer", "Lima & inner", &dialect).unwrap();
    let mut drawn = |text: &str| atlas.define_zone("inner", text, &dialect).unwrap_err().render(Style::Plain);
    let (itself, through) = (drawn("Oslo & inner"), drawn("Oslo & outer"));
    assert!(itself.contains("`inner` is itself"), "{itself}");
    assert!(through.contains("`outer` is one that is defined by it"), "{through}");
}

#[test]
fn where_every_name_is_a_service_only_those_that_a_site_offers_are_written() {
    let mut atlas = Atlas::new(["A", "B"].into_iter().filter_map(Site::new)).unwrap();
    let may = |dialect: &Dialect, atlas: &Atlas, service: &str| {
        dialect.offered(atlas).scope(&format!("{service}: A")).is_ok()
    };
    let (open, image) = (Dialect::default(), Services::open().with("image", ["glance"]));
    let closed = Dialect { services: image, ..Dialect::default() };
    assert!(open.services.is_open() && !closed.services.is_open());
    atlas.set_services(0, ["image"]);
    assert!(may(&open, &atlas, "imgae"), "B offers every service");
    atlas.set_services(1, ["compute"]);
    for (dialect, service, known) in [
        (&open, "image", true),
        (&open, "compute", true),
        (&open, "imgae", false),
        (&closed, "glance", true),
        (&closed, "compute", false),
    ] {
        assert_eq!(may(dialect, &atlas, service), known, "{service}");
    }
}

#[test]
fn a_scope_in_a_file_is_pointed_at_there() {
    let file = "# sites\nscope = 'image: site2 ; north'\n";
    let at = file.find("image").unwrap();
    let inside = |text: &str| {
        let drawn = mistake(text, Services::open()).inside("site.toml", file, at).render(Style::Plain);
        assert!(drawn.contains("site.toml:2:"), "{drawn}");
        drawn
    };
    let wrong = inside("image: site2 ; north");
    assert!(
        wrong.contains("--> site.toml:2:17") && wrong.contains("2 + scope = 'image: Site2 ; north'"),
        "{wrong}"
    );
    // What is wrong is in a zone: that is not in the file, and what to write instead is said of it.
    let zone = inside("image: Lima  ; north");
    assert!(zone.contains("--> zone north:1:8") && zone.contains("1 + Oslo & Lima"), "{zone}");
    let whole = Zone::read("9", "Oslo", &Dialect::default()).unwrap_err().inside("zones", "x = 'Oslo'", 5);
    assert!(whole.render(Style::Plain).contains("zones:1:6"));
}

#[test]
fn a_slip_is_told_from_another_name() {
    let near = |written: &'static str, known: &[&'static str]| -> Vec<String> {
        nearest(written, known.iter().copied()).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(
        near("dc-1", &["DC 1", "DC 2", "dc2"]),
        ["DC 1"],
        "case and what is between words do not count"
    );
    assert_eq!(near("Site4", &["Site1", "Oslo", "Site2"]), ["Site1", "Site2"], "all that are as near");
    assert_eq!(near("frankfurt", &["frankfrt", "frnkfrt", "paris"]), ["frankfrt"]);
    assert_eq!(near("frankfurt", &["frnkfrt"]), ["frnkfrt"], "a third may be wrong");
    assert!(near("frankfurt", &["frknrt", "paris"]).is_empty(), "more may not");
    assert_eq!(near("b", &["a", "ab"]), ["ab"], "a letter instead of another is another name");
    let long = "x".repeat(65).leak();
    assert!(near(long, &[long]).is_empty(), "nobody meant a slip in so long a name");
    assert_eq!(near(&long[1..], &[&long[1..]]), [&long[1..]]);
    assert!(near("ab", &[&long[..19], "abcdefghijklmnopqrs"]).is_empty());
    assert!(near(&long[..60], &[&long[..40]]).is_empty(), "nor one of so many letters");
}

#[test]
fn of_many_names_some_are_told() {
    let names: Vec<String> = (1..=14).map(|n| format!("s{n}")).collect();
    let told = |count: usize| some_of(names.iter().take(count).map(String::as_str));
    assert_eq!(told(2), "`s1`, `s2`");
    assert!(told(12).ends_with("`s11`, `s12`"));
    assert!(told(14).ends_with("`s12` and 2 more"));
    let empty = Atlas::new(Site::new("A")).unwrap();
    let scope = Dialect::default().scope("image: by(load, *)").unwrap();
    let error = Dialect::default().plan(&scope, "image", &empty).unwrap_err();
    assert!(error.to_string().ends_with("(there is no metric at all)"), "{error}");
}
