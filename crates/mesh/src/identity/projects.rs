//! Requests that name a project by its id. A client knows the id that the site of its login has; here the project has
//! another, and it is looked up by its name, as for the token itself.

use http::request::Parts;
use serde_json::Value;

use super::people::People;
use super::translate::Bearer;
use super::validate::{accepted, at_home, at_issuer};
use super::{Identities, only};
use crate::core::{Core, State};

impl Identities {
    /// Whether a request may name a project by an id that another site gave it.
    pub(crate) fn names_foreign_project(&self, service: &str, head: &Parts) -> bool {
        self.may_name_foreign_project(service, head)
            && only(&head.headers, &self.asker).is_some_and(|token| self.issuer(token).is_some())
    }

    /// Whether it is for such a request to find out. On the way here nobody may have said yet who issued its token.
    pub(crate) fn may_name_foreign_project(&self, service: &str, head: &Parts) -> bool {
        self.profile.names_project(service, head.uri.path(), head.uri.query())
            && only(&head.headers, &self.asker).is_some()
    }

    /// Whether any request to a service may.
    pub(crate) fn may_name_projects(&self, service: &str) -> bool {
        self.profile.may_name_projects(service)
    }
}

/// Puts this site's id for the project of a token in the place of the one that its issuer has. Of no other project, and
/// of no token that this site does not honour: the service then says what it says of an id that it does not know.
pub(crate) async fn localize(core: &Core, state: &State, head: &mut Parts) {
    let Some((theirs, ours)) = ids(core, state, head).await else { return };
    if theirs == ours {
        return;
    }
    let put = |text: &str| if text == theirs { ours.clone() } else { text.to_owned() };
    let path: Vec<String> = head.uri.path().split('/').map(put).collect();
    let parameter = |pair: &str| match pair.split_once('=') {
        Some((name, value)) => format!("{name}={}", put(value)),
        None => pair.to_owned(),
    };
    let mut target = path.join("/");
    if let Some(query) = head.uri.query() {
        let query: Vec<String> = query.split('&').map(parameter).collect();
        target = format!("{target}?{}", query.join("&"));
    }
    if let Ok(uri) = target.parse() {
        head.uri = uri;
    }
}

/// The ids of a token's project: at its issuer, and here.
async fn ids(core: &Core, state: &State, head: &Parts) -> Option<(String, String)> {
    let identities = core.shared.identities.as_ref()?;
    let token = only(&head.headers, &identities.asker)?;
    let issuer = identities.issuer(token)?;
    let tokens = state.settings().tokens.as_ref()?;
    let accept = tokens.accept.get(&issuer)?;
    let people = People::of(core, state)?;
    let target = format!("{}{}", tokens.prefix, identities.profile.validate.ask);
    // As long as it is only said who issued it, this site's own service comes first.
    if !identities.is_proved(token) && at_home(core, state, identities, token, &target).await.is_ok() {
        identities.is_own(token);
        return None;
    }
    let (bearer, said) = at_issuer(core, state, identities, &issuer, token, &target).await.ok()?;
    let theirs = said.pointer(&identities.profile.says.project.id).and_then(Value::as_str)?.to_owned();
    let project = accepted(accept, &issuer, &bearer).ok()?;
    let local = people.local(&Bearer { with_catalog: false, ..bearer }, &project).await.ok()?;
    // An id that is no plain text would be another path.
    let plain = |id: &String| {
        !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    Some((theirs, local.project.id)).filter(|(theirs, ours)| plain(theirs) && plain(ours))
}
