//! An application of accounts, one instance for each site, that remembers every write it executed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Message;
use super::upstream::Upstream;

/// What the mesh knows of it.
pub const PROFILE: &str = r#"
description = "accounts"
[services]
ledger = []
[lists]
id = "id"
[[kinds]]
name = "account"
service = "ledger"
path = "/accounts"
ids = "uuid"
generated = ["/id", "/operations"]
operations = [{ method = "POST", below = "/add", class = "add", doubt = "ask" }]
"#;

/// The same, with where an account shows the operations that were executed on it.
#[allow(dead_code, reason = "not every test looks there")]
pub fn probed() -> String {
    PROFILE.replace("doubt = \"ask\"", "probe = { marker = \"/operations\" }")
}

/// How the next write goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mishap {
    /// A 500, and it was not executed.
    Before,
    /// A 500, and it was executed all the same.
    After,
}

#[derive(Default)]
struct State {
    accounts: BTreeMap<String, Value>,
    /// The operations that were executed, with the account of each.
    executed: Vec<(String, String)>,
    mishap: Option<Mishap>,
    made: u64,
}

/// One instance. It outlives the mesh in front of it.
#[derive(Clone)]
pub struct Ledger {
    state: Arc<Mutex<State>>,
    pub address: SocketAddr,
}

impl Ledger {
    /// The number of the instance goes into its ids, so that no two make the same.
    pub fn start(number: usize) -> Ledger {
        let state = Arc::<Mutex<State>>::default();
        let own = Arc::clone(&state);
        let upstream = Upstream::start(move |request| own.lock().unwrap().serve(number, request));
        Ledger { state, address: upstream.address }
    }

    pub fn fail_next(&self, mishap: Mishap) {
        self.state.lock().unwrap().mishap = Some(mishap);
    }

    /// All accounts, without their ids, by the tag of their creation.
    pub fn accounts(&self) -> BTreeMap<String, Value> {
        let state = self.state.lock().unwrap();
        let account = |account: &Value| {
            let mut account = account.clone();
            account.as_object_mut().unwrap().retain(|field, _| field != "id" && field != "operations");
            let tags = account["tags"].as_array_mut().unwrap();
            // Adds commute: their order is each site's own.
            tags[1..].sort_by_key(Value::to_string);
            (tags[0].as_str().unwrap().to_owned(), account)
        };
        state.accounts.values().map(account).collect()
    }

    /// How many accounts there are.
    pub fn count(&self) -> usize {
        self.state.lock().unwrap().accounts.len()
    }

    /// The account that an operation wrote to here, if it was executed.
    pub fn executed(&self, operation: &str) -> Option<String> {
        let state = self.state.lock().unwrap();
        state.executed.iter().find(|(known, _)| known == operation).map(|(_, account)| account.clone())
    }
}

impl State {
    fn serve(&mut self, number: usize, request: &Message) -> (u16, String) {
        let path: Vec<&str> = request.path().split('/').skip(1).collect();
        let write = request.method() != "GET";
        let mishap = if write { self.mishap.take() } else { None };
        if mishap == Some(Mishap::Before) {
            return (500, String::new());
        }
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let operation = request.header("scope-operation");
        let (status, account) = self.answer(number, request.method(), &path, &body, operation);
        if write && (200..300).contains(&status) {
            let id = path.get(1).map(|id| (*id).to_owned());
            let id = id.or_else(|| account["id"].as_str().map(str::to_owned)).unwrap_or_default();
            self.executed.push((operation.to_owned(), id));
        }
        if mishap == Some(Mishap::After) { (500, String::new()) } else { (status, account.to_string()) }
    }

    fn answer(
        &mut self,
        number: usize,
        method: &str,
        path: &[&str],
        body: &Value,
        operation: &str,
    ) -> (u16, Value) {
        match (method, path) {
            ("GET", ["accounts"]) => (200, json!({ "accounts": self.accounts.values().collect::<Vec<_>>() })),
            ("POST", ["accounts"]) => {
                self.made += 1;
                let id = format!("{number:08x}-0000-4000-8000-{:012x}", self.made);
                let tags = [body["tag"].clone()];
                let account = json!({ "id": id, "owner": body["owner"], "balance": body["balance"], "tags": tags,
                    "operations": [] });
                self.accounts.insert(id, account.clone());
                (201, account)
            }
            (method, ["accounts", id, rest @ ..]) => {
                let Some(account) = self.accounts.get_mut(*id) else { return (404, Value::Null) };
                match (method, rest) {
                    ("GET", []) => (200, account.clone()),
                    ("PATCH", []) => {
                        for (field, value) in body.as_object().into_iter().flatten() {
                            account[field] = value.clone();
                        }
                        (200, account.clone())
                    }
                    ("POST", ["add"]) => {
                        let sum = account["balance"].as_i64().unwrap() + body["by"].as_i64().unwrap();
                        account["balance"] = sum.into();
                        account["tags"].as_array_mut().unwrap().push(body["tag"].clone());
                        account["operations"].as_array_mut().unwrap().push(operation.into());
                        (200, account.clone())
                    }
                    ("DELETE", []) => {
                        self.accounts.remove(*id);
                        (204, Value::Null)
                    }
                    _ => (405, Value::Null),
                }
            }
            _ => (404, Value::Null),
        }
    }
}
