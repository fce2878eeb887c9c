//! Splits, one-way cuts, restarts, goodbyes, stolen boxes: what becomes of them on a small planet.
#![allow(clippy::unwrap_used, reason = "it is a test")]

mod planet;

use std::time::Duration;

use planet::{Planet, fingerprint, identity, name, own, record, statement};
use scope::{Code, Dialect, Known, Site, View};
use sites::{Config, Effect, Event, Identity, Machine, Own, Reach, Says, Seen, Status};

fn site(number: u32) -> Site {
    Site::new(&name(number)).unwrap()
}

fn seen(planet: &Planet, by: u32, of: u32) -> Seen {
    planet.machine(by).snapshot().site(&name(of)).unwrap().clone()
}

fn settled(count: u32) -> Planet {
    let mut planet = Planet::acquainted(count + 2, count, 5);
    planet.run_for(Duration::from_secs(20));
    assert!(planet.agree());
    planet
}

#[test]
fn sites_that_know_one_address_find_all_others() {
    let mut planet = Planet::new(20, 3);
    for number in 0..20 {
        planet.start(number, own(number));
        let addresses = vec!["s0:7400".into()];
        planet.on(number, Event::Join { addresses });
    }
    planet.run_for(Duration::from_secs(20));
    assert!(planet.agree());
    let view = planet.machine(7).snapshot();
    let far = view.find(&name(13)).unwrap();
    assert!(view.offers(far, "image") && !view.offers(far, "tape"));
    assert_eq!(view.label(far, "region"), Some("eu"));
    assert_eq!(view.metric(far, "load"), Some(13.0));
    assert!(view.rtt(view.find(&name(3)).unwrap(), far).is_some(), "a distance between two others");
}

#[test]
fn a_site_whose_first_peer_is_down_joins_when_that_is_back() {
    let mut planet = Planet::new(2, 3);
    planet.start(1, own(1));
    planet.on(1, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_mins(2));
    planet.start(0, own(0));
    planet.run_for(Duration::from_secs(5));
    assert!(planet.agree());
}

#[test]
fn both_halves_of_a_split_work_and_merge_when_they_meet() {
    for part in [1, 20, 39] {
        let mut planet = settled(40);
        for number in 0..part {
            planet.half[number] = 1;
        }
        planet.run_for(Duration::from_mins(2));
        assert_eq!(seen(&planet, 0, 39).status, Status::Dead);
        assert_eq!(seen(&planet, 39, 0).status, Status::Dead);
        // Each half decides something of its own.
        let define = |planet: &mut Planet, by, zone: &str, text: &str| {
            planet
                .with(by, |machine, now, effects| machine.set_zone(zone, Some(text), now, effects))
                .unwrap();
        };
        define(&mut planet, 0, "west", "Site00001");
        define(&mut planet, 39, "east", "Site00038");
        planet.run_for(Duration::from_secs(1));
        define(&mut planet, 39, "both", "Site00039");
        planet.run_for(Duration::from_secs(1));
        define(&mut planet, 0, "both", "Site00000");
        planet.on(39, Event::Quarantine { site: site(5), on: true });

        planet.half.fill(0);
        planet.run_for(Duration::from_mins(1));
        assert!(planet.agree(), "{part} of 40");
        for by in 0..40 {
            let view = planet.machine(by).snapshot();
            let zones: Vec<_> = view.zones().map(|(name, zone)| (name, zone.text())).collect();
            assert_eq!(zones, [("both", "Site00000"), ("east", "Site00038"), ("west", "Site00001")]);
            assert!(view.site(&name(5)).unwrap().quarantined);
        }
    }
}

#[test]
fn a_cycle_that_two_halves_make_together_is_an_error_of_those_who_use_it() {
    let mut planet = settled(4);
    planet.half[..2].fill(1);
    let define = |planet: &mut Planet, by, zone: &str, text: &str| {
        planet.with(by, |machine, now, effects| machine.set_zone(zone, Some(text), now, effects))
    };
    define(&mut planet, 0, "a", "b").unwrap();
    define(&mut planet, 3, "b", "a & Site00001").unwrap();
    planet.half.fill(0);
    planet.run_for(Duration::from_mins(2));
    let (view, dialect) = (planet.machine(2).snapshot(), Dialect::default());
    let scope = dialect.scope("image: a").unwrap();
    assert_eq!(dialect.plan(&scope, "image", &view).unwrap_err().code(), Code::Zone);
    // And where it would be closed knowingly, it is refused.
    define(&mut planet, 2, "c", "d").unwrap();
    assert_eq!(define(&mut planet, 2, "d", "c").unwrap_err().code(), Code::Zone);
}

#[test]
fn a_site_that_left_is_no_member_and_may_come_back() {
    let mut planet = settled(8);
    planet.on(3, Event::Leave);
    planet.run_for(Duration::from_secs(1));
    assert_eq!(seen(&planet, 0, 3).status, Status::Left);
    assert_eq!(planet.machine(0).snapshot().find(&name(3)), None);
    planet.crash(3);
    planet.run_for(Duration::from_mins(1));
    assert!(planet.agree());
    planet.start(3, Own { epoch: own(3).epoch + 1, ..own(3) });
    planet.on(3, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_secs(2));
    assert!(planet.agree());
}

#[test]
fn a_site_that_restarts_with_a_clock_that_went_back_is_believed_all_the_same() {
    let mut planet = settled(8);
    planet.crash(3);
    planet.run_for(Duration::from_secs(1));
    planet.start(3, Own { epoch: 5, ..own(3) });
    planet.on(3, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_secs(10));
    assert!(planet.agree());
    assert!(seen(&planet, 1, 3).record.epoch > own(3).epoch);
}

#[test]
fn a_site_that_cannot_be_reached_from_here_is_alive_and_unreachable() {
    let mut planet = settled(8);
    planet.cut.extend([(2, 5), (5, 2)]);
    planet.run_for(Duration::from_secs(40));
    let there = seen(&planet, 2, 5);
    assert_eq!((there.status, there.reach), (Status::Alive, Reach::Unreachable));
    assert!(!planet.machine(2).snapshot().usable(&name(5)));
    assert!(planet.machine(1).snapshot().usable(&name(5)));
    assert_eq!(planet.false_deaths, 0);
    planet.cut.clear();
    planet.run_for(Duration::from_secs(30));
    assert!(planet.machine(2).snapshot().usable(&name(5)));
}

#[test]
fn the_link_knows_too_what_can_be_reached() {
    let mut planet = settled(8);
    planet.on(2, Event::Reached { site: site(5), works: false });
    assert_eq!(seen(&planet, 2, 5).reach, Reach::Unreachable);
    planet.run_for(Duration::from_secs(30));
    assert_eq!(seen(&planet, 2, 5).reach, Reach::Unreachable, "datagrams do not prove the link");
    planet.on(2, Event::Reached { site: site(5), works: true });
    assert_eq!(seen(&planet, 2, 5).reach, Reach::Reachable);
}

#[test]
fn a_revoked_site_is_out_everywhere_also_where_it_was_heard_of_late() {
    let mut planet = settled(10);
    // Sites 8 and 9 are elsewhere when it happens.
    planet.half[8..10].fill(1);
    planet.on(0, Event::Revoked { statement: statement(4, 2), site: site(4), before: 2 });
    planet.run_for(Duration::from_secs(2));
    assert!((0..8).filter(|by| *by != 4).all(|by| seen(&planet, by, 4).status == Status::Revoked));
    assert_ne!(seen(&planet, 8, 4).status, Status::Revoked);
    planet.run_for(Duration::from_mins(1));
    planet.half.fill(0);
    planet.run_for(Duration::from_mins(1));
    for by in (0..10).filter(|by| *by != 4) {
        assert_eq!(seen(&planet, by, 4).status, Status::Revoked, "at {by}");
        assert_eq!(planet.machine(by).snapshot().find(&name(4)), None);
    }
    // Also after a restart, when nothing else is known of it.
    let kept = planet.machine(0).save();
    planet.crash(0);
    planet.start(0, Own { epoch: own(0).epoch + 9, ..own(0) });
    planet.with(0, |machine, now, effects| machine.restore(&kept, now, effects));
    planet.on(0, Event::Revoked { statement: statement(4, 2), site: site(4), before: 2 });
    let restarted = planet.machine(0).snapshot();
    assert!(restarted.is_revoked(&name(4)) && !restarted.is_revoked(&name(5)));
    assert!(restarted.find(&name(4)).is_none() && restarted.site(&name(4)).is_none());
    planet.run_for(Duration::from_secs(5));
    // The thief goes on; nobody believes it. A box with a later identity is let in.
    planet.crash(4);
    planet.start(4, Own { issued: 3, fingerprint: fingerprint(99), epoch: own(4).epoch + 9, ..own(4) });
    planet.on(4, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_secs(5));
    assert!((0..10).filter(|by| *by != 4).all(|by| seen(&planet, by, 4).status == Status::Alive));
    assert!(!planet.machine(0).snapshot().is_revoked(&name(4)));
}

#[test]
fn what_was_issued_before_a_revocation_is_revoked_and_what_was_issued_then_is_not() {
    let mut planet = settled(4);
    for (number, before) in [(4, 3), (2, 1)] {
        planet.on(0, Event::Revoked { statement: statement(number, before), site: site(number), before });
    }
    planet.run_for(Duration::from_secs(2));
    assert_eq!(seen(&planet, 3, 2).status, Status::Alive);
    for (issued, let_in) in [(2, false), (3, true)] {
        planet.start(4, Own { issued, ..own(4) });
        planet.on(4, Event::Join { addresses: vec!["s0:7400".into()] });
        planet.run_for(Duration::from_secs(10));
        assert_eq!(planet.machine(1).snapshot().find(&name(4)).is_some(), let_in, "issued {issued}");
        planet.crash(4);
    }
}

#[test]
fn a_name_cannot_be_taken_by_another_identity() {
    let mut planet = settled(8);
    let before = seen(&planet, 0, 3).record;
    let thief = Own { fingerprint: fingerprint(99), epoch: own(3).epoch + 1000, ..own(3) };
    planet.crash(3);
    planet.start(3, thief);
    planet.on(3, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_millis(500));
    assert_eq!(seen(&planet, 0, 3).record, before);
    assert!(planet.names_taken > 0, "and it is told that somebody tries");
    // Not even when the name's owner is dead: its identity was not issued later.
    planet.run_for(Duration::from_mins(1));
    for by in (0..8).filter(|by| *by != 3) {
        assert_eq!(seen(&planet, by, 3).record.fingerprint, before.fingerprint);
    }
}

#[test]
fn a_renewed_identity_of_a_living_site_is_known_everywhere_and_the_old_one_believed_no_more() {
    let mut planet = settled(60);
    let (old, new) = (identity(3), Identity { fingerprint: fingerprint(99), issued: 2 });
    planet.renew(3, new);
    planet.run_for(Duration::from_secs(3));
    for by in 0..60 {
        let seen = seen(&planet, by, 3);
        assert_eq!((seen.status, seen.record.fingerprint), (Status::Alive, new.fingerprint), "at {by}");
    }
    assert_eq!((planet.names_taken, planet.false_deaths), (0, 0), "nobody was taken for somebody else");
    // Who still has the old one, as from a backup, is refused, also when it lives on with a later start.
    planet.crash(3);
    planet.start(3, Own { epoch: own(3).epoch + 1000, ..own(3) });
    planet.on(3, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_mins(1));
    assert_eq!(planet.identities[3], old);
    for by in (0..60).filter(|by| *by != 3) {
        let seen = seen(&planet, by, 3);
        assert_eq!((seen.status, seen.record.fingerprint), (Status::Dead, new.fingerprint), "at {by}");
    }
}

#[test]
fn a_site_that_was_away_learns_a_renewed_identity_when_it_is_back() {
    let mut planet = settled(10);
    planet.half[7] = 1;
    planet.run_for(Duration::from_secs(3));
    let new = Identity { fingerprint: fingerprint(99), issued: 2 };
    planet.renew(3, new);
    planet.run_for(Duration::from_secs(3));
    assert_eq!(seen(&planet, 7, 3).record.fingerprint, fingerprint(3));
    planet.half.fill(0);
    planet.run_for(Duration::from_mins(1));
    assert!(planet.agree());
    assert_eq!(seen(&planet, 7, 3).record.fingerprint, new.fingerprint);
    assert_eq!(seen(&planet, 3, 7).status, Status::Alive);
}

#[test]
fn a_member_that_says_that_a_living_site_has_a_new_identity_is_not_believed() {
    let mut planet = settled(8);
    let before = seen(&planet, 0, 3).record;
    // Site 9 has the authority's word for the name, says the liar; only the site itself could show it.
    let mut liar = Planet::acquainted(10, 8, 7);
    liar.renew(3, Identity { fingerprint: fingerprint(99), issued: 2 });
    liar.run_for(Duration::from_secs(3));
    let lie = liar.with(5, |machine, _, _| machine.save());
    let (from, identity) = (site(5), identity(5));
    for _ in 0..3 {
        planet.with(0, |machine, now, effects| machine.answer(&from, &identity, &lie, now, effects));
        planet.run_for(Duration::from_secs(5));
    }
    for by in 0..8 {
        let seen = seen(&planet, by, 3);
        assert_eq!((seen.status, &seen.record), (Status::Alive, &before), "at {by}");
    }
}

#[test]
fn a_member_that_makes_up_what_another_says_of_itself_is_not_believed_for_long() {
    let mut planet = settled(8);
    // It counts far ahead of what the site itself has said, so that nothing of that would count any more.
    let mut liar = Planet::acquainted(10, 8, 7);
    liar.run_for(Duration::from_mins(30));
    liar.with(3, |machine, _, _| machine.set_metrics([("load".into(), 0.001)].into())).unwrap();
    liar.run_for(Duration::from_mins(1));
    for _ in 0..20 {
        let mut lies = Vec::new();
        liar.run_for(Duration::from_secs(1));
        liar.machines[5].as_mut().unwrap().on(Event::Tick, liar.now + Duration::from_secs(1), &mut lies);
        for lie in lies {
            if let Effect::Send { bytes, .. } = lie {
                planet.on(0, Event::Datagram { from: site(5), identity: identity(5), bytes });
            }
        }
    }
    let load = |planet: &Planet, by| {
        let view = planet.machine(by).snapshot();
        view.metric(view.find(&name(3)).unwrap(), "load")
    };
    assert_eq!(load(&planet, 0), Some(0.001), "the lie was not understood");
    planet.run_for(Duration::from_mins(2));
    for by in (0..8).filter(|by| *by != 3) {
        assert_eq!(load(&planet, by), Some(3.0), "at {by}");
    }
    assert!(planet.agree());
}

#[test]
fn an_earlier_identity_does_not_take_a_dead_sites_name_by_hearsay() {
    let mut planet = settled(8);
    let new = Identity { fingerprint: fingerprint(99), issued: 2 };
    planet.renew(3, new);
    planet.run_for(Duration::from_secs(3));
    planet.crash(3);
    planet.run_for(Duration::from_mins(1));
    // Somewhere else, the box with the earlier one was started again.
    let mut elsewhere = Planet::acquainted(10, 8, 7);
    elsewhere.start(3, Own { epoch: own(3).epoch + 1000, ..own(3) });
    elsewhere.on(3, Event::Join { addresses: vec!["s5:7400".into()] });
    elsewhere.run_for(Duration::from_secs(3));
    let hearsay = elsewhere.with(5, |machine, _, _| machine.save());
    planet.with(0, |machine, now, effects| machine.answer(&site(5), &identity(5), &hearsay, now, effects));
    planet.run_for(Duration::from_secs(5));
    for by in (0..8).filter(|by| *by != 3) {
        let seen = seen(&planet, by, 3);
        assert_eq!((seen.status, seen.record.fingerprint), (Status::Dead, new.fingerprint), "at {by}");
    }
}

#[test]
fn a_quarantined_site_is_visible_and_unused() {
    let mut planet = settled(8);
    planet.on(1, Event::Quarantine { site: site(4), on: true });
    planet.run_for(Duration::from_secs(1));
    let view = planet.machine(6).snapshot();
    assert!(view.find(&name(4)).is_some() && !view.usable(&name(4)));
    planet.on(6, Event::Quarantine { site: site(4), on: false });
    planet.run_for(Duration::from_secs(1));
    assert!((0..8).all(|by| planet.machine(by).snapshot().usable(&name(4))));
}

#[test]
fn what_a_site_says_of_itself_reaches_all() {
    let mut planet = settled(12);
    let mut says = record(3).says;
    says.labels.insert("region".into(), "us".into());
    planet.with(3, |machine, now, effects| machine.set_own(says, now, effects)).unwrap();
    planet.with(3, |machine, _, _| machine.set_metrics([("load".into(), 0.5)].into())).unwrap();
    planet.run_for(Duration::from_secs(2));
    let label = |by| {
        let view = planet.machine(by).snapshot();
        view.label(view.find(&name(3)).unwrap(), "region").map(str::to_owned)
    };
    assert!((0..12).all(|by| label(by).as_deref() == Some("us")));
    planet.run_for(Duration::from_mins(1));
    for by in 0..12 {
        let view = planet.machine(by).snapshot();
        assert_eq!(view.metric(view.find(&name(3)).unwrap(), "load"), Some(0.5));
    }
    let mut says = record(3).says;
    says.labels.insert("long".into(), "x".repeat(2000).into());
    assert!(planet.with(3, |machine, now, effects| machine.set_own(says, now, effects)).is_err());
}

#[test]
fn two_sites_that_agree_exchange_little() {
    let mut planet = settled(40);
    planet.reset_counts();
    planet.run_for(Duration::from_mins(2));
    let exchanges = 40 * 4;
    assert!(planet.synced_bytes / exchanges < 4000, "{} bytes each", planet.synced_bytes / exchanges);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = || {
        let mut planet = Planet::acquainted(30, 28, 11);
        planet.run_for(Duration::from_secs(30));
        planet.join(29);
        planet.crash(3);
        planet.run_for(Duration::from_secs(30));
        (planet.trace, planet.sent_bytes, planet.datagrams)
    };
    assert_eq!(run(), run());
}

fn zone_of_file(planet: &mut Planet, by: u32, name: &str, text: &str) {
    planet.with(by, |machine, now, effects| machine.set_zone_of_file(name, text, now, effects)).unwrap();
}

fn zones_everywhere(planet: &Planet, count: u32) -> Vec<(String, String)> {
    let zones = |by| -> Vec<_> {
        let view = planet.machine(by).snapshot();
        view.zones().map(|(name, zone)| (name.to_owned(), zone.text().to_owned())).collect()
    };
    let first = zones(0);
    assert!((1..count).all(|by| zones(by) == first));
    first
}

#[test]
fn a_file_never_overrides_what_was_decided_while_sites_ran() {
    let mut planet = settled(4);
    let west = |text: &str| vec![("west".to_owned(), text.to_owned())];
    zone_of_file(&mut planet, 0, "west", "Site00000");
    zone_of_file(&mut planet, 2, "west", "Site00002");
    planet.run_for(Duration::from_mins(1));
    assert_eq!(zones_everywhere(&planet, 4), west("Site00002"), "of two files, the last site by name");
    zone_of_file(&mut planet, 2, "west", "Site00003");
    zone_of_file(&mut planet, 0, "west", "Site00001");
    planet.run_for(Duration::from_mins(1));
    assert_eq!(zones_everywhere(&planet, 4), west("Site00003"), "a file that was changed is heeded");
    planet
        .with(1, |machine, now, effects| machine.set_zone("west", Some("Site00001"), now, effects))
        .unwrap();
    planet.run_for(Duration::from_mins(1));
    zone_of_file(&mut planet, 3, "west", "Site00003");
    planet.run_for(Duration::from_mins(1));
    assert_eq!(zones_everywhere(&planet, 4), west("Site00001"));
    planet.with(0, |machine, now, effects| machine.set_zone("west", None, now, effects)).unwrap();
    planet.run_for(Duration::from_mins(1));
    zone_of_file(&mut planet, 3, "west", "Site00003");
    planet.run_for(Duration::from_mins(1));
    assert_eq!(zones_everywhere(&planet, 4), []);
    assert!(!planet.machine(2).has_zone("west"));
}

#[test]
fn a_site_that_the_link_failed_to_reach_is_usable_once_the_link_has_no_word_on_it() {
    let mut planet = settled(4);
    for forget in [true, false] {
        planet.on(0, Event::Reached { site: site(1), works: false });
        assert!(!planet.machine(0).snapshot().usable(&name(1)));
        if forget {
            planet.on(0, Event::Unlinked { site: site(1) });
        } else {
            planet.crash(1);
            planet.start(1, Own { epoch: own(1).epoch + 100_000, ..own(1) });
            planet.on(1, Event::Join { addresses: vec!["s0:7400".into()] });
            planet.run_for(Duration::from_secs(5));
        }
        assert!(planet.machine(0).snapshot().usable(&name(1)), "{forget}");
    }
}

#[test]
fn a_clock_that_is_set_later_is_heeded() {
    let mut planet = Planet::new(2, 3);
    planet.start(0, own(0));
    planet.start(1, Own { wall_ms: 0, ..own(1) });
    let define = |planet: &mut Planet, text: &str| {
        planet.with(0, |machine, now, effects| machine.set_zone("west", Some(text), now, effects)).unwrap();
    };
    define(&mut planet, "Site00000");
    planet.on(1, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_mins(1));
    assert!(!planet.machine(1).has_zone("west"), "to it, that was in the future");
    planet.with(1, |machine, now, _| machine.set_wall(own(0).wall_ms + 60_000, now));
    planet.run_for(Duration::from_mins(1));
    assert!(planet.machine(1).has_zone("west"));
}

#[test]
fn what_was_kept_and_cut_off_loses_no_revocation_and_is_reported() {
    let mut planet = settled(8);
    let (statement, before) = (statement(3, 1_000_000), 1_000_000);
    planet.on(0, Event::Revoked { statement: statement.clone(), site: site(3), before });
    let kept = planet.machine(0).save();
    let restore = |bytes: &[u8]| {
        let mut machine = sites::Machine::new(own(0), sites::Config::default(), 1, Duration::ZERO).unwrap();
        machine.restore(bytes, Duration::ZERO, &mut Vec::new())
    };
    assert!(restore(&kept) && restore(&[]));
    let cut = &kept[..kept.len() / 2];
    assert!(!restore(cut));
    assert_eq!(sites::kept_statements(cut), [statement]);
}

#[test]
fn who_is_gone_for_long_is_forgotten_and_may_join_again() {
    let mut planet = Planet::new(5, 5);
    let config = Config { forget_after: Duration::from_mins(10), ..Config::default() };
    for number in 0..5 {
        planet.start_with(number, own(number), config.clone());
        planet.on(number, Event::Join { addresses: vec!["s0:7400".into()] });
    }
    planet.run_for(Duration::from_secs(20));
    planet.crash(2);
    planet.on(3, Event::Leave);
    planet.run_for(Duration::from_secs(5));
    planet.crash(3);
    let known = |planet: &Planet, by: u32| {
        let view = planet.machine(by).snapshot();
        view.all().map(|seen| seen.record.site.name().to_owned()).collect::<Vec<_>>()
    };
    planet.run_for(Duration::from_mins(9));
    assert_eq!(known(&planet, 0).len(), 5, "a site that is dead, or left, is still known");
    // Each looks now and then, and hears meanwhile of those that another still knows.
    planet.run_for(Duration::from_mins(30));
    for by in [0, 1, 4] {
        assert_eq!(known(&planet, by), [name(0), name(1), name(4)], "by {by}");
    }
    planet.start_with(2, own(2), config);
    planet.on(2, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_secs(30));
    assert!(planet.agree());
    assert_eq!(known(&planet, 4).len(), 4);
}

#[test]
fn a_site_that_left_and_joins_again_without_a_restart_lives_again() {
    let mut planet = settled(6);
    assert!(!planet.machine(3).is_leaving());
    planet.on(3, Event::Leave);
    assert!(planet.machine(3).is_leaving());
    planet.run_for(Duration::from_secs(2));
    assert_eq!(seen(&planet, 0, 3).status, Status::Left);
    planet.on(3, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_mins(1));
    assert!(!planet.machine(3).is_leaving());
    assert_eq!(seen(&planet, 0, 3).status, Status::Alive);
    assert!(planet.agree());
}

#[test]
fn a_view_knows_where_it_is_and_what_all_say() {
    let mut planet = settled(4);
    planet
        .with(2, |machine, now, effects| machine.set_zone("west", Some("Site00001"), now, effects))
        .unwrap();
    planet.run_for(Duration::from_secs(5));
    let view = planet.machine(2).snapshot();
    let (here, far) = (view.here(), view.find(&name(3)).unwrap());
    assert_eq!(view.members()[here], site(2));
    assert_eq!(view.rtt(here, here), Some(Duration::ZERO));
    assert_eq!(view.rtt(here, far), view.rtt(far, here));
    let measured = view.site(&name(3)).unwrap().measured.unwrap();
    assert_eq!(view.rtt(here, far), Some(measured));
    let services: Vec<&str> = view.services().unwrap().into_iter().collect();
    assert_eq!(services, ["compute", "identity", "image", "network", "placement"]);
    assert_eq!(view.known(Known::Zones), ["west"]);
    assert_eq!(view.known(Known::Labels), ["region", "tier"]);
    assert_eq!(view.known(Known::Metrics), ["load"]);
    // One that does not say offers every service.
    planet.start(4, Own { says: Says { services: None, ..own(4).says }, ..own(4) });
    planet.on(4, Event::Join { addresses: vec!["s0:7400".into()] });
    planet.run_for(Duration::from_secs(20));
    assert_eq!(planet.machine(2).snapshot().services(), None);
}

#[test]
fn what_does_not_fit_into_a_datagram_is_refused_with_a_reason() {
    let says = Says { address: "".into(), ..own(0).says };
    let refused = Machine::new(Own { says, ..own(0) }, Config::default(), 1, Duration::ZERO).unwrap_err();
    assert!(refused.to_string().contains("needs an address"), "{refused}");
}
