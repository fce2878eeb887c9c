//! The judge: which part of which request each byte belongs to, and whether it may pass.

use crate::chunked::{ChunkScan, Piece};
use crate::head::{Body, Head, HeadScan};
use crate::limits::Limits;
use crate::violation::{Part, Rule, Violation};

/// Follows the requests on one connection.
///
/// The caller keeps the bytes that have not passed yet, and presents them again with more after them. The
/// guard remembers how far it looked, so that each byte is looked at once even if they come one at a time.
///
/// # Another protocol
///
/// After a CONNECT, or a request with `Upgrade`, the bytes that follow are either more requests or another
/// protocol: the answer decides, and the guard does not see it. So nothing passes ([`Progress::Hold`]) until
/// the caller says which: [`Guard::opaque`] or [`Guard::resume`]. A client must wait for the answer anyway;
/// the bytes of one that does not are kept back, and are then read in the one way that the answer gave them.
#[derive(Debug)]
pub struct Guard {
    limits: Limits,
    state: State,
}

#[derive(Debug)]
enum State {
    Head(HeadScan),
    /// `switches` says what comes after the body: a head, or what the answer decides.
    Length {
        left: u64,
        switches: bool,
    },
    Chunked {
        scan: ChunkScan,
        switches: bool,
    },
    Held,
    Opaque,
    Refused(Violation),
}

/// What may be done with the bytes presented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// The first so many, at least one, may pass. Present what follows them next.
    Pass(usize),
    /// None yet. Present the same bytes again, with more after them.
    More,
    /// None until [`Guard::opaque`] or [`Guard::resume`].
    Hold,
}

impl Guard {
    /// A guard for a new connection.
    #[must_use]
    pub fn new(limits: Limits) -> Guard {
        Guard { limits: limits.capped(), state: State::Head(HeadScan::default()) }
    }

    /// Judges the first part of `bytes`: a head, or a piece of a body. A head passes as a whole. After a
    /// violation every call returns it again: nothing more on this connection can be trusted.
    pub fn check(&mut self, bytes: &[u8]) -> Result<Progress, Violation> {
        match &mut self.state {
            State::Head(scan) => match scan.read(bytes, &self.limits, &mut |_| {}) {
                Ok(None) => Ok(Progress::More),
                Ok(Some(head)) => {
                    self.state = State::after_head(&head);
                    Ok(Progress::Pass(head.len))
                }
                Err(rule) => Err(self.refuse(rule, Part::Head)),
            },
            State::Length { .. } | State::Opaque if bytes.is_empty() => Ok(Progress::More),
            State::Length { left, switches } => {
                let here = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= here as u64;
                if *left == 0 {
                    self.state = State::after_body(*switches);
                }
                Ok(Progress::Pass(here))
            }
            State::Chunked { scan, switches } => match scan.read(bytes, &self.limits) {
                Ok(Piece::More) => Ok(Progress::More),
                Ok(Piece::Frame(here) | Piece::Data(here)) => Ok(Progress::Pass(here)),
                Ok(Piece::End(here)) => {
                    self.state = State::after_body(*switches);
                    Ok(Progress::Pass(here))
                }
                Err(rule) => Err(self.refuse(rule, Part::Body)),
            },
            State::Held => Ok(Progress::Hold),
            State::Opaque => Ok(Progress::Pass(bytes.len())),
            State::Refused(violation) => Err(*violation),
        }
    }

    /// The answer switched protocols: from here on every byte passes unread. Only while held, else nothing
    /// changes: returns whether it did.
    #[must_use]
    pub fn opaque(&mut self) -> bool {
        self.leave_hold(State::Opaque)
    }

    /// The answer did not switch protocols: requests follow. Only while held, else nothing changes: returns
    /// whether it did.
    pub fn resume(&mut self) -> bool {
        self.leave_hold(State::Head(HeadScan::default()))
    }

    /// Whether a head is wanted, or has begun.
    pub(crate) fn is_at_head(&self) -> bool {
        matches!(self.state, State::Head(_))
    }

    fn leave_hold(&mut self, next: State) -> bool {
        let held = matches!(self.state, State::Held);
        if held {
            self.state = next;
        }
        held
    }

    fn refuse(&mut self, rule: Rule, part: Part) -> Violation {
        let violation = Violation { rule, part };
        self.state = State::Refused(violation);
        violation
    }
}

impl State {
    fn after_head(head: &Head) -> State {
        let switches = head.switches;
        match head.body {
            Body::None | Body::Length(0) => State::after_body(switches),
            Body::Length(left) => State::Length { left, switches },
            Body::Chunked => State::Chunked { scan: ChunkScan::default(), switches },
        }
    }

    fn after_body(switches: bool) -> State {
        if switches { State::Held } else { State::Head(HeadScan::default()) }
    }
}
