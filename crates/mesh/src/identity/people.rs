//! The users, projects and roles of this site: asked of its own identity service, with this site's login. Nothing but
//! the login is remembered, and that in memory only.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue};
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use profile::Lookup;
use serde_json::Value;
use tokio::time::timeout;

use super::template::{self, Names};
use super::translate::{self, Bearer, Known, Local};
use super::{Identities, Refused, now};
use crate::body::{AnswerBody, LegBody};
use crate::core::{Core, ServiceState, State};
use crate::leg;
use crate::settings::{Login, Named, Tokens};

/// The longest answer that is read. Catalogs of large sites have a few hundred kilobytes.
pub(super) const LONGEST_ANSWER: usize = 1 << 20;

/// A login is not used in its last seconds: what is sent with it takes a while.
const SPARE_S: u64 = 30;
/// How long a login is used whose end is not said.
const UNTOLD_S: u64 = 300;
/// Projects that this site is logged in to, at most.
const MOST_LOGINS: usize = 1024;

/// What this site is logged in with, for each project.
#[derive(Default)]
pub(crate) struct Logins(Mutex<HashMap<(Named, Named), Session>>);

/// A login.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) token: HeaderValue,
    /// The id of its project.
    project: String,
    /// In seconds since 1970.
    until: u64,
}

impl Logins {
    fn get(&self, key: &(Named, Named)) -> Option<Session> {
        let logins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logins.get(key).filter(|session| now().saturating_add(SPARE_S) < session.until).cloned()
    }

    fn put(&self, key: (Named, Named), session: Session) {
        let mut logins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if logins.len() >= MOST_LOGINS {
            logins.clear();
        }
        logins.insert(key, session);
    }

    /// A token was refused.
    pub(super) fn forget(&self, token: &HeaderValue) {
        let mut logins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logins.retain(|_, session| session.token != token);
    }
}

/// This site's identity service, and who asks it.
pub(crate) struct People<'a> {
    core: &'a Core,
    state: &'a State,
    identities: &'a Identities,
    tokens: &'a Tokens,
    login: &'a Login,
    service: Rc<ServiceState>,
}

impl<'a> People<'a> {
    /// None where this site has no identity service, or no login there.
    pub(crate) fn of(core: &'a Core, state: &'a State) -> Option<People<'a>> {
        let identities = core.shared.identities.as_ref()?;
        let tokens = state.settings().tokens.as_ref()?;
        let service = state.service(&identities.profile.service)?;
        Some(People { core, state, identities, login: tokens.login.as_ref()?, tokens, service })
    }

    /// A user of another site in a project of this one, as this site knows them.
    pub(super) async fn local(&self, bearer: &Bearer, project: &Named) -> Result<Local, Refused> {
        let find = &self.identities.profile.find;
        let (user_domain, project_domain) = if bearer.user.domain == project.domain {
            let domain = self.domain(&project.domain).await?;
            (domain.clone(), domain)
        } else {
            tokio::try_join!(self.domain(&bearer.user.domain), self.domain(&project.domain))?
        };
        let (user, project) = tokio::try_join!(
            self.known("user", &find.user, &bearer.user, user_domain),
            self.known("project", &find.project, project, project_domain)
        )?;
        let (roles, catalog) =
            tokio::try_join!(self.roles(&user, &project), self.catalog(bearer.with_catalog, &project))?;
        Ok(Local { user, project, roles, catalog })
    }

    /// The id of a user here.
    pub(super) async fn id(&self, user: &Named) -> Result<String, Refused> {
        let domain = self.domain(&user.domain).await?;
        let found = self.known("user", &self.identities.profile.find.user, user, domain).await?;
        Ok(found.id)
    }

    /// The same, if the user has a role in this project.
    pub(super) async fn id_in(&self, user: &Named, project: &Named) -> Result<String, Refused> {
        let bearer =
            Bearer { user: user.clone(), project: project.clone(), roles: Vec::new(), with_catalog: false };
        self.local(&bearer, project).await.map(|local| local.user.id)
    }

    async fn domain(&self, name: &str) -> Result<String, Refused> {
        let found = self.find(&self.identities.profile.find.domain, &Names::from([("name", name)])).await?;
        the_one(&found).ok_or_else(|| Refused::NotValid(format!("this site has no enabled domain `{name}`")))
    }

    async fn known(
        &self,
        what: &str,
        lookup: &Lookup,
        own: &Named,
        domain_id: String,
    ) -> Result<Known, Refused> {
        let names = Names::from([("name", own.name.as_str()), ("domain", domain_id.as_str())]);
        let found = self.find(lookup, &names).await?;
        let id = the_one(&found)
            .ok_or_else(|| Refused::NotValid(format!("this site has no enabled {what} `{own}`")))?;
        Ok(Known { id, domain_id, named: own.clone() })
    }

    async fn roles(&self, user: &Known, project: &Known) -> Result<Vec<Value>, Refused> {
        let names = Names::from([("user", user.id.as_str()), ("project", project.id.as_str())]);
        let mut roles = self.find(&self.identities.profile.find.roles, &names).await?;
        let mut seen = Vec::new();
        // By several ways, such as two groups, one has a role more than once.
        roles.retain(|role| {
            let new = !seen.contains(role);
            seen.push(role.clone());
            new
        });
        if roles.is_empty() {
            let why = format!("`{}` has no role in `{}` at this site", user.named, project.named);
            return Err(Refused::NotValid(why));
        }
        Ok(roles)
    }

    async fn catalog(&self, wanted: bool, project: &Known) -> Result<Option<Value>, Refused> {
        if !wanted {
            return Ok(None);
        }
        let items = self.find(&self.identities.profile.find.catalog, &Names::new()).await?;
        let asked = self.session(&self.login.project).await?.project;
        let mut catalog = Value::from(items);
        translate::for_project(&mut catalog, &asked, &project.id);
        Ok(Some(catalog))
    }

    async fn find(&self, lookup: &Lookup, names: &Names<'_>) -> Result<Vec<Value>, Refused> {
        let path = format!("{}{}", self.tokens.prefix, template::path(&lookup.path, names));
        let answer = self.get(&path).await?;
        let unread = || Refused::Unavailable(format!("`{}` was not answered with a list", lookup.path));
        translate::items(lookup, &answer, names).ok_or_else(unread)
    }

    /// Asks with this site's login; and once more, with a new one, where that has ended.
    async fn get(&self, path: &str) -> Result<Value, Refused> {
        let mut again = true;
        loop {
            let session = self.session(&self.login.project).await?;
            let mut head = head(Method::GET, path)?;
            head.headers.insert(self.identities.asker.clone(), session.token.clone());
            let (status, answer) = self.ask(head, LegBody::Empty).await?;
            if status.status() == StatusCode::UNAUTHORIZED && again {
                self.identities.logins.forget(&session.token);
                again = false;
                continue;
            }
            if status.status() != StatusCode::OK {
                let path = path.split('?').next().unwrap_or_default();
                let why = format!("this site's login is answered {} at `{path}`", status.status().as_u16());
                return Err(Refused::Unavailable(why));
            }
            return serde_json::from_slice(&answer).map_err(|_| {
                Refused::Unavailable("this site's identity service did not answer with JSON".to_owned())
            });
        }
    }

    /// This site's login for its own project.
    pub(super) async fn own_session(&self) -> Result<Session, Refused> {
        self.session(&self.login.project).await
    }

    pub(super) fn identities(&self) -> &Identities {
        self.identities
    }

    /// Where this site's own service is asked about tokens.
    pub(super) fn validation_path(&self) -> String {
        format!("{}{}", self.tokens.prefix, self.identities.profile.validate.ask)
    }

    /// This site's login for one of its projects.
    pub(crate) async fn session(&self, project: &Named) -> Result<Session, Refused> {
        let key = (self.login.user.clone(), project.clone());
        if let Some(session) = self.identities.logins.get(&key) {
            return Ok(session);
        }
        let issue = &self.identities.profile.issue;
        let names = Names::from([
            ("user", self.login.user.name.as_str()),
            ("user_domain", self.login.user.domain.as_str()),
            ("project", project.name.as_str()),
            ("project_domain", project.domain.as_str()),
            ("password", self.login.password.as_str()),
        ]);
        let body = template::document(&issue.body, &names).to_string();
        let mut head = head(Method::POST, &format!("{}{}", self.tokens.prefix, issue.login))?;
        head.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let (answer, body) = self.ask(head, LegBody::Full(body.into())).await?;
        let refused = |what: &str| {
            Refused::Unavailable(format!("this site's login `{}` for `{project}` {what}", self.login.user))
        };
        if !answer.status().is_success() {
            return Err(refused(&format!("is answered {}", answer.status().as_u16())));
        }
        let mut token =
            answer.headers().get(&self.identities.issued).cloned().ok_or_else(|| refused("gets no token"))?;
        token.set_sensitive(true);
        let said: Value = serde_json::from_slice(&body).map_err(|_| refused("is not answered with JSON"))?;
        let id = said.pointer(&self.identities.profile.says.project.id).and_then(Value::as_str);
        let id = id.filter(|id| !id.is_empty()).ok_or_else(|| refused("is for no project"))?.to_owned();
        let until = translate::expires(&self.identities.profile, &said);
        let until = until.unwrap_or_else(|| now().saturating_add(UNTOLD_S));
        let session = Session { token, project: id, until };
        self.identities.ledger.issued_here(self.identities.ledger.mark(session.token.as_bytes()), now());
        self.identities.logins.put(key, session.clone());
        Ok(session)
    }

    pub(super) async fn ask(
        &self,
        head: Box<Parts>,
        body: LegBody,
    ) -> Result<(Response<()>, Bytes), Refused> {
        let answer = leg::local(self.core, self.state, &self.service, head, body, None, None).await;
        let answer = answer.map_err(|failure| {
            Refused::Unavailable(format!("this site's identity service: {}", failure.detail))
        })?;
        whole(answer, self.state.settings().timeouts.response).await
    }
}

/// The id of the one thing that was found.
fn the_one(found: &[Value]) -> Option<String> {
    match found {
        [one] => one.get("id")?.as_str().map(str::to_owned),
        _ => None,
    }
}

/// The head of a request of Archipel's own.
pub(super) fn head(method: Method, target: &str) -> Result<Box<Parts>, Refused> {
    let (mut head, ()) = Request::new(()).into_parts();
    head.method = method;
    head.uri = target.parse().map_err(|_| Refused::NotValid("a name in it fits in no address".to_owned()))?;
    head.headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    head.headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    Ok(Box::new(head))
}

/// An answer as a whole, if it is of a size and in time.
pub(super) async fn whole(
    answer: Response<AnswerBody>,
    patience: std::time::Duration,
) -> Result<(Response<()>, Bytes), Refused> {
    let (head, body) = answer.into_parts();
    let body = timeout(patience, Limited::new(body, LONGEST_ANSWER).collect()).await;
    let body = body.map_err(|_| Refused::Unavailable("the answer did not end in time".to_owned()))?;
    let body = body.map_err(|error| {
        if error.is::<LengthLimitError>() {
            Refused::NotValid("the answer is too long".to_owned())
        } else {
            Refused::Unavailable("the answer is cut off".to_owned())
        }
    })?;
    Ok((Response::from_parts(head, ()), body.to_bytes()))
}
