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
            | Act::Label { of, .. }
            | Act::Tags { of, .. }
            | Act::Spec { of, .. }
            | Act::Specs { of, .. }
            | Act::Hold { of, .. }
            | Act::Put { of }
            | Act::Delete { of }
            | Act::Protect { of }
            | Act::Upload { of, .. }
            | Act::Fetch { of }
            | Act::Read { of } => {
                let (mut members, level) =
                    self.made.get(of).cloned().unwrap_or((Vec::new(), Level::Eventual));
                members.extend(self.added_to(*of));
                (members, level)
            }
            Act::List { sites }
            | Act::Forward { sites, .. }
            | Act::DryRun { sites, .. }
            | Act::Exclusive { sites, .. } => (sites.clone(), Level::Eventual),
            Act::Local | Act::Make => (Vec::new(), Level::Eventual),
        }
    }

    /// The request, unless what it is about is not known.
    pub(super) fn request(&self, ask: &Ask, members: &[usize], level: Level) -> Option<Asked> {
        let by = format!("w{}", ask.number);
        let group = |sites: &[usize], operator: &str| {
            sites.iter().map(|member| NAMES[*member]).collect::<Vec<_>>().join(operator)
        };
        let (of, token) = (|of: usize| self.id_of(of), self.keys);
        let asked = |method, path: String, scope: String, body: Option<Value>| {
            let body = body.map_or(Sent::Nothing, Sent::Document);
            let hurry = self.hurries.get(&ask.number).filter(|_| !scope.is_empty());
            let scope = hurry.map_or_else(|| scope.clone(), |ms| format!("within({ms}ms, {scope})"));
            Some(Asked { site: ask.site, method, path, scope, body, token })
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
            Act::Label { .. }
            | Act::Tags { .. }
            | Act::Spec { .. }
            | Act::Specs { .. }
            | Act::Hold { .. } => {
                let (of, method, below, body) = partial(&ask.act, &by)?;
                asked(method, format!("{}{below}?by={by}", image(of)?), away, body)
            }
            Act::Put { of } => {
                let body = json!({ "made": format!("w{of}"), "name": by });
                asked("PUT", format!("{}?by={by}", image(of)?), away, Some(body))
            }
            Act::Protect { of } => {
                asked("PATCH", format!("{}?by={by}", image(of)?), away, Some(json!({ "protected": true })))
            }
            Act::Delete { of } => asked("DELETE", format!("{}?by={by}", image(of)?), away, None),
            Act::Upload { of, bytes, breaks_off } => {
                let path = format!("{}/file?by={by}", image(of)?);
                let body = Sent::File { bytes: content::make(ask.number, bytes), breaks_off };
                Some(Asked { site: ask.site, method: "PUT", path, scope: away, body, token })
            }
            Act::Fetch { of } => asked("GET", format!("{}/file", image(of)?), away, None),
            Act::Read { of } => {
                let confirmed = format!("({}) @quorum", group(members, " & "));
                let scope = if level == Level::Quorum { confirmed } else { away };
                asked("GET", image(of)?, scope, None)
            }
            Act::Local => asked("GET", "/images".to_owned(), String::new(), None),
            Act::Make => {
                let body = json!({ "made": by, "name": by });
                asked("POST", format!("/images?by={by}"), String::new(), Some(body))
            }
            Act::List { ref sites } => asked("GET", "/images".to_owned(), group(sites, " & "), None),
            Act::Forward { ref sites, in_order } => {
                let scope = group(sites, if in_order { " ; " } else { " | " });
                let body = json!({ "made": by, "name": by });
                asked("POST", format!("/images?by={by}"), scope, Some(body))
            }
            Act::DryRun { of: Some(of), .. } => {
                let path = format!("{}?dryRun=All&by={by}", image(of)?);
                asked("PATCH", path, away, Some(json!({ "name": by })))
            }
            Act::DryRun { of: None, ref sites } => {
                let path = format!("/images?dryRun=All&by={by}");
                asked("POST", path, format!("({})", group(sites, " & ")), Some(json!({ "made": by })))
            }
            Act::Exclusive { of, ref sites } => {
                let path = format!("/names/x{of}?by={by}");
                asked("PUT", path, group(sites, " ^ "), Some(json!({ "wants": by })))
            }
        }
    }
}

/// A write to some of an image: to which, by which method, at which path below it, and with what.
fn partial(act: &Act, by: &str) -> Option<(usize, &'static str, String, Option<Value>)> {
    let one = |on: bool| if on { "PUT" } else { "DELETE" };
    Some(match *act {
        Act::Label { of, label, on } => (of, one(on), format!("/labels/t{label}"), None),
        Act::Tags { of, ref labels } => {
            let tags: Vec<String> = labels.iter().map(|label| format!("t{label}")).collect();
            (of, "PATCH", String::new(), Some(json!({ "tags": tags })))
        }
        Act::Spec { of, name, on } => {
            let body = on.then(|| json!({ format!("k{name}"): by }));
            (of, one(on), format!("/specs/k{name}"), body)
        }
        Act::Specs { of, ref names } => {
            let specs = names.iter().map(|name| (format!("k{name}"), Value::from(by))).collect();
            (of, "POST", "/specs".to_owned(), Some(json!({ "specs": Value::Object(specs) })))
        }
        Act::Hold { of, ms } => (of, "PATCH", String::new(), Some(json!({ "held": ms }))),
        _ => return None,
    })
}
