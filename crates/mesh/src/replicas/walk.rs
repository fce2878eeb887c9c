//! Carrying out requests to replicated resources: this site's own service, as clients see it.
//!
//! The same for a client's request and for the leg of a peer, but for one thing: what a peer sent is not handed on
//! to a third site.

use std::collections::BTreeSet;
use std::rc::Rc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode, Uri};
use plan::{Asked, Knowledge, Said, Sent, Why};
use profile::{Kind, Rule};
use replica::{Class, Doubt, Meta, Naming, Subject};
use scope::{Plan, Site};
use tokio::time::{Instant, timeout};

use super::copies::Listed;
use super::forward::Forward;
use super::group::{self, Group};
use super::keeper::is_storable;
use super::refusals::{
    both, coded, dots, exists, hidden, no_fields, no_level, no_replication, not_readable, not_replicable,
    too_long, unknown_method,
};
use super::rewrite::{self, Rewriting};
use super::taken::{self, Understood};
use super::trying::Trying;
use super::understand::{self, Meaning, New, Target, understand};
use super::upload::{self, Long, Taken};
use super::write_name::WriteName;
use super::{Name, Replicas, Seen, answer, owned, references};
use crate::body::{AnswerBody, LegBody};
use crate::core::{Core, ServiceState, State};
use crate::headers;
use crate::identity;
use crate::interim::Speaker;
use crate::leg::{self, Carried, LegFailure};
use crate::problem::{Problem, UNSENT};
use crate::said;

pub(super) type Outcome = Result<Response<AnswerBody>, LegFailure>;

/// One request at this site.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) core: &'a Core,
    pub(crate) state: &'a State,
    pub(crate) service: &'a Rc<ServiceState>,
    pub(crate) carried: Option<&'a Carried>,
    /// Another site sent it: it goes to no third one.
    pub(crate) from_peer: bool,
    /// That site knows it to be about this replicated resource.
    pub(crate) about: Option<&'a Meta>,
    /// Its scope wants a read confirmed.
    pub(crate) level: Option<scope::Level>,
    /// The name that the other site gave a write.
    pub(crate) request: Option<&'a HeaderValue>,
    /// It is for a list of several sites.
    pub(crate) listed: Option<&'a Listed>,
    /// Where the name of a write is said to whoever waits for its answer only for some time.
    pub(crate) named: Option<&'a WriteName>,
}

impl<'a> At<'a> {
    /// A request of a client, which wants nothing confirmed.
    pub(crate) fn of_client(
        core: &'a Core,
        state: &'a State,
        service: &'a Rc<ServiceState>,
        carried: Option<&'a Carried>,
    ) -> At<'a> {
        At {
            core,
            state,
            service,
            carried,
            from_peer: false,
            about: None,
            level: None,
            request: None,
            listed: None,
            named: None,
        }
    }
}

/// A write that was understood, and can be tried at one site after another.
struct Work<'w> {
    understood: Understood<'w>,
    head: Parts,
    body: Taken,
    /// Of a new resource.
    group: Option<&'w Group>,
}

/// Sends a request to this site's own service, as clients see that. Where there is no replicated resource, that is
/// the service as it is.
pub(crate) async fn local(
    at: At<'_>,
    mut head: Box<Parts>,
    body: LegBody,
    speaker: Option<&Speaker>,
) -> Outcome {
    let identities = at.core.shared.identities.as_ref();
    if identities.is_some_and(|own| own.names_foreign_project(&at.service.name, &head)) {
        Box::pin(identity::localize(at.core, at.state, &mut head)).await;
    }
    match (at.replicas(), at.level) {
        (None, _) if at.about.is_some() => at.unknown_here().await,
        (None, Some(level)) => refuse(no_level(level)),
        (None, None) => leg::local(at.core, at.state, at.service, head, body, at.carried, speaker).await,
        (Some(replicas), _) => Box::pin(at.as_clients_see_it(replicas, head, body, speaker)).await,
    }
}

/// Makes a new replicated resource; or writes to one that is there.
pub(crate) async fn create(at: At<'_>, head: Box<Parts>, body: LegBody, group: &Group) -> Outcome {
    let Some(replicas) = at.core.shared.replicas.as_ref() else {
        return refuse(no_replication());
    };
    let (name, profile) = (&at.service.name, &at.state.settings().profile);
    let kinds = &profile.kinds;
    if profile.is_dry_run(name, head.uri.query()) {
        // It makes nothing: the service here says what it would do.
        return Box::pin(at.as_clients_see_it(replicas, head, body, None)).await;
    }
    let owner = match owned::owner(at, &head).await {
        Ok(owner) => owner,
        Err(problem) => return refuse(problem),
    };
    match understand(kinds, name, &head.method, head.uri.path(), owner.as_deref(), &replicas.known) {
        Meaning::Hidden => return Ok(hidden().into_response()),
        Meaning::Both(own) => return refuse(both(&own)),
        Meaning::Write(target, rule) => return at.write(replicas, target, &rule, *head, body).await,
        Meaning::Ordinary | Meaning::Read(_) => {}
    }
    if understand::makes(kinds, name, &head.method, head.uri.path()).is_none() {
        return at.to_unknown(replicas, head, body, group).await;
    }
    // Whether it is there already, its own sites know.
    if !at.from_peer && !group.sites.contains(at.here()) {
        return at.hand_over(replicas, *head, body, group).await;
    }
    at.make(replicas, *head, body, group).await.unwrap_or_else(refuse)
}

/// Whether a request is a write to a replicated resource that is known here: it then reaches every replica,
/// whatever its scope says.
pub(crate) fn is_write_to_one(at: At<'_>, head: &Parts, owner: Option<&str>) -> bool {
    let Some(replicas) = at.replicas() else { return false };
    let profile = &at.state.settings().profile;
    let (path, known) = (head.uri.path(), &replicas.known);
    let method = understand::counted(profile, &at.service.name, head);
    let meaning = understand(&profile.kinds, &at.service.name, &method, path, owner, known);
    matches!(meaning, Meaning::Write(..))
}

/// Refuses a write to several sites of what cannot be replicated, before any site is asked.
pub(crate) fn check(at: At<'_>, head: &Parts, plan: &Plan) -> Result<(), Problem> {
    if !plan::replicates(plan) {
        return Ok(());
    }
    if at.core.shared.replicas.as_ref().is_none() {
        return Err(no_replication());
    }
    let (kinds, path) = (&at.state.settings().profile.kinds, head.uri.path());
    if understand::makes(kinds, &at.service.name, &head.method, path).is_some() {
        return Ok(());
    }
    let path = understand::plain(path);
    // What one cannot make may be there, and known at its own sites only.
    let items = kinds.items(&at.service.name, &path);
    let Some(first) = items.first() else {
        return Err(not_replicable(head, kinds.barred(&at.service.name, &path)));
    };
    let known = items.iter().any(|item| item.kind.knows(head.method.as_str(), item.below));
    if known { Ok(()) } else { Err(unknown_method(&head.method, first.kind)) }
}

/// Whether a service has replicated resources, or may have. One look at a counter where there are none.
pub(crate) fn has_replicas(core: &Core, state: &State, service: &str) -> bool {
    let some = core.shared.replicas.as_ref().is_some_and(|replicas| replicas.known.may_have(service));
    let settings = state.settings();
    some && !settings.observe && settings.profile.kinds.any(service)
}

impl<'a> At<'a> {
    pub(super) fn replicas(&self) -> Option<&'a Replicas> {
        let replicas = self.core.shared.replicas.as_ref()?;
        has_replicas(self.core, self.state, &self.service.name).then_some(replicas)
    }

    fn here(&self) -> &'a Site {
        &self.state.settings().site
    }

    pub(super) async fn as_clients_see_it(
        self,
        replicas: &Replicas,
        head: Box<Parts>,
        body: LegBody,
        speaker: Option<&Speaker>,
    ) -> Outcome {
        let (name, profile) = (&self.service.name, &self.state.settings().profile);
        let owner = match owned::owner(self, &head).await {
            Ok(owner) => owner,
            Err(problem) => return refuse(problem),
        };
        let method = understand::counted(profile, name, &head);
        let path = head.uri.path();
        match understand(&profile.kinds, name, &method, path, owner.as_deref(), &replicas.known) {
            Meaning::Hidden => Ok(hidden().into_response()),
            Meaning::Both(own) => refuse(both(&own)),
            Meaning::Write(target, rule) => self.write(replicas, target, &rule, *head, body).await,
            Meaning::Read(target) => self.read(replicas, &target, head, body, speaker).await,
            Meaning::Ordinary if self.about.is_some() => self.unknown_here().await,
            Meaning::Ordinary => match self.level {
                Some(level) => refuse(no_level(level)),
                None => self.plainly(replicas, head, body, speaker).await,
            },
        }
    }

    /// Another site knows a replicated resource that this one has not heard of, or has no more. What the service here has of that
    /// name is not meant.
    async fn unknown_here(self) -> Outcome {
        let replicas = self.core.shared.replicas.as_ref();
        match (replicas, self.about) {
            (Some(replicas), Some(meta)) if replicas.is_deleted(meta.clone()).await => {
                Ok(hidden().into_response())
            }
            _ => refuse(not_readable()),
        }
    }

    /// To the service here, whose ids are not those that clients know.
    pub(super) async fn rewritten(
        self,
        replicas: &Replicas,
        mut head: Box<Parts>,
        body: LegBody,
        speaker: Option<&Speaker>,
    ) -> Outcome {
        let of = (&head.method, head.uri.path());
        let Some(rewriting) = Rewriting::of(&replicas.known, self.state, &self.service.name, of) else {
            return leg::local(self.core, self.state, self.service, head, body, self.carried, speaker).await;
        };
        let most = self.state.settings().limits.replay_bytes;
        let body = match rewriting.request(&mut head, body, most).await {
            Ok(body) => body,
            Err(problem) => return Ok(problem.into_response()),
        };
        let answer =
            leg::local(self.core, self.state, self.service, head, body, self.carried, speaker).await?;
        Ok(rewriting.ordinary_response(answer))
    }

    /// A write to a replicated resource: to the keeper, else to the nearest site with a replica.
    async fn write(
        self,
        replicas: &Replicas,
        target: Target<'_>,
        rule: &Rule,
        head: Parts,
        body: LegBody,
    ) -> Outcome {
        if understand::has_dots(head.uri.path()) {
            return refuse(dots());
        }
        if !target.kind.knows(head.method.as_str(), &understand::plain(&target.below)) {
            return refuse(unknown_method(&head.method, target.kind));
        }
        let differs = target.place.local.as_ref().is_some_and(|local| *local != target.name);
        if differs && taken::is_signed(&head) {
            return refuse(taken::signed());
        }
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        // What is below a resource and copied with it is data, whatever its type; else ids are rewritten in JSON.
        let fields = rule.class == profile::Class::Patch && rule.field.is_none();
        let whole = fields || is_json(content_type) && !target.is_part();
        if whole && let Err(problem) = coded(&head.headers) {
            return refuse(problem);
        }
        let (sites, meta) = (&target.place.members, Meta::from(&target.name));
        let body = match self.take_body(replicas, body, whole, sites, Some(meta)).await {
            Ok(body) => body,
            Err(problem) => return refuse(problem),
        };
        let Some(class) = understand::class(target.kind, rule, content_type, body.bytes()) else {
            return refuse(no_fields());
        };
        let understood = Understood {
            kind: target.kind,
            subject: Subject::Existing(Meta::from(&target.name)),
            class,
            doubt: understand::doubt(rule.doubt),
            path: target.path,
            below: target.below,
        };
        let work = Work { understood, head, body, group: None };
        // A replica that has not been made yet, or is not good, would refuse what another takes.
        self.first_that_takes_it(replicas, &target.place.members, work, target.place.readable).await
    }

    /// A new resource.
    async fn make(
        self,
        replicas: &Replicas,
        mut head: Parts,
        body: LegBody,
        group: &Group,
    ) -> Result<Outcome, Problem> {
        let settings = self.state.settings();
        let (name, kinds) = (&self.service.name, &settings.profile.kinds);
        // What it is called has one spelling. The service gets it as it was sent: to some, a slash at the end matters.
        let mut sent = head.uri.path().to_owned();
        if understand::has_dots(&sent) {
            return Err(dots());
        }
        let barred = |head: &Parts| not_replicable(head, kinds.barred(name, head.uri.path()));
        let new = understand::makes(kinds, name, &head.method, &sent).ok_or_else(|| barred(&head))?;
        taken::check_credential(settings, name, &head.headers)?;
        if let New::Unnamed(_) = new {
            if taken::is_signed(&head) {
                return Err(taken::signed());
            }
            sent = format!("{}/{}", sent.trim_end_matches('/'), taken::uuid(self.core));
            taken::put_at(&mut head, &sent);
        }
        let new = understand::makes(kinds, name, &head.method, &sent).ok_or_else(|| barred(&head))?;
        let (kind, naming, doubt) = match new {
            New::InBody(kind) => return self.make_named(replicas, kind, sent, head, body, group).await,
            New::Named(kind) | New::Unnamed(kind) => {
                (kind, Naming::FirstReplica, understand::doubt(kind.create_doubt()))
            }
            New::At(kind, name) => (kind, Naming::Chosen(Meta::from(&name)), Doubt::Repeat),
        };
        let (meta, item) = match &naming {
            Naming::Chosen(meta) => (Some(meta.clone()), sent.trim_end_matches('/').len()),
            Naming::FirstReplica | Naming::Allocated(_) => (None, sent.len()),
        };
        let below = sent.split_off(item);
        let subject = Subject::New { naming, level: group.level(), sites: group.sites.clone() };
        let understood = Understood { kind, subject, class: Class::Create, doubt, path: sent, below };
        let content_type = head.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let whole = is_json(content_type);
        if whole {
            coded(&head.headers)?;
        }
        let body = self.take_body(replicas, body, whole, &group.sites, meta).await?;
        let work = Work { understood, head, body, group: Some(group) };
        Ok(self.first_that_takes_it(replicas, &group.sites, work, true).await)
    }

    /// A new resource with the id that its body says. Every site's service knows it by that one.
    async fn make_named(
        self,
        replicas: &Replicas,
        kind: &Kind,
        path: String,
        mut head: Parts,
        body: LegBody,
        group: &Group,
    ) -> Result<Outcome, Problem> {
        let (service, kinds) = (&self.service.name, &self.state.settings().profile.kinds);
        coded(&head.headers)?;
        let mut body = self.take_body(replicas, body, true, &group.sites, None).await?;
        let owner = Box::pin(owned::maker(self, kind, &head, body.bytes())).await?;
        let (id, changed) = taken::name_in(kind, body.bytes(), || taken::uuid(self.core))?;
        if let Some(changed) = changed {
            if taken::is_signed(&head) {
                return Err(taken::signed());
            }
            taken::set_length(&mut head, changed.len());
            body = Taken::Inline(changed);
        }
        let item = format!("{}/{id}", understand::plain(&path).trim_end_matches('/'));
        let items = kinds.items(service, &item);
        let item = items.first().ok_or_else(|| not_replicable(&head, None))?;
        let name = match &owner {
            Some(owner) => Name::owned(service, item.name, owner),
            None => Name::new(service, item.name),
        };
        // What is deleted is not there for clients. Its name is free once the service here has executed that.
        let patience = self.state.settings().timeouts.response;
        let _ = timeout(patience, replicas.known.until_deleted(&name)).await;
        if !matches!(replicas.known.look_up(&name), Seen::Ordinary) {
            return Err(exists(kind, &id));
        }
        let naming = Naming::Chosen(Meta::from(&name));
        let subject = Subject::New { naming, level: group.level(), sites: group.sites.clone() };
        let doubt = understand::doubt(kind.create_doubt());
        let understood =
            Understood { kind, subject, class: Class::Create, doubt, path, below: String::new() };
        let work = Work { understood, head, body, group: Some(group) };
        Ok(self.first_that_takes_it(replicas, &group.sites, work, true).await)
    }

    /// A write that makes nothing, to something that is not known here: one of its sites may know it. That it is not
    /// there is said where none of those that can be asked has it.
    async fn to_unknown(
        self,
        replicas: &Replicas,
        mut head: Box<Parts>,
        body: LegBody,
        group: &Group,
    ) -> Outcome {
        let mut absent = None;
        if group.sites.contains(self.here()) {
            match self.to_ordinary(replicas, head.clone()).await {
                answer if is_absent(&answer) => absent = Some(answer),
                answer => return answer,
            }
        }
        let mut body = match self.take_body(replicas, body, false, &group.sites, None).await {
            Ok(body) => body,
            Err(problem) => return refuse(problem),
        };
        group.write(&mut head);
        let mut trying = Trying::new(self.others(&group.sites), true);
        let mut forward = Forward::unnamed(self, replicas, &head, self.until(&body));
        while let Some(site) = trying.next() {
            let Some(body) = body.leg(self.state.settings().timeouts.body_idle) else { break };
            let answer = forward.to(&site, *head.clone(), body).await;
            if is_absent(&answer) {
                absent = absent.or(Some(answer));
            } else if let Some(answer) = trying.heard(answer) {
                return answer;
            }
        }
        absent.unwrap_or_else(|| trying.end())
    }

    /// A write to several sites of something that is not replicated: nothing is executed. That it is not there at all is
    /// said as the service here says it.
    async fn to_ordinary(self, replicas: &Replicas, mut head: Box<Parts>) -> Outcome {
        let (name, kinds) = (&self.service.name, &self.state.settings().profile.kinds);
        let path = head.uri.path().to_owned();
        let problem = not_replicable(&head, kinds.barred(name, &path));
        let items = kinds.items(name, &path);
        let accept = items.first().and_then(|item| HeaderValue::try_from(item.kind.accept.as_ref()?).ok());
        let item = items.first().and_then(|item| Uri::try_from(item.path).ok());
        let Some(item) = item.filter(|_| !understand::has_dots(&path)) else { return refuse(problem) };
        headers::only_ask(&mut head.headers);
        if let Some(accept) = accept {
            head.headers.insert(http::header::ACCEPT, accept);
        }
        (head.method, head.uri) = (Method::GET, item);
        let answer = self.rewritten(replicas, head, LegBody::Empty, None).await;
        if is_absent(&answer) { answer } else { refuse(problem) }
    }

    /// A new resource of other sites: to the nearest of them.
    async fn hand_over(self, replicas: &Replicas, mut head: Parts, body: LegBody, group: &Group) -> Outcome {
        let mut body = match self.take_body(replicas, body, false, &group.sites, None).await {
            Ok(body) => body,
            Err(problem) => return refuse(problem),
        };
        group.write(&mut head);
        let mut trying = Trying::new(self.others(&group.sites), true);
        let mut forward = Forward::unnamed(self, replicas, &head, self.until(&body));
        while let Some(site) = trying.next() {
            let Some(body) = body.leg(self.state.settings().timeouts.body_idle) else { break };
            let outcome = forward.to(&site, head.clone(), body).await;
            if let Some(outcome) = trying.heard(outcome) {
                return outcome;
            }
        }
        trying.end()
    }

    /// Takes the body of a write to a resource of these sites. One that has to be looked at as a whole is short.
    async fn take_body(
        self,
        replicas: &Replicas,
        body: LegBody,
        whole: bool,
        sites: &BTreeSet<Site>,
        meta: Option<Meta>,
    ) -> Result<Taken, Problem> {
        let most = self.state.settings().replication.as_ref().map_or(0, |replication| replication.inline);
        let long = if whole {
            Long::Refused
        } else if sites.contains(self.here()) {
            // One that is likely to go on to another site is that one's to offer.
            let offered = meta.as_ref().is_none_or(|meta| match replicas.known.look_up(&meta.into()) {
                Seen::Replicated(place) => place.readable,
                Seen::Hidden | Seen::Ordinary => true,
            });
            let sites = if offered { sites.clone() } else { BTreeSet::new() };
            Long::Spooled { sites, meta }
        } else {
            Long::Passed
        };
        upload::take(body, most, long, replicas).await
    }

    /// Tries one site after another, nearest first, as long as nothing was executed. This one comes first, or last. A
    /// site that orders no writes names the one that does.
    async fn first_that_takes_it(
        self,
        replicas: &Replicas,
        sites: &BTreeSet<Site>,
        mut work: Work<'_>,
        here_first: bool,
    ) -> Outcome {
        let mut order = self.others(sites);
        if sites.contains(self.here()) {
            order.insert(if here_first { 0 } else { order.len() }, self.here().clone());
        }
        let mut trying = Trying::new(order, !self.from_peer);
        let mut forward = Forward::new(self, replicas, &work.understood.subject, self.until(&work.body));
        match self.request {
            Some(name) => drop(work.head.headers.insert(answer::REQUEST, name.clone())),
            None => drop(work.head.headers.remove(answer::REQUEST)),
        }
        while let Some(site) = trying.next() {
            let outcome = if site == *self.here() {
                self.keep(replicas, &work).await
            } else {
                let mut head = work.head.clone();
                match (work.group, &work.understood.subject) {
                    (Some(group), _) => group.write(&mut head),
                    (None, Subject::Existing(meta)) => group::write_resource(&mut head, meta),
                    (None, Subject::New { .. }) => {}
                }
                let Some(body) = work.body.leg(self.state.settings().timeouts.body_idle) else { break };
                forward.to(&site, head, body).await
            };
            if let Some(outcome) = trying.heard(outcome) {
                return outcome;
            }
        }
        trying.end()
    }

    /// How long other sites may take together. A long body takes the time that it needs.
    fn until(self, body: &Taken) -> Option<Instant> {
        let limit = self.state.settings().timeouts.peer_response;
        matches!(body, Taken::Inline(_)).then(|| Instant::now() + limit)
    }

    /// The other sites of a set that a request may be handed to, nearest first.
    pub(super) fn others(self, sites: &BTreeSet<Site>) -> Vec<Site> {
        let others = sites.iter().filter(|site| !self.from_peer && *site != self.here());
        let mut others: Vec<_> = others
            .map(|site| {
                let rtt = self.state.rtt(site);
                ((self.state.reach(site), rtt.is_none(), rtt), site.clone())
            })
            .collect();
        others.sort();
        others.into_iter().map(|(_, site)| site).collect()
    }

    /// To this site's keeper.
    async fn keep(self, replicas: &Replicas, work: &Work<'_>) -> Outcome {
        let (settings, name) = (self.state.settings(), &self.service.name);
        let Work { understood, head, body, .. } = work;
        let named = match Box::pin(self.named_for_clients(replicas, understood, head)).await {
            Ok(named) => named,
            Err(outcome) => return outcome,
        };
        let understood = named.as_ref().unwrap_or(understood);
        let of = (&head.method, head.uri.path());
        let rewriting = Rewriting::of(&replicas.known, self.state, name, of);
        let by = match Box::pin(taken::sender(self.core, self.state, name, &head.headers)).await {
            Ok(by) => by,
            Err(problem) => return refuse(problem),
        };
        let sent = taken::Sent { carried: self.carried, by };
        let mut wanted = taken::wanted(self.core, settings, name, understood, head, body, &sent);
        // What is a part of a resource is data, whatever its type.
        let data = understood.kind.exact || understand::is_part(understood.kind, &understood.below);
        if let Some(rewriting) = &rewriting {
            let json = Some(body.inline()).filter(|_| !data && rewrite::is_json(wanted.kept.content_type()));
            let checked = rewriting.check(head, json.as_ref());
            if let Err(problem) = checked.and_then(|()| rewriting.conditions(&mut wanted.head.headers)) {
                return Ok(problem.into_response());
            }
        }
        wanted.kept.names = references::of(&replicas.known, &wanted.kept, data);
        if let (Some(rewriting), false) = (&rewriting, data) {
            let (kind, body) = (wanted.kept.content_type(), body.inline());
            let others = rewriting.named(&wanted.kept.path, kind, &body);
            wanted.kept.names.extend(others);
        }
        wanted.named = self.named.cloned().unwrap_or_default();
        if !is_storable(&wanted.kept) {
            return refuse(too_long());
        }
        let Some(answered) = replicas.write(wanted).await else {
            let detail = "the keeper of replicated resources has stopped".to_owned();
            return Err(LegFailure { sent: Sent::Maybe, why: Why::Reset, problem: None, detail });
        };
        let response = answer::respond(answered);
        if let Some(named) = self.named.filter(|_| response.headers().contains_key(UNSENT)) {
            named.forget();
        }
        // What was just made may have an id that is not for clients.
        Ok(match Rewriting::of(&replicas.known, self.state, name, of) {
            Some(rewriting) => rewriting.response(response),
            None => response,
        })
    }

    /// To another site, which sees to it.
    pub(super) async fn at_peer(self, site: &Site, mut head: Parts, body: LegBody) -> Outcome {
        let carried = match self.carried {
            Some(carried) => carried.clone(),
            None => self.unscoped(&head)?,
        };
        let began = Instant::now();
        leg::address(self.core, self.state, &mut head.headers, &self.service.name, &carried);
        let answer = leg::peer(self.state, site, Box::new(head), body).await;
        let mut response = answer?;
        let said = Said::Status(response.status().as_u16());
        let asked = Asked { site: site.clone(), said, elapsed: Some(began.elapsed()) };
        said::put(response.headers_mut(), &[asked]);
        // What is told here is not told again.
        response.headers_mut().insert(said::TOLD, HeaderValue::from_static("1"));
        Ok(response)
    }

    /// A request without a scope goes to another site as one with an empty scope.
    fn unscoped(self, head: &Parts) -> Result<Carried, LegFailure> {
        let bad_scope = |diagnostic| LegFailure::refused(Problem::bad_scope(&diagnostic));
        let scope = self.state.scope("").map_err(bad_scope)?;
        let carry = &self.core.shared.carry;
        let token = carry.token(&head.headers);
        let sender = token.unwrap_or_else(|| carry.sender_at(self.here().name(), b""));
        Ok(Carried { scope, entered: self.here().clone(), hops: 0, sender, token })
    }
}

/// As the answer: what is wrong with a request is so at every site, and no fallback is asked. What is wrong with this
/// site is not.
pub(super) fn refuse(problem: Problem) -> Outcome {
    if problem.status().is_client_error() {
        Ok(problem.into_response())
    } else {
        Err(LegFailure::refused(problem))
    }
}

/// A site has nothing of that name.
fn is_absent(answer: &Outcome) -> bool {
    answer.as_ref().is_ok_and(|answer| matches!(answer.status(), StatusCode::NOT_FOUND | StatusCode::GONE))
}

fn is_json(content_type: Option<&str>) -> bool {
    content_type.is_some_and(|kind| kind.to_ascii_lowercase().contains("json"))
}
