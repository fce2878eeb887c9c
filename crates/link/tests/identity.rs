//! What `archipel init` leaves on a disk, and what happens to it there.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use link::{Authority, Fault, Identity, IdentityError};
use tempfile::TempDir;

fn issued(site: &str) -> (TempDir, Authority) {
    let dir = TempDir::new().unwrap();
    let authority = Authority::create("Test").unwrap();
    authority.issue(site).unwrap().save(dir.path()).unwrap();
    (dir, authority)
}

fn refused(dir: &Path) -> IdentityError {
    Identity::load(dir).expect_err("this identity must not load")
}

#[test]
fn an_identity_survives_the_disk() {
    let (dir, _) = issued("DC 1");
    let identity = Identity::load(dir.path()).unwrap();
    assert_eq!(identity.site(), "DC 1");
    let year = Duration::from_hours(24 * 365);
    let left = identity.valid_until().duration_since(SystemTime::now()).unwrap();
    assert!(left <= year && left + Duration::from_hours(1) > year);
}

#[test]
fn an_authority_survives_the_disk_and_issues_the_same() {
    let (dir, site_dir) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    Authority::create("Test").unwrap().save(dir.path()).unwrap();
    let authority = Authority::load(dir.path()).unwrap();
    authority.issue("Site1").unwrap().save(site_dir.path()).unwrap();
    Identity::load(site_dir.path()).unwrap();
    let (kept, given) = (fs::read(dir.path().join("ca.pem")), fs::read(site_dir.path().join("ca.pem")));
    assert_eq!(kept.unwrap(), given.unwrap());
}

#[test]
fn private_keys_are_for_their_owner_only() {
    let (dir, authority) = issued("Site1");
    let ca = TempDir::new().unwrap();
    authority.save(ca.path()).unwrap();
    for key in [dir.path().join("site-key.pem"), ca.path().join("ca-key.pem")] {
        assert_eq!(fs::metadata(key).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[test]
fn nothing_is_ever_overwritten() {
    let (dir, authority) = issued("Site1");
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    let before = ["ca.pem", "site.pem", "site-key.pem"].map(read);
    let error = authority.issue("Site2").unwrap().save(dir.path()).unwrap_err();
    assert_eq!(error.fault(), &Fault::Exists);
    let error = Authority::create("Other").unwrap().save(dir.path()).unwrap_err();
    assert_eq!(error.fault(), &Fault::Exists);
    assert_eq!(["ca.pem", "site.pem", "site-key.pem"].map(read), before);
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files, 3, "what could not be saved whole leaves nothing behind");
}

#[test]
fn a_certificate_can_be_renewed_beside_the_same_authority() {
    let (dir, authority) = issued("Site1");
    fs::remove_file(dir.path().join("site.pem")).unwrap();
    fs::remove_file(dir.path().join("site-key.pem")).unwrap();
    authority.issue("Site1").unwrap().save(dir.path()).unwrap();
    Identity::load(dir.path()).unwrap();
}

#[test]
fn a_missing_file_is_named() {
    for name in ["ca.pem", "site.pem", "site-key.pem"] {
        let (dir, _) = issued("Site1");
        fs::remove_file(dir.path().join(name)).unwrap();
        let error = refused(dir.path());
        assert_eq!(error.fault(), &Fault::Missing);
        assert!(error.to_string().contains(name), "{error}");
        assert!(error.to_string().contains("archipel init"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let (dir, _) = issued("Site1");
    fs::remove_file(dir.path().join("site.pem")).unwrap();
    fs::create_dir(dir.path().join("site.pem")).unwrap();
    assert_eq!(refused(dir.path()).fault(), &Fault::Unreadable);
}

#[test]
fn a_damaged_file_is_named() {
    for name in ["ca.pem", "site.pem", "site-key.pem"] {
        let (dir, _) = issued("Site1");
        fs::write(dir.path().join(name), "-----BEGIN NOTHING-----").unwrap();
        let error = refused(dir.path());
        assert_eq!(error.fault(), &Fault::Malformed);
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_key_of_another_certificate_is_refused() {
    let (dir, authority) = issued("Site1");
    let other = TempDir::new().unwrap();
    authority.issue("Site1").unwrap().save(other.path()).unwrap();
    fs::copy(other.path().join("site-key.pem"), dir.path().join("site-key.pem")).unwrap();
    let error = refused(dir.path());
    assert_eq!(error.fault(), &Fault::KeyMismatch);
    assert!(error.path().unwrap().ends_with("site-key.pem"));
}

#[test]
fn a_certificate_of_another_authority_is_refused() {
    let (dir, _) = issued("Site1");
    let (other, _) = issued("Site1");
    fs::copy(other.path().join("ca.pem"), dir.path().join("ca.pem")).unwrap();
    assert_eq!(refused(dir.path()).fault(), &Fault::OtherAuthority);
}

/// How an operator changes to a new authority: first all sites believe both, then each is issued again.
#[test]
fn an_authority_can_be_replaced_site_by_site() {
    let (old, new) = (Authority::create("Test").unwrap(), Authority::create("Test").unwrap());
    let both = |site: &str, issuer: &Authority, other: &Authority| {
        let dir = TempDir::new().unwrap();
        issuer.issue(site).unwrap().save(dir.path()).unwrap();
        let ours = fs::read_to_string(dir.path().join("ca.pem")).unwrap();
        let theirs = TempDir::new().unwrap();
        other.save(theirs.path()).unwrap();
        let theirs = fs::read_to_string(theirs.path().join("ca.pem")).unwrap();
        for bundle in [format!("{ours}{theirs}"), format!("{theirs}{ours}")] {
            fs::write(dir.path().join("ca.pem"), bundle).unwrap();
            Identity::load(dir.path()).unwrap();
        }
        Identity::load(dir.path()).unwrap()
    };
    let (first, second) = (both("Site1", &old, &new), both("Site2", &new, &old));
    let now = SystemTime::now();
    for (from, to) in [(&first, &second), (&second, &first)] {
        let (sealer, _) = link::datagram::pair(from, link::Revoked::default()).unwrap();
        let (_, opener) = link::datagram::pair(to, link::Revoked::default()).unwrap();
        let bytes = sealer.seal(Some(to.site()), b"hello", now).unwrap().datagram;
        assert_eq!(opener.open(&bytes, now).unwrap().from, from.site());
    }
    for authority in [&old, &new] {
        let revocation = authority.revoke("Site9", now).unwrap().to_bytes();
        link::Revocation::from_bytes(&revocation, &first).unwrap();
    }
}

#[test]
fn a_certificate_out_of_its_time_is_refused_with_its_date() {
    let (authority, now, day) =
        (Authority::create("Test").unwrap(), SystemTime::now(), Duration::from_hours(24));
    let past = TempDir::new().unwrap();
    authority.issue_between("Site1", now - day * 2, now - day).unwrap().save(past.path()).unwrap();
    let error = refused(past.path());
    assert!(matches!(error.fault(), Fault::Expired(_)), "{error}");
    assert!(error.to_string().contains("20"), "the date: {error}");
    let future = TempDir::new().unwrap();
    authority.issue_between("Site1", now + day, now + day * 2).unwrap().save(future.path()).unwrap();
    assert!(matches!(refused(future.path()).fault(), Fault::NotYetValid(_)));
}

#[test]
fn a_site_is_not_valid_for_longer_than_its_authority() {
    let (authority, now) = (Authority::create("Test").unwrap(), SystemTime::now());
    let year = Duration::from_hours(24 * 365);
    let identity = authority.issue_between("Site1", now, now + year * 50).unwrap();
    assert!(identity.valid_until() < now + year * 11);
}

#[test]
fn a_name_that_no_site_can_have_is_refused() {
    let error = Authority::create("Test").unwrap().issue("a\nb").err().unwrap();
    assert!(matches!(error.fault(), Fault::BadName(..)), "{error}");
}
