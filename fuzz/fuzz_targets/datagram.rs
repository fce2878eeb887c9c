//! Any bytes at a site's datagram port: whatever was changed in a signed message, it is refused.

#![no_main]

mod altered;

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use altered::altered;
use libfuzzer_sys::fuzz_target;
use link::datagram::{Opener, Sealer, pair};
use link::{Authority, Revoked};

struct Stage {
    messages: Vec<Vec<u8>>,
    opener: Opener,
    now: SystemTime,
    _sealer: Sealer,
}

static STAGE: LazyLock<Stage> = LazyLock::new(|| {
    let authority = Authority::create("fuzz").expect("an authority");
    let of = |site: &str| {
        pair(&authority.issue(site).expect("an identity"), Revoked::default()).expect("both ends")
    };
    let ((sealer, opener), (first, first_opener), (second, _)) = (of("Here"), of("Site1"), of("Site2"));
    let now = SystemTime::now() + Duration::from_secs(1);
    let mut messages = vec![first.introduce("Here", now).expect("an introduction")];
    messages.extend(first.ask("Here", now));
    messages.push(second.seal(Some("Here"), b"not met yet", now).expect("a datagram").datagram);
    messages.push(second.seal(None, b"for anybody", now).expect("a datagram").datagram);
    // A sender that was answered: its certificate goes along no more.
    let hello = first.seal(Some("Here"), b"hello", now).expect("a datagram");
    opener.open(&hello.datagram, now).expect("it is right");
    let answer = sealer.seal(Some("Site1"), b"hello", now).expect("a datagram");
    first_opener.open(&answer.datagram, now).expect("it is right");
    messages.push(first.seal(Some("Here"), &[7; 400], now).expect("a datagram").datagram);
    Stage { messages, opener, now, _sealer: sealer }
});

fuzz_target!(|input: &[u8]| {
    let stage = &*STAGE;
    let message = altered(&stage.messages, input);
    if stage.messages.contains(&message) {
        return;
    }
    let opened = stage.opener.open(&message, stage.now);
    assert!(opened.is_err(), "{opened:?}");
    // As it is, too.
    assert!(stage.messages.iter().any(|sent| sent == input) || stage.opener.open(input, stage.now).is_err());
});
