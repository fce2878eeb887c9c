//! A site that says anything about sites: the others neither stop nor drown, and what they say stays small.

#![no_main]
#![allow(missing_docs)]

mod altered;
#[path = "../../crates/sites/tests/planet/mod.rs"]
#[allow(dead_code, unused)]
mod planet;

use std::sync::LazyLock;
use std::time::Duration;

use altered::altered;
use libfuzzer_sys::fuzz_target;
use planet::{identity, name, own, record};
use scope::Site;
use sites::{Config, Effect, Event, Machine, Own, Time};

const STEP: Duration = Duration::from_millis(200);

fn site(number: u32) -> Site {
    Site::new(&name(number)).expect("a name")
}

fn machine(number: u32) -> Machine {
    let known = (0..3).map(|number| record(number).into()).collect();
    Machine::new(Own { known, ..own(number) }, Config::default(), u64::from(number), Time::ZERO)
        .expect("a machine")
}

/// Whatever two sites say to a third within a minute, one of them leaving: datagrams, questions and answers.
static MESSAGES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let mut machines: Vec<Machine> = (0..3).map(machine).collect();
    let (mut now, mut messages) = (Time::ZERO, Vec::new());
    for step in 0..300 {
        now += STEP;
        let mut waiting: Vec<(usize, Event)> = (0..3).map(|at| (at, Event::Tick)).collect();
        if step == 100 {
            waiting.push((0, Event::Quarantine { site: site(2), on: true }));
        }
        if step == 200 {
            waiting.push((2, Event::Leave));
        }
        while let Some((at, event)) = waiting.pop() {
            let mut effects = Vec::new();
            machines[at].on(event, now, &mut effects);
            for effect in effects {
                let from = u32::try_from(at).expect("few");
                let to = |address: &str| usize::from(address.as_bytes()[1] - b'0');
                match effect {
                    Effect::Send { to: address, bytes, .. } => {
                        messages.push(bytes.clone());
                        let (from, identity) = (site(from), identity(from));
                        waiting.push((to(&address), Event::Datagram { from, identity, bytes }));
                    }
                    Effect::Sync { address, bytes, .. } => {
                        messages.push(bytes.clone());
                        let answers = &mut machines[to(&address)];
                        messages.extend(answers.answer(
                            &site(from),
                            &identity(from),
                            &bytes,
                            now,
                            &mut Vec::new(),
                        ));
                    }
                    _ => {}
                }
            }
        }
    }
    messages.sort();
    messages.dedup();
    // One of each length will do.
    messages.sort_by_key(Vec::len);
    messages.dedup_by_key(|message| message.len());
    messages
});

// Up to eight messages, each in 32 bytes: who says it and how, then the changes.
fuzz_target!(|input: &[u8]| {
    let mut here = machine(0);
    let mut now = Time::ZERO;
    for part in input.chunks(32).take(8) {
        let Some((how, rest)) = part.split_first() else { return };
        let sender = 1 + u32::from(how % 2);
        let (from, identity, bytes) = (site(sender), identity(sender), altered(&MESSAGES, rest));
        now += STEP * u32::from(how >> 4);
        let mut effects = Vec::new();
        match how >> 1 & 3 {
            0 => {
                let answer = here.answer(&from, &identity, &bytes, now, &mut effects);
                assert!(answer.is_none_or(|answer| answer.len() < 1 << 20));
            }
            1 => here.on(Event::Synced { from, identity, bytes }, now, &mut effects),
            _ => here.on(Event::Datagram { from, identity, bytes }, now, &mut effects),
        }
        here.on(Event::Tick, now, &mut effects);
        assert!(effects.len() < 200, "{}", effects.len());
        for effect in effects {
            if let Effect::Send { bytes, .. } = effect {
                assert!(bytes.len() <= link::datagram::MAX_PAYLOAD_BYTES, "{}", bytes.len());
            }
        }
        // Nobody but this site says where it is.
        let seen = here.snapshot();
        let own = seen.all().find(|seen| seen.record.site == site(0)).expect("this site");
        assert_eq!(own.record.fingerprint, record(0).fingerprint);
        assert_eq!(own.record.says, record(0).says);
    }
});
