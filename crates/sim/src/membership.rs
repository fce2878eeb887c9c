//! The membership of a site, as `archipel` drives it: what the site's file says, what it sees of the others, and who
//! should see whom.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use archipel::config::Config;
use archipel::members::{Members, View};
use link::{Revoked, Speaks};
use mesh::{Sites, Standing};
use scope::View as _;
use sites::{Reach, Status};
use tokio::time::{Instant, sleep};

use crate::chance::Chance;
use crate::isle::{NAMES, PUBLIC, SERVICE, link_address};
use crate::network::Network;
use crate::schedule::{Schedule, zone_members};
use crate::versions::fit;
use crate::world::{app_host, mesh_host};

/// The zone's name.
pub const ZONE: &str = "lot";
/// Two sites that run, with nothing in the way between them, have found each other after this time: one that starts with
/// an old memory of a goodbye may need an exchange of states, which comes every half minute or so.
const FINDING: Duration = Duration::from_secs(45);
/// And heard of a goodbye after this.
const HEARING: Duration = Duration::from_secs(5);
/// How often somebody looks whether they have.
const LOOK: Duration = Duration::from_secs(1);

/// What a site's file says of the others.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Peers with a name.
    pub peers: Vec<usize>,
    /// Links by which to meet the others.
    pub join: Vec<usize>,
}

/// The files of a run: in most, the sites that begin it know each other by name; in some, each knows where one other is.
/// Who comes late knows that of one, and is in nobody's file.
#[must_use]
pub fn files(schedule: &Schedule) -> Vec<File> {
    let mut chance = Chance::new(schedule.seed, "files");
    let named = chance.percent(70);
    let first: Vec<usize> = (0..schedule.sites).filter(|site| Some(*site) != schedule.late).collect();
    let file = |site: usize| {
        let others: Vec<usize> = first.iter().copied().filter(|other| *other != site).collect();
        if named && Some(site) != schedule.late {
            return File { join: vec![others[0]], peers: others };
        }
        // Each leads to the first, over others or not: there are no two groups.
        let before: Vec<usize> = others.iter().copied().filter(|other| *other < site).collect();
        let among = if before.is_empty() { &others } else { &before };
        File { peers: Vec::new(), join: vec![*chance.pick(among)] }
    };
    (0..schedule.sites).map(file).collect()
}

/// The text of what the zone stands for.
#[must_use]
pub fn zone_text(zone: usize, sites: usize) -> String {
    zone_members(zone, sites).iter().map(|member| NAMES[*member]).collect::<Vec<_>>().join(" & ")
}

/// A site's file, in a directory with its identity and its profile.
#[must_use]
pub fn config(index: usize, directory: &Path, file: &File, sites: usize) -> Config {
    let join: Vec<String> = file.join.iter().map(|site| format!("{:?}", link_address(*site))).collect();
    let mut text = format!(
        "site = '{}'\nprofile = 'images'\nprofiles = '.'\nidentity = '.'\nthreads = 1\n\
         [services.image]\npublic = ['{}']\nupstreams = ['http://{}']\n\
         [zones]\n{ZONE} = '{}'\n[link]\nlisten = '{}'\njoin = [{}]\n",
        NAMES[index],
        SocketAddr::new(mesh_host(index), PUBLIC),
        SocketAddr::new(app_host(index), SERVICE),
        zone_text(0, sites),
        link_address(index),
        join.join(", "),
    );
    for peer in &file.peers {
        let _ = write!(text, "[peers.{}]\naddress = '{}'\n", NAMES[*peer], link_address(*peer));
    }
    Config::read("the file", &text, directory).unwrap_or_else(|faults| panic!("{faults}"))
}

/// What the zone stands for, as a site sees it.
#[must_use]
pub fn zone_of(view: &View) -> Option<Vec<usize>> {
    let names = view.zone(ZONE)?.text().split(" & ");
    names.map(|name| NAMES.iter().position(|known| *known == name)).collect()
}

/// What a site saw of the others at one moment: nothing, if it did not run.
#[derive(Debug, Default)]
pub struct Sight {
    zone: Option<Vec<usize>>,
    /// The sites that it must not ask, and which life of each that is said of.
    out: BTreeMap<usize, Option<u64>>,
}

impl Sight {
    /// What a view shows.
    #[must_use]
    pub fn of(view: &View, sites: usize) -> Sight {
        let is_out = |site: &usize| match view.find(NAMES[*site]) {
            Some(at) => view.standing(at) == Standing::Quarantined,
            None => true,
        };
        let life = |site: usize| Some(view.heard()?.site(NAMES[site])?.record.epoch);
        let out = (0..sites).filter(is_out).map(|site| (site, life(site))).collect();
        Sight { zone: zone_of(view), out }
    }

    /// The sites that it must not ask at a later moment either, and were not back in between.
    #[must_use]
    pub fn still_out(&self, later: &Sight) -> Vec<usize> {
        let still = self.out.iter().filter(|(site, life)| later.out.get(site) == Some(life));
        still.map(|(site, _)| *site).collect()
    }

    /// Whether the zone is known, and the same at a later moment.
    #[must_use]
    pub fn has_zone_of(&self, later: &Sight) -> bool {
        self.zone.is_some() && self.zone == later.zone
    }
}

/// Why one site does not see another as it should, if so.
#[must_use]
pub fn blind(view: &View, other: usize) -> Option<String> {
    let Some(seen) = view.heard().and_then(|known| known.site(NAMES[other])) else {
        return Some("has never heard of it".to_owned());
    };
    if seen.quarantined {
        return Some("keeps it in quarantine".to_owned());
    }
    match (seen.status, seen.reach) {
        (Status::Alive | Status::Suspect, Reach::Reachable) => None,
        (status, reach) => Some(format!("sees it {status:?} and {reach:?}")),
    }
}

/// Why the sites do not know each other, and the same zones, if so.
#[must_use]
pub fn disagreement(views: &[Option<Arc<View>>], revoked: Option<usize>) -> Option<String> {
    let mut zones = BTreeSet::new();
    let is_in = |site: &usize| Some(*site) != revoked;
    for (site, view) in views.iter().enumerate().filter(|(site, _)| is_in(site)) {
        let Some(view) = view else { return Some(format!("{} does not run", NAMES[site])) };
        let others = (0..views.len()).filter(|other| *other != site).filter(is_in);
        let mut blind = others.filter_map(|other| Some((other, blind(view, other)?)));
        if let Some((other, why)) = blind.next() {
            return Some(format!("{} {why}: {}", NAMES[site], NAMES[other]));
        }
        zones.insert(view.zone(ZONE).map(|zone| zone.text().to_owned()));
    }
    (zones.len() > 1).then(|| format!("the zone is {zones:?}"))
}

/// What is shared with whoever looks at one site from outside.
#[derive(Clone)]
pub struct Outline {
    /// Its membership, while it runs.
    pub members: Rc<RefCell<Option<Members>>>,
    /// Since when it runs.
    pub up: Rc<Cell<Option<Instant>>>,
    /// When it said goodbye, if it is not back.
    pub left: Rc<Cell<Option<Instant>>>,
    /// When it came back.
    pub back: Rc<Cell<Option<Instant>>>,
    /// What it speaks to the others.
    pub speaks: Rc<Cell<Speaks>>,
    /// Somebody ordered that it must not be used.
    pub shunned: Rc<Cell<bool>>,
    /// The operator's authority took its identity back.
    pub void: Rc<Cell<bool>>,
    /// Whom it believes no more, since it started.
    pub revoked: Rc<RefCell<Revoked>>,
}

impl Default for Outline {
    fn default() -> Outline {
        Outline {
            members: Rc::default(),
            up: Rc::default(),
            left: Rc::default(),
            back: Rc::default(),
            speaks: Rc::new(Cell::new(Speaks::NOW)),
            shunned: Rc::default(),
            void: Rc::default(),
            revoked: Rc::default(),
        }
    }
}

/// What was seen of the sites from outside while they ran: the first of each kind.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    /// One that did not see another for too long.
    pub unseen: Option<String>,
    /// One that did not hear that another left.
    pub unheard: Option<String>,
}

/// Looks again and again whether sites that could know of each other what is so do.
pub async fn watch(network: Network, sites: Vec<Outline>, watched: Rc<RefCell<Watched>>) {
    // Since when each does not see each: news of a death comes late now and then, and is wrong for a moment.
    let mut blind_since = BTreeMap::<(usize, usize), Instant>::new();
    loop {
        sleep(LOOK).await;
        let before = std::mem::take(&mut blind_since);
        for (from, one) in sites.iter().enumerate().filter(|(_, one)| !one.void.get()) {
            for (to, other) in sites.iter().enumerate().filter(|(to, other)| *to != from && !other.void.get())
            {
                let runs = [one.up.get(), other.up.get(), network.clear_since(from, to)];
                let [Some(up), Some(other_up), Some(clear)] = runs else { continue };
                let Some(view) = one.members.borrow().as_ref().map(Members::snapshot) else { continue };
                let back = one.back.get().into_iter().chain(other.back.get());
                let since = back.fold(up.max(other_up).max(clear), Instant::max);
                let fit = fit(one.speaks.get(), other.speaks.get());
                if one.left.get().is_some() || one.shunned.get() || other.shunned.get() || !fit {
                    continue;
                }
                let mut watched = watched.borrow_mut();
                // Whoever was cut off then, or new, is told by others, in their own time.
                let heard = |left: Instant| since + HEARING <= left && left.elapsed() > HEARING;
                match (other.left.get(), blind(&view, to)) {
                    (Some(left), _) if heard(left) && view.find(NAMES[to]).is_some() => {
                        let why = || format!("{} has not heard that {} left", NAMES[from], NAMES[to]);
                        watched.unheard.get_or_insert_with(why);
                    }
                    (None, Some(why)) => {
                        let begun = before.get(&(from, to)).copied().unwrap_or_else(Instant::now).max(since);
                        blind_since.insert((from, to), begun);
                        if begun.elapsed() > FINDING {
                            let why = || format!("{} {why}: {}", NAMES[from], NAMES[to]);
                            watched.unseen.get_or_insert_with(why);
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
