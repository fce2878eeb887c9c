//! Replicas that are not there yet.

use replica::{Class, Doubt, Event, Message, OpId, Outcome, Reply, Subject};

use super::{Stage, created, done, meta, op, replies, site};

#[test]
fn what_is_still_to_be_made_is_not_said_to_be_gone() {
    let (mut a, mut b) = (created(), Stage::new("B"));
    let told = |stage: &Stage, known: &[OpId]| {
        let (map, b) = (stage.machine.map(&meta()).unwrap().clone(), site("B"));
        let operations = stage.machine.pending(&b).filter(|op| !known.contains(&op.id)).cloned().collect();
        Event::Received { from: site("A"), message: Message::Operations { map, operations } }
    };
    let patch = |stage: &mut Stage, ticket| {
        let class = Class::Patch(["name".into()].into());
        let effects = stage.write(ticket, Subject::Existing(meta()), class, Doubt::Repeat);
        replies(&effects).into_iter().cloned().collect::<Vec<_>>()
    };
    let asked = b.on(told(&a, &[]));
    assert_eq!(patch(&mut b, 1), [Reply::NotGood]);
    let asked = b.ends(&asked, Outcome::NotExecuted);
    assert!(!b.machine.is_readable(&meta()), "{asked:?}");
    assert_eq!(patch(&mut b, 2), [Reply::NotGood]);
    // A delete that is known here ends it, also where nothing was made.
    let effects = a.write(2, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    a.ends(&effects, done());
    b.on(told(&a, &[op(1)]));
    assert_eq!(patch(&mut b, 3), [Reply::NoResource]);
}
