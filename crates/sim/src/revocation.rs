//! A site whose identity is void, as one sees it from outside: who knows of it since when, and what they have to do with it
//! then.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use archipel::members::Members;
use link::Revoked;
use mesh::{Backstage, Question, Reply};
use scope::View as _;
use tokio::time::{Instant, sleep};

use crate::isle::NAMES;
use crate::membership::Outline;
use crate::network::Network;
use crate::versions::fit;

/// How often somebody looks.
const LOOK: Duration = Duration::from_millis(20);
/// What began before a site knew of it has ended after this: a request that is on its way to the service.
pub const MOMENT: Duration = Duration::from_millis(100);
/// What is known shows in plans, at most so much later, also after a start.
const SHOWN: Duration = Duration::from_secs(1);
/// A connection that is not one yet, because the other end says nothing, is given up after this.
const PATIENCE: Duration = Duration::from_secs(15);
/// Two sites that run, with nothing in the way between them, have told each other after this: at the latest by an exchange
/// of states, which comes every half minute or so.
const TELLING: Duration = Duration::from_secs(45);

/// The first that was let in although it is shut out.
#[derive(Clone, Debug, Default)]
pub struct LetIn(Arc<Mutex<Option<String>>>);

impl LetIn {
    /// See there.
    #[must_use]
    pub fn first(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers what other sites ask, and looks who they are.
#[derive(Debug)]
pub struct Porter {
    /// Who answers.
    pub members: Arc<Members>,
    /// The site.
    pub site: usize,
    /// Whom it believes no more.
    pub revoked: Revoked,
    /// What is written down.
    pub let_in: LetIn,
}

impl Backstage for Porter {
    fn answer(&self, question: Question) -> Reply {
        if self.revoked.shuts_out(&question.from, question.issued) {
            let why = || format!("{} answers {} of {}", NAMES[self.site], question.path, question.from);
            self.let_in.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(why);
        }
        self.members.answer(question)
    }
}

/// What was seen of a site that is shut out.
#[derive(Clone, Debug, Default)]
pub struct Shut {
    /// The site, and since when, by the order of the operator.
    pub site: Option<(usize, Instant)>,
    /// When each other site knew of it: from, to.
    pub known: BTreeMap<usize, Vec<(Instant, Instant)>>,
    /// A connection to it that its other end did not close.
    pub open: Option<String>,
    /// A site that took it for one that can be asked, and knew of it.
    pub back: Option<String>,
    /// A site that was not told.
    pub untold: Option<String>,
}

impl Shut {
    /// Whether a site knew of it then, and for a moment before.
    #[must_use]
    pub fn knew(&self, site: usize, at: Instant) -> bool {
        let known = self.known.get(&site).into_iter().flatten();
        known.into_iter().any(|(from, to)| (*from + MOMENT..=*to).contains(&at))
    }

    fn note(&mut self, site: usize, knows: bool) -> Option<Instant> {
        let now = Instant::now();
        let times = self.known.entry(site).or_default();
        match times.last_mut().filter(|(_, to)| *to + LOOK + LOOK > now) {
            _ if !knows => return None,
            Some((from, to)) => {
                *to = now;
                return Some(*from);
            }
            None => times.push((now, now)),
        }
        Some(now)
    }
}

/// Whether a site knows that another is shut out.
#[must_use]
pub fn knows(outline: &Outline, site: usize) -> bool {
    // All identities of a run are older than what revokes them.
    outline.up.get().is_some() && outline.revoked.borrow().shuts_out(NAMES[site], SystemTime::UNIX_EPOCH)
}

/// Looks again and again what the others have to do with a site, from when its identity is void.
pub async fn watch(network: Network, sites: Vec<Outline>, shut: Rc<RefCell<Shut>>) {
    loop {
        sleep(LOOK).await;
        let Some((void, _)) = shut.borrow().site else { continue };
        let others = || sites.iter().enumerate().filter(|(site, _)| *site != void);
        let mut since = BTreeMap::new();
        for (site, outline) in others() {
            let mut shut = shut.borrow_mut();
            let Some(known) = shut.note(site, knows(outline, void)) else { continue };
            since.insert(site, known);
            let name = NAMES[site];
            let born = network.open_since(site, void);
            if born.is_some_and(|born| born.max(known).elapsed() > PATIENCE) {
                shut.open.get_or_insert_with(|| format!("{name} has an open connection to {}", NAMES[void]));
            }
            let view = outline.members.borrow().as_ref().map(Members::snapshot);
            let member = view.is_some_and(|view| view.find(NAMES[void]).is_some());
            if member && known.elapsed() > SHOWN {
                shut.back.get_or_insert_with(|| format!("{} is a site to {name}", NAMES[void]));
            }
        }
        for (deaf, outline) in others().filter(|(site, _)| !since.contains_key(site)) {
            for (by, known) in &since {
                let teller = &sites[*by];
                let away = |outline: &Outline| outline.left.get().is_some() || outline.shunned.get();
                let runs = [outline.up.get(), teller.up.get(), network.clear_since(deaf, *by)];
                let [Some(up), Some(other_up), Some(clear)] = runs else { continue };
                if away(outline) || away(teller) || !fit(outline.speaks.get(), teller.speaks.get()) {
                    continue;
                }
                let back = outline.back.get().into_iter().chain(teller.back.get());
                let since = back.fold(up.max(other_up).max(clear).max(*known), Instant::max);
                if since.elapsed() > TELLING {
                    let why = || format!("{} has not told {}", NAMES[*by], NAMES[deaf]);
                    shut.borrow_mut().untold.get_or_insert_with(why);
                }
            }
        }
    }
}
