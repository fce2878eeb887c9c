//! What a service of this site knows Archipel by, and what it says of that.

use http::request::Parts;
use http::{HeaderName, HeaderValue, Request};
use replica::Who;
use scope::Site;

use super::execute::full;
use super::replay::{self, Replay};
use crate::body::LegBody;
use crate::core::{Core, State};
use crate::identity::{self, Unvouched};
use crate::replicas::request::Name;

/// Whether an answer says something of this site's credential, or of the moment, rather than of the operation.
///
/// Another replica has executed it, so that it can be executed is known. A credential that expired, a role that
/// is missing, a lock or a limit on requests would be a divergence for each operation that comes meanwhile, and a
/// copy of the state would need the same credential: it is executed later, when somebody has mended that.
pub(super) fn is_of_the_credential(status: u16) -> bool {
    matches!(status, 401 | 403 | 407) || is_of_the_moment(status)
}

/// Whether an answer says that the same request may do a moment later.
pub(super) fn is_of_the_moment(status: u16) -> bool {
    matches!(status, 408 | 421 | 423 | 425 | 429)
}

/// What this site's service knows Archipel by: headers of the configuration, or this site's login for the project of
/// whoever it is on behalf of, at the site that accepted it. Where it knows it by nothing, it is asked as anybody may
/// ask it.
async fn credentials(
    core: &Core,
    state: &State,
    service: &str,
    on_behalf_of: Option<(&Site, &Who)>,
) -> Result<Vec<(HeaderName, HeaderValue)>, Unvouched> {
    let replication = state.settings().replication.as_ref();
    match replication.and_then(|own| own.credentials.get(service)) {
        Some(own) => Ok(own.clone()),
        None if identity::has_login(state.settings()) => {
            identity::credential(core, state, on_behalf_of).await.map(|header| vec![header])
        }
        None => Ok(Vec::new()),
    }
}

/// What a service knows Archipel by, and a request as it takes it from Archipel. What belongs to a user is asked for in
/// that user's name, by the login itself: it is of no project.
pub(super) async fn as_archipel(
    core: &Core,
    state: &State,
    service: &str,
    name: &Name,
    replay: Replay,
    on_behalf_of: Option<(&Site, &Who)>,
) -> Result<(Vec<(HeaderName, HeaderValue)>, Replay), Unvouched> {
    let items = state.settings().profile.kinds.items(service, name.path());
    let rule = items.first().and_then(|item| item.kind.owner.as_ref());
    let (user, rule) = match (name.owner(), rule) {
        (None, None) => {
            return Ok((credentials(core, state, service, on_behalf_of).await?, replay));
        }
        (Some(user), Some(rule)) => (user, rule),
        // It is not what its kind is.
        (Some(_), None) | (None, Some(_)) => return Err(Unvouched),
    };
    let id = identity::user_id(core, state, &user, on_behalf_of).await?;
    let replay = replay::of_user(rule, &id, replay).ok_or(Unvouched)?;
    Ok((credentials(core, state, service, None).await?, replay))
}

/// Whether a service knows Archipel by something, if only by word of the operator that it needs nothing.
pub(super) fn is_known(state: &State, service: &str) -> bool {
    let replication = state.settings().replication.as_ref();
    identity::has_login(state.settings())
        || replication.is_some_and(|own| own.credentials.contains_key(service))
}

/// Whether this site's login is what a service knows Archipel by.
pub(super) fn is_by_login(state: &State, service: &str) -> bool {
    let own = state.settings().replication.as_ref().is_some_and(|own| own.credentials.contains_key(service));
    !own && identity::has_login(state.settings())
}

pub(super) fn under(credentials: &[(HeaderName, HeaderValue)], replay: Replay) -> (Box<Parts>, LegBody) {
    let (mut head, ()) = Request::new(()).into_parts();
    (head.method, head.uri, head.headers) = (replay.method, replay.uri, replay.headers);
    for (name, value) in credentials {
        head.headers.insert(name, value.clone());
    }
    (Box::new(head), full(replay.body))
}
