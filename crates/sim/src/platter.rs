//! The disk under a site's spool: files in memory, of which a machine that loses its power keeps what was synced, and some
//! of what was not.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spool::{BodyFile, Disk};

use crate::chance::Chance;

/// What is written at once, or not at all.
const SECTOR: usize = 512;

/// A disk. It survives whoever uses it; cheap to clone.
#[derive(Clone, Debug)]
pub struct Platter(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    files: Vec<File>,
    /// The names that there are, and those that there are after a loss of power.
    names: Names,
    synced: Names,
    /// What was done to names since the last sync, in order.
    changes: Vec<Change>,
    chance: Chance,
    full: bool,
    /// Which run of its site uses it. Those before are gone.
    run: u64,
}

type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug, Default)]
struct File {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    /// What was written since the last sync.
    writes: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Change {
    Add(String, usize),
    Rename(String, String),
    Remove(String),
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Change::Add(name, file) => drop(names.insert(name.clone(), *file)),
            Change::Rename(from, to) => {
                if let Some(file) = names.remove(from) {
                    names.insert(to.clone(), file);
                }
            }
            Change::Remove(name) => drop(names.remove(name)),
        }
    }
}

fn put(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    bytes.resize(bytes.len().max(at + data.len()), 0);
    bytes[at..at + data.len()].copy_from_slice(data);
}

/// All that was durable at some time.
#[derive(Clone)]
pub struct Copy(Vec<(String, Vec<u8>)>);

impl Platter {
    /// An empty one.
    #[must_use]
    pub fn new(chance: Chance) -> Platter {
        Platter(Arc::new(Mutex::new(State {
            files: Vec::new(),
            names: Names::new(),
            synced: Names::new(),
            changes: Vec::new(),
            chance,
            full: false,
            run: 0,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on it takes nothing more, or does again.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    /// For a site that starts.
    #[must_use]
    pub fn open(&self) -> Arc<dyn Disk> {
        Arc::new(Drive { platter: self.clone(), run: self.state().run })
    }

    /// The site ended. Without power, of what was not synced some sectors are there, and the first so many changes to names.
    pub fn crash(&self, power: bool) {
        let mut state = self.state();
        state.run += 1;
        if !power {
            return;
        }
        let State { files, names, synced, changes, chance, .. } = &mut *state;
        for file in files.iter_mut() {
            for (at, data) in std::mem::take(&mut file.writes) {
                for (number, sector) in data.chunks(SECTOR).enumerate() {
                    if chance.percent(50) {
                        put(&mut file.synced, at + number * SECTOR, sector);
                    }
                }
            }
            file.bytes.clone_from(&file.synced);
        }
        std::mem::take(changes).iter().take_while(|_| chance.percent(50)).for_each(|each| each.apply(synced));
        names.clone_from(synced);
    }

    /// The names of all that is there.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// What is durable now.
    #[must_use]
    pub fn copy(&self) -> Copy {
        let state = self.state();
        let files = state.synced.iter();
        Copy(files.map(|(name, file)| (name.clone(), state.files[*file].synced.clone())).collect())
    }

    /// Puts back what was durable at some time.
    pub fn restore(&self, copy: &Copy) {
        let mut state = self.state();
        let file = |(_, bytes): &(String, Vec<u8>)| File {
            bytes: bytes.clone(),
            synced: bytes.clone(),
            writes: Vec::new(),
        };
        state.files = copy.0.iter().map(file).collect();
        state.names = copy.0.iter().enumerate().map(|(file, (name, _))| (name.clone(), file)).collect();
        state.synced = state.names.clone();
        state.changes.clear();
    }
}

/// A disk as one run of a site has it.
#[derive(Debug)]
struct Drive {
    platter: Platter,
    run: u64,
}

impl Drive {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.platter.state();
        if state.run == self.run { Ok(state) } else { Err(io::Error::other("that process is gone")) }
    }

    fn change(&self, change: Change) -> io::Result<()> {
        let mut state = self.state()?;
        change.apply(&mut state.names);
        state.changes.push(change);
        Ok(())
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.state()?.names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn handle(&self, file: usize) -> Arc<dyn BodyFile> {
        Arc::new(Handle { drive: Drive { platter: self.platter.clone(), run: self.run }, file })
    }
}

impl Disk for Drive {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.state()?;
        let length = |file: &usize| state.files[*file].bytes.len() as u64;
        Ok(state.names.iter().map(|(name, file)| (name.clone(), length(file))).collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn BodyFile>> {
        let number = {
            let mut state = self.state()?;
            if state.full {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.files.push(File::default());
            state.files.len() - 1
        };
        self.change(Change::Add(name.to_owned(), number))?;
        Ok(self.handle(number))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn BodyFile>> {
        Ok(self.handle(self.find(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.find(from)?;
        self.change(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.find(name)?;
        self.change(Change::Remove(name.to_owned()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state()?;
        state.synced = state.names.clone();
        state.changes.clear();
        Ok(())
    }
}

/// A file as one run of a site has it.
#[derive(Debug)]
struct Handle {
    drive: Drive,
    file: usize,
}

impl BodyFile for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.drive.state()?.files[self.file].bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.drive.state()?;
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let found = state.files[self.file].bytes.get(at..at + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.drive.state()?;
        let at = usize::try_from(offset).map_err(io::Error::other)?;
        let full = state.full;
        let file = &mut state.files[self.file];
        if full && at + data.len() > file.bytes.len() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        put(&mut file.bytes, at, data);
        file.writes.push((at, data.to_vec()));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.drive.state()?;
        let file = &mut state.files[self.file];
        file.synced.clone_from(&file.bytes);
        file.writes.clear();
        Ok(())
    }
}
