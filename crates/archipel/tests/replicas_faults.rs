//! Replicated accounts under random cuts, kills and failing services: in the end all sites have the same, every
//! acknowledged write is there exactly once, and what nobody knows is shown to the operator.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;

use sample::wan::Cut;
use serde_json::{Value, json};
use support::ask;
use support::fleet::{Common, Fleet, until};
use support::ledger::{self, Ledger, Mishap, PROFILE};

const SITES: usize = 3;
const ACCOUNTS: usize = 2;
const ROUNDS: usize = 8;
const WRITES: usize = 4;

/// Few by default. To look for trouble, give many: `FAULT_SEEDS=100 cargo test --test replicas_faults`.
fn seeds() -> std::ops::RangeInclusive<u64> {
    1..=std::env::var("FAULT_SEEDS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

/// Steele, Lea and Flood's `SplitMix64`: a seed replays a schedule.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(end).unwrap()).unwrap()
    }
}

/// What clients were told of one account.
struct Told {
    id: String,
    /// Amounts by tag: acknowledged, and perhaps executed.
    sure: BTreeMap<String, i64>,
    unsure: BTreeMap<String, i64>,
}

struct Checker {
    fleet: Fleet,
    ledgers: Vec<Ledger>,
    random: Random,
    /// By the tag of its creation.
    told: BTreeMap<String, Told>,
    tags: usize,
}

impl Checker {
    fn start(seed: u64, profile: &str) -> Checker {
        let ledgers: Vec<Ledger> = (0..SITES).map(Ledger::start).collect();
        let profiles = tempfile::tempdir().unwrap();
        std::fs::write(profiles.path().join("ledger.toml"), profile).unwrap();
        let head = format!("profile = \"ledger\"\nprofiles = {:?}\n", profiles.path().display().to_string());
        let tables = "[timeouts]\nconnect = \"300ms\"\npeer_response = \"1s\"\nresponse = \"2s\"\n";
        let services: Vec<_> = ledgers.iter().map(|ledger| ledger.address).collect();
        let common = Common { service: "ledger", head: &head, tables };
        let fleet = Fleet::start(&common, &services);
        // Sites that are started again read it again.
        let _kept = profiles.keep();
        Checker { fleet, ledgers, random: Random(seed), told: BTreeMap::new(), tags: 0 }
    }

    /// Makes the accounts, while all is well.
    fn make(&mut self) {
        for number in 0..ACCOUNTS {
            let tag = format!("account-{number}");
            let body = json!({ "owner": "nobody", "balance": 100, "tag": tag });
            let scope = [("x-scope", "ledger: Site1 & Site2 & Site3")];
            let made =
                ask(self.fleet.address(number % SITES), "POST", "/accounts", &scope, &body.to_string());
            let made = made.unwrap();
            assert_eq!(made.status(), 201, "{made:?}");
            let (sure, unsure) = Default::default();
            self.told.insert(tag, Told { id: made.field("id"), sure, unsure });
        }
        let ledgers = self.ledgers.clone();
        until("every site has the accounts", || ledgers.iter().all(|ledger| ledger.count() == ACCOUNTS));
    }

    /// An add to some account, at some site.
    fn add(&mut self) {
        let site = self.random.below(SITES);
        let account = self.random.below(self.told.len());
        let told = self.told.values_mut().nth(account).unwrap();
        self.tags += 1;
        let (tag, by) = (format!("t{}", self.tags), 1 + i64::try_from(self.random.below(9)).unwrap());
        let body = json!({ "by": by, "tag": tag }).to_string();
        let answer = ask(self.fleet.address(site), "POST", &format!("/accounts/{}/add", told.id), &[], &body);
        match answer {
            Ok(answer) if answer.status() == 200 => told.sure.insert(tag, by),
            // Refused, or provably not executed: that must be so.
            Ok(answer) if answer.status() == 503 => None,
            _ => told.unsure.insert(tag, by),
        };
    }

    /// Something breaks, clients write, and it is mended.
    fn round(&mut self) {
        let site = self.random.below(SITES);
        let trouble = self.random.below(5);
        match trouble {
            0 => self.fleet.isolate(site, Some(Cut::Reset)),
            1 => self.fleet.isolate(site, Some(Cut::Stall)),
            2 => self.fleet.kill(site),
            3 => self.ledgers[site].fail_next(Mishap::Before),
            _ => self.ledgers[site].fail_next(Mishap::After),
        }
        for write in 0..WRITES {
            self.add();
            // Killed with writes under way, too.
            if write == 1 && trouble == 0 {
                self.fleet.kill(site);
            }
        }
        self.fleet.isolate(site, None);
        self.fleet.revive(site);
    }

    /// Settles what is in doubt as an operator would: by looking at the service.
    fn settle(&self) {
        for (site, ledger) in self.ledgers.iter().enumerate() {
            let listed = self.fleet.json(site, &["operations", "list"]);
            for doubt in listed["in_doubt"].as_array().into_iter().flatten() {
                let operation = doubt["operation"].as_str().unwrap();
                let word = if ledger.executed(operation).is_some() { "--executed" } else { "--not-executed" };
                // It may have been settled by itself meanwhile.
                let _ = self.fleet.archipel(site, &["operations", "settle", operation, word]);
            }
        }
    }

    fn nothing_waits(&self) -> bool {
        (0..SITES).all(|site| {
            let listed = self.fleet.json(site, &["operations", "list"]);
            let empty = |field: &str| listed[field].as_array().is_some_and(Vec::is_empty);
            empty("pending") && empty("in_doubt")
        })
    }

    /// Waits until every site is done, with an operator or without, and looks at what is there.
    fn check(&self, operator: bool) {
        self.fleet.until_met();
        until("nothing waits", || {
            if operator {
                self.settle();
            }
            self.nothing_waits()
        });
        let first = self.ledgers[0].accounts();
        assert_eq!(first.len(), ACCOUNTS);
        for ledger in &self.ledgers {
            assert_eq!(ledger.accounts(), first);
        }
        for (created, account) in &first {
            let told = &self.told[created];
            let tags: Vec<&str> =
                account["tags"].as_array().unwrap()[1..].iter().filter_map(Value::as_str).collect();
            let mut once = tags.clone();
            once.dedup();
            assert_eq!(tags, once, "something was executed twice");
            for tag in told.sure.keys() {
                assert!(tags.contains(&tag.as_str()), "{tag} was acknowledged, and is lost");
            }
            let mut sum = 100;
            for tag in tags {
                let by = told.sure.get(tag).or_else(|| told.unsure.get(tag));
                sum += by.unwrap_or_else(|| panic!("{tag} was refused, and executed"));
            }
            assert_eq!(account["balance"], sum);
        }
    }
}

#[test]
fn whatever_breaks_replicas_end_equal_and_every_acknowledged_write_is_there_once() {
    for seed in seeds() {
        let mut checker = Checker::start(seed, PROFILE);
        checker.make();
        for _ in 0..ROUNDS {
            checker.round();
        }
        checker.check(true);
    }
}

/// The same faults, and nobody settles anything.
#[test]
fn a_service_that_shows_what_it_executed_needs_no_operator() {
    for seed in seeds() {
        let mut checker = Checker::start(seed, &ledger::probed());
        checker.make();
        for _ in 0..ROUNDS {
            checker.round();
        }
        checker.check(false);
    }
}
