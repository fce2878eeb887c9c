//! Reads of replicated resources: here, or at the nearest site with a replica that can be read.
//!
//! What has one order is read in three steps where that matters (at `@strong`, and where a scope says `@quorum`): the
//! keeper says when, the service is read, and the keeper says whether what it said may be told.

use std::collections::BTreeSet;

use http::request::Parts;
use plan::Why;
use replica::{Level, Meta, Reply};
use scope::Site;
use tokio::time::{Instant, timeout_at};

use super::copies::{Copies, Listed, Marked};
use super::refusals::{hidden, no_level, not_current, not_readable};
use super::understand::{Meaning, Target, understand};
use super::walk::{At, Outcome, refuse};
use super::{Place, Replicas, copies, group, owned};
use crate::body::LegBody;
use crate::interim::Speaker;
use crate::leg::LegFailure;
use crate::problem::UNSENT;

/// A read that its scope wants confirmed: of a resource that is known here, here; else at the nearest of the sites
/// that the scope names.
pub(crate) async fn confirmed(
    at: At<'_>,
    head: Box<Parts>,
    body: LegBody,
    level: scope::Level,
    sites: &BTreeSet<Site>,
) -> Outcome {
    let at = At { level: Some(level), ..at };
    if let Some(replicas) = at.replicas() {
        let kinds = &at.state.settings().profile.kinds;
        // Of a read, that it cannot be told is no error.
        let owner = owned::owner(at, &head).await.unwrap_or_default();
        let (name, path, known) = (&at.service.name, head.uri.path(), &replicas.known);
        let meaning = understand(kinds, name, &head.method, path, owner.as_deref(), known);
        if !matches!(meaning, Meaning::Ordinary) {
            return Box::pin(at.as_clients_see_it(replicas, head, body, None)).await;
        }
    }
    at.read_at(&at.others(sites), *head, body, Err(LegFailure::refused(no_level(level)))).await
}

impl At<'_> {
    /// A read of a resource that is known here.
    pub(super) async fn read(
        self,
        replicas: &Replicas,
        target: &Target<'_>,
        head: Box<Parts>,
        body: LegBody,
        speaker: Option<&Speaker>,
    ) -> Outcome {
        let own = target.place.level;
        if let Some(level) = self.level
            && !confirms(own, level)
        {
            return refuse(no_level(level));
        }
        // Its service may not have let it go yet.
        if target.place.is_gone_for_clients() {
            return Ok(hidden().into_response());
        }
        if !target.place.readable {
            return self.read_elsewhere(target, *head, body).await;
        }
        let again = self.copy_of(&head, &body);
        if matches!(own, Level::Weak | Level::Eventual) {
            let answer = self.read_whole(replicas, target, head, body, speaker).await;
            return self.or_elsewhere(replicas, target, answer, again).await;
        }
        if own != Level::Strong && self.level.is_none() {
            let answer = self.plainly(replicas, head, body, speaker).await;
            return self.or_elsewhere(replicas, target, answer, again).await;
        }
        match replicas.read(Meta::from(&target.name), self.level.is_some()).await {
            Ok(reading) => {
                let most = self.state.settings().limits.replay_bytes;
                // Nothing is told before it is known to be so, not even on the way.
                let answer = self.plainly(replicas, head, body, None).await;
                let Ok(answer) = answer else {
                    drop(reading);
                    return self.or_elsewhere(replicas, target, answer, again).await;
                };
                let (head, body) = answer.into_parts();
                let body = body.ahead(most).await;
                match reading.end().await {
                    Reply::Current => Ok(http::Response::from_parts(head, body)),
                    reply => refuse(not_current(&reply)),
                }
            }
            Err(Reply::NotGood) => self.read_elsewhere(target, *head, body).await,
            Err(Reply::NoResource) => Ok(hidden().into_response()),
            Err(reply) => refuse(not_current(&reply)),
        }
    }

    /// What the service here has, but not while it lacks what it had: a replacement from elsewhere was executed, and what
    /// that erased and counts is being executed again.
    async fn read_whole(
        self,
        replicas: &Replicas,
        target: &Target<'_>,
        head: Box<Parts>,
        body: LegBody,
        speaker: Option<&Speaker>,
    ) -> Outcome {
        let until = Instant::now() + self.state.settings().timeouts.response;
        let mut place = Some(target.place.clone());
        loop {
            if place.as_ref().is_some_and(|place| !place.shown.whole) {
                place = match timeout_at(until, replicas.known.until_whole(&target.name)).await {
                    Ok(place) => place,
                    Err(_) => return self.read_elsewhere(target, *head, body).await,
                };
            }
            if place.as_ref().is_some_and(|place| !place.readable) {
                return self.read_elsewhere(target, *head, body).await;
            }
            // A body, which reads seldom have, can be sent once.
            if !matches!(body, LegBody::Empty) {
                return self.plainly(replicas, head, body, speaker).await;
            }
            let answer = self.plainly(replicas, head.clone(), LegBody::Empty, speaker).await;
            let now = replicas.known.place(&target.name);
            let erased = |place: &Place, now: &Place| place.shown != now.shown;
            if !place.as_ref().zip(now.as_ref()).is_some_and(|(place, now)| erased(place, now)) {
                return answer;
            }
            // Replacements that never end do not keep a client waiting for ever.
            if Instant::now() >= until {
                return self.read_elsewhere(target, *head, body).await;
            }
            place = now;
        }
    }

    pub(super) async fn plainly(
        self,
        replicas: &Replicas,
        head: Box<Parts>,
        body: LegBody,
        speaker: Option<&Speaker>,
    ) -> Outcome {
        // Before the service is asked: what comes to be known meanwhile, its list may lack.
        let marked = match self.listed.filter(|_| head.method == http::Method::GET) {
            Some(listed) => Box::pin(self.marked(replicas, listed, &head)).await,
            None => None,
        };
        let mut answer = self.rewritten(replicas, head, body, speaker).await?;
        copies::note(answer.headers_mut());
        Ok(match marked {
            Some(marked) => marked.answer(answer),
            None => answer,
        })
    }

    /// How the items of this list are marked that other sites of the list have, too.
    async fn marked(self, replicas: &Replicas, listed: &Listed, head: &Parts) -> Option<Marked> {
        let (service, profile) = (&self.service.name, &self.state.settings().profile);
        let list = profile.lists.of(service, head.uri.path())?;
        let owner = owned::owner_of_items(self, head).await;
        let copies = Copies::of(&profile.kinds, replicas, service, owner.as_deref())?;
        copies.marked(&profile.kinds, service, head.uri.path(), list, listed)
    }

    /// What is sent again, should the service here not answer. Peers do not hand a read on.
    fn copy_of(self, head: &Parts, body: &LegBody) -> Option<Box<Parts>> {
        (!self.from_peer && matches!(body, LegBody::Empty)).then(|| Box::new(head.clone()))
    }

    /// A read that the service here cannot answer, from the nearest replica that has all that this site acknowledged: one that is
    /// known to, or, where writes have one order, any that a majority confirms it to.
    async fn or_elsewhere(
        self,
        replicas: &Replicas,
        target: &Target<'_>,
        answer: Outcome,
        again: Option<Box<Parts>>,
    ) -> Outcome {
        let gone = |failure: &LegFailure| {
            failure.problem.is_none() && matches!(failure.why, Why::Unreachable | Why::Reset | Why::Protocol)
        };
        let (Err(failure), Some(mut head)) = (&answer, again) else { return answer };
        if !gone(failure) {
            return answer;
        }
        let meta = Meta::from(&target.name);
        let ordered = matches!(target.place.level, Level::Quorum | Level::Strong);
        let sites =
            if ordered { target.place.members.clone() } else { replicas.confirmed_by(meta.clone()).await };
        group::write_resource(&mut head, &meta);
        let level = self.level.or(ordered.then_some(scope::Level::Quorum));
        let at = At { level, ..self };
        at.read_at(&self.others(&sites), *head, LegBody::Empty, answer).await
    }

    /// From the nearest replica that can be read.
    async fn read_elsewhere(self, target: &Target<'_>, mut head: Parts, body: LegBody) -> Outcome {
        group::write_resource(&mut head, &Meta::from(&target.name));
        let last = Err(LegFailure::refused(not_readable()));
        self.read_at(&self.others(&target.place.members), head, body, last).await
    }

    /// From the first of these sites that answers.
    async fn read_at(self, sites: &[Site], mut head: Parts, body: LegBody, mut last: Outcome) -> Outcome {
        if let Some(level) = self.level {
            group::write_level(&mut head, level);
        }
        // A body, which reads seldom have, can be sent once.
        let mut body = Some(body);
        for site in sites {
            let Some(body) = (match &body {
                Some(LegBody::Empty) => Some(LegBody::Empty),
                _ => body.take(),
            }) else {
                break;
            };
            match self.at_peer(site, head.clone(), body).await {
                Ok(response) if response.headers().contains_key(UNSENT) => last = Ok(response),
                Err(failure) => last = Err(failure),
                Ok(response) => return Ok(response),
            }
        }
        last
    }
}

/// Whether a read of a resource with this level can be as sure as that.
fn confirms(own: Level, level: scope::Level) -> bool {
    match own {
        Level::Strong => true,
        Level::Quorum => level != scope::Level::Strong,
        Level::Weak | Level::Eventual => false,
    }
}
