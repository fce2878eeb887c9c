//! Under whose name this site executes what another site accepted: its own login, in the project that its sender's is
//! here. No token is kept for it, and none is on a disk.

use std::collections::BTreeMap;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use replica::Who;
use scope::Site;

use super::{People, Refused};
use crate::core::{Core, State};
use crate::settings::{Accept, Named, Settings};

/// Nobody here stands for the sender, or that cannot be said now.
#[derive(Debug)]
pub(crate) struct Unvouched;

/// Whether this site executes under its login what it has no other credential for.
pub(crate) fn has_login(settings: &Settings) -> bool {
    settings.profile.identity.is_some() && settings.tokens.as_ref().is_some_and(|own| own.login.is_some())
}

/// This site's login for the project of whoever a write is on behalf of, as a header; or, where it is on nobody's, for
/// the login's own.
pub(crate) async fn credential(
    core: &Core,
    state: &State,
    on_behalf_of: Option<(&Site, &Who)>,
) -> Result<(HeaderName, HeaderValue), Unvouched> {
    let tokens = state.settings().tokens.as_ref().ok_or(Unvouched)?;
    let (people, identities) =
        People::of(core, state).zip(core.shared.identities.as_ref()).ok_or(Unvouched)?;
    let project = match on_behalf_of {
        Some((by, who)) => mapped(&state.settings().site, &tokens.accept, by, who).ok_or(Unvouched)?,
        None => tokens.login.as_ref().ok_or(Unvouched)?.project.clone(),
    };
    match people.session(&project).await {
        Ok(session) => Ok((identities.asker.clone(), session.token)),
        Err(Refused::NotValid(_) | Refused::Unavailable(_)) => Err(Unvouched),
    }
}

/// The id that this site has for a user, by `domain/name`. With a write that is on behalf of that user, only if the
/// user has a role here in the project that the write is for: then Archipel may do for them what they could do themselves.
pub(crate) async fn user_id(
    core: &Core,
    state: &State,
    user: &str,
    on_behalf_of: Option<(&Site, &Who)>,
) -> Result<String, Unvouched> {
    let tokens = state.settings().tokens.as_ref().ok_or(Unvouched)?;
    let people = People::of(core, state).ok_or(Unvouched)?;
    let (domain, name) = user.split_once('/').ok_or(Unvouched)?;
    let own = Named { domain: domain.to_owned(), name: name.to_owned() };
    let found = match on_behalf_of {
        Some((_, who)) if *who.user != *user => return Err(Unvouched),
        Some((by, who)) => {
            let project = mapped(&state.settings().site, &tokens.accept, by, who).ok_or(Unvouched)?;
            people.id_in(&own, &project).await
        }
        None => people.id(&own).await,
    };
    found.map_err(|_: Refused| Unvouched)
}

/// The project of this site that a write is for. A site speaks for those that it let in, and for nobody else.
fn mapped(here: &Site, accept: &BTreeMap<Site, Accept>, accepted_by: &Site, who: &Who) -> Option<Named> {
    if who.site != *accepted_by {
        return None;
    }
    let (domain, name) = who.project.as_deref()?.split_once('/')?;
    let theirs = Named { domain: domain.to_owned(), name: name.to_owned() };
    if who.site == *here {
        return Some(theirs);
    }
    accept.get(&who.site)?.project(&theirs)
}

/// Whether a site may bring a write in this name: within what it is accepted for, whoever is said to have accepted the
/// write. Else a site that is accepted nowhere could speak for one that is, or for this one.
pub(crate) fn may_bring(settings: &Settings, from: &Site, who: Option<&Who>) -> bool {
    let tokens = settings.tokens.as_ref().filter(|_| has_login(settings));
    tokens.is_none_or(|own| is_within(&own.accept, from, who))
}

fn is_within(accept: &BTreeMap<Site, Accept>, from: &Site, who: Option<&Who>) -> bool {
    let Some(accept) = accept.get(from) else { return false };
    let project = who.and_then(|who| who.project.as_deref()?.split_once('/'));
    project.is_none_or(|(domain, name)| {
        accept.project(&Named { domain: domain.to_owned(), name: name.to_owned() }).is_some()
    })
}

/// A service of this site refused what was sent with these headers: if it was a login, the next one is new.
pub(crate) fn ended(core: &Core, headers: &HeaderMap) {
    if let Some(identities) = &core.shared.identities
        && let Some(token) = headers.get(&identities.asker)
    {
        identities.logins.forget(token);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_site_brings_is_within_what_it_is_accepted_for_whoever_is_said_to_have_accepted_it() {
        let site = |name: &str| Site::new(name).unwrap();
        let named = |name: &str| Named { domain: "Default".to_owned(), name: name.to_owned() };
        let accept = Accept::Projects(BTreeMap::from([(named("demo"), named("demo"))]));
        let who = |at: &str, project: &str| Who {
            site: site(at),
            user: "Default/alice".into(),
            project: Some(project.into()),
            roles: Vec::new(),
            time_ms: 0,
        };
        let accept = BTreeMap::from([(site("B"), accept)]);
        for at in ["A", "B", "C"] {
            assert!(is_within(&accept, &site("B"), Some(&who(at, "Default/demo"))));
            assert!(!is_within(&accept, &site("B"), Some(&who(at, "Default/service"))));
            assert!(!is_within(&accept, &site("C"), Some(&who(at, "Default/demo"))));
        }
        assert!(is_within(&accept, &site("B"), None) && !is_within(&accept, &site("C"), None));
    }

    #[test]
    fn a_site_speaks_for_those_it_let_in_where_it_is_accepted_and_for_nobody_else() {
        let site = |name: &str| Site::new(name).unwrap();
        let named = |name: &str| Named { domain: "Default".to_owned(), name: name.to_owned() };
        let who = |at: &str, project: Option<&str>| Who {
            site: site(at),
            user: "Default/alice".into(),
            project: project.map(Into::into),
            roles: Vec::new(),
            time_ms: 0,
        };
        let projects = Accept::Projects(BTreeMap::from([(named("demo"), named("demo-b"))]));
        let (here, accept) = (site("A"), BTreeMap::from([(site("B"), projects)]));
        let mapped = |by: &Site, who: &Who| mapped(&here, &accept, by, who);
        assert_eq!(mapped(&site("B"), &who("B", Some("Default/demo"))), Some(named("demo-b")));
        assert_eq!(mapped(&site("B"), &who("B", Some("Default/other"))), None);
        assert_eq!(mapped(&site("C"), &who("C", Some("Default/demo"))), None, "not accepted");
        assert_eq!(mapped(&site("B"), &who(here.name(), Some("Default/demo"))), None, "not its to say");
        assert_eq!(mapped(&here, &who(here.name(), Some("Default/demo"))), Some(named("demo")));
        assert_eq!(mapped(&here, &who(here.name(), None)), None, "nobody knows whose");
    }
}
