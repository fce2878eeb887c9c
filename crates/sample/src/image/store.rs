//! The images that there are.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::blob::{Blob, Room};
use crate::clock;
use crate::id::Id;

/// Images by id. Every method is one step: no two requests see each other half done.
#[derive(Debug, Default)]
pub(super) struct Store(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    images: BTreeMap<Id, Record>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Record {
    name: String,
    created_at: String,
    /// The order of creation.
    sequence: u64,
    file: Option<Blob>,
    /// The memory of the record itself, given back with it.
    _room: Room,
}

/// What a put did, with the image as a document.
pub(super) enum Put {
    Created(Value),
    Renamed(Value),
}

/// Why there is no file.
pub(super) enum Missing {
    Image,
    File,
}

impl Store {
    /// Makes the image, or gives the one that there is this name. Nothing if there is no room for it.
    pub(super) fn put(&self, id: Id, name: &str, room: impl FnOnce() -> Option<Room>) -> Option<Put> {
        let mut state = self.lock();
        if let Some(record) = state.images.get_mut(&id) {
            record.name = name.into();
            return Some(Put::Renamed(record.show(id)));
        }
        let room = room()?;
        let sequence = state.next_sequence;
        state.next_sequence += 1;
        let record =
            Record { name: name.into(), created_at: clock::now(), sequence, file: None, _room: room };
        let shown = record.show(id);
        state.images.insert(id, record);
        Some(Put::Created(shown))
    }

    /// The image as a document.
    pub(super) fn show(&self, id: Id) -> Option<Value> {
        self.lock().images.get(&id).map(|record| record.show(id))
    }

    /// Images as documents, oldest first: those after one of them, and at most so many. Says also after
    /// which of them the rest comes, if there is a rest. Nothing if there is no image to start after.
    pub(super) fn list(&self, after: Option<Id>, limit: usize) -> Option<(Vec<Value>, Option<Id>)> {
        let state = self.lock();
        let after = after.map(|id| state.images.get(&id).map(|record| record.sequence));
        let after = match after {
            None => None,
            Some(sequence) => Some(sequence?),
        };
        let mut rest: Vec<_> =
            state.images.iter().filter(|(_, record)| Some(record.sequence) > after).collect();
        rest.sort_by_key(|(_, record)| record.sequence);
        let page = rest.get(..limit).unwrap_or(&rest);
        let last = page.last().filter(|_| page.len() < rest.len()).map(|(id, _)| **id);
        Some((page.iter().map(|(id, record)| record.show(**id)).collect(), last))
    }

    pub(super) fn rename(&self, id: Id, name: &str) -> Option<Value> {
        let mut state = self.lock();
        let record = state.images.get_mut(&id)?;
        record.name = name.into();
        Some(record.show(id))
    }

    /// Gives an image its file; its name, and the image as a document.
    pub(super) fn fill(&self, id: Id, file: Blob) -> Option<(String, Value)> {
        let mut state = self.lock();
        let record = state.images.get_mut(&id)?;
        record.file = Some(file);
        Some((record.name.clone(), record.show(id)))
    }

    /// The file of an image.
    pub(super) fn file(&self, id: Id) -> Result<Blob, Missing> {
        let state = self.lock();
        let record = state.images.get(&id).ok_or(Missing::Image)?;
        record.file.clone().ok_or(Missing::File)
    }

    /// Removes an image; its name.
    pub(super) fn remove(&self, id: Id) -> Option<String> {
        self.lock().images.remove(&id).map(|record| record.name)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Record {
    fn show(&self, id: Id) -> Value {
        json!({
            "id": id.to_string(),
            "name": self.name,
            "size": self.file.as_ref().map(Blob::size_bytes),
            "digest": self.file.as_ref().map(Blob::digest),
            "status": if self.file.is_some() { "active" } else { "queued" },
            "created_at": self.created_at,
        })
    }
}
