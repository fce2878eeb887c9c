//! A site's identity as it gets old, is mixed up, or is renewed: its own clients are served whatever comes of it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod support;

use std::fs;
use std::io::{BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Output;
use std::time::{Duration, SystemTime};

use link::Authority;
use serde_json::Value;
use support::fleet::until;
use support::process::{Home, Running};
use support::upstream::Upstream;
use support::{Message, get};

const DAY: Duration = Duration::from_hours(24);

/// A scope that needs the other site.
const AWAY: [(&str, &str); 1] = [("x-scope", "image: Site2")];

fn configure(home: &Home, site: &str, service: &Upstream, join: &str) {
    home.write(&format!(
        "site = \"{site}\"\nprofile = \"rest\"\nidentity = \"identity\"\nstate = \"state\"\nthreads = 1\n\
         [link]\nlisten = \"127.0.0.1:0\"\n{join}\n\
         [services.image]\npublic = [\"127.0.0.1:0\"]\nupstreams = [\"http://{}\"]\n",
        service.address
    ));
}

fn site(service: &Upstream) -> Home {
    let home = Home::new();
    configure(&home, "Site1", service, "");
    home
}

fn authority(home: &Home) -> Authority {
    Authority::load(&home.path().join("authority")).unwrap()
}

/// Gives a site an identity with these dates, in days from now.
fn issue(home: &Home, by: &Authority, site: &str, from: i64, until: i64) {
    let at = |days: i64| {
        let away = DAY * u32::try_from(days.unsigned_abs()).unwrap();
        if days < 0 { SystemTime::now() - away } else { SystemTime::now() + away }
    };
    let directory = home.path().join("identity");
    fs::remove_dir_all(&directory).unwrap();
    by.issue_between(site, at(from), at(until)).unwrap().save(&directory).unwrap();
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn status(home: &Home) -> Value {
    serde_json::from_str(&printed(&home.archipel(&["status", "--json"]))).unwrap()
}

fn metric(home: &Home, name: &str) -> String {
    let mut stream = UnixStream::connect(home.path().join("state/admin.sock")).unwrap();
    stream.set_read_timeout(Some(support::PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: admin\r\n\r\n").unwrap();
    let text = Message::read(&mut BufReader::new(stream)).unwrap().text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("archipel_{name} ")));
    line.unwrap_or_else(|| panic!("there is no {name} in {text}")).to_owned()
}

/// Runs a line that was printed to be pasted.
fn paste(home: &Home, line: &str, more: &[&str]) -> Output {
    let words: Vec<&str> = line.split_whitespace().skip(1).chain(more.iter().copied()).collect();
    home.archipel(&words)
}

#[test]
fn an_expired_identity_closes_the_link_and_nothing_else() {
    let service = Upstream::saying("here");
    let home = site(&service);
    configure(&home, "Site1", &service, "[peers.Site2]\naddress = \"127.0.0.1:1\"");
    issue(&home, &authority(&home), "Site1", -30, -1);
    let checked = home.archipel(&["check"]);
    assert!(checked.status.success(), "{checked:?}");
    assert!(said(&checked).contains("warning: this site's identity expired on"), "{checked:?}");

    let mut running = home.run();
    let line = running.until("warning: this site's identity expired on");
    assert!(line.contains("serves its own clients alone") && line.contains("archipel renew"), "{line}");
    let address = running.address("image", "public");
    assert_eq!(get(address, "/images", &[]).text(), "here");
    assert_eq!(get(address, "/images", &[("x-scope", "image: here")]).text(), "here");
    let away = get(address, "/images", &AWAY);
    assert_eq!(away.status(), 503);
    assert!(away.text().contains("the link is closed: this site's identity expired on"), "{}", away.text());
    let joined = home.archipel(&["join", "127.0.0.1:1"]);
    assert!(!joined.status.success() && said(&joined).contains("the link is closed"), "{joined:?}");
    let status = status(&home);
    assert_eq!(status["link"]["state"], "closed", "{status}");
    assert!(status["link"]["why"].as_str().unwrap().contains("expired on"), "{status}");
    let words = printed(&home.archipel(&["status"]));
    assert!(words.contains("closed: this site's identity expired on"), "{words}");
    assert_eq!(
        (metric(&home, "link_closed").as_str(), metric(&home, "identity_expiring").as_str()),
        ("1", "0")
    );
}

#[test]
fn an_identity_warns_before_it_expires() {
    let service = Upstream::saying("here");
    let home = site(&service);
    let authority = authority(&home);
    issue(&home, &authority, "Site1", -21, 10);
    let checked = home.archipel(&["check"]);
    assert!(checked.status.success() && said(&checked).contains("expires on"), "{checked:?}");
    let mut running = home.run();
    running.until("warning: this site's identity expires on");
    let shown = status(&home);
    assert_eq!(
        (&shown["link"]["state"], shown["link"]["warnings"].as_array().unwrap().len()),
        (&"open".into(), 1)
    );
    assert!(printed(&home.archipel(&["status"])).contains("warning    this site's identity expires on"));
    assert_eq!(
        (metric(&home, "link_closed").as_str(), metric(&home, "identity_expiring").as_str()),
        ("0", "1")
    );
    // More than a third of the lifetime is left.
    issue(&home, &authority, "Site1", -19, 11);
    assert_eq!(said(&home.archipel(&["check"])), "");
    running.signal("HUP");
    running.until("reloaded");
    assert_eq!(status(&home)["link"]["warnings"], Value::Array(Vec::new()));
}

#[test]
fn an_identity_that_expires_meanwhile_closes_the_link_with_a_line() {
    let service = Upstream::saying("here");
    let home = site(&service);
    let directory = home.path().join("identity");
    fs::remove_dir_all(&directory).unwrap();
    let now = SystemTime::now();
    let soon = now + Duration::from_secs(3);
    authority(&home).issue_between("Site1", now - DAY, soon).unwrap().save(&directory).unwrap();
    let mut running = home.run();
    running.until("warning: this site's identity expired on");
    assert_eq!(get(running.address("image", "public"), "/images", &[]).text(), "here");
    assert_eq!(status(&home)["link"]["state"], "closed");
}

#[test]
fn check_and_run_refuse_the_same_identities() {
    let service = Upstream::saying("here");
    let home = site(&service);
    let (own, other) = (authority(&home), Authority::create("other").unwrap());
    let directory = home.path().join("identity");
    let scratch = tempfile::tempdir().unwrap();
    own.issue("Site1").unwrap().save(scratch.path()).unwrap();
    for (file, content, why) in [
        (
            "site-key.pem",
            fs::read(scratch.path().join("site-key.pem")).unwrap(),
            "does not belong to the certificate",
        ),
        ("site.pem", b"junk".to_vec(), "damaged"),
        ("site-key.pem", b"junk".to_vec(), "damaged"),
        ("ca.pem", Vec::new(), "damaged"),
    ] {
        issue(&home, &own, "Site1", -1, 300);
        fs::write(directory.join(file), content).unwrap();
        refused_by_both(&home, why);
    }
    issue(&home, &own, "Site2", -1, 300);
    refused_by_both(&home, "is that of `Site2`, not of `Site1`");
    issue(&home, &own, "Site1", -1, 300);
    let foreign = tempfile::tempdir().unwrap();
    other.save(foreign.path()).unwrap();
    fs::copy(foreign.path().join("ca.pem"), directory.join("ca.pem")).unwrap();
    refused_by_both(&home, "was not issued by the `ca.pem` beside it");
}

fn refused_by_both(home: &Home, why: &str) {
    let checked = home.archipel(&["check"]);
    assert_eq!(checked.status.code(), Some(2), "{why}: {checked:?}");
    assert!(said(&checked).contains(why), "{why}: {checked:?}");
    assert!(said(&checked).contains("--> archipel.toml:3:12"), "the line of `identity`: {checked:?}");
    let run = home.refused();
    assert!(run.contains(why), "{why}: {run}");
}

#[test]
fn a_key_that_everybody_can_read_is_warned_of() {
    let service = Upstream::saying("here");
    let home = site(&service);
    assert_eq!(said(&home.archipel(&["check"])), "", "what `init` makes is for its owner");
    let key = home.path().join("identity/site-key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let checked = home.archipel(&["check"]);
    assert!(
        checked.status.success() && said(&checked).contains("warning: everybody on this machine can read"),
        "{checked:?}"
    );
    home.run().until("warning: everybody on this machine can read the key");
}

/// Two sites that have met, the first of which has an identity that has expired since.
fn out_of_date(service: &Upstream) -> ((Home, Running), (Home, Running)) {
    let first = site(service);
    let second = first.another("Site2");
    configure(&second, "Site2", service, "");
    let other = second.run();
    issue(&first, &authority(&first), "Site1", -30, -1);
    configure(&first, "Site1", service, &format!("join = [\"{}\"]", other.link_address()));
    let running = first.run();
    ((first, running), (second, other))
}

#[test]
fn a_renewed_identity_opens_the_link_after_a_reload() {
    let service = Upstream::saying("here");
    let ((home, mut running), _other) = out_of_date(&service);
    let address = running.address("image", "public");
    // Nothing is copied but two lines, and the authority stays where it is, without the site's files.
    let (asked, key) = (home.archipel(&["renew", "--request"]), home.path().join("identity/site-key.pem"));
    let before = fs::read(&key).unwrap();
    let vault = home.another("Site9");
    fs::rename(home.path().join("authority"), vault.path().join("authority")).unwrap();
    let issued = paste(&vault, &printed(&asked), &[]);
    assert!(issued.status.success() && printed(&issued).lines().count() == 1, "{issued:?}");
    let installed = paste(&home, &printed(&issued), &[]);
    assert!(installed.status.success() && printed(&installed).contains("valid until"), "{installed:?}");
    assert_eq!(fs::read(&key).unwrap(), before, "no key travels");
    running.signal("HUP");
    running.until("reloaded");
    running.until("the link to other sites is open");
    until("the other site is reached", || get(address, "/images", &AWAY).status() == 200);
    assert_eq!(status(&home)["link"]["state"], "open");
    assert_eq!(metric(&home, "link_closed"), "0");
}

#[test]
fn an_identity_is_renewed_in_its_place_where_files_are_copied() {
    let service = Upstream::saying("here");
    let home = site(&service);
    issue(&home, &authority(&home), "Site1", -30, -1);
    let renewed = home.archipel(&["renew", "identity"]);
    assert!(renewed.status.success() && printed(&renewed).contains("site.pem is renewed"), "{renewed:?}");
    let checked = home.archipel(&["check"]);
    assert!(checked.status.success() && said(&checked).is_empty(), "{checked:?}");
}

#[test]
fn one_pasted_line_renews_where_the_certificate_is_at_hand() {
    let service = Upstream::saying("here");
    let home = site(&service);
    issue(&home, &authority(&home), "Site1", -30, -1);
    let before = fs::read(home.path().join("identity/site.pem")).unwrap();
    let issued = home.archipel(&["renew", "identity", "--line"]);
    assert_eq!(fs::read(home.path().join("identity/site.pem")).unwrap(), before, "nothing is written");
    assert!(paste(&home, &printed(&issued), &[]).status.success(), "{issued:?}");
    assert!(said(&home.archipel(&["check"])).is_empty());
}

#[test]
fn what_is_not_its_own_is_neither_renewed_nor_installed() {
    let service = Upstream::saying("here");
    let home = site(&service);
    let second = home.another("Site2");
    let line = |home: &Home| printed(&home.archipel(&["renew", "--request"]));
    let refused = |output: Output, why: &str| {
        assert_eq!(output.status.code(), Some(2), "{why}: {output:?}");
        assert!(said(&output).contains(why), "{why}: {output:?}");
    };
    refused(home.archipel(&["renew", "3082"]), "is it whole?");
    refused(home.archipel(&["renew", "no/such/directory"]), "is it whole?");
    refused(home.archipel(&["renew", "--install", "junk"]), "is it whole?");
    // Another operator's authority.
    let stranger = Home::new();
    refused(paste(&stranger, &line(&home), &[]), "was not issued by this authority");
    // The other site's certificate, and a stolen site's.
    let theirs = printed(&paste(&home, &line(&second), &[]));
    refused(paste(&home, &theirs, &[]), "does not belong to the certificate");
    let old = line(&second);
    let revoked = home.archipel(&["revoke", "Site2"]);
    assert!(
        !revoked.status.success(),
        "no Archipel runs, and the authority remembers all the same: {revoked:?}"
    );
    refused(paste(&home, &old, &[]), "was revoked");
    let checked = home.archipel(&["check"]);
    assert!(checked.status.success() && said(&checked).is_empty(), "{checked:?}");
}
