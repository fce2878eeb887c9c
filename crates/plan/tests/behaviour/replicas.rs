//! `&` on a write: one leg to a set of sites.

use plan::{Sent, Why, confirms, replicates};
use scope::{Level, Plan, Site};

use crate::stage::{NAMED, Stage, UNNAMED, parse};

#[test]
fn a_write_to_several_sites_is_one_leg_to_all_of_them() {
    let mut stage = Stage::write("C & A & B");
    assert_eq!(stage.did(), "replicate A+B+C @eventual");
    assert_eq!(stage.answers("A", 201), "answer A");
}

#[test]
fn the_level_goes_with_it_even_to_one_site() {
    assert_eq!(Stage::put("(B & A) @quorum").did(), "replicate A+B @quorum");
    assert_eq!(Stage::put("A @weak").did(), "replicate A @weak");
    assert_eq!(Stage::put("A @eventual").did(), "send A");
}

#[test]
fn of_a_choice_the_nearest_that_can_be_reached_is_one_of_them() {
    assert_eq!(Stage::write("(B | A) & C").did(), "replicate A+C @eventual");
    assert_eq!(Stage::cut("(B | A) & C", UNNAMED, "A").did(), "replicate B+C @eventual");
    assert_eq!(Stage::write("(B ; A) & C").did(), "replicate B+C @eventual");
    assert_eq!(Stage::cut("(B ; A) & C", UNNAMED, "B").did(), "replicate A+C @eventual");
    assert_eq!(Stage::write("((C & D) | B) & A").did(), "replicate A+B @eventual");
    assert_eq!(Stage::write("(A | B) & A").did(), "send A");
}

#[test]
fn who_cannot_be_reached_is_still_one_of_them_but_does_not_take_it() {
    assert_eq!(Stage::cut("A & B", NAMED, "A").did(), "replicate B+A @eventual");
    assert_eq!(Stage::cut("A & B", NAMED, "AB").did(), "fail 503 Unavailable");
}

#[test]
fn another_site_is_asked_only_where_none_of_them_executed_it() {
    let mut stage = Stage::write("(A & B) ; C");
    assert_eq!(stage.did(), "replicate A+B @eventual");
    assert_eq!(stage.unreachable("A"), "send C");
    assert_eq!(stage.answers("C", 201), "answer C");
    let mut stage = Stage::write("(A & B) ; C");
    stage.did();
    assert_eq!(stage.fails("A", Sent::Maybe, Why::Reset), "fail 504 Unknown");
    let mut stage = Stage::write("(A & B) ; C");
    stage.did();
    assert_eq!(stage.answers("A", 504), "cancel A, fail 504 Unknown");
}

#[test]
fn it_is_one_of_a_choice_as_near_as_its_nearest_site() {
    assert_eq!(Stage::write("B | (C & A)").did(), "replicate A+C @eventual");
    assert_eq!(Stage::write("B | (C & D)").did(), "send B");
}

#[test]
fn it_can_take_too_long() {
    let mut stage = Stage::write("within(1s, A & B) ; C");
    stage.did();
    stage.sent("A");
    assert_eq!(stage.after(1_000), "cancel A, fail 504 Unknown");
}

#[test]
fn what_they_answer_is_the_answer_where_there_is_no_other_site() {
    let mut stage = Stage::write("within(1s, A & B)");
    stage.did();
    assert_eq!(stage.answers("A", 504), "answer A");
}

#[test]
fn whether_a_write_makes_replicas_is_told_wherever_in_a_plan_it_does() {
    for location in ["A & B", "A @weak", "(A & B) @strong", "C ; within(1s, A & B)", "A | (B ; (C & D))"] {
        assert!(replicates(&parse(location)), "{location}");
    }
    for location in ["A", "A @eventual", "A ; B", "A | within(1s, B)", "A ^ B"] {
        assert!(!replicates(&parse(location)), "{location}");
    }
    let alone = |level: Level| Plan::All(level, vec![Plan::Site(Site::new("A").unwrap())]);
    assert!(!replicates(&alone(Level::Eventual)) && replicates(&alone(Level::Weak)));
}

#[test]
fn a_read_is_confirmed_by_every_site_that_may_have_a_replica() {
    let by = |location: &str| {
        let (level, sites) = confirms(&parse(location))?;
        Some((level, sites.iter().map(Site::name).collect::<String>()))
    };
    assert_eq!(by("(B & A) @quorum"), Some((Level::Quorum, "AB".to_owned())));
    assert_eq!(by("(A & (B | C) & (D ; E)) @strong"), Some((Level::Strong, "ABCDE".to_owned())));
    for none in ["A", "A & B", "(A & B) @weak", "C ; (A & B) @quorum"] {
        assert_eq!(by(none), None, "{none} is read as it is");
    }
    for no_sites in
        ["(A & (B ^ C)) @quorum", "(A & within(1s, B)) @strong", "(A & ((B & C) @strong)) @quorum"]
    {
        assert_eq!(by(no_sites), None, "{no_sites}");
    }
}
