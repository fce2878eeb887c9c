//! Scenarios of many sites: who is there, and requests to all, to some, and to those that are near.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use http::Method;
use scope::View as _;
use serde_json::json;

use super::client::{Answer, Client};
use super::story::{Story, check, expect, ms, served_by, until};
use super::world::World;

/// The site that joins.
const NEWCOMER: usize = 3;

pub(super) fn join(story: &mut Story<'_>) -> Result<(), String> {
    let began = Instant::now();
    let site = story.world.add_site()?;
    let name = format!("Site{}", site + 1);
    story.tell(&format!("$ archipel run {}", story.world.file(site)?.display()));
    story.tell("  its file has the address of Site1's link, and that of no other site");
    story.tell(&format!("  {name} is started in {}", ms(began.elapsed())));
    let began = Instant::now();
    let world = story.world;
    let (known, answered) = std::thread::scope(|threads| {
        let others: Vec<_> =
            (0..site).map(|at| threads.spawn(move || answered_from(world, at, began))).collect();
        let known = known_from(story, began);
        let ended = others.into_iter().map(|other| other.join().unwrap_or(Err("it panicked".to_owned())));
        (known, ended.collect::<Result<Vec<_>, _>>())
    });
    for (at, (known, answered)) in known?.into_iter().zip(answered?).enumerate() {
        let (known, answered) = (ms(known), ms(answered));
        story.tell(&format!(
            "  Site{} knows {name} after {known}, and has an answer of it after {answered}{}",
            at + 1,
            away(world, site, at)?
        ));
    }
    // It knows the others by now too, and they have a way to each other.
    story.until_joined()?;
    story.image(site, "debian-joined")?;
    let listed = story.ask("GET", (0, "image"), "/images", Some("image: Site4"), None)?;
    expect(&listed, 200)?;
    served_by(&listed, "image@Site4")?;
    best(story, 0, &[site])
}

/// How long it took each site to know all that there are.
fn known_from(story: &Story<'_>, began: Instant) -> Result<Vec<Duration>, String> {
    let names = story.world.names();
    let mut known: Vec<Option<Duration>> = vec![None; names.len()];
    story.until("every site knows every other", |world| {
        for (at, known) in known.iter_mut().enumerate().filter(|(_, known)| known.is_none()) {
            let view = world.seen_by(at)?;
            let all = names.iter().all(|name| view.find(name).is_some());
            *known = all.then(|| began.elapsed());
        }
        Ok(known.iter().all(Option::is_some))
    })?;
    Ok(known.into_iter().flatten().collect())
}

/// How long it took until a request at a site was answered by the newcomer.
fn answered_from(world: &World, at: usize, began: Instant) -> Result<Duration, String> {
    let client = Client::new().map_err(|error| error.to_string())?;
    let to = world.address(at, "image")?;
    until(world, "the newcomer answers", |_| {
        let answer = client.ask("GET", to, "/images", &[("X-Scope", "image: Site4")], None)?;
        Ok(answer.status.is_success())
    })?;
    Ok(began.elapsed())
}

pub(super) fn list(story: &mut Story<'_>) -> Result<(), String> {
    let listed = story.ask("GET", (0, "image"), "/images", Some("image: *"), None)?;
    told_of(&listed, &[0, 1, 2, NEWCOMER])?;
    story.tell("  each item says in `scope_site` where it is; all sites were asked at once");
    best(story, 0, &[1, 2, NEWCOMER])
}

pub(super) fn except(story: &mut Story<'_>) -> Result<(), String> {
    let listed = story.ask("GET", (0, "image"), "/images", Some("image: !Site3"), None)?;
    told_of(&listed, &[0, 1, NEWCOMER])?;
    best(story, 0, &[1, NEWCOMER])
}

pub(super) fn around(story: &mut Story<'_>) -> Result<(), String> {
    const RADIUS: Duration = Duration::from_millis(45);
    let distances = |world: &World| {
        let view = world.seen_by(0)?;
        let to = |name: &String| view.rtt(view.here(), view.find(name)?);
        Ok::<_, String>(world.names().iter().map(to).collect::<Vec<_>>())
    };
    // Site1 has probed the others since they met: this is so already, unless one was late.
    story.until("Site1 has measured that Site2 and Site4 are near, and Site3 is not", |world| {
        let near: Vec<_> = distances(world)?.iter().map(|rtt| rtt.map(|rtt| rtt <= RADIUS)).collect();
        Ok(near == [Some(true), Some(true), Some(false), Some(true)])
    })?;
    let measured = distances(story.world)?;
    for (site, rtt) in measured.iter().enumerate().skip(1) {
        let rtt = ms(rtt.unwrap_or_default());
        story.tell(&format!("  Site1 measured {rtt} to Site{}{}", site + 1, away(story.world, 0, site)?));
    }
    let image = story.image(NEWCOMER, "debian-near")?;
    story.tell("  only Site4 has that image; Site1 looks at home, then nearest first:");
    let scope = Some("image: around(Site1, 45ms)");
    let found = story.ask("GET", (0, "image"), &format!("/images/{image}"), scope, None)?;
    expect(&found, 200)?;
    served_by(&found, "image@Site4")?;
    let in_turn = story.world.rtt(0, 1)? + story.world.rtt(0, NEWCOMER)?;
    story.tell(&format!("  Site2 and Site4, one after the other, take {} at best", ms(in_turn)));
    story.tell("  the same sites, all at once, for a list:");
    let scope = Some("image: all(around(Site1, 45ms))");
    let listed = story.ask("GET", (0, "image"), "/images", scope, None)?;
    told_of(&listed, &[0, 1, NEWCOMER])?;
    best(story, 0, &[1, NEWCOMER])
}

pub(super) fn zone(story: &mut Story<'_>) -> Result<(), String> {
    let path = "/v1/zones/west";
    let body = Some(json!({ "location": "Site1 & Site2" }));
    let began = Instant::now();
    story.order(0, "zone set west='Site1 & Site2'", (Method::PUT, path, body))?;
    let known_at = |world: &World, known: bool| {
        let views =
            (0..world.names().len()).map(|site| world.seen_by(site)).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, String>(views.iter().all(|view| view.zone("west").is_some() == known))
    };
    story.until("every site knows the zone", |world| known_at(world, true))?;
    story.tell(&format!("  every site knows it after {}{}", ms(began.elapsed()), away(story.world, 0, 2)?));
    let listed = story.ask("GET", (2, "image"), "/images", Some("image: west"), None)?;
    told_of(&listed, &[0, 1])?;
    best(story, 2, &[0, 1])?;
    story.order(1, "zone remove west", (Method::DELETE, path, None))?;
    story.until("every site has forgotten the zone", |world| known_at(world, false))
}

pub(super) fn list_split(story: &mut Story<'_>) -> Result<(), String> {
    story.while_cut(&[2], |story| {
        let listed = story.ask("GET", (0, "image"), "/images", Some("image: *"), None)?;
        told_of(&listed, &[0, 1, NEWCOMER])?;
        let warning = listed.header("warning").to_owned();
        story.tell(&format!("  Warning: {warning}"));
        check(!warning.is_empty(), || "nothing says that the list lacks a site".to_owned())?;
        check(listed.header("scope-sites").contains("\"Site3\";error="), || {
            format!("Site3 is not said to be missing: {}", listed.header("scope-sites"))
        })?;
        best(story, 0, &[1, NEWCOMER])?;
        story.tell("  all of it or nothing:");
        let headers = [("X-Scope", "image: *"), ("X-Scope-Strict", "true")];
        let refused = story.ask_with("GET", (0, "image"), "/images", &headers, None)?;
        check(refused.status.is_server_error(), || format!("part of a list, with {}", refused.status))?;
        story.tell(&format!("  {}", refused.text("title")));
        Ok(())
    })
}

/// Checks that a list has items of these sites, and of no others.
fn told_of(listed: &Answer, sites: &[usize]) -> Result<(), String> {
    expect(listed, 200)?;
    let expected: BTreeSet<String> = sites.iter().map(|site| format!("Site{}", site + 1)).collect();
    let told: BTreeSet<String> = listed.sites().into_iter().collect();
    check(told == expected, || format!("{} listed {told:?}, not {expected:?}", listed.command))
}

/// How far one site is from another in the emulated network, in parentheses.
fn away(world: &World, from: usize, to: usize) -> Result<String, String> {
    let rtt = world.rtt(from, to)?;
    Ok(if rtt.is_zero() {
        String::new()
    } else {
        format!(" (Site{} is {} away, there and back)", to + 1, ms(rtt))
    })
}

/// Tells the least time that the network allows a site to ask these others, all at once.
fn best(story: &mut Story<'_>, from: usize, sites: &[usize]) -> Result<(), String> {
    let mut farthest = (Duration::ZERO, from);
    for site in sites {
        farthest = farthest.max((story.world.rtt(from, *site)?, *site));
    }
    let (rtt, site) = farthest;
    story.tell(&format!(
        "  the farthest site asked, Site{}, is {} away: it cannot be faster",
        site + 1,
        ms(rtt)
    ));
    Ok(())
}
