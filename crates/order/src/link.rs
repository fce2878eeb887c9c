//! Messages from one member to another: each once, in order, and losses noticed.
//!
//! The library asks for links that lose nothing, or say so. Messages are numbered, anew after either end has
//! started again; one that is late, doubled or meant for the receiver before it started again is dropped,
//! and a gap is a loss. The receiver counts losses and tells the count with each of its own messages, so
//! that both ends learn of each, whatever else is lost.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// So many heartbeats tell how long a message takes.
const HEARTBEATS: usize = 4;

/// Where a message belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub(crate) struct Stamp {
    /// How often the sender had started.
    pub(crate) start: u64,
    /// How often the receiver had, as far as the sender knew; 0 where it did not.
    yours: u64,
    /// Which of the messages between these two starts, from 1.
    number: u64,
    /// How often the sender found that messages of the receiver's were lost.
    losses: u64,
}

/// What a message means for the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// It counts; else it is late, doubled, or from before a start.
    pub(crate) counts: bool,
    /// Messages were lost in one of the two directions, or the other end started again.
    pub(crate) lost: bool,
}

/// One member's link to another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Link {
    /// How often this end started.
    start: u64,
    /// How often the other did; 0: never heard.
    theirs: u64,
    /// The other said so by another way, and nothing came on the link since.
    anew: bool,
    sent: u64,
    came: u64,
    /// Losses noticed here.
    losses: u64,
    /// Losses that the other last told of.
    told: u64,
    /// Entries that the other was given.
    pub(crate) given: u64,
    /// Ticks since it was last heard.
    pub(crate) silent: u32,
    /// Ticks that the last heartbeats took there and back, the latest at the end.
    heartbeats: VecDeque<u32>,
}

impl Link {
    pub(crate) fn new(start: u64) -> Link {
        Link { start, ..Link::default() }
    }

    /// For the next message.
    pub(crate) fn stamp(&mut self) -> Stamp {
        self.sent = self.sent.saturating_add(1);
        Stamp { start: self.start, yours: self.theirs, number: self.sent, losses: self.losses }
    }

    /// A message came.
    pub(crate) fn receive(&mut self, stamp: Stamp) -> Arrival {
        let fresh = stamp.start > self.theirs || self.anew && stamp.start == self.theirs;
        if fresh {
            self.begin(stamp.start);
            self.anew = false;
        }
        let old = stamp.start < self.theirs || stamp.yours != self.start || stamp.number <= self.came;
        if old {
            return Arrival { counts: false, lost: fresh };
        }
        let gap = stamp.number != self.came.saturating_add(1);
        if gap {
            self.losses = self.losses.saturating_add(1);
        }
        let told = std::mem::replace(&mut self.told, stamp.losses) != stamp.losses;
        (self.came, self.silent) = (stamp.number, 0);
        Arrival { counts: true, lost: fresh || gap || told }
    }

    fn begin(&mut self, theirs: u64) {
        self.theirs = theirs;
        (self.sent, self.came, self.losses, self.told) = (0, 0, 0, 0);
    }

    /// The other end says that it has started so often: nothing counts that it sent in a start before. False where it has
    /// started since.
    pub(crate) fn begin_anew(&mut self, theirs: u64) -> bool {
        if theirs > self.theirs {
            self.begin(theirs);
            (self.anew, self.given) = (true, 0);
        }
        theirs == self.theirs
    }

    /// A heartbeat was answered after so many ticks.
    pub(crate) fn answered(&mut self, ticks: u32) {
        self.heartbeats.push_back(ticks);
        if self.heartbeats.len() > HEARTBEATS {
            self.heartbeats.pop_front();
        }
    }

    /// Ticks that a message takes there and back; none where no heartbeat was answered yet. The least of the last few: what waited
    /// for a cut to end says nothing of the way.
    pub(crate) fn round_trip(&self) -> Option<u32> {
        self.heartbeats.iter().min().copied()
    }

    /// Whether it was heard within so many ticks.
    pub(crate) fn is_heard(&self, within: u32) -> bool {
        self.came > 0 && self.silent <= within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEXT: Arrival = Arrival { counts: true, lost: false };
    const LOST: Arrival = Arrival { counts: true, lost: true };
    const OLD: Arrival = Arrival { counts: false, lost: false };

    /// Two ends that have heard each other.
    fn met() -> (Link, Link) {
        let (mut near, mut far) = (Link::new(1), Link::new(1));
        assert_eq!(far.receive(near.stamp()), Arrival { counts: false, lost: true });
        assert_eq!(near.receive(far.stamp()), LOST);
        (near, far)
    }

    #[test]
    fn a_message_comes_once_and_in_order_and_a_gap_is_noticed_at_both_ends() {
        let (mut near, mut far) = met();
        let stamps: Vec<_> = (0..4).map(|_| near.stamp()).collect();
        assert_eq!(far.receive(stamps[0]), NEXT);
        assert_eq!(far.receive(stamps[0]), OLD);
        assert_eq!(far.receive(stamps[2]), LOST);
        assert_eq!(far.receive(stamps[1]), OLD);
        assert_eq!(far.receive(stamps[3]), NEXT);
        assert_eq!(near.receive(far.stamp()), LOST);
        assert_eq!(near.receive(far.stamp()), NEXT);
    }

    #[test]
    fn what_was_sent_before_an_end_said_that_it_began_anew_does_not_count() {
        let (mut near, mut far) = met();
        let before = near.stamp();
        assert!(far.begin_anew(7));
        assert_eq!(far.receive(before), OLD);
        assert!(far.begin_anew(7) && !far.begin_anew(6));
        let mut again = Link::new(7);
        assert_eq!(far.receive(again.stamp()), Arrival { counts: false, lost: true });
        assert_eq!(again.receive(far.stamp()), LOST);
        assert_eq!(far.receive(again.stamp()), NEXT);
    }

    #[test]
    fn what_was_sent_before_an_end_started_again_does_not_count() {
        let (mut near, far) = met();
        let before = near.stamp();
        let mut again = Link::new(2);
        assert_eq!(again.receive(before), Arrival { counts: false, lost: true });
        assert_eq!(near.receive(again.stamp()), LOST);
        assert_eq!(near.receive(far.clone().stamp()), OLD);
        assert_eq!(again.receive(near.stamp()), NEXT);
        assert_eq!(again.receive(before), OLD);
    }
}
