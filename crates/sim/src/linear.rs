//! Whether what clients saw of one register could have been told by one register at one place (Wing and Gong).

use std::collections::BTreeSet;

use tokio::time::Instant;

/// What a client did to the register, and when.
#[derive(Clone, Debug)]
pub struct Operation {
    /// When it began.
    pub from: Instant,
    /// When it was over; nothing where that was never learnt: it may take effect at any time after its start, or never.
    pub to: Option<Instant>,
    /// What it did.
    pub what: What,
}

/// See [`Operation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It set this.
    Write(String),
    /// It saw this.
    Read(String),
}

/// Whether there is an order of all operations, each at one moment between its start and its end, in which every read
/// sees the last write. Histories of more than 128 operations are not looked at.
#[must_use]
pub fn is_linearizable(initial: &str, history: &[Operation]) -> bool {
    if history.len() > 128 {
        return true;
    }
    let mut seen = BTreeSet::new();
    step(history, 0, initial, &mut seen)
}

fn step<'h>(
    history: &'h [Operation],
    done: u128,
    value: &'h str,
    seen: &mut BTreeSet<(u128, &'h str)>,
) -> bool {
    let left = |index: usize| done & (1 << index) == 0;
    let waiting = || history.iter().enumerate().filter(|(index, _)| left(*index));
    // Those whose end is not known need not happen.
    if waiting().all(|(_, operation)| operation.to.is_none()) {
        return true;
    }
    if !seen.insert((done, value)) {
        return false;
    }
    // The next is one that began before any other ended.
    let first_end = waiting().filter_map(|(_, operation)| operation.to).min();
    for (index, operation) in waiting() {
        if first_end.is_some_and(|end| operation.from > end) {
            continue;
        }
        let next = match &operation.what {
            What::Write(written) => written.as_str(),
            What::Read(read) if read == value => value,
            What::Read(_) => continue,
        };
        if step(history, done | 1 << index, next, seen) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn history(operations: &[(u64, Option<u64>, What)]) -> Vec<Operation> {
        let begin = Instant::now();
        let at = |second: u64| begin + Duration::from_secs(second);
        let operation = |(from, to, what): &(u64, Option<u64>, What)| Operation {
            from: at(*from),
            to: to.map(at),
            what: what.clone(),
        };
        operations.iter().map(operation).collect()
    }

    fn write(value: &str) -> What {
        What::Write(value.to_owned())
    }

    fn read(value: &str) -> What {
        What::Read(value.to_owned())
    }

    #[tokio::test]
    async fn a_read_sees_what_was_written_before_it_began() {
        let old = history(&[(0, Some(1), write("a")), (2, Some(3), read("0"))]);
        assert!(!is_linearizable("0", &old));
        let new = history(&[(0, Some(1), write("a")), (2, Some(3), read("a"))]);
        assert!(is_linearizable("0", &new));
    }

    #[tokio::test]
    async fn of_writes_at_the_same_time_either_may_be_last_but_not_both() {
        let both = [(0, Some(9), write("a")), (0, Some(9), write("b"))];
        let then = |reads: &[(u64, &str)]| {
            let mut all = both.to_vec();
            all.extend(reads.iter().map(|(at, value)| (*at, Some(*at + 1), read(value))));
            is_linearizable("0", &history(&all))
        };
        assert!(then(&[(10, "a"), (12, "a")]) && then(&[(10, "b"), (12, "b")]));
        assert!(then(&[(3, "a"), (10, "b")]));
        assert!(!then(&[(10, "a"), (12, "b")]));
    }

    #[tokio::test]
    async fn what_has_no_end_may_happen_late_or_never_but_not_twice() {
        let write_without_end = (0, None, write("a"));
        assert!(is_linearizable("0", &history(&[write_without_end.clone(), (5, Some(6), read("0"))])));
        assert!(is_linearizable(
            "0",
            &history(&[write_without_end.clone(), (5, Some(6), read("0")), (7, Some(8), read("a"))])
        ));
        assert!(!is_linearizable(
            "0",
            &history(&[write_without_end, (5, Some(6), read("a")), (7, Some(8), read("0"))])
        ));
    }
}
