//! Writes that name another replicated resource, for which each site's service has an id of its own.

use replica::{Change, Meta, Reply};
use sample::Fault;

use super::sites::{self, Isles, NAMES, create, delete, patch, replace, site, until};
use crate::replicas::{Name, Seen};

fn id(meta: &Meta) -> &str {
    meta.0.rsplit_once('/').unwrap().1
}

/// The id that a site's service has for a resource.
fn own(isles: &Isles, index: usize, meta: &Meta) -> Option<String> {
    match isles.replicas(index).known.look_up(&Name::from(meta)) {
        Seen::Replicated(place) => place.local.map(|local| local.id().to_owned()),
        Seen::Hidden | Seen::Ordinary => None,
    }
}

/// Whether at a site one image has as its name what the service there has as the id of another.
fn refers(isles: &Isles, index: usize, from: &Meta, to: &Meta) -> bool {
    let (from, to) = (own(isles, index, from), own(isles, index, to));
    from.zip(to).is_some_and(|(from, to)| isles.images(index).get(&from) == Some(&to))
}

fn until_refers_everywhere(isles: &Isles, from: &Meta, to: &Meta) {
    for (index, name) in NAMES.into_iter().enumerate() {
        until(&format!("{name} refers to its own"), || refers(isles, index, from, to));
    }
    isles.until_quiet();
    let metrics: String = (0..NAMES.len()).map(|index| isles.mesh(index).metrics()).collect();
    assert_eq!(metrics.matches("archipel_replicas_diverged_total 0\n").count(), NAMES.len(), "{metrics}");
}

/// The sites agree on what they have, each by its own ids.
fn until_alike(isles: &Isles, meta: &Meta) {
    let handle = isles.mesh(0).replication().unwrap();
    until("they are known to be the same", || {
        let compared = sites::run(handle.compare(&meta.0)).unwrap();
        compared.len() == NAMES.len()
            && compared.iter().all(|one| one.content.is_some() && one.content == compared[0].content)
    });
}

#[test]
fn what_a_write_names_is_what_each_site_has_for_it() {
    let isles = Isles::new();
    let (one, two) = (isles.make(0, "one"), isles.make(1, "two"));
    isles.until_quiet();
    assert_eq!(isles.write(2, patch(&two, id(&one))).reply, Reply::Executed { status: 200 });
    until_refers_everywhere(&isles, &two, &one);
    until_alike(&isles, &two);
    assert_eq!(isles.write(0, replace(&one, id(&two))).reply, Reply::Executed { status: 200 });
    until_refers_everywhere(&isles, &one, &two);
}

#[test]
fn what_is_made_first_at_another_site_is_named_by_the_id_of_the_site_that_takes_the_write() {
    let isles = Isles::new();
    let one = isles.make(1, "one");
    isles.until_quiet();
    let two = isles.make(0, id(&one));
    until_refers_everywhere(&isles, &two, &one);
}

#[test]
fn a_write_waits_at_a_site_that_has_not_made_what_it_names_and_holds_up_nothing_else() {
    let mut isles = Isles::new();
    // C's service makes it, and does not say by which id.
    isles.isles[2].service.faults().set(Fault::Mute);
    let one = isles.make(0, "one");
    sites::run(isles.isles[2].service.faults().until_held(1));
    isles.stop(2);
    isles.isles[2].service.faults().set(Fault::None);
    isles.start(2);
    let two = isles.make(0, id(&one));
    let other = isles.make(0, "other");
    until("C has the other", || own(&isles, 2, &other).is_some());
    let handle = isles.mesh(2).replication().unwrap();
    until("C is in doubt", || sites::run(handle.in_doubt()).unwrap().len() == 1);
    let doubted = sites::run(handle.in_doubt()).unwrap().remove(0);
    let images = isles.images(2);
    let made = images.iter().find(|(_, name)| *name == "one").unwrap().0;
    sites::run(handle.settle(doubted.op, true, Some(made))).unwrap();
    until_refers_everywhere(&isles, &two, &one);
}

#[test]
fn a_site_that_was_away_makes_what_is_named_before_what_names_it() {
    let mut isles = Isles::new();
    isles.stop(2);
    let one = isles.make(0, "one");
    until("B has made it", || own(&isles, 1, &one).is_some());
    // In which order it hears of them is by chance: of so many, some come first.
    let others: Vec<Meta> = (0..8).map(|index| isles.make(index % 2, id(&one))).collect();
    isles.start(2);
    for other in &others {
        until_refers_everywhere(&isles, other, &one);
    }
    assert_eq!(isles.images(2).len(), 9);
}

#[test]
fn what_is_copied_names_what_the_new_site_has_for_it() {
    let isles = Isles::new();
    let one = isles.make(1, "one");
    isles.until_quiet();
    let two = isles.write(0, create(id(&one), &["A", "B"])).meta.unwrap();
    isles.until_quiet();
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&two.0, Change::Extend(site("C")))).unwrap();
    until_refers_everywhere(&isles, &two, &one);
    until_alike(&isles, &two);
}

#[test]
fn a_replica_is_repaired_in_its_own_ids() {
    let isles = Isles::new();
    let one = isles.make(1, "one");
    isles.until_quiet();
    let two = isles.make(0, id(&one));
    until_refers_everywhere(&isles, &two, &one);
    let local = own(&isles, 2, &two).unwrap();
    sites::send_with(
        isles.isles[2].service.address(),
        &format!("PUT /images/{local}"),
        "{\"name\":\"another\"}",
    );
    let handle = isles.mesh(2).replication().unwrap();
    sites::run(handle.repair(&two.0, site("A"))).unwrap();
    until_refers_everywhere(&isles, &two, &one);
    until_alike(&isles, &two);
}

#[test]
fn what_names_something_that_was_deleted_meanwhile_waits_for_nothing() {
    let mut isles = Isles::new();
    isles.stop(2);
    let one = isles.make(0, "one");
    let two = isles.make(0, id(&one));
    assert_eq!(isles.write(0, delete(&one)).reply, Reply::Executed { status: 204 });
    isles.start(2);
    until("C has it", || own(&isles, 2, &two).is_some());
    isles.until_quiet();
    until_alike(&isles, &two);
}

#[test]
fn what_names_something_deleted_stays_the_same_at_all_sites() {
    let isles = Isles::new();
    let one = isles.make(0, "one");
    isles.until_quiet();
    let two = isles.make(1, id(&one));
    until_refers_everywhere(&isles, &two, &one);
    assert_eq!(isles.write(2, delete(&one)).reply, Reply::Executed { status: 204 });
    isles.until_quiet();
    until_alike(&isles, &two);
}

#[test]
fn what_is_no_longer_to_be_at_a_site_is_not_waited_for_there() {
    let mut isles = Isles::new();
    isles.stop(2);
    let one = isles.make(0, "one");
    let two = isles.make(0, id(&one));
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&one.0, Change::Shrink(site("C")))).unwrap();
    isles.start(2);
    until("C has it, by the id that clients know", || isles.names(2) == [id(&one)]);
    until_alike(&isles, &two);
}

#[test]
fn those_that_name_one_another_do_not_wait_for_ever() {
    let mut isles = Isles::new();
    let make = |isles: &Isles, name: &str| isles.write(0, create(name, &["A", "B"])).meta.unwrap();
    let one = make(&isles, "one");
    let two = make(&isles, id(&one));
    assert_eq!(isles.write(0, replace(&one, id(&two))).reply, Reply::Executed { status: 200 });
    isles.until_quiet();
    isles.stop(2);
    let handle = isles.mesh(0).replication().unwrap();
    for meta in [&one, &two] {
        sites::run(handle.change(&meta.0, Change::Extend(site("C")))).unwrap();
    }
    isles.start(2);
    until("C has both", || own(&isles, 2, &one).and(own(&isles, 2, &two)).is_some());
    isles.until_quiet();
    until_alike(&isles, &one);
    until_alike(&isles, &two);
}
