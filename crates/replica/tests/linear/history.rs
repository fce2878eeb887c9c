//! What clients did and were told of one register, and whether one register could have said so.

use replica::{Reply, Ticket};
use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Set(i64),
    Add(i64),
    Read,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ret {
    Ok,
    Value(Option<i64>),
}

/// One register, at one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Register(Option<i64>);

impl SequentialSpec for Register {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match op {
            Op::Set(value) => self.0 = Some(*value),
            Op::Add(value) => self.0 = self.0.map(|before| before + value),
            Op::Read => return Ret::Value(self.0),
        }
        Ret::Ok
    }

    /// An add to what is not there is refused, and refused ones are not in the history.
    fn is_valid_step(&mut self, op: &Op, ret: &Ret) -> bool {
        let there = self.0.is_some();
        self.invoke(op) == *ret && (there || !matches!(op, Op::Add(_)))
    }
}

/// In the order in which it happened.
#[derive(Clone, Debug)]
pub(crate) enum Moment {
    Asked(Ticket, Op),
    Told(Ticket, Ret),
    /// It was refused: it had no effect, and will have none.
    Refused(Ticket),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct History(pub(crate) Vec<Moment>);

impl History {
    pub(crate) fn told(&mut self, ticket: Ticket, reply: &Reply, value: Option<i64>) {
        match reply {
            Reply::Executed { .. } => self.0.push(Moment::Told(ticket, Ret::Ok)),
            Reply::Current => self.0.push(Moment::Told(ticket, Ret::Value(value))),
            // It goes on: for ever concurrent to all that follows.
            Reply::Unknown => {}
            _ => self.0.push(Moment::Refused(ticket)),
        }
    }

    pub(crate) fn count(&self, of: impl Fn(&Moment) -> bool) -> usize {
        self.0.iter().filter(|moment| of(moment)).count()
    }

    /// Whether there is one order, within the times when each was under way, that explains all.
    pub(crate) fn is_linearizable(&self) -> bool {
        let refused = |ticket: &Ticket| {
            self.0.iter().any(|moment| matches!(moment, Moment::Refused(other) if other == ticket))
        };
        // A read without an answer says nothing.
        let told = |ticket: &Ticket| {
            self.0.iter().any(|moment| matches!(moment, Moment::Told(other, _) if other == ticket))
        };
        let mut tester = LinearizabilityTester::new(Register::default());
        for moment in &self.0 {
            match moment {
                Moment::Asked(ticket, op) if !refused(ticket) && (*op != Op::Read || told(ticket)) => {
                    tester.on_invoke(ticket.0, *op).unwrap();
                }
                Moment::Told(ticket, ret) => {
                    tester.on_return(ticket.0, ret.clone()).unwrap();
                }
                _ => {}
            }
        }
        tester.is_consistent()
    }
}

#[test]
fn a_stale_read_is_found() {
    let (set, first, second) = (Ticket(1), Ticket(2), Ticket(3));
    let mut history = History(vec![
        Moment::Asked(set, Op::Set(1)),
        Moment::Asked(first, Op::Read),
        Moment::Told(first, Ret::Value(Some(1))),
        Moment::Asked(second, Op::Read),
        Moment::Told(second, Ret::Value(None)),
    ]);
    assert!(!history.is_linearizable());
    history.0.pop();
    history.0.push(Moment::Told(second, Ret::Value(Some(1))));
    assert!(history.is_linearizable());
}
