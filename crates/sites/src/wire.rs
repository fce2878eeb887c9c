//! What travels: a head, then items to the end. Names and records stay bytes until they are of use.

use serde::{Deserialize, Serialize};

use crate::coordinate::Coordinate;

/// The most that a datagram holds, so that 1,200 bytes hold it with its signature: what every path carries
/// whole.
pub const DATAGRAM_BYTES: usize = 1100;

/// The first byte. Datagrams of another version are not read.
const VERSION: u8 = 1;

/// What a datagram is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Head<'a> {
    /// Are you there?
    Ping { nonce: u64 },
    /// The same, from a site that may be new to you: say who you are.
    Hello { nonce: u64 },
    /// I am.
    Ack { nonce: u64 },
    /// Ask this site for me.
    AskFor { nonce: u64, site: &'a str },
    /// I asked, and it is there.
    Vouch { nonce: u64 },
    /// Only items.
    News,
}

/// One thing that is said.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Item<'a> {
    /// A site and its record.
    Site(Told<'a>),
    /// It is alive in this life.
    Alive(Life<'a>),
    /// It does not answer, says `by`.
    Suspect { life: Life<'a>, by: &'a str },
    /// It did not object.
    Dead(Life<'a>),
    /// It said goodbye.
    Left(Life<'a>),
    /// Where it is and how it does; of the sender, if the name is empty.
    Vitals(Vitals<'a>),
    /// A zone: its text, or nothing if it is removed.
    Zone { name: &'a str, stamp: u64, by: &'a str, text: Option<&'a str> },
    /// Whether a site is to be left alone.
    Quarantine { site: &'a str, stamp: u64, by: &'a str, on: bool },
    /// The operator's word that identities of a site are revoked.
    Revoked { site: &'a str, before: u64, statement: &'a [u8] },
}

/// The life of a site that something is said of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Life<'a> {
    pub(crate) site: &'a str,
    pub(crate) epoch: u64,
    pub(crate) refuted: u32,
}

/// What one site tells of another, with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told<'a> {
    pub(crate) life: Life<'a>,
    pub(crate) status: ToldStatus,
    pub(crate) version: u32,
    pub(crate) body: &'a [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToldStatus {
    Alive,
    /// For this many seconds.
    Dead(u32),
    Left(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Vitals<'a> {
    pub(crate) site: &'a str,
    pub(crate) epoch: u64,
    pub(crate) tick: u32,
    pub(crate) coordinate: Coordinate,
    pub(crate) metrics: &'a [u8],
}

/// A question or an answer of an exchange of states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exchange {
    /// Digests of what the asking site has: tell me where you differ.
    Ask { buckets: Vec<u64>, registers: u64 },
    /// What follows is all that the answering site has in these buckets, and its registers if the
    /// digests differ.
    Answer { differ: Vec<u8>, registers: u64 },
    /// What follows is what you lack. The answer is empty.
    Give,
}

/// Begins a message.
pub(crate) fn begin<T: Serialize>(head: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    bytes.push(VERSION);
    add(&mut bytes, head);
    bytes
}

/// Adds to a message.
pub(crate) fn add<T: Serialize>(bytes: &mut Vec<u8>, item: &T) {
    let whole = bytes.len();
    let taken = std::mem::take(bytes);
    match postcard::to_extend(item, taken) {
        Ok(more) => *bytes = more,
        // Into memory it cannot fail; and half an item would spoil what follows.
        Err(_) => bytes.truncate(whole),
    }
}

/// Adds an item to a datagram if it fits below `limit`.
pub(crate) fn add_within(bytes: &mut Vec<u8>, item: &Item<'_>, limit: usize) -> bool {
    let before = bytes.len();
    add(bytes, item);
    if bytes.len() > limit {
        bytes.truncate(before);
        return false;
    }
    true
}

/// The head of a message, and the rest of its bytes.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<(T, Items<'a>)> {
    let (version, rest) = bytes.split_first()?;
    if *version != VERSION {
        return None;
    }
    let (head, rest) = postcard::take_from_bytes(rest).ok()?;
    Some((head, Items(rest)))
}

/// The items of a message, up to its end or the first that cannot be read.
pub(crate) struct Items<'a>(&'a [u8]);

impl Items<'_> {
    /// Whether all of them were read.
    pub(crate) fn is_whole(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        if self.0.is_empty() {
            return None;
        }
        let (item, rest) = postcard::take_from_bytes(self.0).ok()?;
        self.0 = rest;
        Some(item)
    }
}
