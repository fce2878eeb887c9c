//! A client's request, as it is sent.

use serde_json::{Value, json};

use super::Sea;
use crate::client::{Asked, Sent};
use crate::content;
use crate::isle::NAMES;
use crate::membership::{self, ZONE};
use crate::schedule::{Act, Ask, Level, zone_members};

impl Sea {
    /// Where what is asked for is, and at which level.
    pub(super) fn whereabouts(&self, ask: &Ask) -> (Vec<usize>, Level) {
        match &ask.act {
            Act::Create { zone: Some(_), level, .. } => {
                let zone = self.isles[ask.site].view().and_then(|view| membership::zone_of(&view));
                (zone.unwrap_or_else(|| zone_members(0, self.isles.len())), *level)
            }
            Act::Create { members, level, .. } => (members.clone(), *level),
            Act::Add { of }
            | Act::Patch { of, .. }
            | Act::Put { of }
            | Act::Delete { of }
            | Act::Upload { of, .. }
            | Act::Fetch { of }
            | Act::Read { of } => {
                let (mut members, level) =
                    self.made.get(of).cloned().unwrap_or((Vec::new(), Level::Eventual));
                members.extend(self.added_to(*of));
                (members, level)
            }
            Act::List { sites } | Act::Forward { sites, .. } => (sites.clone(), Level::Eventual),
            Act::Local => (Vec::new(), Level::Eventual),
        }
    }

    /// The request, unless what it is about is not known.
    pub(super) fn request(&self, ask: &Ask, members: &[usize], level: Level) -> Option<Asked> {
        let by = format!("w{}", ask.number);
        let group = |sites: &[usize], operator: &str| {
            sites.iter().map(|member| NAMES[*member]).collect::<Vec<_>>().join(operator)
        };
        let of = |of: usize| self.ids.borrow().get(&of).cloned();
        let asked = |method, path: String, scope: String, body: Option<Value>| {
            let body = body.map_or(Sent::Nothing, Sent::Document);
            Some(Asked { site: ask.site, method, path, scope, body })
        };
        // A site that never had a replica does not know it: its clients say where it is.
        let away = if members.contains(&ask.site) { String::new() } else { group(members, " | ") };
        let image = |number| of(number).map(|id| format!("/images/{id}"));
        // By every service, or by that of the site that is asked: then others would execute it.
        let refusing =
            if ask.number.is_multiple_of(2) { Value::Bool(true) } else { Value::from(NAMES[ask.site]) };
        match ask.act {
            Act::Create { zone, refused, .. } => {
                let mut body = json!({ "made": by, "name": by });
                if refused {
                    body["refuse"] = refusing;
                }
                let sites =
                    if zone.is_some() { ZONE.to_owned() } else { format!("({})", group(members, " & ")) };
                asked("POST", format!("/images?by={by}"), format!("{sites}{}", level.suffix()), Some(body))
            }
            Act::Add { of } => {
                asked("POST", format!("{}/add?by={by}", image(of)?), away, Some(json!({ "value": by })))
            }
            Act::Patch { of, refused } => {
                let body =
                    if refused { json!({ "name": by, "refuse": refusing }) } else { json!({ "name": by }) };
                asked("PATCH", format!("{}?by={by}", image(of)?), away, Some(body))
            }
            Act::Put { of } => {
                let body = json!({ "made": format!("w{of}"), "name": by });
                asked("PUT", format!("{}?by={by}", image(of)?), away, Some(body))
            }
            Act::Delete { of } => asked("DELETE", format!("{}?by={by}", image(of)?), away, None),
            Act::Upload { of, bytes, breaks_off } => {
                let path = format!("{}/file?by={by}", image(of)?);
                let body = Sent::File { bytes: content::make(ask.number, bytes), breaks_off };
                Some(Asked { site: ask.site, method: "PUT", path, scope: away, body })
            }
            Act::Fetch { of } => asked("GET", format!("{}/file", image(of)?), away, None),
            Act::Read { of } => {
                let confirmed = format!("({}) @quorum", group(members, " & "));
                let scope = if level == Level::Quorum { confirmed } else { away };
                asked("GET", image(of)?, scope, None)
            }
            Act::Local => asked("GET", "/images".to_owned(), String::new(), None),
            Act::List { ref sites } => asked("GET", "/images".to_owned(), group(sites, " & "), None),
            Act::Forward { ref sites, in_order } => {
                let scope = group(sites, if in_order { " ; " } else { " | " });
                let body = json!({ "made": by, "name": by });
                asked("POST", format!("/images?by={by}"), scope, Some(body))
            }
        }
    }
}
