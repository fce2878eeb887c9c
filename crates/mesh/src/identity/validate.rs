//! A token of another site, shown to a service of this one: its issuer says whose it is, this site says what its bearer
//! may do here.

use std::time::Duration;

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, VARY};
use http::request::Parts;
use http::{Method, Response, StatusCode};
use scope::Site;
use serde_json::{Value, json};

use super::people::{head, whole};
use super::translate::{self, Bearer};
use super::{Identities, People, Refused, now, only};
use crate::body::{AnswerBody, LegBody};
use crate::core::{Core, State};
use crate::leg::{self, Carried};
use crate::problem::UNSENT;
use crate::settings::{Accept, Named};

/// Asks the issuer of a token about it, and tells this site's service. On an error the service was told nothing.
pub(crate) async fn validated(
    core: &Core,
    state: &State,
    issuer: &Site,
    asked: &Parts,
) -> Result<Response<AnswerBody>, Refused> {
    let none = || Refused::NotValid("this site honours no tokens of other sites".to_owned());
    let identities = core.shared.identities.as_ref().ok_or_else(none)?;
    let tokens = state.settings().tokens.as_ref().ok_or_else(none)?;
    let accept = tokens.accept.get(issuer);
    let accept =
        accept.ok_or_else(|| Refused::NotValid(format!("this site accepts no tokens of {issuer}")))?;
    let people = People::of(core, state)
        .ok_or_else(|| Refused::NotValid("this site has no login with which to find its users".to_owned()))?;
    let subject = only(&asked.headers, &identities.subject).ok_or_else(none)?;
    let target = asked.uri.path_and_query().map_or("/", |target| target.as_str());
    if identities.asks_for_expired(asked) {
        people.may_validate(only(&asked.headers, &identities.asker)).await?;
    }
    let (bearer, said) = at_issuer(core, state, identities, issuer, subject, target).await?;
    // What its issuer answered for is remembered: it is its token, whatever this site makes of it.
    identities.ledger.prove(identities.ledger.mark(subject.as_bytes()), issuer, now());
    let local = people.local(&bearer, &accepted(accept, issuer, &bearer)?).await?;
    let answer = translate::answer(&identities.profile.says, &said, local).to_string();
    audit(core, issuer, Some(&bearer), None);
    let length = answer.len();
    let mut response = Response::new(AnswerBody::full(answer.into()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, length.into());
    headers.insert(identities.subject.clone(), subject.clone());
    if let Ok(asker) = HeaderValue::try_from(identities.asker.as_str()) {
        headers.insert(VARY, asker);
    }
    Ok(response)
}

/// The project of this site that the token is for.
pub(super) fn accepted(accept: &Accept, issuer: &Site, bearer: &Bearer) -> Result<Named, Refused> {
    let why =
        || Refused::NotValid(format!("this site accepts no tokens of {issuer} for `{}`", bearer.project));
    accept.project(&bearer.project).ok_or_else(why)
}

/// Who sent a request, as this site knows them: what its token, which asks about itself, is told to be of. None where it
/// has no token.
pub(crate) async fn sender(
    core: &Core,
    state: &State,
    headers: &HeaderMap,
) -> Result<Option<Bearer>, Refused> {
    let Some(identities) = &core.shared.identities else { return Ok(None) };
    let Some(token) = only(headers, &identities.asker) else { return Ok(None) };
    let tokens = state.settings().tokens.as_ref();
    let prefix = tokens.map_or("", |own| own.prefix.as_str());
    let target = format!("{prefix}{}", identities.profile.validate.ask);
    let Some(issuer) = identities.issuer(token) else {
        return at_home(core, state, identities, token, &target).await.map(Some);
    };
    if !identities.is_proved(token)
        && let Ok(bearer) = at_home(core, state, identities, token, &target).await
    {
        identities.is_own(token);
        return Ok(Some(bearer));
    }
    let none = || Refused::NotValid(format!("this site accepts no tokens of {issuer}"));
    let accept = tokens.and_then(|own| own.accept.get(&issuer)).ok_or_else(none)?;
    let people = People::of(core, state).ok_or_else(none)?;
    let (bearer, _) = at_issuer(core, state, identities, &issuer, token, &target).await?;
    let project = accepted(accept, &issuer, &bearer)?;
    let local = people.local(&Bearer { with_catalog: false, ..bearer }, &project).await?;
    Ok(Some(local.into()))
}

/// What this site's own service says of a token, which asks about itself.
pub(super) async fn at_home(
    core: &Core,
    state: &State,
    identities: &Identities,
    token: &HeaderValue,
    target: &str,
) -> Result<Bearer, Refused> {
    let name = &identities.profile.service;
    let unavailable = |why: &str| Refused::Unavailable(format!("this site's `{name}`: {why}"));
    let service = state.service(name).ok_or_else(|| unavailable("there is none"))?;
    let head = about(identities, token, target)?;
    let answer = leg::local(core, state, &service, head, LegBody::Empty, None, None).await;
    let answer = answer.map_err(|failure| unavailable(&failure.detail))?;
    read(identities, answer, token, "this site", state.settings().timeouts.response)
        .await
        .map(|(bearer, _)| bearer)
}

/// A question of a token about itself: nobody else's token goes to its issuer.
fn about(identities: &Identities, token: &HeaderValue, target: &str) -> Result<Box<Parts>, Refused> {
    let mut head = head(Method::GET, target)?;
    for name in [&identities.asker, &identities.subject] {
        let mut token = token.clone();
        token.set_sensitive(true);
        head.headers.insert(name.clone(), token);
    }
    Ok(head)
}

/// What the issuer says of a token.
pub(super) async fn at_issuer(
    core: &Core,
    state: &State,
    identities: &Identities,
    issuer: &Site,
    subject: &HeaderValue,
    target: &str,
) -> Result<(Bearer, Value), Refused> {
    let mut head = about(identities, subject, target)?;
    let scope = state.scope("").map_err(|_| Refused::Unavailable("there are no scopes".to_owned()))?;
    let sender = core.shared.carry.token(&head.headers);
    let sender = sender.unwrap_or_else(|| core.shared.carry.sender_at(issuer.name(), subject.as_bytes()));
    let entered = state.settings().site.clone();
    let carried = Carried { scope, entered, hops: 0, sender, token: None };
    leg::address(core, state, &mut head.headers, &identities.profile.service, &carried);
    let answer = leg::peer(state, issuer, head, LegBody::Empty).await;
    let unavailable = |why: &str| Refused::Unavailable(format!("{issuer}, which issued it: {why}"));
    let answer = answer.map_err(|failure| unavailable(&failure.detail))?;
    if answer.headers().contains_key(UNSENT) {
        return Err(unavailable(&format!("its mesh answers {}", answer.status().as_u16())));
    }
    read(identities, answer, subject, issuer.name(), state.settings().timeouts.peer_response).await
}

/// Reads what a site's identity service says of a token.
async fn read(
    identities: &Identities,
    answer: Response<AnswerBody>,
    subject: &HeaderValue,
    whose: &str,
    patience: Duration,
) -> Result<(Bearer, Value), Refused> {
    let status = answer.status();
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        return Err(Refused::Unavailable(format!("{whose}, which issued it, answers {}", status.as_u16())));
    }
    if status != StatusCode::OK {
        return Err(Refused::NotValid(format!("{whose}, which issued it, answers {}", status.as_u16())));
    }
    if answer.headers().get(&identities.subject) != Some(subject) {
        return Err(Refused::NotValid(format!("the answer of {whose} is not about this token")));
    }
    let (_, body) = whole(answer, patience).await?;
    let said = serde_json::from_slice(&body)
        .map_err(|_| Refused::NotValid(format!("the answer of {whose} is not JSON")))?;
    let bearer = translate::bearer(&identities.profile.says, &said).map_err(Refused::NotValid)?;
    Ok((bearer, said))
}

/// Writes down what became of a token of another site; never the token.
pub(crate) fn audit(core: &Core, issuer: &Site, bearer: Option<&Bearer>, refused: Option<&Refused>) {
    if !core.shared.audit.is_on() {
        return;
    }
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let why = refused.map(|(Refused::NotValid(why) | Refused::Unavailable(why))| why);
    core.shared.audit.write(&json!({
        "time": time.as_secs_f64(),
        "token_of": issuer.name(),
        "honoured": refused.is_none(),
        "user": bearer.map(|bearer| bearer.user.to_string()),
        "project": bearer.map(|bearer| bearer.project.to_string()),
        "why": why,
    }));
}
