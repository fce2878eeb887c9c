//! From what the issuer of a token says of it to what this site says of it. Pure: documents in, documents out.
//!
//! The issuer says who somebody is, and in which project; never what they may do here. The answer is made anew: what
//! is not known to be true at any site is not in it.

use profile::{Identity, Says};
use serde_json::Value;

use super::template::{self, Names};
use crate::settings::Named;

/// Names that are longer than this are nobody's.
const LONGEST_NAME: usize = 255;

/// Whom a token is of, as its issuer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bearer {
    pub(crate) user: Named,
    pub(crate) project: Named,
    /// The names of the roles there. They mean nothing here.
    pub(crate) roles: Vec<String>,
    /// Whether the answer says where services are.
    pub(super) with_catalog: bool,
}

/// The same user, in the same project, as this site knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Local {
    pub(super) user: Known,
    pub(super) project: Known,
    /// What this site lets the user do there.
    pub(super) roles: Vec<Value>,
    pub(super) catalog: Option<Value>,
}

/// As the issuer of its own tokens would say it.
impl From<Local> for Bearer {
    fn from(local: Local) -> Bearer {
        let name = |role: &Value| role.get("name").and_then(Value::as_str).map(str::to_owned);
        let roles = local.roles.iter().filter_map(name).collect();
        Bearer { user: local.user.named, project: local.project.named, roles, with_catalog: false }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) id: String,
    pub(super) domain_id: String,
    pub(super) named: Named,
}

/// Reads whom a token is of. The error says why no other site can honour it.
pub(super) fn bearer(says: &Says, answer: &Value) -> Result<Bearer, String> {
    if let Some(pointer) = says.refuse.iter().find(|pointer| is_said(answer.pointer(pointer))) {
        return Err(format!("it has `{pointer}`, which only its issuer can keep to"));
    }
    let text = |pointer: &str| {
        let text = answer.pointer(pointer).and_then(Value::as_str);
        let text = text.filter(|text| (1..=LONGEST_NAME).contains(&text.len()));
        text.map(str::to_owned).ok_or_else(|| format!("its issuer's answer has no `{pointer}`"))
    };
    let named = |own: &profile::Owned| {
        Ok::<_, String>(Named { domain: text(&own.domain_name)?, name: text(&own.name)? })
    };
    let roles = answer.pointer(&says.roles).and_then(Value::as_array);
    let name = |role: &Value| role.pointer("/name").and_then(Value::as_str).map(str::to_owned);
    Ok(Bearer {
        user: named(&says.user)?,
        project: named(&says.project)?,
        roles: roles.map(|roles| roles.iter().filter_map(name).collect()).unwrap_or_default(),
        with_catalog: is_said(answer.pointer(&says.catalog)),
    })
}

fn is_said(value: Option<&Value>) -> bool {
    !matches!(value, None | Some(Value::Null | Value::Bool(false)))
}

/// The answer for this site's services.
pub(super) fn answer(says: &Says, issuers: &Value, local: Local) -> Value {
    let mut made = Value::Null;
    for pointer in &says.keep {
        if let Some(value) = issuers.pointer(pointer) {
            template::set(&mut made, pointer, value.clone());
        }
    }
    for (pointer, value) in &says.set {
        template::set(&mut made, pointer, template::document(value, &Names::new()));
    }
    for (own, known) in [(&says.user, local.user), (&says.project, local.project)] {
        let Known { id, domain_id, named: Named { domain, name } } = known;
        for (pointer, text) in
            [(&own.id, id), (&own.name, name), (&own.domain_id, domain_id), (&own.domain_name, domain)]
        {
            template::set(&mut made, pointer, text.into());
        }
    }
    template::set(&mut made, &says.roles, local.roles.into());
    if let Some(catalog) = local.catalog {
        template::set(&mut made, &says.catalog, catalog);
    }
    made
}

/// The items of an answer to a lookup that count, each with what is taken of it.
pub(super) fn items(lookup: &profile::Lookup, answer: &Value, names: &Names<'_>) -> Option<Vec<Value>> {
    let items = answer.pointer(&lookup.items)?.as_array()?;
    let counts = |item: &&Value| {
        let is = |(pointer, wanted): (&String, &profile::Template)| {
            item.pointer(pointer) == Some(&template::document(wanted, names))
        };
        lookup.only.iter().all(is)
    };
    let taken = |item: &Value| {
        if lookup.take.is_empty() {
            return Some(item.clone());
        }
        let mut taken = Value::Object(serde_json::Map::new());
        for (name, pointer) in &lookup.take {
            let text = item.pointer(pointer)?.as_str().filter(|text| !text.is_empty())?;
            template::set(&mut taken, &format!("/{name}"), text.into());
        }
        Some(taken)
    };
    items.iter().filter(counts).map(taken).collect()
}

/// A site's catalog as another project than the one that asked for it sees it: addresses may have its id in them.
pub(super) fn for_project(catalog: &mut Value, asked: &str, project: &str) {
    match catalog {
        Value::String(text) if text.contains(asked) => *text = text.replace(asked, project),
        Value::Array(items) => items.iter_mut().for_each(|item| for_project(item, asked, project)),
        Value::Object(members) => members.values_mut().for_each(|item| for_project(item, asked, project)),
        _ => {}
    }
}

/// Until when a token is valid, in seconds since 1970: `2026-11-16T06:00:00.000000Z`.
pub(super) fn expires(identity: &Identity, answer: &Value) -> Option<u64> {
    let text = answer.pointer(&identity.says.expires)?.as_str()?;
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers =
        |text: &str, by| text.split(by).map(|part| part.parse::<i64>().ok()).collect::<Option<Vec<_>>>();
    let [year, month, day] = numbers(date, '-')?.try_into().ok()?;
    let [hour, minute, second] = numbers(time.split('.').next()?, ':')?.try_into().ok()?;
    let fits = (1970..10_000).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    if !fits || !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..=60).contains(&second) {
        return None;
    }
    // Days since 1970, with years that begin in March: a leap day is then the last of its year.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year / 4 - year / 100 + year / 400;
    let days = 365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468;
    u64::try_from(((days * 24 + hour) * 60 + minute) * 60 + second).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn identity() -> Identity {
        *profile::Profile::named("openstack").unwrap().identity.unwrap()
    }

    fn token() -> Value {
        json!({ "token": {
            "methods": ["password"], "expires_at": "2026-11-16T06:00:00.000000Z", "audit_ids": ["x"],
            "user": { "id": "u1", "name": "alice", "domain": { "id": "default", "name": "Default" } },
            "project": { "id": "p1", "name": "demo", "domain": { "id": "default", "name": "Default" } },
            "roles": [{ "id": "r1", "name": "admin" }], "is_domain": false, "system": null,
            "catalog": [{ "type": "image" }], "something": "new",
        }})
    }

    #[test]
    fn only_what_is_true_anywhere_is_kept_of_the_issuers_answer() {
        let says = identity().says;
        let known = |id: &str, name: &str| Known {
            id: id.into(),
            domain_id: "d2".into(),
            named: Named { domain: "Default".into(), name: name.into() },
        };
        let local = Local {
            user: known("u2", "alice"),
            project: known("p2", "demo"),
            roles: vec![json!({ "id": "r2", "name": "reader" })],
            catalog: None,
        };
        let domain = json!({ "id": "d2", "name": "Default" });
        assert_eq!(
            answer(&says, &token(), local),
            json!({ "token": {
                "methods": ["password"], "expires_at": "2026-11-16T06:00:00.000000Z", "audit_ids": ["x"],
                "is_admin_project": false,
                "user": { "id": "u2", "name": "alice", "domain": domain },
                "project": { "id": "p2", "name": "demo", "domain": domain },
                "roles": [{ "id": "r2", "name": "reader" }],
            }})
        );
    }

    #[test]
    fn a_token_that_says_less_or_more_than_a_user_in_a_project_is_nobodys_elsewhere() {
        let says = identity().says;
        let own = bearer(&says, &token()).unwrap();
        assert_eq!(
            (own.user.name.as_str(), own.roles, own.with_catalog),
            ("alice", vec!["admin".to_owned()], true)
        );
        for (pointer, value) in [
            ("/token/system", json!({ "all": true })),
            ("/token/domain", json!({ "id": "default" })),
            ("/token/is_domain", true.into()),
            ("/token/OS-TRUST:trust", json!({ "id": "t" })),
            ("/token/application_credential", json!({ "restricted": true })),
            ("/token/project", Value::Null),
            ("/token/project/name", "".into()),
            ("/token/user/name", json!(["alice"])),
            ("/token/user/domain/name", "x".repeat(256).into()),
            ("/token", json!([])),
        ] {
            let mut other = token();
            template::set(&mut other, pointer, value);
            assert!(bearer(&says, &other).is_err(), "{pointer}");
        }
    }

    #[test]
    fn an_item_that_the_lookup_did_not_ask_for_does_not_count() {
        let find = identity().find;
        let names = Names::from([("user", "u"), ("project", "p")]);
        let given = |user: &str, project: &str, role: &str| json!({ "user": { "id": user }, "scope": { "project": { "id": project } }, "role": { "id": role, "name": role } });
        // A service that ignores the query tells of everybody.
        let all = json!({ "role_assignments": [given("u", "p", "reader"), given("v", "p", "admin"), given("u", "q", "admin")] });
        assert_eq!(items(&find.roles, &all, &names), Some(vec![json!({ "id": "reader", "name": "reader" })]));
        let names = Names::from([("name", "alice"), ("domain", "d")]);
        let users = |enabled: bool, name: &str| json!({ "users": [{ "id": "u", "name": name, "domain_id": "d", "enabled": enabled }] });
        assert_eq!(items(&find.user, &users(true, "alice"), &names).unwrap().len(), 1);
        assert_eq!(items(&find.user, &users(false, "alice"), &names), Some(vec![]), "disabled");
        assert_eq!(
            items(&find.user, &users(true, "ALICE"), &names),
            Some(vec![]),
            "databases may ignore case"
        );
        assert_eq!(items(&find.user, &json!({ "users": {} }), &names), None);
    }

    #[test]
    fn the_time_of_a_tokens_end_is_read() {
        let identity = identity();
        let at = |text: &str| expires(&identity, &json!({ "token": { "expires_at": text } }));
        assert_eq!(at("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(at("2024-02-29T12:34:56.789000Z"), Some(1_709_210_096));
        assert_eq!(at("2026-11-16T06:00:00.000000Z"), Some(1_794_808_800));
        for wrong in [
            "",
            "2026-11-16",
            "2026-13-16T06:00:00Z",
            "2026-11-16T06:00:00",
            "9999999999-1-1T0:0:0Z",
            "-1-1-1T0:0:0Z",
        ] {
            assert_eq!(at(wrong), None, "{wrong}");
        }
    }
}
