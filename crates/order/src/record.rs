//! What a site must not forget of its groups, and its bytes.

use serde::{Deserialize, Serialize};

use crate::id::GroupId;
use crate::log::{Head, Slot};

/// The format of the bytes, checked on reading.
const FORMAT: u8 = 1;

/// Names a record: a later one of the same key takes its place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Hash)]
pub enum Key {
    /// How often this site has started.
    Starts,
    /// What was promised in a group, and how far it is.
    Head(GroupId),
    /// An entry of a group's log.
    Slot(GroupId, u64),
    /// The records were put back.
    Doubt,
    /// A group in which this site takes part again, after that.
    Readmitted(GroupId),
}

/// One durable record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Hash)]
pub enum Record {
    /// How often this site has started.
    Starts(u64),
    /// What was promised in a group, and how far it is.
    Head(GroupId, Head),
    /// An entry of a group's log.
    Slot(GroupId, u64, Slot),
    /// The records were put back, and are in doubt since this start.
    Doubt(u64),
    /// A group in which this site takes part again, after that.
    Readmitted {
        /// That one.
        group: GroupId,
        /// Since when the records were in doubt.
        doubt: u64,
        /// The place before which all may have been acted upon here before the records were put back.
        upto: u64,
    },
}

/// Bytes that are no record of this format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// Written by another version.
    Format(u8),
    /// Cut short, or damaged.
    Damaged,
}

impl Record {
    /// Its key.
    #[must_use]
    pub fn key(&self) -> Key {
        match self {
            Record::Starts(_) => Key::Starts,
            Record::Head(group, _) => Key::Head(group.clone()),
            Record::Slot(group, index, _) => Key::Slot(group.clone(), *index),
            Record::Doubt(_) => Key::Doubt,
            Record::Readmitted { group, .. } => Key::Readmitted(group.clone()),
        }
    }

    /// The entry that it holds, as it was proposed.
    #[must_use]
    pub fn entry(&self) -> Option<&[u8]> {
        match self {
            Record::Slot(_, _, slot) => slot.bytes.as_deref(),
            Record::Starts(_) | Record::Head(..) | Record::Doubt(_) | Record::Readmitted { .. } => None,
        }
    }

    /// Its bytes, to be stored under its key.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads [`Record::bytes`].
    pub fn read(bytes: &[u8]) -> Result<Record, Unreadable> {
        decode(bytes)
    }
}

/// The format, then the value.
pub(crate) fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    // Into memory, types without a length unknown beforehand: it cannot fail.
    let value = postcard::to_allocvec(value).unwrap_or_default();
    let mut bytes = vec![FORMAT];
    bytes.extend(value);
    bytes
}

/// Reads [`encode`].
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Unreadable> {
    match bytes.split_first() {
        Some((&FORMAT, value)) => match postcard::take_from_bytes(value) {
            Ok((value, [])) => Ok(value),
            _ => Err(Unreadable::Damaged),
        },
        Some((&other, _)) => Err(Unreadable::Format(other)),
        None => Err(Unreadable::Damaged),
    }
}
