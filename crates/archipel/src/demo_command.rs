//! `archipel demo`: see it work.

use std::io::{self, BufRead, Write};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use archipel::demo::{Client, SCENARIOS, World};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use sample::wan::Cut;
use tokio::signal::unix::{SignalKind, signal};

use crate::Failure;

/// What can be typed while the demo stays up. A bandwidth of 0 is as much as can be.
const COMMANDS: &str = "`cut Site1`, `heal Site1`, `rtt Site1 Site2 100ms`, `jitter Site1 Site2 5ms`, \
     `bandwidth Site1 Site2 1000000`, `quit`";

/// What happens while the demo goes on.
enum Told {
    /// The sites are there.
    Started(Arc<World>),
    /// It has come to its end.
    Played(Result<String, Failure>),
    /// Somebody ends it, in this way.
    End(Failure),
}

/// Tells of the signals that end a process.
fn watch_signals(tell: Sender<Told>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut signals = {
        let _entered = runtime.enter();
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        kinds.map(signal).into_iter().collect::<io::Result<Vec<_>>>()?
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            let [interrupt, terminate, hangup] = signals.as_mut_slice() else { return };
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        let _ = tell.send(Told::End(Failure::Interrupted));
    })?;
    Ok(())
}

/// Tells when nobody can read the standard output any more: `archipel demo | head`.
fn watch_reader(tell: Sender<Told>) {
    std::thread::spawn(move || {
        let stdout = io::stdout();
        // An error is told of whatever is asked for; nothing else is.
        let mut end = [PollFd::new(&stdout, PollFlags::empty())];
        loop {
            match poll(&mut end, None) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
                Ok(_) => break,
            }
        }
        let _ = tell.send(Told::End(Failure::Io(io::ErrorKind::BrokenPipe.into())));
    });
}

#[derive(Args)]
#[command(after_help = "\
Examples:
  archipel demo           plays the scenarios, then stays up for you to play with
  archipel demo --once    plays them, prints `ok NAME` or `FAILED NAME` for each, and exits

Three sites run on this machine, each with its own Archipel and its own sample application, and a
fourth joins them; between them is an emulated network. Nothing is reachable from outside, and nothing
stays behind.")]
pub(crate) struct DemoCommand {
    /// Exit after the scenarios, with one line for each.
    #[arg(long)]
    once: bool,
}

impl DemoCommand {
    /// Plays in a thread of its own: whatever that waits for, an interrupt ends it and leaves no file behind.
    pub(crate) fn run(self) -> Result<String, Failure> {
        let (tell, told) = channel();
        watch_signals(tell.clone()).map_err(Failure::Io)?;
        watch_reader(tell.clone());
        std::thread::Builder::new()
            .name("demo".to_owned())
            .spawn(move || {
                let outcome = self.start_and_play(&tell);
                let _ = tell.send(Told::Played(outcome));
            })
            .map_err(Failure::Io)?;
        let (mut world, mut ended) = (None, None);
        for told in told {
            match told {
                Told::Started(started) => world = Some(started),
                Told::Played(outcome) => {
                    // The last one who holds it: it ends with this.
                    drop(world);
                    return ended.map_or(outcome, Err);
                }
                Told::End(why) => ended = ended.or(Some(why)),
            }
            // A world that is still being made is ended once it is there.
            if let (Some(world), Some(_)) = (&world, &ended) {
                world.end().map_err(|why| Failure::Io(io::Error::other(why)))?;
                break;
            }
        }
        Err(ended.unwrap_or_else(|| Failure::Io(io::Error::other("the demo ended"))))
    }

    fn start_and_play(&self, tell: &Sender<Told>) -> Result<String, Failure> {
        let broken = |why: String| Failure::Io(io::Error::other(why));
        let world = Arc::new(World::start().map_err(broken)?);
        let _ = tell.send(Told::Started(Arc::clone(&world)));
        let client = Client::new().map_err(Failure::Io)?;
        let mut failed = 0;
        let mut lines = Vec::new();
        for scenario in &SCENARIOS {
            self.narrate(&format!("\n== {}: {}", scenario.name, scenario.about));
            let outcome = scenario.play(&world, &client, &mut |line| self.narrate(line));
            let line = match outcome {
                Ok(()) => format!("ok {}", scenario.name),
                Err(why) => {
                    failed += 1;
                    format!("FAILED {}: {why}", scenario.name)
                }
            };
            self.narrate(&line);
            lines.push(line);
        }
        if !self.once {
            self.stay(&world).map_err(broken)?;
            lines.clear();
        }
        match failed {
            0 => Ok(lines.join("\n")),
            _ => Err(Failure::Found(lines.join("\n"))),
        }
    }

    fn narrate(&self, line: &str) {
        if !self.once {
            // Who stops reading ends the demo: `watch_reader` sees it.
            let _ = writeln!(io::stdout().lock(), "{line}");
        }
    }

    /// Stays up until told to stop, and does what is typed.
    fn stay(&self, world: &World) -> Result<(), String> {
        self.narrate("\n== your turn");
        for (index, site) in world.names().iter().enumerate() {
            let (image, compute) = (world.address(index, "image")?, world.address(index, "compute")?);
            self.narrate(&format!("{site}: image http://{image}  compute http://{compute}"));
            self.narrate(&format!("       its files: {}", world.home(site).display()));
        }
        self.narrate("In another terminal, ask any of them, with a scope:");
        self.narrate(&format!(
            "  curl -i -H 'X-Scope: image: Site2' http://{}/images",
            world.address(0, "image")?
        ));
        // As it was started: it need not be on the path.
        let archipel = std::env::args().next().unwrap_or_else(|| "archipel".to_owned());
        self.narrate("See which sites one of them knows, and give a name to some, at all of them:");
        self.narrate(&format!("  {archipel} sites --config {}", world.file(0)?.display()));
        let file = world.file(1)?;
        self.narrate(&format!("  {archipel} zone set west='Site1 & Site2' --config {}", file.display()));
        self.narrate(&format!("Here: {COMMANDS}."));
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            let words: Vec<&str> = line.split_whitespace().collect();
            match self.obey(world, &words) {
                Ok(true) => {}
                Ok(false) => break,
                Err(why) => self.narrate(&why),
            }
        }
        Ok(())
    }

    fn obey(&self, world: &World, words: &[&str]) -> Result<bool, String> {
        let sites = world.names();
        let site = |name: &str| {
            let position = sites.iter().position(|site| *site == name);
            position.ok_or_else(|| format!("the sites are {}", sites.join(", ")))
        };
        match words {
            [] => {}
            ["quit" | "exit"] => return Ok(false),
            ["cut", name] => world.cut(site(name)?, Some(Cut::Reset))?,
            ["heal", name] => world.cut(site(name)?, None)?,
            ["rtt", one, other, rtt] => {
                let rtt = scope::parse_duration(rtt)?;
                world.shape(site(one)?, site(other)?, |shape| shape.delay = rtt / 2);
            }
            ["jitter", one, other, jitter] => {
                let jitter = scope::parse_duration(jitter)?;
                world.shape(site(one)?, site(other)?, |shape| shape.jitter = jitter);
            }
            ["bandwidth", one, other, bytes] => {
                let bytes =
                    bytes.parse().map_err(|_| format!("`{bytes}` is not a number of bytes per second"))?;
                world.shape(site(one)?, site(other)?, |shape| shape.bandwidth = NonZeroU64::new(bytes));
            }
            _ => return Err(format!("try {COMMANDS}")),
        }
        if !words.is_empty() {
            self.narrate("done");
        }
        Ok(true)
    }
}
