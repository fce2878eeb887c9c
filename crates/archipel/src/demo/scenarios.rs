//! The papers' scenarios, played live.

use std::time::Duration;

use super::client::Client;
use super::replicas;
use super::story::{Story, check, expect, served_by};
use super::together;
use super::world::World;

/// One scenario: what it shows, and how.
pub struct Scenario {
    /// Its name, in one word or two.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    play: fn(&mut Story<'_>) -> Result<(), String>,
}

/// All of them, in the order in which they are played. Each leaves the world as it found it,
/// but for images and servers, and for the site that joins: it stays.
pub const SCENARIOS: [Scenario; 16] = [
    Scenario { name: "local", about: "a server boots at Site1 with an image of Site1", play: local },
    Scenario {
        name: "share",
        about: "a server boots at Site1 with an image that only Site2 has",
        play: share,
    },
    Scenario {
        name: "fallback",
        about: "Site1 is cut off; `Site1 ; Site2` answers from Site2",
        play: fallback,
    },
    Scenario { name: "race", about: "`Site2 | Site3`: whichever answers first", play: race },
    Scenario {
        name: "write-once",
        about: "a write is never executed twice, whatever breaks",
        play: write_once,
    },
    Scenario { name: "split", about: "every site is cut off; local work goes on", play: split },
    Scenario { name: "bad-scope", about: "a mistake in a scope is explained", play: bad_scope },
    Scenario {
        name: "join",
        about: "a fourth site joins, and knows the address of one other",
        play: together::join,
    },
    Scenario { name: "list", about: "`*`: one list of the images of all sites", play: together::list },
    Scenario { name: "except", about: "`!Site3`: all sites but one", play: together::except },
    Scenario {
        name: "around",
        about: "`around(Site1, 45ms)`: a site and whatever is near it",
        play: together::around,
    },
    Scenario {
        name: "zone",
        about: "a name for some sites, given at one and used at another",
        play: together::zone,
    },
    Scenario {
        name: "list-split",
        about: "Site3 is cut off; a list without its images says so",
        play: together::list_split,
    },
    Scenario {
        name: "replicate",
        about: "`Site1 & Site2 & Site3`: one image with one id, which each site has when all are cut off",
        play: replicas::replicate,
    },
    Scenario {
        name: "both-sides",
        about: "an image is changed on both sides of a split; joined again, all agree",
        play: replicas::both_sides,
    },
    Scenario {
        name: "extend",
        about: "a fourth site gets a replica, copied from one",
        play: replicas::extend,
    },
];

impl Scenario {
    /// Plays it. What happens is told line by line.
    pub fn play(&self, world: &World, client: &Client, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        (self.play)(&mut Story { world, client, tell })
    }
}

fn local(story: &mut Story<'_>) -> Result<(), String> {
    let image = story.image(0, "debian-local")?;
    let server = story.boot(0, &image, None)?;
    expect(&server, 201)?;
    served_by(&server, "compute@Site1")?;
    check(server.header("scope-sites").is_empty(), || "another site was asked".to_owned())
}

fn share(story: &mut Story<'_>) -> Result<(), String> {
    let image = story.image(1, "debian-shared")?;
    story.tell("  without a scope, Site1 does not know the image:");
    let unknown = story.boot(0, &image, None)?;
    check(!unknown.status.is_success(), || "Site1 has an image of Site2's".to_owned())?;
    story.tell("  with one, its compute service gets the image of Site2:");
    let server = story.boot(0, &image, Some("compute: Site1, image: Site2"))?;
    expect(&server, 201)?;
    served_by(&server, "compute@Site1")?;
    check(server.text("digest").starts_with("sha256:"), || "the server has no image".to_owned())
}

fn fallback(story: &mut Story<'_>) -> Result<(), String> {
    let image = story.image(1, "debian-fallback")?;
    let scope = Some("image: Site1 ; Site2");
    story.while_cut(&[0], |story| {
        let answer = story.ask("GET", (1, "image"), &format!("/images/{image}"), scope, None)?;
        expect(&answer, 200)?;
        served_by(&answer, "image@Site2")
    })
}

fn race(story: &mut Story<'_>) -> Result<(), String> {
    let id = "7f0c9a34-4d0c-4f3e-9a57-0d6c5b2f4e11";
    for site in [1, 2] {
        let body = Some("{\"name\":\"debian-raced\"}");
        let created = story.ask("PUT", (site, "image"), &format!("/images/{id}"), None, body)?;
        check(created.status.is_success(), || format!("the image was not created: {}", created.status))?;
    }
    let path = format!("/images/{id}");
    let near = story.ask("GET", (0, "image"), &path, Some("image: Site2 | Site3"), None)?;
    expect(&near, 200)?;
    story.tell("  Site2 becomes slow:");
    story.world.faults(1, "image")?.set(sample::Fault::Slow(Duration::from_secs(2)));
    let far = story.ask("GET", (0, "image"), &path, Some("image: Site2 | Site3"), None);
    story.world.faults(1, "image")?.set(sample::Fault::None);
    let far = far?;
    expect(&far, 200)?;
    served_by(&far, "image@Site3")
}

fn write_once(story: &mut Story<'_>) -> Result<(), String> {
    let body = Some("{\"name\":\"once\"}");
    story.tell("  Site2 executes the write and never says so; nobody may try it elsewhere:");
    story.world.faults(1, "image")?.set(sample::Fault::Mute);
    let lost = story.ask("POST", (0, "image"), "/images", Some("image: within(300ms, Site2) ; Site3"), body);
    story.world.faults(1, "image")?.set(sample::Fault::None);
    expect(&lost?, 504)?;
    let made = (story.world.images_created(1, "once")?, story.world.images_created(2, "once")?);
    check(made == (1, 0), || format!("created {} times at Site2 and {} times at Site3", made.0, made.1))?;
    story.tell("  Site2 cannot be reached: provably not executed, so Site3 may:");
    let moved = story.while_cut(&[1], |story| {
        let body = Some("{\"name\":\"moved\"}");
        story.ask("POST", (0, "image"), "/images", Some("image: Site2 ; Site3"), body)
    })?;
    expect(&moved, 201)?;
    served_by(&moved, "image@Site3")?;
    let made = (story.world.images_created(1, "moved")?, story.world.images_created(2, "moved")?);
    check(made == (0, 1), || format!("created {} times at Site2 and {} times at Site3", made.0, made.1))
}

fn split(story: &mut Story<'_>) -> Result<(), String> {
    story.while_cut(&[0, 1, 2], |story| {
        for site in 0..3 {
            let image = story.image(site, "debian-split")?;
            let server = story.boot(site, &image, None)?;
            expect(&server, 201)?;
        }
        story.tell("  what needs another site says so at once:");
        let remote = story.ask("GET", (0, "image"), "/images", Some("image: Site2"), None)?;
        expect(&remote, 503)
    })
}

fn bad_scope(story: &mut Story<'_>) -> Result<(), String> {
    let answer =
        story.ask("GET", (0, "image"), "/images", Some("compute: Site1, image: Site2 & Sit3"), None)?;
    expect(&answer, 400)?;
    let detail = answer.text("detail");
    for line in detail.lines() {
        story.tell(&format!("  {line}"));
    }
    check(detail.contains("Site3"), || "the near name is not suggested".to_owned())
}
