//! Several sites with one register, whose messages arrive in any order, or not yet.

use replica::{Body, Class, Clock, Doubt, Epoch, Level, Meta, OpId, Operation, Resource, Step, Who};
use scope::Site;

use crate::app::App;

/// One site: its clock, what it knows of the register, and the register.
pub(crate) struct Place {
    pub(crate) site: Site,
    pub(crate) resource: Resource,
    pub(crate) app: App,
    clock: Clock,
    skew_ms: u64,
}

/// All sites, and every operation that a site accepted and did not withdraw.
pub(crate) struct World {
    pub(crate) places: Vec<Place>,
    pub(crate) accepted: Vec<Operation>,
    counter: u64,
    now_ms: u64,
}

impl World {
    /// One site for each clock, which is wrong by that much.
    pub(crate) fn new(skews_ms: &[u64]) -> World {
        let place = |(index, &skew_ms): (usize, &u64)| Place {
            site: Site::new(&format!("Site{index}")).unwrap(),
            resource: Resource::new(Level::Eventual),
            app: App::default(),
            clock: Clock::new(u64::MAX),
            skew_ms,
        };
        let places = skews_ms.iter().enumerate().map(place).collect();
        World { places, accepted: Vec::new(), counter: 0, now_ms: 0 }
    }

    /// A client writes at a site. None: refused, since the register does not exist there.
    pub(crate) fn write(&mut self, at: usize, class: Class, body: &str) -> Option<OpId> {
        self.now_ms += 10;
        self.counter += 1;
        let place = &mut self.places[at];
        let seen = place.resource.seen(&place.site);
        if class != Class::Create && !place.resource.exists(&seen) {
            return None;
        }
        let id = OpId { site: place.site.clone(), epoch: Epoch::default(), counter: self.counter };
        place.resource.accept(Operation {
            id: id.clone(),
            resource: Meta("r".into()),
            class,
            doubt: Doubt::Ask,
            seen,
            stamp: place.clock.tick(self.now_ms + place.skew_ms),
            on_behalf_of: Who {
                site: place.site.clone(),
                user: "ada".into(),
                project: None,
                roles: Vec::new(),
                time_ms: 0,
            },
            body: Some(Body(body.into())),
        });
        Some(id)
    }

    /// The site does what is next, once. A service that refuses is only asked by an operation that was
    /// accepted here and not executed before.
    pub(crate) fn step(&mut self, at: usize, refuse: bool) -> bool {
        let place = &mut self.places[at];
        match place.resource.step() {
            None => return false,
            Some(Step::Beaten(op)) => {
                place.resource.withdraw(&op);
            }
            Some(Step::Execute(execution)) => {
                if refuse && place.resource.is_fresh(&execution.op) {
                    place.resource.withdraw(&execution.op);
                    return true;
                }
                let decided = place.resource.executed(&execution);
                let op = place.resource.shared().find(|op| op.id == execution.op).unwrap();
                let body = op.body.as_ref().expect("erased too early");
                assert!(place.app.execute(&execution, body), "refused {execution:?}");
                if decided {
                    self.accepted.push(op.clone());
                }
            }
        }
        true
    }

    /// An operation reaches a site, perhaps again, perhaps too early.
    pub(crate) fn arrive(&mut self, at: usize, op: &Operation) {
        let place = &mut self.places[at];
        place.clock.see(0, op.stamp);
        place.resource.learn(op.clone());
    }

    /// Everything arrives everywhere, and every site does all it has to.
    pub(crate) fn heal(&mut self) {
        for at in 0..self.places.len() {
            while self.step(at, false) {}
        }
        for at in 0..self.places.len() {
            // Again and again, as a site that sends until it is confirmed.
            for _ in 0..=self.accepted.len() {
                for op in self.accepted.clone() {
                    self.arrive(at, &op);
                }
            }
            while self.step(at, false) {}
        }
    }

    /// A site forgets what every site has executed and nobody can surprise it with.
    pub(crate) fn prune(&mut self, at: usize) {
        let known = self.places[at].resource.snapshot().progress.known;
        let everyone: Vec<_> = self
            .places
            .iter()
            .map(|place| {
                (place.resource.snapshot().progress.done, place.resource.seen(&place.site), &place.site)
            })
            .map(|(done, seen, site)| (done, known.dominates(&seen.only(site))))
            .collect();
        let stable = |id: &OpId| everyone.iter().all(|(done, heard)| *heard && done.covers(id));
        self.places[at].resource.prune(stable);
    }

    /// A site is given another's state.
    pub(crate) fn copy(&mut self, from: usize, to: usize) {
        let (snapshot, app) = (self.places[from].resource.snapshot(), self.places[from].app.clone());
        for op in &snapshot.ops {
            self.places[to].clock.see(0, op.stamp);
        }
        let here = self.places[to].site.clone();
        if self.places[to].resource.can_copy(&here, &snapshot) {
            self.places[to].resource.copy(&here, &snapshot);
            self.places[to].app = app;
        }
    }
}
