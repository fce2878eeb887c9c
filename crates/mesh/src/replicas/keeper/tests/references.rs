//! Writes that name another replicated resource, which has another id at each site.

use replica::{Change, Meta, Reply};
use sample::Fault;

use super::sites::{self, Isles, NAMES, create, patch, site, until};
use crate::replicas::Seen;
use crate::replicas::request::Name;

fn id(meta: &Meta) -> &str {
    meta.0.rsplit_once('/').unwrap().1
}

/// The id that a site's service has for the image of this name.
fn own(isles: &Isles, index: usize, name: &str) -> Option<String> {
    isles.images(index).into_iter().find_map(|(id, own)| (own == name).then_some(id))
}

/// At a site, one image is named as the id that this site has for the other.
fn until_refers(isles: &Isles, index: usize) {
    until(&format!("{} refers to its own", NAMES[index]), || {
        own(isles, index, "one").is_some_and(|one| own(isles, index, &one).is_some())
    });
}

#[test]
fn what_a_write_names_is_what_each_site_has_for_it() {
    let isles = Isles::new();
    let (one, two) = (isles.make(0, "one"), isles.make(1, "two"));
    isles.until_quiet();
    assert_eq!(isles.write(2, patch(&two, id(&one))).reply, Reply::Executed { status: 200 });
    for index in 0..NAMES.len() {
        until_refers(&isles, index);
    }
    isles.until_quiet();
    let handle = isles.mesh(0).replication().unwrap();
    until("they are known to be the same", || {
        let compared = sites::run(handle.compare(&two.0)).unwrap();
        compared.len() == NAMES.len() && compared.iter().all(|one| one.content == compared[0].content)
    });
    let metrics: String = (0..NAMES.len()).map(|index| isles.mesh(index).metrics()).collect();
    assert_eq!(metrics.matches("archipel_replicas_diverged_total 0\n").count(), NAMES.len(), "{metrics}");
}

#[test]
fn what_is_copied_names_what_the_new_site_has_for_it() {
    let isles = Isles::new();
    let one = isles.make(0, "one");
    isles.until_quiet();
    let two = isles.write(0, create(id(&one), &["A", "B"])).meta.unwrap();
    isles.until_quiet();
    let handle = isles.mesh(0).replication().unwrap();
    sites::run(handle.change(&two.0, Change::Extend(site("C")))).unwrap();
    for index in 0..NAMES.len() {
        until_refers(&isles, index);
    }
}

#[test]
fn a_write_waits_at_a_site_that_has_not_made_what_it_names() {
    let isles = Isles::new();
    let service = isles.isles[2].service.faults();
    service.set(Fault::Hang);
    let one = isles.make(0, "one");
    sites::run(service.until_held(1));
    let two = isles.make(0, id(&one));
    until("C knows of it", || isles.replicas(2).known.look_up(&Name::from(&two)) != Seen::Ordinary);
    service.set(Fault::None);
    for index in 0..NAMES.len() {
        until_refers(&isles, index);
    }
    isles.until_quiet();
}
