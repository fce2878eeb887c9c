//! What is refused before any site is asked.

use plan::{Refused, Request, Run};
use scope::Level;

use crate::stage::{LIST, NAMED, STRICT, Sky, UNNAMED, parse, rules};

fn refusal(location: &str, request: Request) -> Option<Refused> {
    Run::new(&parse(location), request, &rules(), &Sky::default()).err()
}

#[test]
fn what_comes_later_is_a_501_wherever_it_stands() {
    let cases = [
        ("A & B", NAMED, Refused::Replication),
        ("C | (A & B)", UNNAMED, Refused::Replication),
        ("(A & B) @quorum", Request::Read, Refused::Level(Level::Quorum)),
        ("C ; within(1s, (A & B) @strong)", LIST, Refused::Level(Level::Strong)),
        ("A @weak", NAMED, Refused::Level(Level::Weak)),
        ("A @strong", UNNAMED, Refused::Level(Level::Strong)),
    ];
    for (location, request, refused) in cases {
        assert_eq!(refusal(location, request), Some(refused), "{location}");
        assert_eq!(refused.status(), 501);
        assert!(refused.to_string().contains("yet"));
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
        for location in ["A", "A ; B", "A | B", "within(1s, A) ; B | C"] {
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
