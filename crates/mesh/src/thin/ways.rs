//! Ways that requests took. What decides a way is most often the same from one request to the next: it is
//! remembered by the bytes of the lines that decided.
//!
//! Only what was decided by the other functions is here, never a decision: a way is kept where nothing else than its
//! key decides, and for as long as the settings and the sites are the same. It is forgotten now and then, for what
//! changes slowly.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use crate::carry::Sender;
use crate::core::ServiceState;
use crate::handle::Entry;

/// So many ways are remembered. Each key has one place, so that nobody gains by choosing keys.
const PLACES: usize = 256;

/// Longer keys are not remembered: with what is sent for them, all take less than 1 MiB.
const LONGEST: usize = 1024;

/// Keys that are handed on for a shorter time than this are not remembered here.
pub(super) const SHORTEST_LIFETIME: Duration = Duration::from_mins(1);

/// The ways of one core, with one set of settings.
#[derive(Default)]
pub(crate) struct Ways(RefCell<Box<[Place]>>);

/// The last key that was seen here, and the last that was seen twice in a row: a flood of keys costs no memory, and
/// takes away nothing.
#[derive(Default)]
struct Place {
    seen: u64,
    kept: Option<Kept>,
}

struct Kept {
    entry: Rc<Entry>,
    client: IpAddr,
    writes: bool,
    lines: Box<[u8]>,
    way: Rc<Way>,
}

/// All that decides about a request, where it is remembered.
pub(super) struct Key<'k> {
    entry: &'k Rc<Entry>,
    client: IpAddr,
    writes: bool,
    /// The lines that decide.
    lines: &'k [u8],
    hash: u64,
}

/// A way that requests to a service took.
pub(super) struct Way {
    pub(super) service: Rc<ServiceState>,
    pub(super) to: To,
}

/// Where it led.
pub(super) enum To {
    /// To the local service.
    Here {
        /// Nothing if the request has no scope.
        scoped: Option<Again>,
        /// What the service gets for the lines that decided, but for `traceparent`.
        lines: Box<[u8]>,
    },
    /// To several sites: whom to ask is decided anew.
    Several,
}

/// A request with a scope, like one before.
#[derive(Clone, Copy)]
pub(super) struct Again {
    pub(super) token: Option<Sender>,
}

impl<'k> Key<'k> {
    /// Nothing if it is too long.
    pub(super) fn new(
        entry: &'k Rc<Entry>,
        client: IpAddr,
        writes: bool,
        lines: &'k [u8],
    ) -> Option<Key<'k>> {
        if lines.len() > LONGEST {
            return None;
        }
        let hash = hash(client, writes, lines);
        Some(Key { entry, client, writes, lines, hash })
    }

    fn is_of(&self, kept: &Kept) -> bool {
        *self.lines == *kept.lines
            && self.client == kept.client
            && self.writes == kept.writes
            && Rc::ptr_eq(self.entry, &kept.entry)
    }
}

/// Says only where to look.
fn hash(client: IpAddr, writes: bool, lines: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let client = match client {
        IpAddr::V4(client) => u64::from(client.to_bits()),
        IpAddr::V6(client) => client.segments().iter().fold(0, |hash, part| mix(hash, (*part).into())),
    };
    let (words, rest) = lines.as_chunks();
    let hash =
        words.iter().fold(mix(client, writes.into()), |hash, word| mix(hash, u64::from_le_bytes(*word)));
    // Zero is no key's: an empty place has seen none.
    rest.iter().fold(hash, |hash, byte| mix(hash, (*byte).into())) | 1
}

impl Ways {
    /// The way that a request with this key took.
    pub(super) fn find(&self, key: &Key<'_>) -> Option<Rc<Way>> {
        let places = self.0.borrow();
        let kept = places.get(place(key.hash))?.kept.as_ref()?;
        key.is_of(kept).then(|| Rc::clone(&kept.way))
    }

    /// Remembers a way, from the second time on.
    pub(super) fn keep(&self, key: &Key<'_>, way: impl FnOnce() -> Way) {
        let mut places = self.0.borrow_mut();
        if places.is_empty() {
            *places = (0..PLACES).map(|_| Place::default()).collect();
        }
        let Some(place) = places.get_mut(place(key.hash)) else { return };
        if std::mem::replace(&mut place.seen, key.hash) == key.hash {
            let (entry, client, writes) = (Rc::clone(key.entry), key.client, key.writes);
            place.kept = Some(Kept { entry, client, writes, lines: key.lines.into(), way: Rc::new(way()) });
        }
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.0.take();
    }
}

fn place(hash: u64) -> usize {
    usize::try_from(hash >> 32).unwrap_or_default() % PLACES
}
