//! A site's identity is taken back: its box was stolen.

use super::{Act, Fault, Maker};
use crate::chance::Chance;

impl Maker {
    /// In some of the runs without ordered levels (whose sites stay as they are) and without old copies. The site goes on, its
    /// clients too, and it tries to come back. `late` is the site that starts late, and the one by which it meets the others.
    pub(super) fn revoke(&mut self, seed: u64, length: u64, late: Option<(usize, usize)>) {
        let mut chance = Chance::new(seed, "revocation");
        if self.ordered || self.backups || !chance.percent(40) {
            return;
        }
        let way = late.map(|(_, way)| way);
        let all: Vec<usize> = (0..self.sites).filter(|site| Some(*site) != way).collect();
        let site = *chance.pick(&all);
        let by = (site + 1 + chance.index(self.sites - 1)) % self.sites;
        let at = chance.between(length / 3, length);
        self.add(at, Fault::Revoke { by, site });
        let sometime = |chance: &mut Chance| at + chance.between(20, 12_000);
        for _ in 0..chance.between(3, 8) {
            let other = (site + 1 + chance.index(self.sites - 1)) % self.sites;
            let (from, to) = if chance.percent(50) { (site, other) } else { (other, site) };
            let when = sometime(&mut chance);
            self.ask_for(when, from, Act::Forward { sites: vec![to, from], in_order: true });
            let asked = *chance.pick(&[site, other]);
            let when = sometime(&mut chance);
            self.ask_for(when, asked, Act::Local);
        }
        // What only it has heard of when it is shut out, and what the others have half executed.
        for _ in 0..chance.between(2, 6) {
            let Some((of, members, made)) = self.some_image(&mut chance) else { break };
            let asked = if members.contains(&site) && chance.percent(70) { site } else { members[0] };
            let when = (made + 1_000).max((at + chance.between(0, 1_500)).saturating_sub(1_000));
            self.ask_for(when, asked, Act::Add { of });
        }
        for _ in 0..chance.between(0, 3) {
            let site = if chance.percent(50) { site } else { chance.index(self.sites) };
            let crash = sometime(&mut chance);
            self.add(crash, Fault::Crash { site, power: chance.percent(50) });
            self.add(crash + chance.between(200, 4_000), Fault::Start(site));
        }
    }
}
