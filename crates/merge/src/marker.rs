//! The marker of a page over several sites: each site's own position, in one word.
//!
//! It is `a1`, then in base64 for URLs: per site its name and position, and a checksum; or `a2`, with the sites that tell
//! what several have before the positions. The checksum is against accidents only. A forged marker reaches no more than
//! the sites' own markers do, since a position is only ever sent as a query parameter to the site it names.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;

use crate::error::Refused;
use crate::tellers::{Lacking, Teller};

/// The version, which changes with the form: without tellers, and with them.
const VERSION: &str = "a1";
const WITH_TELLERS: &str = "a2";

/// More than URLs can carry.
const MOST_BYTES: usize = 64 << 10;

/// How far a site's list has been told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// There is no more.
    pub(crate) done: bool,
    /// The site's own marker or token, if it is not at its start.
    pub(crate) after: Option<String>,
    /// How many items from there were told already.
    pub(crate) skip: u64,
}

impl Position {
    pub(crate) fn done() -> Position {
        Position { done: true, ..Position::default() }
    }
}

/// Positions by site. A site that is not there is at its start.
pub(crate) type Positions = BTreeMap<String, Position>;

const DONE: u8 = 0;
const START: u8 = 1;
const TEXT: u8 = 2;
const UUID: u8 = 3;
const PLAIN_UUID: u8 = 4;
const SKIPS: u8 = 0x10;

pub(crate) fn write<'t>(positions: &Positions, tellers: impl Iterator<Item = &'t Teller>) -> String {
    let mut bytes = Vec::new();
    let tellers: Vec<&Teller> = tellers.collect();
    if !tellers.is_empty() {
        put_number(&mut bytes, tellers.len() as u64);
        for teller in &tellers {
            put(&mut bytes, teller.site.as_bytes());
            teller.lacking.write(&mut bytes);
        }
    }
    for (site, position) in positions {
        put(&mut bytes, site.as_bytes());
        let skips = if position.skip > 0 { SKIPS } else { 0 };
        match &position.after {
            _ if position.done => bytes.push(DONE),
            None => bytes.push(START | skips),
            Some(after) => {
                if let Some((kind, digits)) = uuid(after) {
                    bytes.push(kind | skips);
                    bytes.extend(digits);
                } else {
                    bytes.push(TEXT | skips);
                    put(&mut bytes, after.as_bytes());
                }
            }
        }
        if skips != 0 && !position.done {
            put_number(&mut bytes, position.skip);
        }
    }
    bytes.extend(checksum(&bytes, !tellers.is_empty()));
    let version = if tellers.is_empty() { VERSION } else { WITH_TELLERS };
    format!("{version}{}", BASE64URL_NOPAD.encode(&bytes))
}

pub(crate) fn read(text: &str) -> Result<(Positions, Vec<Teller>), Refused> {
    let refused = |why| Refused::Marker { why };
    let (coded, has_tellers) = match text.strip_prefix(WITH_TELLERS) {
        Some(coded) => (coded, true),
        None => (text.strip_prefix(VERSION).ok_or(refused("is not one of a merged list"))?, false),
    };
    if coded.len() > MOST_BYTES {
        return Err(refused("is too long"));
    }
    let bytes = BASE64URL_NOPAD.decode(coded.as_bytes()).map_err(|_| refused("is damaged"))?;
    let (body, sum) = bytes.split_last_chunk::<4>().ok_or(refused("is damaged"))?;
    if checksum(body, has_tellers) != *sum {
        return Err(refused("is damaged"));
    }
    let mut positions = Positions::new();
    let mut rest = body;
    let tellers = if has_tellers { tellers(&mut rest).ok_or(refused("is damaged"))? } else { Vec::new() };
    while !rest.is_empty() {
        let (site, position) = entry(&mut rest).ok_or(refused("is damaged"))?;
        positions.insert(site, position);
    }
    Ok((positions, tellers))
}

fn tellers(rest: &mut &[u8]) -> Option<Vec<Teller>> {
    let mut tellers = Vec::new();
    for _ in 0..get_number(rest)? {
        tellers.push(Teller { site: get(rest)?, lacking: Lacking::read(rest)? });
    }
    Some(tellers)
}

fn entry(rest: &mut &[u8]) -> Option<(String, Position)> {
    let site = get(rest)?;
    let kind = rest.split_off_first().copied()?;
    let after = match kind & !SKIPS {
        DONE => return Some((site, Position::done())),
        START => None,
        TEXT => Some(get(rest)?),
        UUID => Some(dashed(rest.split_off(..16)?)),
        PLAIN_UUID => Some(hex(rest.split_off(..16)?)),
        _ => return None,
    };
    let skip = if kind & SKIPS == 0 { 0 } else { get_number(rest)? };
    Some((site, Position { done: false, after, skip }))
}

/// The digits of a UUID, which most ids are: half as long as its text.
fn uuid(text: &str) -> Option<(u8, Vec<u8>)> {
    let digits = data_encoding::HEXLOWER.decode(text.replace('-', "").as_bytes()).ok()?;
    if digits.len() != 16 {
        return None;
    }
    match text {
        _ if dashed(&digits) == text => Some((UUID, digits)),
        _ if hex(&digits) == text => Some((PLAIN_UUID, digits)),
        _ => None,
    }
}

fn hex(digits: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(digits)
}

fn dashed(digits: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (index, digit) in hex(digits).chars().enumerate() {
        if matches!(index, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

pub(crate) fn put(bytes: &mut Vec<u8>, text: &[u8]) {
    put_number(bytes, text.len() as u64);
    bytes.extend_from_slice(text);
}

pub(crate) fn get(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(get_number(rest)?).ok()?;
    String::from_utf8(rest.split_off(..length)?.to_vec()).ok()
}

/// Seven bits a byte, the least first.
pub(crate) fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    let low = |number: u64| number.to_le_bytes()[0];
    while number > 0x7f {
        bytes.push(low(number) | 0x80);
        number >>= 7;
    }
    bytes.push(low(number));
}

pub(crate) fn get_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let byte = rest.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// FNV-1a, which begins elsewhere for each version.
fn checksum(bytes: &[u8], has_tellers: bool) -> [u8; 4] {
    let mix = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5 ^ u32::from(has_tellers), mix).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn position() -> impl Strategy<Value = Position> {
        let after = proptest::option::of(prop_oneof![
            ".{0,40}",
            "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
            "[0-9a-f]{32}",
            "[0-9A-F-]{32,36}",
        ]);
        let open = (after, 0..u64::MAX >> 1).prop_map(|(after, skip)| Position { done: false, after, skip });
        prop_oneof![Just(Position::done()), open]
    }

    fn teller() -> impl Strategy<Value = Teller> {
        let ids = proptest::collection::btree_set(".{0,40}", 0..4).prop_map(Lacking::These);
        let lacking = prop_oneof![Just(Lacking::Many), ids];
        (".{0,20}", lacking).prop_map(|(site, lacking)| Teller { site, lacking })
    }

    proptest! {
        #[test]
        fn a_marker_reads_back_and_needs_no_escape_in_a_url(
            positions in proptest::collection::btree_map(".{0,20}", position(), 0..8),
            tellers in proptest::collection::vec(teller(), 0..4),
        ) {
            let text = write(&positions, tellers.iter());
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'));
            prop_assert_eq!(read(&text).unwrap(), (positions, tellers));
        }

        #[test]
        fn a_damaged_marker_is_refused(at in 0..60_usize, to in "[A-Za-z0-9_-]") {
            let positions = Positions::from([(
                "Site1".to_owned(),
                Position { done: false, after: Some("0aef01d5-1b5b-4d5a-9f0a-2c9f3f4f7b11".into()), skip: 3 },
            )]);
            let text = write(&positions, None.into_iter());
            let mut damaged = text.clone();
            let at = at % text.len();
            damaged.replace_range(at..=at, &to);
            prop_assert!(damaged == text || read(&damaged).is_err());
            prop_assert!(read(text.split_at(at).0).is_err());
        }

        #[test]
        fn any_text_as_a_marker_is_refused_or_read(text in "a[12][A-Za-z0-9_-]{0,60}|.{0,40}") {
            let _ = read(&text);
        }
    }

    #[test]
    fn an_id_of_digits_reads_back_and_is_short_in_both_usual_forms() {
        let marker = |after: &str| {
            let position = Position { done: false, after: Some(after.into()), skip: 0 };
            let positions = Positions::from([("Site1".to_owned(), position)]);
            let text = write(&positions, None.into_iter());
            assert_eq!(read(&text).unwrap().0, positions);
            text.len()
        };
        let (dashed, plain) = ("0aef01d5-1b5b-4d5a-9f0a-2c9f3f4f7b11", "0aef01d51b5b4d5a9f0a2c9f3f4f7b11");
        assert_eq!(marker(dashed), marker(plain));
        let elsewhere = "0aef01d51b5b-4d5a9f0a2c9f3f4f7b-11";
        assert!(marker(plain) < marker(elsewhere));
    }

    #[test]
    fn a_marker_that_is_too_long_is_not_looked_at() {
        let why = |len: usize| read(&format!("{VERSION}{}", "A".repeat(len)));
        assert_eq!(why(MOST_BYTES), Err(Refused::Marker { why: "is damaged" }));
        for long in [MOST_BYTES + 1, MOST_BYTES + 4] {
            assert_eq!(why(long), Err(Refused::Marker { why: "is too long" }));
        }
    }

    #[test]
    fn a_hundred_sites_fit_into_a_url() {
        let site = |index: usize| {
            let after = format!("{index:08x}-1b5b-4d5a-9f0a-2c9f3f4f7b11");
            (format!("Site{index}"), Position { done: false, after: Some(after), skip: 0 })
        };
        assert!(write(&(0..100).map(site).collect(), None.into_iter()).len() < 4000);
    }
}
