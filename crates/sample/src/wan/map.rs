//! Which places a network has, and what is between any two of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};

use super::pair::Pair;
use super::place::Place;
use super::shape::Shape;

#[derive(Debug)]
pub(super) struct Map {
    shape: Shape,
    seed: u64,
    known: RwLock<Known>,
    strangers: AtomicU64,
}

#[derive(Debug, Default)]
struct Known {
    places: HashMap<IpAddr, Arc<Place>>,
    pairs: HashMap<(IpAddr, IpAddr), Arc<Pair>>,
}

/// A pair that is new, and the places that it goes from and to.
pub(super) type NewPair = (Arc<Pair>, Arc<Place>, Arc<Place>);

impl Map {
    pub(super) fn new(shape: Shape, seed: u64) -> Map {
        Map { shape, seed, known: RwLock::default(), strangers: AtomicU64::new(0) }
    }

    /// Adds a place, unless one sends from there already. From a place to itself there is no distance.
    pub(super) fn add(&self, place: &Arc<Place>) -> Option<Vec<NewPair>> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.places.contains_key(&place.ip) {
            return None;
        }
        let mut ways = vec![(Arc::clone(place), Arc::clone(place), Shape::default())];
        for other in known.places.values() {
            ways.push((Arc::clone(place), Arc::clone(other), self.shape));
            ways.push((Arc::clone(other), Arc::clone(place), self.shape));
        }
        known.places.insert(place.ip, Arc::clone(place));
        let mut new = Vec::new();
        for (from, to, shape) in ways {
            let pair = Arc::new(Pair::new(from.ip, to.ip, shape, self.seed));
            known.pairs.insert((from.ip, to.ip), Arc::clone(&pair));
            new.push((pair, from, to));
        }
        Some(new)
    }

    pub(super) fn find(&self, from: IpAddr, to: IpAddr) -> Option<Arc<Pair>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.pairs.get(&(from.to_canonical(), to.to_canonical())).cloned()
    }

    pub(super) fn count_stranger(&self) {
        self.strangers.fetch_add(1, Relaxed);
    }

    pub(super) fn strangers(&self) -> u64 {
        self.strangers.load(Relaxed)
    }
}
