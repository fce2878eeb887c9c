//! Datagrams between honest sites arrive once, whatever their clocks say; nobody else's arrive at all.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use link::datagram::{MAX_PAYLOAD_BYTES, Opened, Opener, Refusal, SealError, Sealer, pair};
use link::{Authority, Identity, Revoked};
use proptest::prelude::*;

const HOUR: Duration = Duration::from_hours(1);

fn authority() -> Authority {
    Authority::create("Test").unwrap()
}

/// One run of a site, with a clock of its own.
struct Site {
    name: String,
    sealer: Sealer,
    opener: Opener,
    now: SystemTime,
}

impl Site {
    fn of(identity: &Identity) -> Site {
        let (sealer, opener) = pair(identity, Revoked::default()).unwrap();
        Site { name: identity.site().to_owned(), sealer, opener, now: SystemTime::now() }
    }

    fn new(authority: &Authority, name: &str) -> Site {
        Site::of(&authority.issue(name).unwrap())
    }

    fn at(mut self, now: SystemTime) -> Site {
        self.now = now;
        self
    }

    /// The bytes of a small message.
    fn says(&self, to: &Site, text: &str) -> Vec<u8> {
        let sealed = self.sealer.seal(Some(&to.name), text.as_bytes(), self.now).unwrap();
        assert_eq!(sealed.introduction, None, "a small message has room for a certificate");
        sealed.datagram
    }

    fn hears(&self, bytes: &[u8]) -> Result<Opened, Refusal> {
        self.opener.open(bytes, self.now)
    }

    /// Sends until it is heard, asking and answering as a driver does; how many datagrams were refused.
    fn reaches(&self, to: &Site, text: &str) -> usize {
        for refused in 0..5 {
            match to.hears(&self.says(to, text)) {
                Ok(opened) => {
                    assert_eq!(
                        (opened.from.as_str(), opened.payload.as_slice()),
                        (&*self.name, text.as_bytes())
                    );
                    return refused;
                }
                Err(refusal) => {
                    let asked = refusal.ask().unwrap_or_else(|| panic!("{refusal}"));
                    assert_eq!(asked, self.name);
                    let question = to.sealer.ask(asked, to.now).unwrap();
                    match self.hears(&question) {
                        Ok(opened) => assert!(opened.asks && opened.payload.is_empty()),
                        Err(refusal) => {
                            let back = self.sealer.ask(refusal.ask().unwrap(), self.now).unwrap();
                            let _ = to.hears(&back);
                        }
                    }
                }
            }
        }
        panic!("{} never reached {}", self.name, to.name);
    }
}

#[test]
fn a_first_message_is_believed_at_once_and_the_certificate_is_not_sent_for_ever() {
    let authority = authority();
    let (a, b) = (Site::new(&authority, "DC 1"), Site::new(&authority, "Site2"));
    let first = a.says(&b, "hello");
    assert_eq!(b.hears(&first).unwrap().payload, b"hello");
    assert!(a.says(&b, "hello").len() == first.len(), "nothing came back yet");
    assert_eq!(b.reaches(&a, "yes"), 0);
    let later = a.says(&b, "hello");
    assert!(later.len() + 300 < first.len(), "{} {}", later.len(), first.len());
    assert_eq!(b.hears(&later).unwrap().payload, b"hello");
}

#[test]
fn a_first_contact_needs_an_address_only() {
    let authority = authority();
    let (a, b) = (Site::new(&authority, "Site1"), Site::new(&authority, "Site2"));
    let sealed = a.sealer.seal(None, b"may I join?", a.now).unwrap();
    assert_eq!(b.hears(&sealed.datagram).unwrap().from, "Site1");
    assert_eq!(a.hears(&sealed.datagram), Err(Refusal::OurName));
}

#[test]
fn a_long_first_message_comes_with_an_introduction() {
    let authority = authority();
    let (a, b) = (Site::new(&authority, "Site1"), Site::new(&authority, "Site2"));
    let payload = [7; MAX_PAYLOAD_BYTES];
    let sealed = a.sealer.seal(Some("Site2"), &payload, a.now).unwrap();
    let introduction = sealed.introduction.unwrap();
    assert!(introduction.len() <= 1400 && sealed.datagram.len() <= 1400, "one packet each");
    assert_eq!(b.hears(&sealed.datagram), Err(Refusal::Unknown("Site1".to_owned())));
    assert_eq!(b.hears(&introduction).unwrap().payload, b"");
    assert_eq!(b.hears(&sealed.datagram).unwrap().payload, payload);
    assert_eq!(a.sealer.seal(None, &[0; MAX_PAYLOAD_BYTES + 1], a.now), Err(SealError::TooLong));
    assert_eq!(a.sealer.seal(Some("a\nb"), &[], a.now), Err(SealError::BadName));
}

#[test]
fn a_certificate_that_came_in_another_way_is_enough() {
    let authority = authority();
    let identity = authority.issue("Site1").unwrap();
    let (a, b) = (Site::of(&identity), Site::new(&authority, "Site2"));
    assert_eq!(b.opener.learn(identity.certificate(), b.now).unwrap(), "Site1");
    let sealed = a.sealer.seal(Some("Site2"), &[7; MAX_PAYLOAD_BYTES], a.now).unwrap();
    assert!(b.hears(&sealed.datagram).is_ok(), "without its introduction");
    let stranger = Authority::create("Other").unwrap().issue("Site3").unwrap();
    assert_eq!(b.opener.learn(stranger.certificate(), b.now), Err(Refusal::OtherAuthority));
    assert_eq!(b.opener.learn(b"no certificate", b.now), Err(Refusal::OtherAuthority));
}

#[test]
fn each_datagram_counts_once() {
    let authority = authority();
    let (a, b) = (Site::new(&authority, "Site1"), Site::new(&authority, "Site2"));
    let recorded: Vec<_> = (0..200).map(|number| a.says(&b, &number.to_string())).collect();
    for bytes in &recorded {
        b.hears(bytes).unwrap();
    }
    for bytes in &recorded {
        assert_eq!(b.hears(bytes), Err(Refusal::Replayed));
    }
}

#[test]
fn a_datagram_counts_for_its_receiver_only() {
    let authority = authority();
    let (a, b, c) =
        (Site::new(&authority, "Site1"), Site::new(&authority, "Site2"), Site::new(&authority, "Site3"));
    assert_eq!(c.hears(&a.says(&b, "for Site2")), Err(Refusal::NotForUs));
}

#[test]
fn a_site_that_was_restarted_is_heard_and_what_its_earlier_runs_said_is_not() {
    let authority = authority();
    let identity = authority.issue("Site1").unwrap();
    let (old, b) = (Site::of(&identity), Site::new(&authority, "Site2"));
    let (first, kept) = (old.says(&b, "first"), old.says(&b, "never delivered"));
    b.hears(&first).unwrap();
    let new = Site::of(&identity);
    assert_eq!(new.reaches(&b, "new"), 0);
    for bytes in [&first, &kept] {
        assert_eq!(b.hears(bytes), Err(Refusal::Unproven("Site1".to_owned())));
    }
    assert_eq!(new.reaches(&b, "still there"), 0, "and that did not harm the new one");
}

#[test]
fn a_receiver_that_was_restarted_takes_no_recorded_datagram() {
    let authority = authority();
    let (a, identity) = (Site::new(&authority, "Site1"), authority.issue("Site2").unwrap());
    let b = Site::of(&identity);
    let recorded: Vec<_> = (0..3).map(|_| a.says(&b, "do it")).collect();
    b.hears(&recorded[0]).unwrap();
    assert_eq!(b.reaches(&a, "done"), 0);
    let later = a.says(&b, "do it");
    b.hears(&later).unwrap();
    // An hour later it knows nobody any more.
    let b = Site::of(&identity).at(b.now + HOUR);
    for bytes in recorded.iter().chain([&later]) {
        assert!(b.hears(bytes).unwrap_err().ask().is_some());
    }
    let a = a.at(b.now);
    assert_eq!(a.reaches(&b, "hello again"), 0, "the recorded ones brought its certificate");
    for bytes in recorded.iter().chain([&later]) {
        assert!(b.hears(bytes).is_err());
    }
}

#[test]
fn a_receiver_that_was_restarted_asks_who_it_hears() {
    let authority = authority();
    let (a, identity) = (Site::new(&authority, "Site1"), authority.issue("Site2").unwrap());
    let b = Site::of(&identity);
    assert_eq!((a.reaches(&b, "hello"), b.reaches(&a, "hello")), (0, 0));
    let b = Site::of(&identity);
    assert_eq!(a.reaches(&b, "hello again"), 1);
}

#[test]
fn nobody_is_shut_out_by_a_clock() {
    let authority = authority();
    let (one, two) = (authority.issue("Site1").unwrap(), authority.issue("Site2").unwrap());
    let now = SystemTime::now();
    // A day is what certificates are backdated by.
    for (here, there) in [(now, now + HOUR * 20), (now + HOUR * 20, now), (now - HOUR * 20, now + HOUR * 20)]
    {
        let (a, b) = (Site::of(&one).at(here), Site::of(&two).at(there));
        a.reaches(&b, "first");
        assert_eq!(b.reaches(&a, "back"), 0);
        assert_eq!(a.reaches(&b, "next"), 0);
        // One is restarted, with a clock that went back.
        let early = Site::of(&one).at(here - HOUR);
        early.reaches(&b, "restarted");
        assert_eq!(early.reaches(&b, "next"), 0);
        assert_eq!(b.reaches(&early, "back"), 0);
        assert!(b.hears(&a.says(&b, "the earlier run")).is_err());
        assert_eq!(early.reaches(&b, "still there"), 0);
    }
}

#[test]
fn an_outsider_is_not_heard() {
    let authority = authority();
    let b = Site::new(&authority, "Site2");
    let other = Site::new(&Authority::create("Test").unwrap(), "Site1");
    assert_eq!(b.hears(&other.says(&b, "hello")), Err(Refusal::OtherAuthority));
    let (now, day) = (SystemTime::now(), Duration::from_hours(24));
    let expired = Site::of(&authority.issue_between("Site1", now - day * 2, now - day).unwrap());
    assert_eq!(b.hears(&expired.says(&b, "hello")), Err(Refusal::Expired));
    // One that expires while it is known.
    let short = Site::of(&authority.issue_between("Site3", now - day, now + day).unwrap());
    b.hears(&short.says(&b, "hello")).unwrap();
    let (b, short) = (b.at(now + day * 2), short.at(now + day * 2));
    assert_eq!(b.hears(&short.says(&b, "hello")), Err(Refusal::Expired));
}

#[test]
fn a_revoked_identity_is_not_heard_and_a_later_one_of_the_same_site_is() {
    let authority = authority();
    let revoked = Revoked::default();
    let (sealer, opener) = pair(&authority.issue("Site2").unwrap(), revoked.clone()).unwrap();
    let b = Site { name: "Site2".to_owned(), sealer, opener, now: SystemTime::now() };
    let stolen = Site::new(&authority, "Site1");
    stolen.reaches(&b, "hello");
    assert!(revoked.add(authority.revoke("Site1", SystemTime::now()).unwrap()));
    assert_eq!(b.hears(&stolen.says(&b, "hello")), Err(Refusal::Revoked));
    let again = Site::new(&authority, "Site1");
    assert_eq!(again.reaches(&b, "hello"), 0);
    assert_eq!(b.hears(&stolen.says(&b, "hello")), Err(Refusal::Revoked));
    // It counts for those that nobody has met yet, too.
    assert!(revoked.add(authority.revoke("Site3", SystemTime::now() + HOUR).unwrap()));
    assert_eq!(b.hears(&Site::new(&authority, "Site3").says(&b, "hello")), Err(Refusal::Revoked));
}

#[test]
fn an_older_identity_cannot_take_a_name_back() {
    let authority = authority();
    let (old, b) = (Site::new(&authority, "Site1"), Site::new(&authority, "Site2"));
    old.reaches(&b, "hello");
    Site::new(&authority, "Site1").reaches(&b, "renewed");
    assert_eq!(b.hears(&old.says(&b, "hello")), Err(Refusal::Superseded));
}

#[test]
fn questions_to_forged_addresses_are_few() {
    let b = Site::new(&authority(), "Site2");
    let asked = (0..10_000).filter(|_| b.sealer.ask("Site1", b.now).is_some()).count();
    assert!(asked <= 200, "{asked}");
    assert!(b.sealer.ask("Site1", b.now + Duration::from_secs(1)).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Of what honest sites sent, in whatever order and however often it comes, each message is taken at
    /// most once; and no byte of it can be changed.
    #[test]
    fn the_network_can_only_lose_messages(
        order in prop::collection::vec((0_usize..40, any::<Option<(u16, u8)>>()), 0..120),
    ) {
        let authority = authority();
        let (a, b) = (Site::new(&authority, "Site1"), Site::new(&authority, "Site2"));
        let sent: Vec<_> = (0..40).map(|number: u8| a.says(&b, &number.to_string())).collect();
        let mut heard = HashSet::new();
        for (number, change) in order {
            let mut bytes = sent[number].clone();
            let changed = change.is_some_and(|(at, flip)| {
                let at = usize::from(at) % bytes.len();
                bytes[at] ^= flip;
                flip != 0
            });
            match b.hears(&bytes) {
                Ok(opened) => {
                    prop_assert!(!changed, "a changed datagram was believed");
                    prop_assert_eq!(opened.payload, number.to_string().into_bytes());
                    prop_assert!(heard.insert(number), "taken twice");
                }
                Err(_) => prop_assert!(changed || heard.contains(&number)),
            }
        }
    }

    #[test]
    fn hostile_bytes_are_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..1500), forge in any::<bool>()) {
        let authority = authority();
        let (a, b) = (Site::new(&authority, "Site1"), Site::new(&authority, "Site2"));
        if forge {
            // With a genuine beginning and any end.
            let genuine = a.says(&b, "hello");
            let kept = bytes.len() % genuine.len();
            bytes.splice(..0, genuine[..kept].to_vec());
        }
        prop_assert!(b.hears(&bytes).is_err());
        prop_assert_eq!(a.reaches(&b, "and harmed nothing"), 0);
    }
}
