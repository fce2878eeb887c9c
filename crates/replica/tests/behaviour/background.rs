//! In the background: what two sites do not know alike is found, and services are read a few at a time.

use super::*;

fn name(number: usize) -> Meta {
    Meta(format!("r{number}").into())
}

fn subject(meta: Meta, level: Level, sites: &[&str]) -> Subject {
    Subject::New { naming: Naming::Chosen(meta), level, sites: sites.iter().map(|name| site(name)).collect() }
}

/// Two sites that share so many resources, all of them known alike.
fn sharing(settings: Settings, count: usize) -> [(&'static str, Stage); 2] {
    let mut stages = [("A", Stage::with("A", settings)), ("B", Stage::with("B", settings))];
    for number in 0..count {
        let new = subject(name(number), Level::Eventual, &["A", "B"]);
        let effects = stages[0].1.write(number as u64, new, Class::Create, Doubt::Repeat);
        talk(&mut stages, from("A", effects));
    }
    stages
}

/// What B says to the numbers that A tells it in the background.
fn surveyed(stages: &mut [(&str, Stage)]) -> Vec<Effect> {
    let survey = stages[0].1.on(Event::Fired(Timer::Survey(site("B"))));
    let [message] = messages(&survey, "B")[..] else { panic!("{survey:?}") };
    stages[1].1.on(Event::Received { from: site("A"), message: message.clone() })
}

/// The resources that one message lists.
fn listed(effects: &[Effect], to: &str) -> Vec<Meta> {
    let [Message::Listing { lines, .. }] = messages(effects, to)[..] else { panic!("{effects:?}") };
    lines.iter().map(|line| line.resource.clone()).collect()
}

#[test]
fn one_resource_among_many_that_is_not_known_alike_is_found_without_listing_them_all() {
    let mut stages = sharing(Settings::default(), 300);
    let effects = stages[0].1.write(300, Subject::Existing(name(7)), Class::Add, Doubt::Repeat);
    // What A says of it is lost.
    stages[0].1.ends(&effects, done());
    let said = surveyed(&mut stages);
    let lines = listed(&said, "A");
    assert!(lines.contains(&name(7)) && lines.len() < 30, "{lines:?}");
}

/// How many resources are found in each round, until both sites know the same.
fn rounds(lines: usize) -> Vec<usize> {
    let mut stages = sharing(Settings { lines, ..Settings::default() }, 12);
    for number in 0..12 {
        let effects = stages[0].1.write(99, Subject::Existing(name(number)), Class::Add, Doubt::Repeat);
        stages[0].1.ends(&effects, done());
    }
    // What A said of them is lost, and so is that it had something to say.
    let disk = stages[0].1.disk.values().cloned();
    stages[0].1.machine = Machine::restore(site("A"), Settings { lines, ..Settings::default() }, disk);
    let mut rounds = Vec::new();
    loop {
        let said = surveyed(&mut stages);
        if said.is_empty() || rounds.len() > 20 {
            return rounds;
        }
        rounds.push(listed(&said, "A").len());
        talk(&mut stages, from("B", said));
        for (at, to) in [(0, "B"), (1, "A")] {
            let effects = stages[at].1.on(Event::Fired(Timer::Deliver(site(to))));
            let at = stages[at].0;
            talk(&mut stages, from(at, effects));
        }
    }
}

#[test]
fn a_list_holds_as_much_as_it_may_and_the_next_one_the_rest() {
    assert_eq!(rounds(5), [5, 5, 2]);
    // Of what falls together, however much, something is always listed.
    assert_eq!(rounds(0), [1; 12]);
}

#[test]
fn a_site_is_told_in_the_background_of_nothing_that_it_has_no_replica_of_or_that_is_not_decided() {
    let mut stages = sharing(Settings::default(), 1);
    let c = subject(name(1), Level::Eventual, &["A", "C"]);
    let effects = stages[0].1.write(1, c, Class::Create, Doubt::Repeat);
    stages[0].1.ends(&effects, done());
    let undecided = subject(name(2), Level::Eventual, &["A", "B"]);
    stages[0].1.write(2, undecided, Class::Create, Doubt::Repeat);
    assert_eq!(surveyed(&mut stages), [], "both know the same of what they share");
    let message = Message::Survey { epoch: Epoch::default(), buckets: vec![1; 256] };
    let answer = stages[0].1.on(Event::Received { from: site("B"), message });
    assert_eq!(listed(&answer, "B"), [name(0)]);
}

/// The resources that B is asked about.
fn inquired(effects: &[Effect]) -> Vec<Meta> {
    let inquired = messages(effects, "B").into_iter().filter_map(|message| match message {
        Message::Inquire { resources } => Some(resources.clone()),
        _ => None,
    });
    inquired.flatten().collect()
}

fn wakes(effects: &[Effect], timer: &Timer) -> usize {
    effects.iter().filter(|effect| matches!(effect, Effect::Wake { timer: own, .. } if own == timer)).count()
}

#[test]
fn services_are_read_a_few_at_a_time_in_turn_and_again_from_the_first() {
    let mut stages = sharing(Settings { sweep: 2, ..Settings::default() }, 5);
    for numbers in [vec![0, 1], vec![2, 3], vec![4], vec![0, 1]] {
        let effects = stages[0].1.on(Event::Fired(Timer::Sweep));
        assert_eq!(inquired(&effects), numbers.into_iter().map(name).collect::<Vec<_>>());
        assert_eq!(wakes(&effects, &Timer::Sweep), 1, "it goes on");
    }
    // One of the sites does it, for all.
    let effects = stages[1].1.on(Event::Fired(Timer::Sweep));
    assert!(messages(&effects, "A").is_empty(), "{effects:?}");
}

#[test]
fn only_what_is_there_more_than_once_and_is_to_be_equal_is_read() {
    let mut stages = sharing(Settings::default(), 0);
    for (number, level, sites) in [
        (0, Level::Weak, vec!["A", "B"]),
        (1, Level::Eventual, vec!["A"]),
        (2, Level::Eventual, vec!["A", "B"]),
    ] {
        let effects =
            stages[0].1.write(9, subject(name(number), level, &sites), Class::Create, Doubt::Repeat);
        talk(&mut stages, from("A", effects));
    }
    stages[0].1.write(9, subject(name(3), Level::Eventual, &["A", "B"]), Class::Create, Doubt::Repeat);
    let effects = stages[0].1.on(Event::Fired(Timer::Sweep));
    assert_eq!(inquired(&effects), [name(2)]);
    let read = |effect: &&Effect| {
        matches!(effect, Effect::Digest { .. } | Effect::Wake { timer: Timer::Compare(_), .. })
    };
    assert_eq!(effects.iter().filter(read).count(), 2, "{effects:?}");
}

#[test]
fn what_goes_on_in_the_background_is_begun_once() {
    let mut stage = Stage::new("A");
    let timers = [Timer::Survey(site("B")), Timer::Sweep];
    for count in [1, 0] {
        let new = subject(name(count), Level::Eventual, &["A", "B"]);
        let effects = stage.write(1, new, Class::Create, Doubt::Repeat);
        let effects = stage.ends(&effects, done());
        assert!(timers.iter().all(|timer| wakes(&effects, timer) == count), "{effects:?}");
    }
}
