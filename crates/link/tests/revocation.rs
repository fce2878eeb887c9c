//! What an authority takes back is shut out, and nobody else can take anything back.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::time::{Duration, SystemTime};

use link::{Authority, BadRevocation, Fault, Identity, Revocation, Revoked};
use proptest::prelude::*;
use tempfile::TempDir;

#[test]
fn an_identity_knows_when_it_was_issued_also_from_the_disk() {
    let authority = Authority::create("Test").unwrap();
    let before = SystemTime::now() - Duration::from_micros(1);
    let identity = authority.issue("Site1").unwrap();
    assert!(identity.issued() >= before && identity.issued() <= SystemTime::now());
    let dir = TempDir::new().unwrap();
    identity.save(dir.path()).unwrap();
    let loaded = Identity::load(dir.path()).unwrap();
    assert_eq!((loaded.issued(), loaded.fingerprint()), (identity.issued(), identity.fingerprint()));
    let next = authority.issue("Site1").unwrap();
    assert!(next.issued() > identity.issued() && next.fingerprint() != identity.fingerprint());
    assert_eq!(identity.fingerprint().to_string().len(), 64);
}

#[test]
fn a_revocation_survives_the_wire_and_the_disk_of_its_authority() {
    let dir = TempDir::new().unwrap();
    Authority::create("Test").unwrap().save(dir.path()).unwrap();
    let authority = Authority::load(dir.path()).unwrap();
    let identity = authority.issue("DC 1").unwrap();
    let at = SystemTime::now();
    let revocation = authority.revoke("DC 1", at).unwrap();
    let read = Revocation::from_bytes(&revocation.to_bytes(), &identity).unwrap();
    assert_eq!((read.site(), &read), ("DC 1", &revocation));
    assert!(at.duration_since(read.at()).unwrap() < Duration::from_micros(1));
}

#[test]
fn only_the_authority_can_revoke() {
    let (ours, other) = (Authority::create("Test").unwrap(), Authority::create("Test").unwrap());
    let identity = ours.issue("Site1").unwrap();
    let forged = other.revoke("Site1", SystemTime::now()).unwrap().to_bytes();
    assert_eq!(Revocation::from_bytes(&forged, &identity), Err(BadRevocation::OtherAuthority));
    assert!(matches!(ours.revoke("", SystemTime::now()).unwrap_err().fault(), Fault::BadName(..)));
}

#[test]
fn what_was_issued_up_to_then_is_shut_out_and_what_comes_later_is_not() {
    let authority = Authority::create("Test").unwrap();
    let revoked = Revoked::default();
    let stolen = authority.issue("Site1").unwrap();
    let revocation = authority.revoke("Site1", SystemTime::now()).unwrap();
    let renewed = authority.issue("Site1").unwrap();
    assert!(!revoked.shuts_out("Site1", stolen.issued()));
    assert!(revoked.add(revocation.clone()));
    assert!(!revoked.add(revocation.clone()), "it is no news any more");
    assert!(revoked.shuts_out("Site1", stolen.issued()));
    assert!(!revoked.shuts_out("Site1", renewed.issued()));
    assert!(!revoked.shuts_out("Site2", stolen.issued()));
    // An older one changes nothing, a later one does.
    let old = authority.revoke("Site1", stolen.issued() - Duration::from_secs(9)).unwrap();
    assert!(!revoked.add(old));
    assert!(revoked.add(authority.revoke("Site1", SystemTime::now()).unwrap()));
    assert!(revoked.shuts_out("Site1", renewed.issued()));
    assert_eq!(revoked.all().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn no_other_bytes_are_a_revocation(at in any::<prop::sample::Index>(), flip in 1_u8.., noise: Vec<u8>) {
        let authority = Authority::create("Test").unwrap();
        let identity = authority.issue("Site1").unwrap();
        let mut bytes = authority.revoke("Site1", SystemTime::now()).unwrap().to_bytes();
        let place = at.index(bytes.len());
        prop_assert!(Revocation::from_bytes(&bytes[..place], &identity).is_err());
        bytes[place] ^= flip;
        prop_assert!(Revocation::from_bytes(&bytes, &identity).is_err());
        prop_assert!(Revocation::from_bytes(&noise, &identity).is_err());
    }
}
