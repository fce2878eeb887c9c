//! Sites with one order of writes, whose services answer when the test says so.

use super::*;

/// Messages arrive at once, but between sites that are cut off from each other.
pub(crate) struct Group {
    pub(crate) stages: Vec<Stage>,
    names: Vec<&'static str>,
    /// What each service is asked for, and has not answered.
    pub(crate) asked: Vec<(usize, Execution, Meta, Authority)>,
    /// All else that was wanted.
    pub(crate) wanted: Vec<(usize, Effect)>,
    pub(crate) cut: BTreeSet<usize>,
    /// Messages that nobody is told.
    pub(crate) lost: fn(&Message) -> bool,
    tickets: u64,
}

impl Group {
    /// Sites that have nothing yet.
    pub(crate) fn new(count: usize, settings: Settings) -> Group {
        let names = ["A", "B", "C"][..count].to_vec();
        let stages = names.iter().map(|name| Stage::with(name, settings)).collect();
        let (asked, wanted, cut) = (Vec::new(), Vec::new(), BTreeSet::new());
        Group { stages, names, asked, wanted, cut, lost: |_| false, tickets: 0 }
    }

    /// Sites with a resource that all have made, and which of them leads.
    pub(crate) fn made(count: usize, level: Level) -> (Group, usize) {
        let mut group = Group::new(count, Settings::default());
        let leader = group.make(level);
        (group, leader)
    }

    pub(crate) fn make(&mut self, level: Level) -> usize {
        let sites: BTreeSet<_> = self.names.iter().map(|name| site(name)).collect();
        let new = || Subject::New { naming: Naming::Chosen(meta()), level, sites: sites.clone() };
        let mut ticket = self.write(0, new(), Class::Create, Doubt::Repeat);
        self.tick(30);
        while let Some(Reply::Elsewhere(leader)) = self.reply(ticket) {
            let leader = self.names.iter().position(|name| *name == leader.name()).unwrap();
            ticket = self.write(leader, new(), Class::Create, Doubt::Repeat);
            self.tick(5);
        }
        for _ in 0..10 {
            self.tick(1);
            self.all_end();
        }
        assert!((0..self.stages.len()).all(|at| self.stages[at].machine.is_readable(&meta())));
        self.wanted.clear();
        self.leader().unwrap()
    }

    /// The site that leads those that are not cut off.
    pub(crate) fn leader(&self) -> Option<usize> {
        let heard = (0..self.stages.len()).filter(|at| !self.cut.contains(at));
        let mut leads = heard.filter(|at| self.stages[*at].machine.leader(&meta()) == Some(self.site(*at)));
        leads.next()
    }

    pub(crate) fn site(&self, at: usize) -> Site {
        site(self.names[at])
    }

    pub(crate) fn others(&self, at: usize) -> Vec<usize> {
        (0..self.stages.len()).filter(|other| *other != at).collect()
    }

    /// Something happens at a site, and all that follows from it. What that site wanted at once is given back.
    pub(crate) fn on(&mut self, at: usize, event: Event) -> Vec<Effect> {
        let first = self.stages[at].on(event);
        self.carry_out(at, first.clone());
        first
    }

    fn carry_out(&mut self, at: usize, effects: Vec<Effect>) {
        let mut todo: Vec<_> = effects.into_iter().map(|effect| (at, effect)).collect();
        while !todo.is_empty() {
            let (at, effect) = todo.remove(0);
            match effect {
                Effect::Send { to, message } => {
                    let to = self.names.iter().position(|name| *name == to.name()).unwrap();
                    if self.cut.contains(&at) == self.cut.contains(&to) && !(self.lost)(&message) {
                        let from = self.site(at);
                        let effects = self.stages[to].on(Event::Received { from, message });
                        todo.extend(effects.into_iter().map(|effect| (to, effect)));
                    }
                }
                Effect::Execute { operation, execution, authority, .. } => {
                    self.asked.push((at, execution, operation.resource, authority));
                }
                other => self.wanted.push((at, other)),
            }
        }
    }

    pub(crate) fn write(&mut self, at: usize, subject: Subject, class: Class, doubt: Doubt) -> Ticket {
        self.tickets += 1;
        let ticket = self.tickets;
        let effects = self.stages[at].write(ticket, subject, class, doubt);
        self.carry_out(at, effects);
        Ticket(ticket)
    }

    pub(crate) fn set(&mut self, at: usize, class: Class, doubt: Doubt) -> Ticket {
        self.write(at, Subject::Existing(meta()), class, doubt)
    }

    /// Time goes on at these sites.
    pub(crate) fn tick_at(&mut self, sites: &[usize], times: usize) {
        for _ in 0..times {
            for at in sites {
                self.on(*at, Event::Fired(Timer::Order));
            }
        }
    }

    pub(crate) fn tick(&mut self, times: usize) {
        self.tick_at(&(0..self.stages.len()).collect::<Vec<_>>(), times);
    }

    /// Whether a service is asked for something.
    pub(crate) fn is_asked(&self, at: usize) -> bool {
        self.asked.iter().any(|(asked, ..)| *asked == at)
    }

    /// What a service is asked for ends so.
    pub(crate) fn ends(&mut self, at: usize, outcome: Outcome) -> Vec<Effect> {
        let index = self.asked.iter().position(|(asked, ..)| *asked == at).expect("nothing is executed");
        let (_, execution, resource, _) = self.asked.remove(index);
        self.on(at, Event::Executed { resource, execution, outcome })
    }

    /// All services execute what they are asked for.
    pub(crate) fn all_end(&mut self) {
        while let Some((at, ..)) = self.asked.first() {
            self.ends(*at, done());
        }
    }

    pub(crate) fn reply(&self, ticket: Ticket) -> Option<Reply> {
        self.wanted.iter().find_map(|(_, effect)| match effect {
            Effect::Answer { ticket: own, reply, .. } if *own == ticket => Some(reply.clone()),
            _ => None,
        })
    }

    /// How often a site wanted such a thing.
    pub(crate) fn count(&self, at: usize, of: impl Fn(&Effect) -> bool) -> usize {
        self.wanted.iter().filter(|(site, effect)| *site == at && of(effect)).count()
    }

    pub(crate) fn diverged(&self, at: usize) -> bool {
        self.count(at, |effect| matches!(effect, Effect::Diverged { .. })) > 0
    }

    /// The state of one replica is given to another, which asked for it.
    pub(crate) fn copy(&mut self, to: usize, of: usize) {
        let (map, snapshot) = self.stages[of].machine.snapshot(&meta()).unwrap();
        self.on(to, Event::Fetched { map, snapshot });
        self.on(to, Event::Installed { resource: meta(), local: None });
    }

    pub(crate) fn restart(&mut self, at: usize) -> Vec<Effect> {
        self.asked.retain(|(asked, ..)| *asked != at);
        let effects = self.stages[at].restart(self.names[at]);
        self.carry_out(at, effects.clone());
        effects
    }

    /// Whether a site would let its replica be read.
    pub(crate) fn is_readable(&self, at: usize) -> bool {
        self.stages[at].machine.is_readable(&meta())
    }

    /// The write that a site is asked to execute.
    pub(crate) fn op(&self, at: usize) -> OpId {
        self.asked.iter().find(|(asked, ..)| *asked == at).unwrap().1.op.clone()
    }

    /// The leader is cut off while its service is busy with a write, and the others' decide that nobody executes it. Who leads
    /// them then.
    pub(crate) fn overrule(&mut self, leader: usize) -> usize {
        self.cut = [leader].into();
        let others = self.others(leader);
        self.tick_at(&others, 60);
        let next = self.leader().unwrap();
        self.ends(next, Outcome::Refused { status: 403 });
        self.cut.clear();
        self.tick_at(&others, 6);
        next
    }
}
