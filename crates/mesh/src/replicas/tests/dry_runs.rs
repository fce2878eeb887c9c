//! Requests that change nothing, whatever their methods.

use super::*;

#[test]
fn a_dry_run_is_sent_to_the_service_and_recorded_by_nobody() {
    let line = |outcome: &Outcome| -> String {
        let line = outcome.json()["line"].as_str().unwrap_or_default().to_owned();
        line.chars().rev().collect()
    };
    let made = stage().to(&["A", "B"]).ask("POST /images?dryRun=All", &[], r#"{"name":"x"}"#);
    assert_eq!((made.status(), made.wanted.is_none()), (200, true));
    assert_eq!(line(&made), "POST /images?dryRun=All HTTP/1.1");
    for write in ["PATCH", "PUT", "DELETE"] {
        let outcome = stage().ask(&format!("{write} /images/{META}?dryRun=All"), &[], r#"{"name":"x"}"#);
        assert_eq!((outcome.status(), outcome.wanted.is_none()), (200, true), "{write}");
        assert_eq!(line(&outcome), format!("{write} /images/{LOCAL}?dryRun=All HTTP/1.1"));
    }
    let real = stage().ask(&format!("PATCH /images/{META}?dryRun=None"), &[], r#"{"name":"x"}"#);
    assert!(real.wanted.is_some());
}
