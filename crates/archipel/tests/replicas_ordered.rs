//! Replicated accounts whose writes have one order: what `@quorum` and `@strong` promise, with sites that are cut off
//! and killed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::time::{Duration, Instant};

use sample::wan::Cut;
use serde_json::{Value, json};
use support::fleet::{Common, Fleet, name, until};
use support::ledger::{Ledger, PROFILE};
use support::{Message, ask};

const SITES: usize = 3;
/// Confirmed by a majority.
const QUORUM: &str = "(Site1 & Site2 & Site3) @quorum";
/// A refusal that is not quick is none: far less than what clients wait for.
const QUICKLY: Duration = Duration::from_secs(20);

/// Three sites, each with its ledger.
struct Three {
    fleet: Fleet,
    ledgers: Vec<Ledger>,
}

impl Three {
    fn start() -> Three {
        let ledgers: Vec<Ledger> = (0..SITES).map(Ledger::start).collect();
        let profiles = tempfile::tempdir().unwrap();
        std::fs::write(profiles.path().join("ledger.toml"), PROFILE).unwrap();
        let head = format!("profile = \"ledger\"\nprofiles = {:?}\n", profiles.path().display().to_string());
        let tables = "[timeouts]\nconnect = \"300ms\"\npeer_response = \"10s\"\nresponse = \"10s\"\n";
        let services: Vec<_> = ledgers.iter().map(|ledger| ledger.address).collect();
        let fleet = Fleet::start(&Common { service: "ledger", head: &head, tables }, &services);
        // Sites that are started again read it again.
        let _kept = profiles.keep();
        Three { fleet, ledgers }
    }

    fn ask(&self, site: usize, method: &str, path: &str, scope: &str, body: &Value) -> Message {
        let scope = format!("ledger: {scope}");
        let scope = [("x-scope", scope.as_str())];
        let scope = if scope[0].1 == "ledger: " { &[][..] } else { &scope[..] };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        ask(self.fleet.address(site), method, path, scope, &body).unwrap()
    }

    /// Makes an account at all sites, at this level. Its id.
    fn make(&self, site: usize, tag: &str, level: &str) -> String {
        let body = json!({ "owner": "ada", "balance": 100, "tag": tag });
        let made = self.ask(site, "POST", "/accounts", &format!("(Site1 & Site2 & Site3) {level}"), &body);
        assert_eq!(made.status(), 201, "{made:?}");
        made.field("id")
    }

    fn add(&self, site: usize, id: &str, by: i64, tag: &str) -> Message {
        self.ask(site, "POST", &format!("/accounts/{id}/add"), "", &json!({ "by": by, "tag": tag }))
    }

    fn read(&self, site: usize, id: &str, scope: &str) -> Message {
        self.ask(site, "GET", &format!("/accounts/{id}"), scope, &Value::Null)
    }

    /// What each site's service has of the account with this tag: its balance.
    fn balances(&self, tag: &str) -> Vec<Option<i64>> {
        let balance = |ledger: &Ledger| ledger.accounts().get(tag).and_then(|own| own["balance"].as_i64());
        self.ledgers.iter().map(balance).collect()
    }

    fn until_all_have(&self, tag: &str, balance: Option<i64>) {
        until(&format!("{tag} is {balance:?} everywhere"), || {
            self.balances(tag).iter().all(|own| *own == balance)
        });
    }

    /// Waits until a confirmed read at a site has this status.
    fn until_read(&self, site: usize, id: &str, status: u16) {
        until(&format!("{} says {status}", name(site)), || self.read(site, id, QUORUM).status() == status);
    }

    /// A write that is asked for until a site takes it: who leads is not known to clients, nor that it changes.
    fn until_taken(&self, site: usize, id: &str, by: i64, tag: &str) {
        until(&format!("{} takes {tag}", name(site)), || {
            let answer = self.add(site, id, by, tag);
            assert!(matches!(answer.status(), 200 | 503), "{answer:?}");
            answer.status() == 200
        });
    }
}

fn kind(answer: &Message) -> String {
    answer.field("type")
}

#[test]
fn ordered_accounts_are_made_changed_and_deleted_from_any_site_beside_others() {
    let three = Three::start();
    let plain = three.make(0, "plain", "");
    for (index, level) in ["@quorum", "@strong"].into_iter().enumerate() {
        let tag = level.trim_start_matches('@');
        let id = three.make(index, tag, level);
        three.until_all_have(tag, Some(100));
        for site in 0..SITES {
            let answer = three.add(site, &id, 1, &format!("{tag}-{site}"));
            assert_eq!(answer.status(), 200, "{answer:?}");
            // It is read at once where that is promised: everywhere, or where a majority confirms it.
            for reader in 0..SITES {
                let scope = if level == "@quorum" { QUORUM } else { "" };
                let read = three.read(reader, &id, scope);
                assert_eq!(read.status(), 200, "{read:?}");
                let balance: Value = serde_json::from_slice(&read.body).unwrap();
                assert_eq!(balance["balance"], 101 + i64::try_from(site).unwrap(), "{level} at {reader}");
            }
        }
        let patched =
            three.ask(2, "PATCH", &format!("/accounts/{id}"), "", &json!({ "owner": "bob", "balance": 7 }));
        assert_eq!(patched.status(), 200, "{patched:?}");
        three.until_all_have(tag, Some(7));
        let refused = three.ask(1, "PUT", &format!("/accounts/{id}"), "", &json!({ "owner": "eve" }));
        assert_eq!(refused.status(), 405, "the leader's service decides: {refused:?}");
        let change =
            three.fleet.archipel(0, &["replicas", "shrink", &format!("ledger:/accounts/{id}"), "Site3"]);
        assert!(!change.status.success(), "its sites are fixed: {change:?}");
        let gone = three.ask(0, "DELETE", &format!("/accounts/{id}"), "", &Value::Null);
        assert_eq!(gone.status(), 204, "{gone:?}");
        three.until_all_have(tag, None);
        until("nobody knows it any more", || {
            (0..SITES).all(|site| three.read(site, &id, "").status() == 404)
        });
    }
    assert_eq!(three.add(1, &plain, 5, "plain-1").status(), 200);
    three.until_all_have("plain", Some(105));
    let level = three.read(0, &plain, QUORUM);
    assert_eq!(level.status(), 501, "what has no order has nothing to confirm: {level:?}");
}

#[test]
fn without_one_site_a_majority_goes_on_the_minority_refuses_and_at_strong_nobody_executes() {
    let three = Three::start();
    let (quorum, strong, plain) =
        (three.make(0, "quorum", "@quorum"), three.make(0, "strong", "@strong"), three.make(0, "plain", ""));
    for tag in ["quorum", "strong", "plain"] {
        three.until_all_have(tag, Some(100));
    }
    for (alone, cut) in [(2, Cut::Reset), (0, Cut::Stall)] {
        let (before, round) = (three.balances("quorum")[1].unwrap(), format!("without {}", name(alone)));
        three.fleet.isolate(alone, Some(cut));
        let others: Vec<usize> = (0..SITES).filter(|site| *site != alone).collect();
        // What is sent before a cut is noticed may have arrived, for all that is known.
        three.until_read(alone, &quorum, 503);
        for other in &others {
            three.until_read(*other, &quorum, 200);
        }
        for (by, site) in (1..).zip(&others) {
            three.until_taken(*site, &quorum, by, &format!("{round} {site}"));
        }
        let began = Instant::now();
        let minority = three.add(alone, &quorum, 1000, &format!("{round}, refused"));
        assert!(began.elapsed() < QUICKLY, "{:?}", began.elapsed());
        assert_eq!((minority.status(), kind(&minority).as_str()), (503, "urn:archipel:no-majority"));
        let confirmed = three.read(alone, &quorum, QUORUM);
        assert_eq!((confirmed.status(), kind(&confirmed).as_str()), (503, "urn:archipel:no-majority"));
        assert_eq!(three.read(alone, &quorum, "").status(), 200, "a read that is not confirmed is local");
        let confirmed = three.read(others[0], &quorum, QUORUM);
        let account: Value = serde_json::from_slice(&confirmed.body).unwrap();
        assert_eq!(account["balance"], before + 3, "{confirmed:?}");
        for site in 0..SITES {
            let began = Instant::now();
            let refused = three.add(site, &strong, 1000, &format!("{round}, refused at {site}"));
            assert!(began.elapsed() < QUICKLY, "{:?}", began.elapsed());
            assert_eq!(refused.status(), 503, "{refused:?}");
        }
        assert_eq!(three.balances("strong"), [Some(100); SITES]);
        // What needs no order needs nobody.
        assert_eq!(three.add(alone, &plain, 1, &format!("{round}, plain")).status(), 200);
        three.fleet.isolate(alone, None);
        three.fleet.until_met();
        three.until_all_have("quorum", Some(before + 3));
        let has = |own: Option<i64>| own == three.balances("plain")[alone];
        until("all have the plain one", || three.balances("plain").into_iter().all(has));
    }
    assert_eq!(three.balances("plain"), [Some(102); SITES]);
    three.until_taken(0, &strong, 1, "all are back");
    assert_eq!(three.balances("strong"), [Some(101); SITES], "all had it when it was answered");
}

#[test]
fn sites_that_are_killed_keep_what_was_ordered_and_go_on() {
    let mut three = Three::start();
    let (quorum, strong) = (three.make(0, "quorum", "@quorum"), three.make(1, "strong", "@strong"));
    three.until_all_have("quorum", Some(100));
    three.until_all_have("strong", Some(100));
    let mut sum = 100;
    for killed in 0..SITES {
        three.fleet.kill(killed);
        let other = (killed + 1) % SITES;
        three.until_taken(other, &quorum, 1, &format!("without {killed}"));
        assert_eq!(three.balances("quorum")[killed], Some(sum), "it is down");
        sum += 1;
        three.fleet.revive(killed);
        three.fleet.until_met();
        three.until_all_have("quorum", Some(sum));
    }
    for site in 0..SITES {
        three.fleet.kill(site);
    }
    for site in 0..SITES {
        three.fleet.revive(site);
    }
    three.fleet.until_met();
    three.until_taken(2, &strong, 1, "after all were down");
    assert_eq!(three.balances("strong"), [Some(101); SITES]);
    three.until_taken(1, &quorum, 1, "after all were down");
    three.until_all_have("quorum", Some(sum + 1));
    let read = three.read(0, &quorum, QUORUM);
    let account: Value = serde_json::from_slice(&read.body).unwrap();
    assert_eq!(account["balance"], sum + 1, "{read:?}");
    let tags: Vec<_> = account["tags"].as_array().unwrap().clone();
    let mut once = tags.clone();
    once.dedup();
    assert_eq!((tags.len(), tags), (5, once), "each write is there once, in the order of all sites");
}
