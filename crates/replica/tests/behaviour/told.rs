//! What is told of resources and operations, for whoever shows them.

use replica::{
    Body, Class, Condition, Doubt, Effect, Epoch, Event, Fulfilment, Level, OpId, Outcome, Subject, Ticket,
    Waiting,
};
use scope::Site;

use crate::{Stage, created, done, meta, new, op, site};

/// What A sends goes to B and back, and what B is to execute ends well.
fn talk(a: &mut Stage, b: &mut Stage, effects: Vec<Effect>) {
    let mut left: Vec<(Site, Effect)> = effects.into_iter().map(|effect| (site("A"), effect)).collect();
    while let Some((at, effect)) = left.pop() {
        let (to, event) = match effect {
            Effect::Send { to, message } => (to, Event::Received { from: at, message }),
            Effect::Execute { operation, execution, .. } => {
                (at, Event::Executed { resource: operation.resource.clone(), execution, outcome: done() })
            }
            _ => continue,
        };
        let stage = if to == site("A") { &mut *a } else { &mut *b };
        left.extend(stage.on(event).into_iter().map(|effect| (to.clone(), effect)));
    }
}

fn standing(stage: &Stage, counter: u64) -> Vec<Fulfilment> {
    let standing = stage.machine.standing(&meta(), &op(counter)).unwrap();
    assert!(standing.iter().map(|(site, _)| site.name()).eq(["A", "B"]));
    standing.into_iter().map(|(_, fulfilment)| fulfilment).collect()
}

fn waits(unknown: usize, unexecuted: usize) -> Waiting {
    Waiting { unknown, unexecuted, since_ms: Some(0) }
}

#[test]
fn a_write_is_pending_here_until_it_is_executed_and_elsewhere_until_that_is_known() {
    let (mut a, mut b) = (Stage::new("A"), Stage::new("B"));
    let effects = a.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    assert_eq!(a.machine.accepted(Ticket(1)), Some(&op(1)));
    assert_eq!(a.machine.accepted(Ticket(2)), None);
    assert_eq!(standing(&a, 1), [Fulfilment::Pending, Fulfilment::Pending]);
    assert!(!a.machine.is_made(&meta()));
    // What nobody has executed yet is not another site's to execute.
    assert_eq!(a.machine.waiting(), [(site("A"), waits(0, 1))].into());
    let unexecuted = |stage: &Stage, at: &str| stage.machine.unexecuted(&meta(), &site(at)).len();
    assert_eq!((unexecuted(&a, "A"), unexecuted(&a, "B"), unexecuted(&a, "C")), (1, 0, 0));

    let effects = a.ends(&effects, done());
    assert!(a.machine.is_made(&meta()));
    assert_eq!(standing(&a, 1), [Fulfilment::Done, Fulfilment::Pending]);
    assert_eq!(a.machine.waiting(), [(site("B"), waits(1, 1))].into());
    assert_eq!((unexecuted(&a, "A"), unexecuted(&a, "B"), unexecuted(&a, "C")), (0, 1, 0));

    talk(&mut a, &mut b, effects);
    assert!(b.machine.is_made(&meta()));
    assert!(a.machine.waiting().is_empty() && b.machine.waiting().is_empty());
}

#[test]
fn what_is_in_doubt_or_diverged_is_told_of_the_replica_here_and_of_that_operation() {
    let mut stage = created();
    let effects = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Ask);
    assert_eq!(standing(&stage, 2)[0], Fulfilment::Pending);
    stage.ends(&effects, Outcome::Unknown);
    assert_eq!(standing(&stage, 2)[0], Fulfilment::InDoubt);
    assert_eq!(standing(&stage, 1)[0], Fulfilment::Done);
    assert!(stage.machine.standing(&meta(), &op(7)).is_none());
    stage.on(Event::Settle { resource: meta(), op: op(2), executed: true, local: None });
    assert_eq!(standing(&stage, 2)[0], Fulfilment::Done);
}

#[test]
fn a_resource_is_told_to_be_deleted_once_it_is() {
    let mut stage = created();
    let status = |stage: &Stage| {
        let status = stage.machine.status(&meta()).unwrap();
        (status.condition, status.running.is_some(), status.copying, status.deleted)
    };
    assert_eq!(status(&stage), (Condition::Good, false, false, false));
    let effects = stage.write(2, Subject::Existing(meta()), Class::Delete, Doubt::Repeat);
    assert!(status(&stage).1);
    stage.ends(&effects, done());
    assert!(stage.machine.status(&meta()).is_none_or(|status| status.deleted));
    assert!(!stage.machine.is_made(&meta()));
}

#[test]
fn one_that_may_have_been_executed_is_doubted() {
    let mut stage = created();
    assert!(!stage.machine.is_doubted(&meta()));
    let effects = stage.write(2, Subject::Existing(meta()), Class::Add, Doubt::Repeat);
    assert!(!stage.machine.is_doubted(&meta()));
    stage.ends(&effects, Outcome::Unknown);
    assert!(stage.machine.is_doubted(&meta()));
}

#[test]
fn records_name_the_bodies_that_they_need() {
    let mut stage = Stage::new("A");
    stage.write(1, new(Level::Eventual), Class::Create, Doubt::Repeat);
    let bodies: Vec<Body> = stage.disk.values().flat_map(replica::Record::bodies).collect();
    assert_eq!(bodies, [Body("b".into())]);
}

#[test]
fn an_operation_has_one_name_that_reads_back() {
    let named = OpId { site: site("DC 1"), epoch: Epoch::default(), counter: 12 };
    let text = named.to_string();
    assert_eq!(text, "DC 1/0-0/12");
    assert_eq!(text.parse::<OpId>(), Ok(named));
    let later = OpId { epoch: Epoch { number: 5, draw: 171 }, ..op(3) };
    assert_eq!("A/5-ab/3".parse::<OpId>(), Ok(later));
    for other in
        ["DC 1/0-0/012", "DC 1/00-0/12", "DC 1/0-0/12/", "DC 1/0-0/+12", "DC 1/0-0", "/0-0/1", "A/0/1"]
    {
        assert!(other.parse::<OpId>().is_err(), "{other}");
    }
}
