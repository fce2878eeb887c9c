//! What belongs to users: whose a request is about. A path does not say it, and the sender's token does.

use http::request::Parts;
use http::{Method, StatusCode};
use profile::{Kind, Owner};
use serde_json::Value;

use super::understand::plain;
use super::walk::At;
use super::{Known, taken};
use crate::identity::{self, Refused};
use crate::problem::Problem;

/// The user that a request is from, as `domain/name`, where what it names may be a replicated resource of a user's.
/// Nobody is asked who that is where no user has such a one. A write of which it cannot be told now is refused: the
/// service may take it for its own, and no other site would hear of it.
pub(crate) async fn owner(at: At<'_>, head: &Parts) -> Result<Option<String>, Problem> {
    let Some(replicas) = at.replicas() else { return Ok(None) };
    let (service, kinds) = (&at.service.name, &at.state.settings().profile.kinds);
    let path = plain(head.uri.path());
    let items = kinds.items(service, &path);
    let own = items.iter().filter_map(|item| Some((item, item.kind.owner.as_ref()?)));
    let named = |(item, owner): (&profile::Item<'_, '_>, &Owner)| {
        replicas.known.is_owned(service, Some(item.name)) && !names_somebody(owner, head)
    };
    let asks = own.into_iter().any(|(item, owner)| named((item, owner)));
    if !asks {
        return Ok(None);
    }
    match Box::pin(user(at, head)).await {
        Err(Refused::Unavailable(why)) if !matches!(head.method, Method::GET | Method::HEAD) => {
            let title = "Who sends this cannot be told now";
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no-identity", title).detail(why).unsent())
        }
        user => Ok(user.unwrap_or_default()),
    }
}

/// The same for a list, whose items may be such resources.
pub(crate) async fn owner_of_items(at: At<'_>, head: &Parts) -> Option<String> {
    let replicas = at.replicas()?;
    if !lists_owned(at, head, &replicas.known) {
        return None;
    }
    Box::pin(user(at, head)).await.unwrap_or_default()
}

fn lists_owned(at: At<'_>, head: &Parts, known: &Known) -> bool {
    let (service, kinds) = (&at.service.name, &at.state.settings().profile.kinds);
    known.is_owned(service, None)
        && kinds
            .collection(service, &plain(head.uri.path()))
            .and_then(|kind| kind.owner.as_ref())
            .is_some_and(|owner| !names_somebody(owner, head))
}

async fn user(at: At<'_>, head: &Parts) -> Result<Option<String>, Refused> {
    let sender = identity::sender(at.core, at.state, &head.headers).await?;
    Ok(sender.map(|sender| sender.user.to_string()))
}

/// Whether a request names a user by an id, which is one site's: it is to that site's service alone.
fn names_somebody(owner: &Owner, head: &Parts) -> bool {
    let mut parameters = head.uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| plain(parameter.split('=').next().unwrap_or_default()) == owner.parameter)
}

/// Whose a new resource is, where it is a user's. Only its sender's can it be.
pub(crate) async fn maker(
    at: At<'_>,
    kind: &Kind,
    head: &Parts,
    body: &[u8],
) -> Result<Option<String>, Problem> {
    let document = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let has = |pointer: &str| !matches!(document.pointer(pointer), None | Some(Value::Null));
    if let Some((pointer, why)) = kind.needs.iter().find(|(pointer, _)| !has(pointer)) {
        return Err(not_so(kind, &format!("the body has to say `{pointer}`: {why}")));
    }
    let Some(owner) = &kind.owner else { return Ok(None) };
    if names_somebody(owner, head) || has(&owner.member) {
        let name = &owner.parameter;
        let why = format!("`{name}` is the id of a user at one site: each user makes their own, without it");
        return Err(not_so(kind, &why));
    }
    let sender = taken::sender(at.core, at.state, &at.service.name, &head.headers).await?;
    let unknown =
        "it is its user's, and who sends this cannot be told: that needs a token and a login in [tokens]";
    sender.map(|sender| Some(sender.user.to_string())).ok_or_else(|| not_so(kind, unknown))
}

fn not_so(kind: &Kind, why: &str) -> Problem {
    Problem::new(
        StatusCode::UNPROCESSABLE_ENTITY,
        "not-replicable",
        "This write cannot be made at several sites",
    )
    .detail(format!("a {} that is at several sites: {why}", kind.name))
}
