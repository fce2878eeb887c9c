//! Sessions of several requests, such as an upload in parts: each lives at the site that began it, whatever the scopes of its
//! later requests say.
//!
//! A service answers the first request with the address of the next (`Location`). The profile says which addresses are such.
//! The mesh of the site of entry adds the answering site to their queries. It takes that out again when a client comes with the
//! address, and sends the request there. Nothing is remembered, so a restart loses no session.

use http::header::{HeaderValue, LOCATION};
use http::{Response, StatusCode};
use profile::Profile;
use scope::{Plan, Site};

use crate::carry::session;
use crate::problem::Problem;

/// The site whose answer a response is, where a plan chose it among several.
#[derive(Clone)]
pub(crate) struct AnsweredBy(pub(crate) Site);

/// Adds the site to the address of a session in an answer, so that later requests find it.
pub(crate) fn mark<B>(profile: &Profile, service: &str, plan: &Plan, response: &mut Response<B>) {
    let site = match plan {
        Plan::Site(site) => Some(site.clone()),
        _ => response.extensions_mut().remove().map(|AnsweredBy(site)| site),
    };
    let address = response.headers().get(LOCATION).and_then(|address| address.to_str().ok());
    let is_session = |path: &str| profile.is_session(service, path);
    let marked =
        site.zip(address).and_then(|(site, address)| session::mark(address, site.name(), is_session));
    if let Some(marked) = marked.and_then(|marked| HeaderValue::try_from(marked).ok()) {
        response.headers_mut().insert(LOCATION, marked);
    }
}

/// The plan of a request that begins a session: it begins at one site of a group. What comes of it is replicated afterwards.
pub(crate) fn at_one_site(plan: &Plan) -> Plan {
    let each = |plans: &[Plan]| plans.iter().map(at_one_site).collect::<Vec<_>>();
    match plan {
        Plan::Site(site) => Plan::Site(site.clone()),
        Plan::All(_, plans) | Plan::Any(plans) => {
            let mut flat = Vec::new();
            for plan in each(plans) {
                match plan {
                    Plan::Any(inner) => flat.extend(inner),
                    other => flat.push(other),
                }
            }
            let mut any: Vec<Plan> = Vec::new();
            for plan in flat {
                if !any.contains(&plan) {
                    any.push(plan);
                }
            }
            if any.len() == 1 { any.remove(0) } else { Plan::Any(any) }
        }
        Plan::One(plans) => Plan::One(each(plans)),
        Plan::Otherwise(plans) => Plan::Otherwise(each(plans)),
        Plan::Within(limit, plan) => Plan::Within(*limit, Box::new(at_one_site(plan))),
    }
}

/// The site that began a session is none any more: its client begins anew.
pub(crate) fn lost(site: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "session-lost", "The site that began this session is not known here")
        .detail(format!("`{site}` is no site; begin the session anew"))
        .unsent()
}

#[cfg(test)]
mod tests {
    use scope::Level;

    use super::*;

    #[test]
    fn a_session_begins_at_one_site_of_a_group() {
        let site = |name: &str| Plan::Site(Site::new(name).unwrap());
        let (a, b, c) = (site("A"), site("B"), site("C"));
        let all = |plans: &[&Plan]| Plan::All(Level::Quorum, plans.iter().copied().cloned().collect());
        let any = |plans: &[&Plan]| Plan::Any(plans.iter().copied().cloned().collect());
        for (plan, is) in [
            (a.clone(), a.clone()),
            (all(&[&a, &b]), any(&[&a, &b])),
            (all(&[&any(&[&b, &a]), &c]), any(&[&b, &a, &c])),
            (all(&[&any(&[&a, &b]), &a]), any(&[&a, &b])),
            (Plan::Otherwise(vec![all(&[&a, &b]), c.clone()]), Plan::Otherwise(vec![any(&[&a, &b]), c])),
        ] {
            assert_eq!(at_one_site(&plan), is, "{plan:?}");
        }
    }
}
