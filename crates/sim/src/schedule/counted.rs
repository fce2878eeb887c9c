//! Services that name what they make by counting: the images of a site alone have the numbers that its replicas have elsewhere.

use super::{Act, Ask, Fault, Schedule, Step, What};
use crate::chance::Chance;

/// So long after an image of a site alone was asked for, its client writes to it, at most.
const LATEST_MS: u64 = 12_000;

impl Schedule {
    /// The same run, with services that count, and without old copies of services: these give the numbers again that they gave
    /// since. At every site clients make, read, change and delete images of that site alone.
    #[must_use]
    pub fn counting(mut self) -> Schedule {
        let mut chance = Chance::new(self.seed, "counted");
        self.steps.retain(|step| !matches!(step.what, What::Break(Fault::Restore(_))));
        let numbers = self.steps.iter().filter_map(|step| match &step.what {
            What::Ask(ask) => Some(ask.number),
            What::Break(_) | What::Walk(_) => None,
        });
        let mut next = numbers.max().unwrap_or(0) + 1;
        let length = self.steps.iter().map(|step| step.at).max().unwrap_or(0);
        for site in 0..self.sites {
            for _ in 0..chance.between(2, 4) {
                let (at, of) = (chance.between(100, length.max(100)), next);
                let mut ask = |at: u64, act: Act| {
                    self.steps.push(Step { at, what: What::Ask(Ask { number: next, site, act }) });
                    next += 1;
                };
                ask(at, Act::Make);
                for _ in 0..chance.between(1, 4) {
                    let act = match chance.below(10) {
                        0..=4 => Act::Patch { of, refused: false },
                        5..=8 => Act::Read { of },
                        _ => Act::Delete { of },
                    };
                    let deletes = matches!(act, Act::Delete { .. });
                    ask(at + chance.between(100, LATEST_MS), act);
                    // Asked for twice, it would take away what was given the number since.
                    if deletes {
                        break;
                    }
                }
            }
        }
        self.counts = true;
        self.steps.sort_by_key(|step| step.at);
        self
    }
}
