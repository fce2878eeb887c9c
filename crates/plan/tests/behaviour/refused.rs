//! What is refused before any site is asked.

use std::collections::BTreeSet;

use plan::{Failure, Refused, Request, Run};
use scope::Level;

use crate::stage::{LIST, NAMED, STRICT, Sky, UNNAMED, parse, rules};

fn refusal(location: &str, request: Request) -> Option<Refused> {
    Run::new(&parse(location), request, &rules(), &Sky::default()).err()
}

#[test]
fn a_read_at_a_level_that_no_replicas_are_known_to_have_is_a_501_wherever_it_stands() {
    let cases = [
        ("(A & B) @quorum", Request::Read, Refused::Level(Level::Quorum)),
        ("C ; within(1s, (A & B) @strong)", LIST, Refused::Level(Level::Strong)),
    ];
    for (location, request, refused) in cases {
        assert_eq!(refusal(location, request), Some(refused), "{location}");
        assert_eq!(refused.status(), 501);
        assert!(refused.to_string().contains("replicas at such a level"));
    }
}

#[test]
fn a_write_to_several_sites_that_makes_no_sense_is_refused_wherever_it_stands() {
    let cases = [
        ("(A ^ B) & C", Refused::NoSites),
        ("D ; ((C | (A ^ B)) & D)", Refused::NoSites),
        ("within(1s, A) & B", Refused::NoSites),
        ("A ^ (B & C)", Refused::Contrary),
        ("A ^ (D ; within(1s, B & C))", Refused::Contrary),
        ("((A & B) @quorum) & C", Refused::TwoLevels),
    ];
    for (location, refused) in cases {
        assert_eq!(refusal(location, NAMED), Some(refused), "{location}");
        assert_eq!(refused.status(), 422);
    }
}

#[test]
fn exactly_one_needs_a_name_for_a_write() {
    assert_eq!(refusal("A ^ B", UNNAMED), Some(Refused::NeedsName));
    assert_eq!(Refused::NeedsName.status(), 422);
    assert_eq!(refusal("A ^ B", NAMED), None);
}

#[test]
fn everything_else_runs() {
    for request in [Request::Read, LIST, STRICT, NAMED, UNNAMED] {
        for location in
            ["A", "A ; B", "A | B", "A & B", "C ; within(1s, A & (B | D))", "within(1s, A) ; B | C"]
        {
            assert_eq!(refusal(location, request), None, "{location}");
        }
    }
    for request in [Request::Read, LIST, STRICT] {
        for location in
            ["A & B", "A ^ B", "(A & B) @weak", "((A & B) @weak) ^ C", "C ; within(1s, A & (B | D))"]
        {
            assert_eq!(refusal(location, request), None, "{location}");
        }
    }
}

#[test]
fn whatever_went_wrong_has_words_of_its_own() {
    use Failure::{ClientGone, Conflict, Missing, NotFound, Partial, TimedOut, Unavailable, Unknown};
    let failures = [NotFound, Unavailable, TimedOut, Missing, Partial, Conflict, Unknown, ClientGone];
    let refused = [Refused::NeedsName, Refused::NoSites, Refused::TwoLevels, Refused::Contrary];
    let words = failures.iter().map(ToString::to_string).chain(refused.iter().map(ToString::to_string));
    let words: BTreeSet<String> = words.filter(|words| !words.is_empty()).collect();
    assert_eq!(words.len(), failures.len() + refused.len());
}
