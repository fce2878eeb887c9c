//! When a read is hedged: what is usual for a site, and how many hedges there may be.

use std::time::Duration;

use plan::{Budget, Pace};
use proptest::prelude::*;

fn pace(millis: &[u64]) -> Pace {
    let mut pace = Pace::default();
    for took in millis {
        pace.add(Duration::from_millis(*took));
    }
    pace
}

fn p95(millis: &[u64]) -> Option<u64> {
    u64::try_from(pace(millis).p95()?.as_millis()).ok()
}

#[test]
fn nothing_is_said_of_a_site_that_hardly_answered_yet() {
    assert_eq!(p95(&[]), None);
    assert_eq!(p95(&[5; 7]), None);
    assert_eq!(p95(&[5; 8]), Some(5));
}

#[test]
fn a_site_that_becomes_slow_is_known_to_be_slow_after_two_answers() {
    let mut answers = vec![5; 100];
    answers.push(400);
    assert_eq!(p95(&answers), Some(5));
    answers.push(400);
    assert_eq!(p95(&answers), Some(400));
}

#[test]
fn a_time_past_all_bounds_is_only_a_long_time() {
    let mut pace = Pace::default();
    for _ in 0..8 {
        pace.add(Duration::MAX);
    }
    assert!(pace.p95().unwrap() > Duration::from_hours(1));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Against the definition: sort what is remembered, and take the rank.
    #[test]
    fn it_is_the_95th_percentile_of_the_latest_answers_without_the_slowest(
        answers in prop::collection::vec(0..5_000_u64, 8..200),
    ) {
        let mut latest = answers[answers.len().saturating_sub(32)..].to_vec();
        latest.sort_unstable();
        let within = |limit: u64| latest.iter().filter(|took| **took <= limit).count();
        let usual = p95(&answers).unwrap();
        prop_assert!(latest.contains(&usual));
        prop_assert!(within(usual) * 100 >= (latest.len() - 1) * 95);
        prop_assert!(usual <= latest[latest.len() - 2]);
    }

    #[test]
    fn one_outlier_changes_nothing(
        usual in 1..1_000_u64, outlier in 0..1_000_000_u64, before in 8..64_usize, after in 0..64_usize,
    ) {
        let mut answers = vec![usual; before];
        answers.push(outlier);
        answers.extend(vec![usual; after]);
        prop_assert_eq!(p95(&answers), Some(usual));
    }

    #[test]
    fn what_was_before_the_latest_32_answers_is_forgotten(
        before in prop::collection::vec(0..100_000_u64, 0..100), now in 0..100_000_u64,
    ) {
        let mut answers = before;
        answers.extend([now; 32]);
        prop_assert_eq!(p95(&answers), Some(now));
    }

    #[test]
    fn it_lies_between_the_fastest_and_the_slowest(answers in prop::collection::vec(0..5_000_u64, 8..100)) {
        let latest = &answers[answers.len().saturating_sub(32)..];
        let usual = p95(&answers).unwrap();
        prop_assert!(latest.iter().min().unwrap() <= &usual && &usual <= latest.iter().max().unwrap());
    }

    /// In any stretch, wherever it begins.
    #[test]
    fn at_most_a_tenth_of_the_requests_are_hedged_and_a_burst_of_ten(
        wishes in prop::collection::vec(0..3_u8, 0..400), from in 0..400_usize,
    ) {
        let mut budget = Budget::default();
        let (mut requests, mut hedges) = (0_u32, 0_u32);
        for (at, wish) in wishes.iter().enumerate() {
            budget.earn();
            for _ in 0..*wish {
                hedges += u32::from(budget.spend() && at >= from);
            }
            requests += u32::from(at >= from);
        }
        prop_assert!(f64::from(hedges) <= 10.0 + 0.1 * f64::from(requests) + 1e-9, "{hedges} of {requests}");
    }

    #[test]
    fn a_hedge_now_and_then_is_always_allowed(rounds in 1..50_usize) {
        let mut budget = Budget::default();
        for _ in 0..rounds {
            for _ in 0..10 {
                budget.earn();
            }
            prop_assert!(budget.spend());
        }
    }
}

#[test]
fn a_budget_that_was_spent_recovers_with_requests() {
    let mut budget = Budget::default();
    assert_eq!((0..100).filter(|_| budget.spend()).count(), 10);
    for _ in 0..9 {
        budget.earn();
        assert!(!budget.spend());
    }
    budget.earn();
    assert!(budget.spend());
}
