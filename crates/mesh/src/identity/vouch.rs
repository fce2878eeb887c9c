//! Tokens that have expired: of work that takes longer than they are valid. A service that may validate tokens asks also
//! about these, and a token that has expired cannot ask about itself. So its issuer's mesh asks with that site's own
//! login, which stays there; and whether the service may ask is this site's own to say, before anybody else is asked.

use http::Method;
use http::StatusCode;
use http::header::HeaderValue;
use http::request::Parts;

use super::people::{People, head};
use super::{Identities, Refused, only};
use crate::body::LegBody;
use crate::core::{Core, State};

impl Identities {
    /// Whether a question is also about a token that has expired.
    pub(super) fn asks_for_expired(&self, asked: &Parts) -> bool {
        self.profile.asks_for_expired(asked.uri.query().unwrap_or_default())
    }

    /// Whether another site asks in a token's own name about it, also if it has expired.
    fn asks_of_itself(&self, service: &str, asked: &Parts) -> bool {
        let token = |name| only(&asked.headers, name);
        self.is_validation(service, asked)
            && self.asks_for_expired(asked)
            && token(&self.asker).is_some_and(|asker| Some(asker) == token(&self.subject))
    }
}

/// Has a question of another site about a token that may have expired asked by this site's login. Whoever asks has the
/// token; what was revoked, and what expired too long ago, is refused all the same.
pub(crate) async fn vouch(core: &Core, state: &State, service: &str, asked: &mut Parts) {
    let Some(identities) = &core.shared.identities else { return };
    if !identities.asks_of_itself(service, asked) {
        return;
    }
    if let Some(people) = People::of(core, state)
        && let Ok(session) = Box::pin(people.own_session()).await
    {
        asked.headers.insert(identities.asker.clone(), session.token);
    }
}

impl People<'_> {
    /// Whether this site's identity service lets somebody validate tokens of others: it is asked about this site's login.
    pub(super) async fn may_validate(&self, asker: Option<&HeaderValue>) -> Result<(), Refused> {
        let no = || Refused::NotValid("whoever asks may not ask about tokens that have expired".to_owned());
        let asker = asker.ok_or_else(no)?;
        let (identities, session) = (self.identities(), self.own_session().await?);
        let mut head = head(Method::GET, &self.validation_path())?;
        for (name, token) in [(&identities.asker, asker), (&identities.subject, &session.token)] {
            let mut token = token.clone();
            token.set_sensitive(true);
            head.headers.insert(name.clone(), token);
        }
        let (answer, _) = self.ask(head, LegBody::Empty).await?;
        match answer.status() {
            StatusCode::OK => Ok(()),
            status if status.is_server_error() => {
                Err(Refused::Unavailable(format!("this site's identity service answers {}", status.as_u16())))
            }
            _ => Err(no()),
        }
    }
}
