//! What travels, written down a second time: a test says and reads it byte for byte.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sites::{Coordinate, Record};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Head {
    Ping { nonce: u64 },
    Hello { nonce: u64 },
    Ack { nonce: u64 },
    AskFor { nonce: u64, site: String },
    Vouch { nonce: u64 },
    News,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Item {
    Site(Told),
    Alive(Life),
    Suspect { life: Life, by: String },
    Dead(Life),
    Left(Life),
    Vitals(Vitals),
    Zone { name: String, stamp: u64, by: String, text: Option<String> },
    Quarantine { site: String, stamp: u64, by: String, on: bool },
    Revoked { site: String, before: u64, statement: Vec<u8> },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Life {
    pub(crate) site: String,
    pub(crate) epoch: u64,
    pub(crate) refuted: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) life: Life,
    pub(crate) status: ToldStatus,
    pub(crate) version: u32,
    pub(crate) body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ToldStatus {
    Alive,
    Dead(u32),
    Left(u32),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Vitals {
    pub(crate) site: String,
    pub(crate) epoch: u64,
    pub(crate) tick: u32,
    pub(crate) coordinate: Coordinate,
    pub(crate) metrics: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Exchange {
    Ask { buckets: Vec<u64>, registers: u64 },
    Answer { differ: Vec<u8>, registers: u64 },
    Give,
}

/// A version, a head, and what is said.
pub(crate) fn write<T: Serialize>(head: &T, items: &[Item]) -> Vec<u8> {
    let mut bytes = vec![1];
    bytes.extend(postcard::to_allocvec(head).unwrap());
    for item in items {
        bytes.extend(postcard::to_allocvec(item).unwrap());
    }
    bytes
}

pub(crate) fn read<T: DeserializeOwned>(bytes: &[u8]) -> (T, Vec<Item>) {
    assert_eq!(bytes[0], 1, "the version");
    let (head, mut rest) = postcard::take_from_bytes(&bytes[1..]).unwrap();
    let mut items = Vec::new();
    while !rest.is_empty() {
        let (item, more) = postcard::take_from_bytes(rest).unwrap();
        items.push(item);
        rest = more;
    }
    (head, items)
}

/// What is said of a site, with its record.
pub(crate) fn told(record: &Record, status: ToldStatus, refuted: u32) -> Item {
    let body = (record.fingerprint, record.issued, &record.says);
    Item::Site(Told {
        life: Life { site: record.site.name().to_owned(), epoch: record.epoch, refuted },
        status,
        version: record.version,
        body: postcard::to_allocvec(&body).unwrap(),
    })
}

/// A place: where it is on the map, how high above, and how unsure.
pub(crate) fn place(at: [f32; 4], height: f32, error: f32) -> Coordinate {
    postcard::from_bytes(&postcard::to_allocvec(&(at, height, error)).unwrap()).unwrap()
}

pub(crate) fn parts(coordinate: &Coordinate) -> ([f32; 4], f32, f32) {
    postcard::from_bytes(&postcard::to_allocvec(coordinate).unwrap()).unwrap()
}

impl Item {
    /// Whom it is about.
    pub(crate) fn site(&self) -> &str {
        match self {
            Item::Site(told) => &told.life.site,
            Item::Alive(life) | Item::Suspect { life, .. } | Item::Dead(life) | Item::Left(life) => {
                &life.site
            }
            Item::Vitals(vitals) => &vitals.site,
            Item::Zone { name, .. } => name,
            Item::Quarantine { site, .. } | Item::Revoked { site, .. } => site,
        }
    }
}
