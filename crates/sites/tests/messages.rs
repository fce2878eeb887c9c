//! Whatever the network does to messages: loses, repeats, keeps back and replays them, or makes them up.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "it is a test")]

mod planet;

use std::collections::BTreeMap;
use std::time::Duration;

use planet::{name, own, record, statement};
use proptest::prelude::*;
use scope::{Site, View};
use sites::{Config, Effect, Event, Identity, Machine, Notice, Own, Status, Time};

/// Some machines, and every message that was ever sent between them.
struct Net {
    machines: Vec<Machine>,
    now: Time,
    /// What is on its way: sender, receiver, what.
    sent: Vec<(usize, usize, Message)>,
    /// All that was ever sent.
    old: Vec<(usize, usize, Message)>,
    notices: Vec<(usize, Notice)>,
    /// Messages between the halves are lost.
    split: bool,
}

#[derive(Clone)]
enum Message {
    Datagram(Vec<u8>),
    Ask(Vec<u8>),
    Answer(Vec<u8>),
}

fn site(number: usize) -> Site {
    Site::new(&name(u32::try_from(number).unwrap())).unwrap()
}

fn identity(number: usize) -> Identity {
    planet::identity(u32::try_from(number).unwrap())
}

impl Net {
    fn new(count: u32, seed: u64) -> Net {
        let known: Vec<_> = (0..count).map(|number| record(number).into()).collect();
        let machine = |number: u32| {
            let own = Own { known: known.clone(), ..own(number) };
            Machine::new(own, Config::default(), seed ^ u64::from(number), Time::ZERO).unwrap()
        };
        let machines = (0..count).map(machine).collect();
        Net {
            machines,
            now: Time::ZERO,
            sent: Vec::new(),
            old: Vec::new(),
            notices: Vec::new(),
            split: false,
        }
    }

    fn on(&mut self, at: usize, event: Event) {
        let mut effects = Vec::new();
        self.machines[at].on(event, self.now, &mut effects);
        self.carry_out(at, effects);
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        let number =
            |address: &str| address.trim_start_matches('s').split(':').next().unwrap().parse().unwrap();
        for effect in effects {
            match effect {
                Effect::Send { to, bytes, .. } => {
                    self.sent.push((at, number(&to), Message::Datagram(bytes)));
                }
                Effect::Sync { address, bytes, .. } => {
                    self.sent.push((at, number(&address), Message::Ask(bytes)));
                }
                Effect::CheckRevocation { statement } => {
                    let text = String::from_utf8(statement.clone()).unwrap();
                    let (name, before) = text.split_once(' ').unwrap();
                    let (site, before) = (Site::new(name).unwrap(), before.parse().unwrap());
                    self.on(at, Event::Revoked { statement, site, before });
                }
                Effect::Notice(notice) => self.notices.push((at, notice)),
                Effect::WakeAt(_) | Effect::Changed => {}
            }
        }
    }

    fn deliver(&mut self, (from, to, message): (usize, usize, Message)) {
        let half = self.machines.len() / 2;
        if to >= self.machines.len() || (self.split && (from < half) != (to < half)) {
            self.old.push((from, to, message));
            return;
        }
        self.old.push((from, to, message.clone()));
        let (sender, identity) = (site(from), identity(from));
        match message {
            Message::Datagram(bytes) => self.on(to, Event::Datagram { from: sender, identity, bytes }),
            Message::Answer(bytes) => self.on(to, Event::Synced { from: sender, identity, bytes }),
            Message::Ask(bytes) => {
                let mut effects = Vec::new();
                let answer = self.machines[to].answer(&sender, &identity, &bytes, self.now, &mut effects);
                self.carry_out(to, effects);
                self.sent.extend(answer.map(|bytes| (to, from, Message::Answer(bytes))));
            }
        }
    }

    /// Lets time pass in small steps, and delivers all that was sent, in the order that `choose` makes.
    fn run(&mut self, time: Duration, mut choose: impl FnMut(usize) -> usize) {
        let end = self.now + time;
        while self.now < end {
            self.now += Duration::from_millis(50);
            for at in 0..self.machines.len() {
                self.on(at, Event::Tick);
            }
            let mut left = self.sent.len();
            while left > 0 {
                let chosen = choose(left);
                let message = self.sent.swap_remove(chosen);
                self.deliver(message);
                left -= 1;
            }
        }
    }

    /// All that sites can differ in, as one of them sees it.
    fn state(&self, at: usize) -> BTreeMap<String, String> {
        let view = self.machines[at].snapshot();
        let sites = view.all().map(|seen| {
            let what = (&seen.record, seen.status, seen.quarantined);
            (seen.record.site.to_string(), format!("{what:?}"))
        });
        let zones = view.zones().map(|(name, zone)| (name.to_string(), zone.text().to_string()));
        sites.chain(zones).collect()
    }
}

/// What an operator may do.
#[derive(Clone, Debug)]
enum Act {
    Zone(usize, u8, u8),
    RemoveZone(usize, u8),
    Quarantine(usize, usize, bool),
    Revoke(usize),
    Label(usize, u8),
}

fn act() -> impl Strategy<Value = Act> {
    let at = 0..6usize;
    prop_oneof![
        4 => (at.clone(), 0..3u8, 0..6u8).prop_map(|(at, zone, site)| Act::Zone(at, zone, site)),
        1 => (at.clone(), 0..3u8).prop_map(|(at, zone)| Act::RemoveZone(at, zone)),
        2 => (at.clone(), 0..6usize, any::<bool>()).prop_map(|(at, of, on)| Act::Quarantine(at, of, on)),
        1 => at.clone().prop_map(Act::Revoke),
        2 => (at, any::<u8>()).prop_map(|(at, label)| Act::Label(at, label)),
    ]
}

impl Net {
    fn act(&mut self, act: &Act) {
        let mut effects = Vec::new();
        let at = match *act {
            Act::Zone(at, zone, site) => {
                let (zone, text) = (format!("z{zone}"), name(u32::from(site)));
                self.machines[at].set_zone(&zone, Some(&text), self.now, &mut effects).unwrap();
                at
            }
            Act::RemoveZone(at, zone) => {
                self.machines[at].set_zone(&format!("z{zone}"), None, self.now, &mut effects).unwrap();
                at
            }
            Act::Quarantine(at, of, on) => return self.on(at, Event::Quarantine { site: site(of), on }),
            // The operator shuts out a box that does not run any more.
            Act::Revoke(at) => {
                let (site, before) = (Site::new("Site00007").unwrap(), 5);
                return self.on(at, Event::Revoked { statement: statement(7, before), site, before });
            }
            Act::Label(at, label) => {
                let mut says = record(u32::try_from(at).unwrap()).says;
                says.labels.insert("label".into(), label.to_string().into());
                self.machines[at].set_own(says, self.now, &mut effects).unwrap();
                at
            }
        };
        self.carry_out(at, effects);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn two_halves_converge_whatever_the_order_of_messages_and_replays(
        acts in prop::collection::vec(act(), 1..12),
        seed in any::<u64>(),
    ) {
        let mut net = Net::new(6, seed);
        let mut rng = planet::Rng(seed);
        net.split = true;
        for act in &acts {
            net.act(act);
            net.run(Duration::from_secs(2), |left| rng.below(left));
        }
        net.run(Duration::from_secs(10), |left| rng.below(left));
        net.split = false;
        for _ in 0..12 {
            // The network says again, in another order, what was said before.
            for _ in 0..20 {
                let message = net.old[rng.below(net.old.len())].clone();
                net.deliver(message);
            }
            net.run(Duration::from_secs(5), |left| rng.below(left));
        }
        let expected = net.state(0);
        for at in 1..6 {
            prop_assert_eq!(net.state(at), expected.clone());
        }
        let alive = net.machines[0].snapshot().all().filter(|seen| seen.status == Status::Alive).count();
        prop_assert_eq!(alive, 6);
    }

    /// What was said is said again, much later: nothing comes of it.
    #[test]
    fn a_replay_has_no_effect(seed in any::<u64>()) {
        let mut net = Net::new(6, seed);
        let mut rng = planet::Rng(seed);
        net.split = true;
        net.run(Duration::from_secs(20), |left| rng.below(left));
        let mut old = net.old.clone();
        // Exchanges are over TLS, which nobody replays.
        old.retain(|(_, _, message)| matches!(message, Message::Datagram(_)));
        net.split = false;
        net.run(Duration::from_mins(1), |left| rng.below(left));
        net.sent.clear();
        let before: Vec<_> = (0..6).map(|at| net.state(at)).collect();
        net.notices.clear();
        for _ in 0..old.len() {
            let message = old[rng.below(old.len())].clone();
            net.deliver(message);
        }
        let after: Vec<_> = (0..6).map(|at| net.state(at)).collect();
        prop_assert_eq!(before, after);
        prop_assert!(net.notices.is_empty(), "{:?}", net.notices);
    }

    /// Bytes that no site would send, from a site that may: no panic, and nothing is kept.
    #[test]
    fn garbage_neither_panics_nor_is_kept(
        garbage in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..40),
        seed in any::<u64>(),
    ) {
        let mut net = Net::new(4, seed);
        let mut rng = planet::Rng(seed);
        net.run(Duration::from_secs(3), |left| rng.below(left));
        let real: Vec<Vec<u8>> = (net.old.iter())
            .filter_map(|(_, _, message)| match message { Message::Datagram(bytes) => Some(bytes.clone()), _ => None })
            .collect();
        for (at, mut bytes) in garbage.into_iter().enumerate() {
            if let Some(first) = bytes.first_mut() {
                *first = 1;
            }
            // Half of it is like the real thing, but for some bytes.
            let bytes = match real.get(rng.below(real.len().max(1))) {
                Some(like) if at % 2 == 0 => {
                    let mut like = like.clone();
                    for (byte, change) in like.iter_mut().zip(&bytes).skip(1) {
                        if change % 8 == 0 {
                            *byte ^= change;
                        }
                    }
                    like
                }
                _ => bytes,
            };
            let (from, identity) = (site(1), identity(1));
            let mut effects = Vec::new();
            let _ = net.machines[0].answer(&from, &identity, &bytes, net.now, &mut effects);
            net.machines[0].on(Event::Synced { from: from.clone(), identity, bytes: bytes.clone() }, net.now, &mut effects);
            net.machines[0].on(Event::Datagram { from, identity, bytes }, net.now, &mut effects);
        }
        prop_assert!(net.machines[0].snapshot().members().len() < 4 + 40);
    }
}

#[test]
fn a_suspicion_that_was_refuted_never_kills() {
    // Site 0 hears that 1 is suspected, and then its objection; the suspicion is said again and again.
    let mut net = Net::new(4, 9);
    net.run(Duration::from_secs(2), |_| 0);
    net.sent.clear();
    // Site 2 hears nothing from 1 for a while, and suspects it.
    for _ in 0..100 {
        net.now += Duration::from_millis(100);
        net.on(2, Event::Tick);
        if net.notices.iter().any(|(by, notice)| *by == 2 && matches!(notice, Notice::Suspected(_))) {
            break;
        }
        net.sent.retain(|(from, _, _)| *from == 2);
    }
    let suspicions: Vec<_> =
        net.sent.iter().filter(|(from, to, _)| *from == 2 && *to != 2).cloned().collect();
    assert!(!suspicions.is_empty());
    net.run(Duration::from_secs(20), |_| 0);
    net.notices.clear();
    for _ in 0..200 {
        for message in suspicions.clone() {
            net.deliver(message);
        }
        net.run(Duration::from_millis(200), |_| 0);
    }
    assert!(!net.notices.iter().any(|(_, notice)| matches!(notice, Notice::Dead(_) | Notice::Suspected(_))));
}

#[test]
fn of_two_names_with_one_address_each_is_told_what_is_for_it() {
    let mut again = record(2);
    again.says.address = record(1).says.address.clone();
    let own = Own { known: vec![record(1).into(), again.into()], ..own(0) };
    let mut machine = Machine::new(own, Config::default(), 7, Time::ZERO).unwrap();
    let mut effects = Vec::new();
    for second in 0..20 {
        machine.on(Event::Tick, Duration::from_secs(second), &mut effects);
    }
    let readers = effects.iter().filter_map(|effect| match effect {
        Effect::Send { site, .. } => Some(site.clone().expect("it knows whom it tells")),
        _ => None,
    });
    let readers: std::collections::BTreeSet<Site> = readers.collect();
    assert_eq!(readers, [site(1), site(2)].into());
}
