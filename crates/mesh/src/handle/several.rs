//! A request for several sites, or for what is confirmed by several.

use std::rc::Rc;

use http::request::Parts;
use http::{Method, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use profile::Settles;
use scope::Plan;

use super::{SETTLE, Walk};
use crate::body::{AnswerBody, Tape};
use crate::dispatch::{Bodies, Dispatch};
use crate::inflow::{Incoming, Live};
use crate::leg::Carried;
use crate::merging::{self, Asking, Combine};
use crate::problem::Problem;
use crate::replicas::walk;
use crate::replicas::{Replicas, owned, reading};

/// What a request wants beside its scope.
pub(super) struct Wishes {
    pub(super) strict: Option<bool>,
    pub(super) settle: Option<Settle>,
}

/// A write whose outcome is waited for.
pub(super) struct Settle {
    rule: Rc<Settles>,
    /// By the request itself.
    asked: bool,
}

impl Walk {
    /// How what this request makes is waited for, if it can be, and is to be.
    pub(super) fn settle(&self, head: &mut Parts) -> Option<Settle> {
        let settings = self.state.settings();
        let asked = head.headers.remove(SETTLE).map(|asked| asked.as_bytes().eq_ignore_ascii_case(b"true"));
        let own = settings.services.get(&self.service.name).is_some_and(|own| own.settle);
        if !asked.unwrap_or(own) || self.switch.is_some() {
            return None;
        }
        let rule = settings.profile.settles(&self.service.name, head.method.as_str(), head.uri.path())?;
        Some(Settle { rule: Rc::new(rule.clone()), asked: asked.is_some() })
    }

    pub(super) async fn several(
        &mut self,
        plan: &Plan,
        head: Box<Parts>,
        body: Incoming,
        carried: Carried,
        wishes: Wishes,
    ) -> Response<AnswerBody> {
        // Whichever answers: nobody says which.
        self.issuer = None;
        let settings = self.state.settings();
        let limits = &settings.limits;
        if matches!(head.method, Method::GET | Method::HEAD)
            && let Some((level, sites)) = plan::confirms(plan)
            && !settings.profile.kinds.items(&self.service.name, head.uri.path()).is_empty()
        {
            let body = self.live(body);
            let confirmed = reading::confirmed(self.at(Some(&carried)), head, body, level, &sites);
            // Boxed: other reads keep no room for it.
            let answer = Box::pin(confirmed).await;
            return answer.unwrap_or_else(|failure| failure.into_problem(&self.service.name).into_response());
        }
        let own = settings.services.get(&self.service.name);
        let strict = wishes.strict.unwrap_or(own.is_some_and(|own| own.strict));
        let tls = own.is_some_and(|own| own.tls.is_some());
        let owner = owned::owner_of_items(self.at(Some(&carried)), &head).await;
        let replicas = self.core.shared.replicas.as_ref().map(|replicas| (replicas, owner.as_deref()));
        let asked = Asking { tls, carry: &self.core.shared.carry };
        let combine = match Combine::of(plan, &settings.profile, &self.service.name, &head, replicas, asked) {
            Ok(combine) => combine,
            Err(problem) => return problem.into_response(),
        };
        let dry = settings.profile.is_dry_run(&self.service.name, head.uri.query());
        let request = match head.method {
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE => match &combine {
                Some(combine) => plan::Request::List { strict: strict && combine.is_known_list() },
                None => plan::Request::Read,
            },
            // It changes nothing: any of the sites can say what would be done.
            _ if dry => plan::Request::Read,
            ref method => plan::Request::Write { chosen_name: *method == Method::PUT },
        };
        if let plan::Request::Write { .. } = request
            && let Err(problem) = walk::check(self.at(Some(&carried)), &head, plan)
        {
            return problem.into_response();
        }
        let mut settle = wishes.settle.filter(|_| !dry);
        let body = if body.is_end_stream() {
            Bodies::Known(bytes::Bytes::new())
        } else if settle.is_some() || !matches!(request, plan::Request::Write { .. }) {
            match self.collected(body, limits.replay_bytes).await {
                Ok(bytes) => Bodies::Known(bytes),
                Err(problem) => return problem.into_response(),
            }
        } else {
            Bodies::Taped(Tape::new(
                Live::new(body, self.state.settings().timeouts.body_idle),
                limits.replay_bytes,
            ))
        };
        if let (Some(wish), Bodies::Known(bytes)) = (&settle, &body)
            && wish.rule.makes_several(bytes)
        {
            if wish.asked {
                return not_one().into_response();
            }
            settle = None;
        }
        let settle = settle.map(|wish| wish.rule);
        let (core, state, service) =
            (Rc::clone(&self.core), Rc::clone(&self.state), Rc::clone(&self.service));
        let list = merging::list_of_several(plan, &settings.profile, &self.service.name, &head);
        let recorded = self.may_be_recorded(&head).filter(|_| matches!(request, plan::Request::Write { .. }));
        let dispatch =
            Dispatch { core, state, service, head, body, carried, combine, strict, settle, recorded };
        let mut response = dispatch.run(plan, request).await;
        if let Some(list) = list.filter(|_| response.status().is_success()) {
            merging::drop_own(&list, response.headers_mut());
        }
        response
    }

    /// The way to the keeper, where another site may have a replicated resource of the name that a write has.
    pub(super) fn may_be_recorded(&self, head: &Parts) -> Option<Replicas> {
        let kinds = &self.state.settings().profile.kinds;
        let replicas = self.core.shared.replicas.as_ref()?;
        let is_one = !kinds.items(&self.service.name, head.uri.path()).is_empty();
        is_one.then(|| replicas.clone())
    }

    /// A read with a body may go to several sites at once, and what a write makes may have to be made again: it has to
    /// be there as a whole.
    async fn collected(&self, body: Incoming, most: usize) -> Result<bytes::Bytes, Problem> {
        match Limited::new(self.live(body), most).collect().await {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => Err(Problem::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "body-too-long",
                "The body is too long to be sent to several sites",
            )
            .detail(format!("at most {most} bytes can be"))
            .unsent()),
            Err(error) => Err(Problem::new(StatusCode::BAD_REQUEST, "bad-body", "The body cannot be read")
                .detail(error.to_string())
                .unsent()),
        }
    }
}

/// A request that makes several things cannot be waited for.
fn not_one() -> Problem {
    let title = "The outcome of this request cannot be waited for";
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-settled", title)
        .detail("it makes several things at once; send one request for each, or none with `X-Scope-Settle`")
        .unsent()
}
