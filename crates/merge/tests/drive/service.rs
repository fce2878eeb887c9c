//! A modelled service, which tells its items in pages.

use std::collections::BTreeMap;

use profile::{List, Profile};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Answer, Outcome, openstack, rest};

/// How a modelled service tells its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Glance.
    Member,
    /// Nova.
    Links,
    /// Kubernetes: a token that counts items, and no marker.
    Token,
    /// An array, with a header.
    Header,
    /// Nothing tells: a full page may be followed by another.
    Guess,
}

pub(crate) fn list(form: Form) -> List {
    match form {
        Form::Member => openstack("image", "/v2/images"),
        Form::Links => {
            let mut list = openstack("network", "/v2.0/networks");
            list.items = Some("images".to_owned());
            list
        }
        Form::Token => {
            let text = "description = 'k'\n[lists]\nid = 'id'\nitems = 'images'\nsort = { combined = 'sort' }\n\
                        [lists.paging]\nmarker = 'continue'\nnext = [{ token = 'metadata.continue' }]";
            Profile::read(text).unwrap().lists.of("api", "/api").unwrap()
        }
        Form::Header | Form::Guess => rest(),
    }
}

/// A site: its items in its own order, and the most it tells at once.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    pub(crate) items: Vec<Value>,
    pub(crate) cap: usize,
}

/// The answer of a site to a query, as a service of that form gives it.
pub(crate) fn answer(site: &Site, query: &str, form: Form) -> Answer {
    let pairs: BTreeMap<&str, &str> = query.split('&').filter_map(|pair| pair.split_once('=')).collect();
    let limit = pairs.get("limit").map_or(usize::MAX, |limit| limit.parse().unwrap());
    // A service that tells nothing of more must not cap what it tells.
    // Kubernetes takes none for no limit.
    let limit = if form == Form::Token && limit == 0 { usize::MAX } else { limit };
    let limit = if form == Form::Guess { limit } else { limit.min(site.cap) };
    let start = match (pairs.get("marker"), pairs.get("continue")) {
        (Some(marker), _) => {
            1 + site.items.iter().position(|item| item["id"] == **marker).expect("its own marker")
        }
        (_, Some(token)) => token.strip_prefix('t').unwrap().parse().unwrap(),
        _ => 0,
    };
    let end = start.saturating_add(limit).min(site.items.len());
    let items = &site.items[start..end];
    let more = end < site.items.len();
    let last = items.last().map_or(String::new(), |item| item["id"].as_str().unwrap().to_owned());
    let url = format!("/things?limit={limit}&marker={last}");
    let mut body = json!({ "images": items });
    match form {
        Form::Member if more => body["next"] = json!(url),
        Form::Links if more => {
            body["images_links"] = json!([{ "rel": "next", "href": format!("http://x{url}") }]);
        }
        Form::Token => {
            body["metadata"] = json!({ "continue": if more { format!("t{end}") } else { String::new() } });
        }
        Form::Header if more => {
            return Answer::Linked(json!(items).to_string().into_bytes(), format!("<{url}>; rel=\"next\""));
        }
        Form::Header => return Answer::Body(json!(items).to_string().into_bytes()),
        _ => {}
    }
    Answer::Body(body.to_string().into_bytes())
}

/// The query of the next page, as the answer tells it.
pub(crate) fn next(outcome: &Outcome, form: Form) -> Option<String> {
    let json = outcome.json();
    let url = match form {
        Form::Member | Form::Guess => json.get("next")?.as_str()?.to_owned(),
        Form::Links => json.get("images_links")?[0]["href"].as_str()?.to_owned(),
        Form::Header => {
            let header = outcome.header.clone()?;
            header.strip_prefix('<')?.strip_suffix(">; rel=\"next\"")?.to_owned()
        }
        Form::Token => {
            let token = json["metadata"]["continue"].as_str()?;
            return Some(format!("continue={token}"));
        }
    };
    Some(url.split_once('?').unwrap().1.to_owned())
}

pub(crate) fn forms() -> impl Strategy<Value = Form> {
    prop_oneof![
        Just(Form::Member),
        Just(Form::Links),
        Just(Form::Token),
        Just(Form::Header),
        Just(Form::Guess)
    ]
}

/// How a request of that form asks for an order by name.
pub(crate) fn by_name(form: Form) -> &'static str {
    match form {
        Form::Links => "&sort_key=name&sort_dir=asc",
        _ => "&sort=name:asc",
    }
}
