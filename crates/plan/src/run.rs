//! One plan for one request: events to the nodes they concern, outcomes up the tree.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use scope::{Plan, Site};

use crate::answer::{Answer, Won};
use crate::build;
use crate::event::{Effect, Event, Failure, Finding, Leg, Sent, Timer, Why};
use crate::leg::{self, Record, Role, TimedOut};
use crate::report::{self, Asked, Said, Skipped};
use crate::request::{self, Knowledge, Refused, Request, Rules};
use crate::tree::{NodeId, Operator, State, Tree};
use crate::verdict::{self, Presence, Verdict};

/// A plan that is being carried out.
///
/// [`Run::start`] is called once, then [`Run::on`] for each event, until the final effect.
///
/// ```
/// # use std::time::Duration;
/// # use plan::{Effect, Event, Knowledge, Leg, Reach, Request, Rules, Run, Sent, Why};
/// # use scope::{Plan, Site};
/// # struct Nothing;
/// # impl Knowledge for Nothing {
/// #     fn rtt(&self, _: &Site) -> Option<Duration> { None }
/// #     fn reach(&self, _: &Site) -> Reach { Reach::Yes }
/// # }
/// let [a, b] = ["A", "B"].map(|name| Site::new(name).unwrap());
/// let plan = Plan::Otherwise(vec![Plan::Site(a), Plan::Site(b.clone())]);
/// let rules = Rules::default();
/// let mut run = Run::new(&plan, Request::Read, &rules, &Nothing).unwrap();
///
/// let mut effects = Vec::new();
/// run.start(&mut effects);
/// effects.clear();
/// let (sent, why, elapsed) = (Sent::No, Why::Unreachable, Duration::from_millis(3));
/// run.on(Event::Failed { leg: Leg(0), sent, why, elapsed }, &mut effects);
/// assert_eq!(effects[0], Effect::Send { leg: Leg(1), site: b });
/// ```
#[derive(Debug)]
pub struct Run<'r> {
    pub(crate) tree: Tree,
    pub(crate) legs: Vec<Record>,
    request: Request,
    rules: &'r Rules,
    timers: Vec<Purpose>,
    /// Sites that were not asked, because that is known to be of no use.
    skipped: Vec<Skipped>,
    pub(crate) wasted: usize,
    /// Where the name is reserved for this request; none where nothing was to be reserved.
    pub(crate) reserved: Option<BTreeSet<Site>>,
    /// There is one site only, and whatever it answers is the answer.
    one_site: bool,
    started: bool,
    ended: bool,
}

/// What a timer is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// The leg's time is up.
    Leg(Leg),
    /// The time of this `within` is up.
    Within(NodeId),
    /// Hedge, unless more than this many operands were begun meanwhile.
    Hedge { node: NodeId, begun: usize },
}

/// How a node ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// With an answer.
    Won(Won),
    /// Without; for a write, provably without effect. What is around it may go on.
    Failed(Failure),
    /// In a way that nothing around it can better.
    Stopped(Failure),
}

impl<'r> Run<'r> {
    /// Prepares to run a plan, or refuses: then no site was asked.
    pub fn new(
        plan: &Plan,
        request: Request,
        rules: &'r Rules,
        knowledge: &dyn Knowledge,
    ) -> Result<Run<'r>, Refused> {
        request::check(plan, request)?;
        let tree = build::build(plan, request, rules, knowledge);
        let one_site = tree.has_one_site();
        let (legs, timers, skipped) = (Vec::new(), Vec::new(), Vec::new());
        let (started, ended, wasted) = (false, false, 0);
        Ok(Run {
            tree,
            legs,
            request,
            rules,
            timers,
            skipped,
            wasted,
            reserved: None,
            one_site,
            started,
            ended,
        })
    }

    /// Starts it. A second start changes nothing.
    pub fn start(&mut self, effects: &mut Vec<Effect>) {
        if self.started || self.ended {
            return;
        }
        self.started = true;
        if let Some(failure) = self.begin(Tree::ROOT, effects) {
            self.settle(Tree::ROOT, Outcome::Failed(failure), effects);
        }
    }

    /// Takes in what happened. After the final effect, nothing changes any more.
    pub fn on(&mut self, event: Event, effects: &mut Vec<Effect>) {
        if self.ended {
            return;
        }
        match event {
            Event::Sent { leg } => {
                if let Some(record) = self.legs.get_mut(leg.0) {
                    record.sent = true;
                }
            }
            Event::Answered { leg, status, finding, elapsed } => {
                self.answered(leg, (status, finding), elapsed, effects);
            }
            Event::Reserved { leg, held, elapsed } => self.answered_reserve(leg, held, elapsed, effects),
            Event::Failed { leg, sent, why, elapsed } => self.failed(leg, sent, why, elapsed, effects),
            Event::Fired { timer } => self.fired(timer, effects),
            Event::ClientGone => self.end(Outcome::Failed(Failure::ClientGone), effects),
        }
    }

    /// Whether the final effect was given.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended
    }

    /// Each site whose turn it was and what came of it, in that order: also those that were not sent
    /// anything because they cannot be reached.
    #[must_use]
    pub fn report(&self) -> Vec<Asked> {
        report::report(&self.legs, &self.skipped)
    }

    /// How many legs were sent and then cancelled because the answer of another was there first.
    #[must_use]
    pub fn wasted(&self) -> usize {
        self.wasted
    }

    /// Whether this timer, if it fired now, would hedge: send one leg more although none has failed.
    /// A driver that has no [`crate::Budget`] left for that does not report it.
    #[must_use]
    pub fn hedges(&self, timer: Timer) -> bool {
        match self.timers.get(timer.0) {
            Some(Purpose::Hedge { node, begun }) => !self.ended && self.hedge_is_due(*node, *begun),
            Some(Purpose::Leg(_) | Purpose::Within(_)) | None => false,
        }
    }

    fn answered(
        &mut self,
        leg: Leg,
        (status, finding): (u16, Finding),
        elapsed: Duration,
        effects: &mut Vec<Effect>,
    ) {
        let Some(record) = self.legs.get_mut(leg.0) else { return };
        let was = record.state;
        if matches!(was, leg::State::Held | leg::State::Over) || record.role == Role::Reserve {
            return;
        }
        record.said = Some(Said::Status(status));
        record.elapsed = Some(elapsed);
        let node = record.node;
        if record.role == Role::Probe {
            record.state = leg::State::Over;
            return self.probed(leg, verdict::of_probe(status), effects);
        }
        let verdict = match verdict::of_status(status, finding, self.request) {
            // Its answer was dropped when it was cancelled.
            Verdict::Answer if was == leg::State::Leaving => Verdict::Unknown,
            _ if self.one_site && was == leg::State::Asked => Verdict::Answer,
            verdict => verdict,
        };
        match verdict {
            Verdict::Answer => record.state = leg::State::Held,
            Verdict::Failed(_) | Verdict::Unknown if was == leg::State::Asked => {
                record.cancel(leg, Why::Cancelled, effects);
            }
            Verdict::Failed(_) | Verdict::Unknown => record.state = leg::State::Over,
        }
        self.settle(node, Outcome::of(verdict, leg), effects);
    }

    fn answered_reserve(&mut self, leg: Leg, held: bool, elapsed: Duration, effects: &mut Vec<Effect>) {
        let Some(record) = self.legs.get_mut(leg.0) else { return };
        if record.state != leg::State::Asked || record.role != Role::Reserve {
            return;
        }
        record.state = leg::State::Over;
        record.elapsed = Some(elapsed);
        if !held {
            record.said = Some(Said::Error(Why::Refused));
        }
        self.reserved_at(leg, Some(held), effects);
    }

    fn failed(&mut self, leg: Leg, sent: Sent, why: Why, elapsed: Duration, effects: &mut Vec<Effect>) {
        let Some(record) = self.legs.get_mut(leg.0) else { return };
        let (node, role, was) = (record.node, record.role, record.state);
        if was == leg::State::Over {
            return;
        }
        record.state = leg::State::Over;
        record.elapsed = Some(elapsed);
        // The driver cancelled it because this run said so, and this run knows why it did.
        let why = if was == leg::State::Leaving { Why::TimedOut } else { why };
        record.said = Some(Said::Error(why));
        match (was, role) {
            (leg::State::Held, _) => self.lost(leg),
            (_, Role::Probe) => self.probed(leg, Presence::Silent, effects),
            (_, Role::Reserve) => self.reserved_at(leg, None, effects),
            (_, Role::Read | Role::Write) => {
                let verdict = verdict::of_loss(sent, why, self.request);
                self.settle(node, Outcome::of(verdict, leg), effects);
            }
        }
    }

    fn fired(&mut self, timer: Timer, effects: &mut Vec<Effect>) {
        match self.timers.get(timer.0) {
            Some(Purpose::Leg(leg)) => self.leg_expired(*leg, effects),
            Some(Purpose::Within(node)) => self.within_expired(*node, effects),
            Some(Purpose::Hedge { node, begun }) => self.hedge(*node, *begun, effects),
            None => {}
        }
    }

    fn leg_expired(&mut self, leg: Leg, effects: &mut Vec<Effect>) {
        let limit = self.rules.leg_timeout;
        let Some(record) = self.legs.get_mut(leg.0) else { return };
        if record.state != leg::State::Asked {
            return;
        }
        record.elapsed = Some(limit);
        let node = record.node;
        match record.time_out(leg, effects) {
            TimedOut::Settled if record.role == Role::Probe => self.probed(leg, Presence::Silent, effects),
            TimedOut::Settled if record.role == Role::Reserve => self.reserved_at(leg, None, effects),
            TimedOut::Settled => self.settle(node, Outcome::Failed(Failure::TimedOut), effects),
            TimedOut::Unknown => self.settle(node, Outcome::Stopped(Failure::Unknown), effects),
            TimedOut::Wait => {}
        }
    }

    /// Takes the outcome of a node up the tree, as far as it settles anything.
    pub(crate) fn settle(&mut self, node: NodeId, outcome: Outcome, effects: &mut Vec<Effect>) {
        let (mut node, mut outcome) = (node, outcome);
        loop {
            self.tree[node].state = State::Done;
            let parent = self.tree[node].parent.filter(|_| !matches!(outcome, Outcome::Stopped(_)));
            let Some(parent) = parent else { return self.end(outcome, effects) };
            match self.operand_ended(parent, node, outcome, effects) {
                Some(settled) => (node, outcome) = (parent, settled),
                None => return,
            }
        }
    }

    /// Gives the final effect, after cancelling all that is still under way.
    fn end(&mut self, outcome: Outcome, effects: &mut Vec<Effect>) {
        self.ended = true;
        self.cancel_under(&self.tree.under(Tree::ROOT), &outcome.legs(), effects);
        if self.reserved.is_some() {
            effects.push(Effect::Release { known: outcome.is_known() });
        }
        effects.push(match outcome {
            Outcome::Won(Won { answer: Answer::Leg(leg), .. }) => Effect::Answer { leg },
            Outcome::Won(Won { answer, partial }) => {
                let nearest = self.nearest_first(&answer);
                Effect::Merge { answer, nearest, partial }
            }
            Outcome::Failed(failure) | Outcome::Stopped(failure) => Effect::Fail(failure),
        });
    }

    /// Cancels the live legs in a range of nodes, but some. Returns how many of these were sent.
    pub(crate) fn cancel_under(
        &mut self,
        range: &Range<NodeId>,
        kept: &BTreeSet<Leg>,
        effects: &mut Vec<Effect>,
    ) -> usize {
        let mut sent = 0;
        for (number, record) in self.legs.iter_mut().enumerate() {
            if range.contains(&record.node) && !kept.contains(&Leg(number)) {
                sent += usize::from(record.sent && record.is_live());
                record.cancel(Leg(number), Why::Cancelled, effects);
            }
        }
        sent
    }

    /// Asks a site, on behalf of a node.
    pub(crate) fn ask(&mut self, node: NodeId, site: &Site, probe: bool, effects: &mut Vec<Effect>) {
        let leg = Leg(self.legs.len());
        let site = site.clone();
        let role = match (probe, self.request.is_write()) {
            (true, _) => Role::Probe,
            (false, true) => Role::Write,
            (false, false) => Role::Read,
        };
        self.legs.push(Record::new(node, site.clone(), role));
        effects.push(if probe { Effect::Probe { leg, site } } else { Effect::Send { leg, site } });
        self.time(self.rules.leg_timeout, Purpose::Leg(leg), effects);
    }

    /// Asks a site to reserve the name, on behalf of a node.
    pub(crate) fn reserve(&mut self, node: NodeId, site: Site, group: Vec<Site>, effects: &mut Vec<Effect>) {
        let leg = Leg(self.legs.len());
        self.reserved.get_or_insert_default();
        self.legs.push(Record::new(node, site.clone(), Role::Reserve));
        effects.push(Effect::Reserve { leg, site, group });
        self.time(self.rules.leg_timeout, Purpose::Leg(leg), effects);
    }

    /// Asks a set of replicas, unless none of them can be.
    fn begin_replicas(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        let Operator::Replicas { sites, level, near } = &self.tree[node].operator else { return None };
        let (sites, level, refusal) = (sites.clone(), *level, near.reach.refusal());
        if let Some(why) = refusal {
            for site in &sites {
                self.skip(site, why);
            }
            return Some(Failure::Unavailable);
        }
        let first = sites.first()?.clone();
        let leg = Leg(self.legs.len());
        self.legs.push(Record::new(node, first, Role::Write));
        effects.push(Effect::Replicate { leg, sites, level });
        self.time(self.rules.leg_timeout, Purpose::Leg(leg), effects);
        None
    }

    /// Leaves out a site that cannot be asked.
    pub(crate) fn skip(&mut self, site: &Site, why: Why) {
        self.skipped.push(Skipped { before: Leg(self.legs.len()), site: site.clone(), why });
    }

    pub(crate) fn time(&mut self, after: Duration, purpose: Purpose, effects: &mut Vec<Effect>) {
        effects.push(Effect::Timer { timer: Timer(self.timers.len()), after });
        self.timers.push(purpose);
    }

    /// The status of a leg that was answered.
    pub(crate) fn status(&self, leg: Leg) -> Option<u16> {
        match self.legs.get(leg.0)?.said? {
            Said::Status(status) => Some(status),
            Said::Error(_) => None,
        }
    }

    /// Begins a node, unless it fails at once. Nothing wins at once.
    pub(crate) fn begin(&mut self, node: NodeId, effects: &mut Vec<Effect>) -> Option<Failure> {
        self.tree[node].state = State::Running;
        match &self.tree[node].operator {
            Operator::Site { barred: true, .. } => Some(Failure::NotFound),
            Operator::Site { site, barred: false, near } => {
                let (site, refusal) = (site.clone(), near.reach.refusal());
                match refusal {
                    Some(why) => self.skip(&site, why),
                    None => self.ask(node, &site, false, effects),
                }
                refusal.map(|_| Failure::Unavailable)
            }
            Operator::Replicas { .. } => self.begin_replicas(node, effects),
            Operator::Within { limit, inner } => {
                let (limit, inner) = (*limit, *inner);
                let failure = self.begin(inner, effects);
                if failure.is_none() {
                    self.time(limit, Purpose::Within(node), effects);
                }
                failure
            }
            Operator::InOrder(_) => self.begin_next(node, effects),
            Operator::Unique(_) => self.begin_every(node, effects),
            Operator::Place(_) => self.probe_every(node, effects),
            Operator::Merge(_) => self.begin_merge(node, effects),
        }
    }
}

impl Outcome {
    /// The legs whose answers it is.
    pub(crate) fn legs(&self) -> BTreeSet<Leg> {
        match self {
            Outcome::Won(won) => won.answer.legs().into_iter().collect(),
            Outcome::Failed(_) | Outcome::Stopped(_) => BTreeSet::new(),
        }
    }

    /// Whether what became of a write is known when this is the end.
    fn is_known(&self) -> bool {
        let (Outcome::Failed(failure) | Outcome::Stopped(failure)) = self else { return true };
        !matches!(failure, Failure::Unknown | Failure::ClientGone)
    }

    fn of(verdict: Verdict, leg: Leg) -> Outcome {
        match verdict {
            Verdict::Answer => Outcome::Won(Won::of(leg)),
            Verdict::Failed(failure) => Outcome::Failed(failure),
            Verdict::Unknown => Outcome::Stopped(Failure::Unknown),
        }
    }
}
