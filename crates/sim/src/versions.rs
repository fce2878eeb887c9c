//! Versions of what sites say to each other: the one that is shipped, the next, and one that is too new.
//!
//! The next one asks a question that the one before does not know, and asks it only of sites that do.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use link::{ClientTls, Identity, Lane, Pool, Revoked, Since, Speaks};
use mesh::{Backstage, Question, Reply};
use tokio::time::{sleep, timeout};

use crate::isle::{NAMES, link_address};

/// The version that is shipped.
pub const NOW: u16 = Speaks::NOW.newest();
/// The one after it.
pub const NEXT: u16 = NOW + 1;
/// One that neither understands, nor the other way round.
pub const TOO_NEW: u16 = NEXT + 2;

/// What every version asks, and what the next one asks besides. The body says which versions the sender speaks.
const OLD: &str = "/simulated/old";
const NEW: &str = "/simulated/new";
/// How often a site asks each other, and how long it waits.
const OFTEN: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(10);

/// What a program of this version speaks: that, and the one before.
#[must_use]
pub fn speaks(version: u16) -> Speaks {
    Speaks::new(version - 1, version).unwrap()
}

/// Whether two have a version in common.
#[must_use]
pub fn fit(one: Speaks, other: Speaks) -> bool {
    one.oldest() <= other.newest() && other.oldest() <= one.newest()
}

/// What sites of one run were asked.
#[derive(Clone, Debug, Default)]
pub struct Heard(Arc<Mutex<Talk>>);

/// See there.
#[derive(Clone, Debug, Default)]
pub struct Talk {
    /// Questions that every version knows, and those that only the next knows.
    pub old: u64,
    /// See there.
    pub new: u64,
    /// The first that should not have come.
    pub wrong: Option<String>,
}

impl Heard {
    fn talk(&self) -> MutexGuard<'_, Talk> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of it.
    #[must_use]
    pub fn all(&self) -> Talk {
        self.talk().clone()
    }
}

/// Answers for a site of some version.
#[derive(Debug)]
pub struct Ears {
    /// Who answers what every site is asked.
    pub members: Arc<dyn Backstage>,
    /// The site.
    pub site: usize,
    /// What it speaks.
    pub speaks: Speaks,
    /// What is written down.
    pub heard: Heard,
}

impl Backstage for Ears {
    fn answer(&self, question: Question) -> Reply {
        let new = match question.path.as_str() {
            OLD => false,
            NEW => true,
            _ => return self.members.answer(question),
        };
        let said = String::from_utf8_lossy(&question.body).into_owned();
        let theirs = said
            .split_once(' ')
            .and_then(|(oldest, newest)| Speaks::new(oldest.parse().ok()?, newest.parse().ok()?));
        let mut talk = self.heard.talk();
        *(if new { &mut talk.new } else { &mut talk.old }) += 1;
        let understood = theirs.is_some_and(|theirs| fit(theirs, self.speaks));
        if !understood || (new && self.speaks.newest() < NEXT) {
            let (to, ours) = (NAMES[self.site], self.speaks);
            let why = || format!("{} ({said}) asked {} of {to} ({ours})", question.from, question.path);
            talk.wrong.get_or_insert_with(why);
        }
        Box::pin(std::future::ready((StatusCode::OK, Bytes::new())))
    }
}

/// Asks every other site every now and then, as one that speaks so.
pub async fn chat(site: usize, sites: usize, identity: Arc<Identity>, revoked: Revoked, speaks: Speaks) {
    let Ok(tls) = ClientTls::new(&identity, &revoked) else { return };
    let pool = Pool::new(tls.speaking(speaks), link::Settings { warm: 1, ..link::Settings::default() });
    let others: Vec<usize> = (0..sites).filter(|other| *other != site).collect();
    pool.set_peers(others.iter().map(|other| (NAMES[*other].to_owned(), link_address(*other))));
    let said = format!("{} {}", speaks.oldest(), speaks.newest());
    loop {
        for other in &others {
            for path in [OLD, NEW] {
                let new = path == NEW;
                if new && speaks.newest() < NEXT {
                    continue;
                }
                let body = Full::new(Bytes::from(said.clone()));
                let Ok(mut request) = Request::builder().method(Method::POST).uri(path).body(body) else {
                    return;
                };
                if new {
                    request.extensions_mut().insert(Since(NEXT));
                }
                let lane = if new { Lane::Long } else { Lane::Small };
                let _ = timeout(PATIENCE, pool.send(NAMES[*other], request, lane)).await;
            }
        }
        sleep(OFTEN).await;
    }
}
