//! One resource at one site: what is taken next, what may be forgotten, and what a state of another replica changes.

use replica::{Execution, How, Operation, Resource, Stamp, Step, Version};

use super::*;

fn id(at: &str, counter: u64) -> OpId {
    OpId { site: site(at), ..op(counter) }
}

fn sees(ids: &[&OpId]) -> Version {
    let mut seen = Version::default();
    for id in ids {
        seen.add(id);
    }
    seen
}

fn operation(id: &OpId, class: Class, seen: &[&OpId], wall_ms: u64) -> Operation {
    let who = Who { site: site("A"), user: "ada".into(), project: None, roles: Vec::new(), time_ms: 0 };
    let (stamp, body) = (Stamp { wall_ms, logical: 0 }, Some(Body("b".into())));
    let (id, seen) = (id.clone(), sees(seen));
    Operation { id, resource: meta(), class, doubt: Doubt::Repeat, seen, stamp, on_behalf_of: who, body }
}

/// The next execution.
fn next(resource: &mut Resource) -> Option<Execution> {
    match resource.step()? {
        Step::Execute(execution) => Some(execution),
        Step::Beaten(op) => panic!("{op} is beaten"),
    }
}

/// Executes all there is.
fn settle(resource: &mut Resource) {
    while let Some(execution) = next(resource) {
        resource.executed(&execution);
    }
}

/// A resource that was created by A, and then these happened to it.
fn resource(operations: Vec<Operation>) -> Resource {
    let mut resource = Resource::new(Level::Eventual);
    assert!(resource.learn(operation(&id("A", 1), Class::Create, &[], 1)));
    for operation in operations {
        assert!(resource.learn(operation));
    }
    resource
}

fn kept(resource: &Resource) -> BTreeSet<OpId> {
    resource.shared().map(|op| op.id.clone()).collect()
}

fn patch(field: &str) -> Class {
    Class::Patch([field.into()].into())
}

#[test]
fn what_is_accepted_here_is_executed_before_what_came_from_elsewhere() {
    let (a, b, c) = (id("A", 1), id("B", 1), id("C", 1));
    let mut resource = resource(Vec::new());
    settle(&mut resource);
    assert!(resource.learn(operation(&c, Class::Add, &[&a], 2)));
    resource.accept(operation(&b, Class::Add, &[&a], 3));
    assert_eq!(next(&mut resource).unwrap().op, b, "a client waits for it");
}

#[test]
fn each_is_executed_as_what_it_is() {
    let (a, b, c) = (id("A", 1), id("B", 1), id("C", 1));
    let action = Class::Action { idempotent: true };
    let mut one = resource(vec![operation(&b, action, &[&a], 2)]);
    let create = next(&mut one).unwrap();
    one.executed(&create);
    assert_eq!(next(&mut one), Some(Execution { op: b.clone(), how: How::Action }));
    // What ends it is the delete, not what was written beside it, however late.
    let (late, delete) = (operation(&b, Class::Add, &[&a], 9), operation(&c, Class::Delete, &[&a], 5));
    let mut one = resource(vec![late]);
    settle(&mut one);
    assert!(one.learn(delete));
    assert_eq!(next(&mut one), Some(Execution { op: c.clone(), how: How::Delete }));
    // Each patch sets its own fields, when what was before both comes after them.
    let patches = vec![operation(&b, patch("x"), &[&a], 2), operation(&c, patch("y"), &[&a], 3)];
    let mut one = resource(patches);
    settle(&mut one);
    assert!(one.learn(operation(&id("D", 1), Class::Replace, &[&a], 4)));
    let replace = next(&mut one).unwrap();
    assert_eq!(replace, Execution { op: id("D", 1), how: How::Replace });
    one.executed(&replace);
    assert_eq!(next(&mut one), Some(Execution { op: b, how: How::Patch(["x".into()].into()) }));
}

#[test]
fn nothing_is_forgotten_that_is_still_to_be_executed_again() {
    let (a, b, c) = (id("A", 1), id("B", 1), id("C", 1));
    let replaced = || {
        let mut one = resource(vec![operation(&b, Class::Add, &[&a], 2)]);
        settle(&mut one);
        assert!(one.learn(operation(&c, Class::Replace, &[&a], 3)));
        one
    };
    // It is known, and not executed.
    let mut one = replaced();
    one.prune(|_| true);
    assert!(kept(&one).contains(&b), "it counts on top of what comes");
    // It is executed, and what was added before is to be added again.
    let mut one = replaced();
    let replace = next(&mut one).unwrap();
    one.executed(&replace);
    one.prune(|_| true);
    assert!(kept(&one).contains(&b));
    assert_eq!(next(&mut one), Some(Execution { op: b.clone(), how: How::Add }));
    settle(&mut one);
    // The base is not known everywhere: what it has not seen may have to be executed again there.
    one.prune(|id| *id != c);
    assert!(kept(&one).contains(&b));
    one.prune(|_| true);
    assert_eq!(kept(&one), [c].into());
}

#[test]
fn a_delete_is_forgotten_once_it_beats_nothing_that_stays() {
    let (a, b, c) = (id("A", 1), id("B", 1), id("C", 1));
    let mut one = resource(vec![operation(&b, Class::Delete, &[&a], 2)]);
    settle(&mut one);
    assert!(one.learn(operation(&c, Class::Create, &[&a, &b], 3)));
    settle(&mut one);
    one.prune(|_| true);
    assert_eq!(kept(&one), [c].into());
}

#[test]
fn what_has_not_seen_a_patch_that_cannot_be_executed_again_comes_after_it() {
    let (a, b, c) = (id("A", 1), id("B", 1), id("C", 1));
    let mut one = resource(vec![operation(&b, patch("x"), &[&a], 2)]);
    settle(&mut one);
    one.prune(|_| true);
    assert!(kept(&one).contains(&b), "for comparison");
    // C was given back old records, and replaces what it does not know to be patched.
    let replace = operation(&c, Class::Replace, &[&a], 3);
    assert!(one.is_surprised_by(&replace));
    let mut other = resource(vec![replace]);
    settle(&mut other);
    // It takes the state of the other, and its replace on top of that: nothing is left to be executed again.
    assert_eq!(other.copy(&site("C"), &one.snapshot()), vec![c.clone()]);
    assert_eq!(next(&mut other), Some(Execution { op: c.clone(), how: How::Replace }));
    settle(&mut other);
    other.prune(|_| true);
    assert_eq!(kept(&other), [c].into());
}

#[test]
fn what_has_not_seen_what_was_forgotten_or_does_not_follow_its_run_is_not_learnt() {
    let (a, b, c) = (id("A", 1), id("B", 1), id("C", 1));
    let mut one = resource(vec![operation(&b, Class::Add, &[&a], 2)]);
    settle(&mut one);
    one.prune(|_| true);
    let apart = operation(&c, Class::Add, &[&a], 3);
    assert!(one.is_surprised_by(&apart) && !one.learn(apart));
    let after = operation(&c, Class::Add, &[&a, &b], 3);
    assert!(!one.is_surprised_by(&after) && one.learn(after.clone()));
    assert!(!one.is_surprised_by(&after), "it is known");
    // C was given back old records, and executed another one in its place.
    let (withdrawn, again) = (id("C", 2), id("C", 3));
    assert!(one.learn(operation(&withdrawn, Class::Add, &[&a, &b, &c], 4)));
    let forked = operation(&again, Class::Add, &[&a, &b, &c], 5);
    assert!(one.is_surprised_by(&forked) && !one.learn(forked));
    let follows = operation(&again, Class::Add, &[&a, &b, &withdrawn], 5);
    assert!(!one.is_surprised_by(&follows) && one.learn(follows));
}

#[test]
fn of_what_a_copied_state_has_forgotten_the_base_of_only_what_was_accepted_here_stays() {
    let (a, b, c, forgotten) = (id("A", 1), id("B", 1), id("C", 1), id("A", 2));
    let mut there = resource(vec![operation(&forgotten, Class::Add, &[&a], 2)]);
    settle(&mut there);
    there.prune(|_| true);
    let mut here = resource(vec![operation(&c, Class::Add, &[&a], 3)]);
    settle(&mut here);
    here.accept(operation(&b, Class::Add, &[&a], 4));
    settle(&mut here);
    assert_eq!(here.copy(&site("B"), &there.snapshot()), vec![b.clone()], "it comes after the state");
    // That of the third site will come again, when that has taken a state as well.
    assert_eq!(kept(&here), [a, b].into());
    assert!(here.learn(operation(&c, Class::Add, &[&id("A", 1), &forgotten], 9)));
}

#[test]
fn what_has_seen_another_comes_after_it_whatever_their_clocks_say() {
    let (a, b) = (id("A", 1), id("B", 1));
    let (old, new) = (operation(&a, Class::Create, &[], 9), operation(&b, Class::Replace, &[&a], 1));
    let target = replica::converge::Target::of([&old, &new].into_iter());
    assert_eq!(target.base, Some(b));
}

#[test]
fn the_service_shows_all_that_was_acknowledged_but_while_it_is_executed_again() {
    let (a, b, c) = (id("A", 1), id("B", 1), id("C", 1));
    let mut one = resource(Vec::new());
    settle(&mut one);
    one.accept(operation(&b, Class::Add, &[&a], 2));
    let add = next(&mut one).unwrap();
    assert!(one.is_whole(&site("B"), Some(&add)), "nobody was told of it");
    one.executed(&add);
    assert!(one.is_whole(&site("B"), None));
    // It comes from elsewhere, and has not seen what was added here.
    assert!(one.learn(operation(&c, Class::Replace, &[&a], 3)));
    assert!(one.is_whole(&site("B"), None), "nothing has happened yet");
    let replace = next(&mut one).unwrap();
    assert!(!one.is_whole(&site("B"), Some(&replace)), "it may be executed by now");
    one.executed(&replace);
    assert!(!one.is_whole(&site("B"), None), "what was added is to be added again");
    let again = next(&mut one).unwrap();
    assert_eq!(again, Execution { op: b.clone(), how: How::Add });
    assert!(!one.is_whole(&site("B"), Some(&again)));
    one.executed(&again);
    settle(&mut one);
    assert!(one.is_whole(&site("B"), None));
    // One that has seen it erases it for good.
    assert!(one.learn(operation(&id("C", 2), Class::Replace, &[&a, &b, &c], 9)));
    let replace = next(&mut one).unwrap();
    assert!(one.is_whole(&site("B"), Some(&replace)));
    one.executed(&replace);
    assert!(one.is_whole(&site("B"), None));
}

#[test]
fn a_state_without_what_this_site_acknowledged_is_not_shown() {
    let (a, b) = (id("A", 1), id("B", 1));
    let mut one = resource(Vec::new());
    settle(&mut one);
    let other = one.snapshot();
    one.accept(operation(&b, Class::Add, &[&a], 2));
    settle(&mut one);
    assert!(one.can_copy(&site("B"), &other));
    one.copy(&site("B"), &other);
    assert!(!one.is_whole(&site("B"), None));
    settle(&mut one);
    assert!(one.is_whole(&site("B"), None));
}
