//! What "nearest" means for a group.

use std::time::Duration;

use plan::{Knowledge, Reach, Request};
use scope::Site;

use crate::stage::Stage;

#[test]
fn a_fallback_is_as_far_as_its_first_site() {
    let mut stage = Stage::read("(D ; A) | B");
    assert_eq!(stage.did(), "send B");
}

#[test]
fn a_choice_is_as_far_as_its_nearest_site() {
    let mut stage = Stage::read("within(1s, D | A) | B");
    assert_eq!(stage.did(), "send A");
}

#[test]
fn exactly_one_is_as_far_as_its_farthest_site() {
    let mut stage = Stage::read("(A ^ C) | B");
    assert_eq!(stage.did(), "send B");
}

#[test]
fn an_unknown_distance_comes_after_the_known_and_before_the_unavailable() {
    let mut stage = Stage::new("A | E | D", Request::Read, "A");
    assert_eq!(stage.did(), "send D");
    // For E only the allowance counts.
    assert_eq!(stage.after(140), "send E");
    assert_eq!(stage.after(100), "send A");
}

/// Of which nobody keeps how long its sites take.
struct Plain;

impl Knowledge for Plain {
    fn rtt(&self, _: &Site) -> Option<Duration> {
        None
    }

    fn reach(&self, _: &Site) -> Reach {
        Reach::Yes
    }
}

#[test]
fn without_knowledge_of_what_is_late_the_next_is_asked_as_the_rules_say() {
    let mut stage = Stage::under("A | B", Request::Read, &Plain);
    assert_eq!(stage.after(99), "send A");
    assert_eq!(stage.after(1), "send B");
}
