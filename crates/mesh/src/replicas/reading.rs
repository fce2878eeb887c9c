//! Reads of replicated resources: here, or at the nearest site with a replica that can be read.
//!
//! What has one order is read in three steps where that matters (at `@strong`, and where a scope says `@quorum`): the
//! keeper says when, the service is read, and the keeper says whether what it said may be told.

use std::collections::BTreeSet;

use http::request::Parts;
use replica::{Level, Meta, Reply};
use scope::Site;

use super::refusals::{hidden, no_level, not_current, not_readable};
use super::understand::{Meaning, Target, understand};
use super::walk::{At, Outcome, refuse};
use super::{Replicas, copies, group, owned};
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
        if !target.place.readable {
            return self.read_elsewhere(target, *head, body).await;
        }
        if own != Level::Strong && self.level.is_none() {
            return self.plainly(replicas, head, body, speaker).await;
        }
        match replicas.read(Meta::from(&target.name), self.level.is_some()).await {
            Ok(reading) => {
                let most = self.state.settings().limits.replay_bytes;
                // Nothing is told before it is known to be so, not even on the way.
                let answer = self.plainly(replicas, head, body, None).await?;
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

    pub(super) async fn plainly(
        self,
        replicas: &Replicas,
        head: Box<Parts>,
        body: LegBody,
        speaker: Option<&Speaker>,
    ) -> Outcome {
        let mut answer = self.rewritten(replicas, head, body, speaker).await;
        if let Ok(answer) = &mut answer {
            copies::note(answer.headers_mut());
        }
        answer
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
