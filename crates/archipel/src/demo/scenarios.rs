//! The papers' scenarios, played live.

use std::time::Duration;

use sample::wan::Cut;

use super::client::{Answer, Client};
use super::world::World;

/// One scenario: what it shows, and how.
pub struct Scenario {
    /// Its name, in one word or two.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    play: fn(&mut Story<'_>) -> Result<(), String>,
}

/// All of them, in the order in which they are played. Each leaves the world as it found it.
pub const SCENARIOS: [Scenario; 7] = [
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
];

impl Scenario {
    /// Plays it. What happens is told line by line.
    pub fn play(&self, world: &World, client: &Client, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
        (self.play)(&mut Story { world, client, tell })
    }
}

/// One scenario being played.
pub struct Story<'s> {
    world: &'s World,
    client: &'s Client,
    tell: &'s mut dyn FnMut(&str),
}

impl Story<'_> {
    fn tell(&mut self, line: &str) {
        (self.tell)(line);
    }

    /// Asks a service at a site, and tells what was typed and what came back.
    fn ask(
        &mut self,
        method: &str,
        (site, service): (usize, &str),
        path: &str,
        scope: Option<&str>,
        body: Option<&str>,
    ) -> Result<Answer, String> {
        let to = self.world.address(site, service)?;
        let answer = self.client.ask(method, to, path, scope, body)?;
        self.tell(&format!("$ {}", answer.command));
        let mut line = format!("  {}", answer.status);
        for (what, header) in [("by", "x-served-by"), ("sites", "scope-sites")] {
            if !answer.header(header).is_empty() {
                line.push_str(&format!("  {what} {}", answer.header(header)));
            }
        }
        self.tell(&format!("{line}  in {:.1} ms", answer.took.as_secs_f64() * 1000.0));
        Ok(answer)
    }

    /// An image with content, at one site.
    fn image(&mut self, site: usize, name: &str) -> Result<String, String> {
        let created =
            self.ask("POST", (site, "image"), "/images", None, Some(&format!("{{\"name\":\"{name}\"}}")))?;
        expect(&created, 201)?;
        let id = created.text("id");
        let uploaded =
            self.ask("PUT", (site, "image"), &format!("/images/{id}/file"), None, Some("debian"))?;
        expect(&uploaded, 200)?;
        Ok(id)
    }

    fn boot(&mut self, site: usize, image: &str, scope: Option<&str>) -> Result<Answer, String> {
        let body = format!("{{\"name\":\"vm\",\"image\":\"{image}\"}}");
        self.ask("POST", (site, "compute"), "/servers", scope, Some(&body))
    }

    /// Cuts sites off while something is done, and joins them again whatever comes of it.
    fn while_cut<T>(
        &mut self,
        sites: &[usize],
        act: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        for site in sites {
            self.world.cut(*site, Some(Cut::Reset))?;
            self.tell(&format!("  Site{} is cut off", site + 1));
        }
        let outcome = act(self);
        for site in sites {
            self.world.cut(*site, None)?;
        }
        self.until_joined()?;
        outcome
    }

    /// Waits until every site reaches every other again: they try by themselves, ever less often.
    fn until_joined(&self) -> Result<(), String> {
        const TRIES: usize = 500;
        for (from, to) in [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)] {
            let scope = format!("image: Site{}", to + 1);
            let joined = || {
                let address = self.world.address(from, "image")?;
                let answer = self.client.ask("GET", address, "/images", Some(&scope), None)?;
                Ok::<_, String>(answer.status.is_success())
            };
            let mut tries = 0;
            while !joined()? {
                tries += 1;
                check(tries < TRIES, || format!("Site{} does not find Site{} again", from + 1, to + 1))?;
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }
}

fn expect(answer: &Answer, status: u16) -> Result<(), String> {
    check(answer.status == status, || {
        format!(
            "{} gave {}, not {status}: {}",
            answer.command,
            answer.status,
            String::from_utf8_lossy(&answer.body)
        )
    })
}

fn check(holds: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(otherwise()) }
}

fn served_by(answer: &Answer, whom: &str) -> Result<(), String> {
    check(answer.header("x-served-by") == whom, || {
        format!("{} was served by `{}`, not by {whom}", answer.command, answer.header("x-served-by"))
    })
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
