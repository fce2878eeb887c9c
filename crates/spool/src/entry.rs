//! One body: being written, or stored.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::disk::{self, BodyFile, Disk};
use crate::error::Error;
use crate::format::{self, BodyKey};
use crate::id::Id;
use crate::key::Key;
use crate::metrics::Counters;
use crate::pool::Pool;
use crate::quota::{Quota, Reservation};

/// What every body of a spool stands on.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) key: Key,
    pub(crate) quota: Arc<Quota>,
    pub(crate) pool: Pool,
    pub(crate) counters: Counters,
}

/// How much of a body can be read.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    /// Segments in the file.
    pub(crate) segments: u32,
    /// The body's length, or why it has none; not known while it is written.
    pub(crate) end: Option<Result<u64, Error>>,
}

/// A body, shared by its writer, its readers and the spool's list. The space that it takes up is given back when
/// the last of them lets go of it.
pub(crate) struct Entry {
    pub(crate) id: Id,
    pub(crate) ground: Arc<Ground>,
    pub(crate) progress: watch::Sender<Progress>,
    state: Mutex<State>,
}

struct State {
    fate: Fate,
    /// The file while only this process knows its key.
    live: Option<Live>,
    reservation: Option<Reservation>,
    /// Its writer is gone, and told nobody that it is stored.
    abandoned: bool,
}

#[derive(Clone)]
pub(crate) struct Live {
    pub(crate) file: Arc<dyn BodyFile>,
    pub(crate) key: Arc<BodyKey>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// No file yet.
    New,
    /// A file that no restart will find.
    Passing,
    /// A file that a restart finds.
    Stored,
    Erased,
}

impl Entry {
    /// A body to be written. A known length is reserved whole.
    pub(crate) fn new(id: Id, ground: &Arc<Ground>, expected_len: Option<u64>) -> Result<Arc<Entry>, Error> {
        let entry = Entry::with(id, ground, Fate::New, Reservation::none(&ground.quota), None);
        entry.reserve(expected_len.unwrap_or(0))?;
        Ok(Arc::new(entry))
    }

    /// A file that was found when the spool was opened.
    pub(crate) fn found(id: Id, ground: &Arc<Ground>, file_len: u64) -> Arc<Entry> {
        let reservation = Reservation::found(&ground.quota, file_len);
        let short = Error::Damaged("the file is too short");
        let end = format::body_len(file_len).ok_or(short);
        Arc::new(Entry::with(id, ground, Fate::Stored, reservation, Some(end)))
    }

    fn with(
        id: Id,
        ground: &Arc<Ground>,
        fate: Fate,
        reservation: Reservation,
        end: Option<Result<u64, Error>>,
    ) -> Entry {
        let segments = match end {
            Some(Ok(len)) => format::segments(len).unwrap_or(u32::MAX),
            _ => 0,
        };
        Entry {
            id,
            ground: Arc::clone(ground),
            progress: watch::Sender::new(Progress { segments, end }),
            state: Mutex::new(State { fate, live: None, reservation: Some(reservation), abandoned: false }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves what a body of this length needs.
    pub(crate) fn reserve(&self, len: u64) -> Result<(), Error> {
        let bytes = format::file_len(len)?;
        let grown = match &mut self.state().reservation {
            Some(reservation) => reservation.grow_to(bytes),
            None => Ok(()),
        };
        grown.inspect_err(|_| Counters::add(&self.ground.counters.over_quota, 1))
    }

    /// There will be a file from now on, also if making it fails half-way.
    pub(crate) fn begin_file(&self) {
        self.state().fate = Fate::Passing;
    }

    pub(crate) fn set_live(&self, live: Live) {
        self.state().live = Some(live);
    }

    pub(crate) fn live(&self) -> Option<Live> {
        self.state().live.clone()
    }

    /// It has its name: readers open it by that.
    pub(crate) fn set_stored(&self) {
        let mut state = self.state();
        state.fate = Fate::Stored;
        state.live = None;
    }

    /// Nobody will ever ask for it.
    pub(crate) fn abandon(&self) {
        self.fail(Error::Abandoned);
        self.state().abandoned = true;
    }

    pub(crate) fn set_erased(&self) {
        self.state().fate = Fate::Erased;
    }

    pub(crate) fn is_stored(&self) -> bool {
        self.state().fate == Fate::Stored
    }

    pub(crate) fn end(&self) -> Option<Result<u64, Error>> {
        self.progress.borrow().end.clone()
    }

    /// Tells readers that no more will come. The first word counts.
    pub(crate) fn fail(&self, error: Error) {
        self.progress.send_modify(|progress| {
            progress.end.get_or_insert(Err(error));
        });
    }
}

/// A file that no restart may find goes when nobody reads it any more.
impl Drop for Entry {
    fn drop(&mut self) {
        let mut state = self.state();
        let name = match state.fate {
            Fate::Passing => self.id.part(),
            // Its writer was dropped while it was made durable.
            Fate::Stored if state.abandoned => self.id.to_string(),
            Fate::New | Fate::Stored | Fate::Erased => return,
        };
        state.live = None;
        let (disk, reservation) = (Arc::clone(&self.ground.disk), state.reservation.take());
        drop(state);
        self.ground.pool.later(move || {
            let removed = disk::remove(&*disk, &name);
            if let (Err(_), Some(reservation)) = (removed, reservation) {
                // It takes up space until the next start removes it.
                reservation.keep();
            }
        });
    }
}
