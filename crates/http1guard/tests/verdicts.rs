//! A proxy and a server that disagree on where a request ends let one client speak in another's name. Here is
//! what the guard says of the bytes that were used for that, however they are cut into packets.

// A test may panic, and so may what helps it.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::string_slice)]
#![allow(unreachable_pub)]

mod corpus;
mod support;

use std::collections::HashSet;

use http1guard::{Guard, Limits, Part, Progress, Rule};
use proptest::prelude::*;
use support::{Verdict, judge, reference};

fn check(case: &corpus::Case, verdict: &Verdict, how: &str) {
    let found = verdict.violation.map(|violation| (violation.part, violation.rule));
    assert_eq!(found, case.expect.refuse, "{}, {how}", case.name);
    assert_eq!(reference::read(&verdict.passed).requests, case.expect.forward, "{}, {how}", case.name);
}

#[test]
fn every_case_gets_its_verdict() {
    for case in corpus::all() {
        check(&case, &judge([&case.bytes[..]]), "whole");
    }
}

#[test]
fn a_verdict_does_not_depend_on_how_bytes_arrive() {
    for case in corpus::all() {
        let whole = judge([&case.bytes[..]]);
        assert_eq!(judge(case.bytes.chunks(1)), whole, "{}, byte by byte", case.name);
        // The long ones have nothing of interest in the middle.
        let step = 1 + case.bytes.len() / 500;
        for at in (0..case.bytes.len()).step_by(step) {
            let (start, end) = case.bytes.split_at(at);
            assert_eq!(judge([start, end]), whole, "{}, cut at {at}", case.name);
        }
    }
}

#[test]
fn every_rule_has_a_case_that_breaks_it() {
    let broken: HashSet<Rule> = corpus::all().iter().filter_map(|case| Some(case.expect.refuse?.1)).collect();
    let missing: Vec<_> = Rule::ALL.iter().filter(|rule| !broken.contains(rule)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn names_of_cases_are_unique_and_there_are_many() {
    let cases = corpus::all();
    let names: HashSet<_> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len());
    assert!(cases.iter().filter(|case| case.expect.refuse.is_some()).count() >= 80);
}

#[test]
fn nothing_of_a_refused_head_passes() {
    for case in corpus::all() {
        let verdict = judge(case.bytes.chunks(1));
        if matches!(case.expect.refuse, Some((Part::Head, _))) {
            let before = case.expect.forward.len();
            assert_eq!(verdict.passed.is_empty(), before == 0, "{}", case.name);
        }
    }
}

#[test]
fn a_head_and_a_request_line_may_be_as_long_as_their_limits() {
    let limits = Limits { head_bytes: 40, request_line_bytes: 16, ..Limits::default() };
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nX: 12345678\r\n\r\n";
    assert_eq!(head.len(), 40);
    assert_eq!(Guard::new(limits).check(head), Ok(Progress::Pass(40)));
    let tight = Limits { head_bytes: 39, ..limits };
    assert_eq!(Guard::new(tight).check(head).unwrap_err().rule, Rule::HeadTooLarge);
    let tight = Limits { request_line_bytes: 15, ..limits };
    assert_eq!(Guard::new(tight).check(head).unwrap_err().rule, Rule::TargetTooLong);
}

#[test]
fn nothing_passes_after_an_upgrade_until_the_answer_is_known() {
    let head = b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n";
    let frame = b"\x81\x05hello";
    let mut guard = Guard::new(Limits::default());
    assert!(!guard.opaque() && !guard.resume(), "nothing to answer yet");
    assert_eq!(guard.check(head), Ok(Progress::Pass(head.len())));
    assert_eq!(guard.check(frame), Ok(Progress::Hold));
    assert_eq!(guard.check(frame), Ok(Progress::Hold));
    assert!(guard.opaque());
    assert_eq!(guard.check(frame), Ok(Progress::Pass(frame.len())));
    assert!(!guard.resume(), "another protocol has no way back");

    let mut guard = Guard::new(Limits::default());
    assert_eq!(guard.check(head), Ok(Progress::Pass(head.len())));
    assert!(guard.resume());
    assert_eq!(guard.check(frame).unwrap_err().rule, Rule::Method);
}

#[test]
fn http_1_0_cannot_upgrade() {
    let mut guard = Guard::new(Limits::default());
    let head = b"GET / HTTP/1.0\r\nUpgrade: websocket\r\n\r\n";
    assert_eq!(guard.check(head), Ok(Progress::Pass(head.len())));
    assert_eq!(guard.check(b""), Ok(Progress::More));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn no_bytes_make_the_guard_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), size in 1..50_usize) {
        prop_assert_eq!(judge(bytes.chunks(size)), judge([&bytes[..]]));
    }

    #[test]
    fn random_cuts_leave_the_verdict_alone(
        case in prop::sample::select(corpus::all().into_iter().map(|case| case.bytes).collect::<Vec<_>>()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(case.len() + 1)).collect();
        cuts.extend([0, case.len()]);
        cuts.sort_unstable();
        let pieces = cuts.windows(2).map(|ends| &case[ends[0]..ends[1]]);
        prop_assert_eq!(judge(pieces), judge([&case[..]]));
    }
}
