//! A service that issues and validates tokens as OpenStack's does, as far as these tests need it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::harness::{Message, Upstream};

/// What one site's identity service knows.
#[derive(Default)]
pub struct Known {
    /// Ids have it in them: each site's are its own.
    site: String,
    /// By name: whether enabled.
    pub users: BTreeMap<String, bool>,
    pub projects: BTreeMap<String, bool>,
    /// Of a user in a project.
    pub roles: BTreeMap<(String, String), Vec<String>>,
    /// Valid ones: of a user, for a project.
    pub tokens: BTreeMap<String, (String, String)>,
    /// Those of them that have expired.
    pub ended: BTreeSet<String>,
    /// What is said instead of the truth about the next tokens.
    pub lie: Option<Vec<u8>>,
    issued: usize,
}

pub struct Keystone {
    pub known: Arc<Mutex<Known>>,
    pub upstream: Upstream,
}

impl Keystone {
    pub fn new(site: &str) -> Keystone {
        let known = Arc::new(Mutex::new(Known { site: site.to_owned(), ..Known::default() }));
        let own = Arc::clone(&known);
        Keystone { known, upstream: Upstream::serving(move |request| own.lock().unwrap().answer(request)) }
    }

    /// A user with a role in a project.
    pub fn has(&self, user: &str, project: &str, role: &str) {
        let mut known = self.known.lock().unwrap();
        known.users.insert(user.to_owned(), true);
        known.projects.insert(project.to_owned(), true);
        known.roles.entry((user.to_owned(), project.to_owned())).or_default().push(role.to_owned());
    }

    pub fn revoke(&self, token: &str) {
        self.known.lock().unwrap().tokens.remove(token).unwrap();
    }

    /// A token's time is over.
    pub fn end(&self, token: &str) {
        self.known.lock().unwrap().ended.insert(token.to_owned());
    }

    /// The validations that came.
    pub fn validations(&self) -> Vec<Message> {
        let is = |request: &Message| request.line.starts_with("GET /v3/auth/tokens");
        self.upstream.seen().into_iter().filter(is).collect()
    }
}

impl Known {
    fn answer(&mut self, request: &Message) -> Vec<u8> {
        let mut line = request.line.split(' ');
        let (method, target) = (line.next().unwrap(), line.next().unwrap());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: BTreeMap<&str, &str> =
            query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        let valid = |token: &String| self.tokens.contains_key(token) && !self.ended.contains(token);
        let asker = request.field("x-auth-token").filter(valid);
        match (method, path) {
            ("POST", "/v3/auth/tokens") => self.issue(request),
            _ if asker.is_none() => said(401, "", &json!({ "error": "who asks?" })),
            ("GET" | "HEAD", "/v3/auth/tokens") => {
                self.validate(method, request, query.get("allow_expired").is_some_and(|value| *value == "1"))
            }
            ("GET", "/v3/domains") if query["name"] == "Default" => {
                let id = format!("{}-default", self.site);
                said(200, "", &json!({ "domains": [{ "id": id, "name": "Default", "enabled": true }] }))
            }
            ("GET", "/v3/domains") => said(200, "", &json!({ "domains": [] })),
            ("GET", "/v3/users") => said(200, "", &json!({ "users": self.list(&self.users) })),
            ("GET", "/v3/projects") => said(200, "", &json!({ "projects": self.list(&self.projects) })),
            ("GET", "/v3/role_assignments") => said(200, "", &self.assignments()),
            ("GET", "/v3/auth/catalog") => {
                let (_, project) = &self.tokens[&asker.unwrap()];
                said(200, "", &json!({ "catalog": self.catalog(project) }))
            }
            _ => said(404, "", &json!({ "error": "no such thing" })),
        }
    }

    /// All of them, whatever the query says: what was asked for, a careful client finds itself.
    fn list(&self, all: &BTreeMap<String, bool>) -> Value {
        let one = |(name, enabled): (&String, &bool)| json!({ "id": self.id(name), "name": name, "domain_id": format!("{}-default", self.site), "enabled": enabled });
        all.iter().map(one).collect()
    }

    fn id(&self, name: &str) -> String {
        format!("{}-{name}", self.site)
    }

    fn assignments(&self) -> Value {
        let of = |((user, project), roles): (&(String, String), &Vec<String>)| {
            let (user, project) = (self.id(user), self.id(project));
            let one = |role: &String| {
                json!({ "user": { "id": user }, "scope": { "project": { "id": project } },
                        "role": { "id": self.id(role), "name": role } })
            };
            roles.iter().map(one).collect::<Vec<_>>()
        };
        json!({ "role_assignments": self.roles.iter().flat_map(of).collect::<Vec<_>>() })
    }

    fn catalog(&self, project: &str) -> Value {
        let url = format!("http://image.{}/v2/{}", self.site, self.id(project));
        json!([{ "type": "image", "endpoints": [{ "interface": "public", "url": url }] }])
    }

    /// Every user's password is their name.
    fn issue(&mut self, request: &Message) -> Vec<u8> {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        let text =
            |pointer: &str| body.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (user, password) =
            (text("/auth/identity/password/user/name"), text("/auth/identity/password/user/password"));
        let project = text("/auth/scope/project/name");
        if user != password || !self.users.contains_key(&user) || !self.projects.contains_key(&project) {
            return said(401, "", &json!({ "error": "no" }));
        }
        self.issued += 1;
        let token = format!("{}-token-{}", self.site, self.issued);
        self.tokens.insert(token.clone(), (user, project));
        said(201, &format!("X-Subject-Token: {token}\r\n"), &self.told(&token))
    }

    fn told(&self, token: &str) -> Value {
        let (user, project) = &self.tokens[token];
        let domain = json!({ "id": format!("{}-default", self.site), "name": "Default" });
        let role = |name: &String| json!({ "id": self.id(name), "name": name });
        let roles = self.roles.get(&(user.clone(), project.clone()));
        let roles: Vec<Value> = roles.map(|roles| roles.iter().map(role).collect()).unwrap_or_default();
        json!({ "token": {
            "methods": ["password"], "issued_at": "2026-11-16T00:00:00.000000Z", "expires_at": "2126-11-16T00:00:00.000000Z",
            "user": { "id": self.id(user), "name": user, "domain": domain },
            "project": { "id": self.id(project), "name": project, "domain": domain },
            "roles": roles, "catalog": self.catalog(project), "is_domain": false,
        }})
    }

    fn validate(&self, method: &str, request: &Message, also_ended: bool) -> Vec<u8> {
        let subject = request.field("x-subject-token").unwrap();
        let asker = request.field("x-auth-token").unwrap();
        let roles = self.roles.get(&self.tokens[&asker]);
        let may = roles.is_some_and(|roles| roles.iter().any(|role| role == "service" || role == "admin"));
        if asker != subject && !may {
            return said(403, "", &json!({ "error": "not yours" }));
        }
        if let Some(lie) = &self.lie {
            return lie.clone();
        }
        if !self.tokens.contains_key(&subject) || self.ended.contains(&subject) && !also_ended {
            return said(404, "", &json!({ "error": "no such token" }));
        }
        let mut answer = said(200, &format!("X-Subject-Token: {subject}\r\n"), &self.told(&subject));
        if method == "HEAD" {
            let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
            answer.truncate(end + 4);
        }
        answer
    }
}

/// An answer with a document.
pub fn said(status: u16, fields: &str, document: &Value) -> Vec<u8> {
    let body = document.to_string();
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{fields}Content-Length: {length}\r\n\r\n{body}")
        .into_bytes()
}
