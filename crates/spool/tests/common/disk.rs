//! A disk whose power can fail at any step, that then loses what was not synced, that can be full, and that can fail
//! once.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use spool::{BodyFile, Disk};

const SECTOR: usize = 512;

#[derive(Clone, Debug, Default)]
pub struct Platter(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    files: Vec<Contents>,
    /// What the names stand for after a power failure, and now.
    durable: Names,
    current: Names,
    pending: Vec<Change>,
    /// Steps until the power fails.
    left: Option<u64>,
    /// The step that fails, alone.
    fault: Option<u64>,
    done: u64,
    room: Option<usize>,
}

type Names = BTreeMap<String, usize>;

#[derive(Clone, Debug, Default)]
struct Contents {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<(usize, Vec<u8>)>,
}

#[derive(Clone, Debug)]
enum Change {
    Add(String, usize),
    Rename(String, String),
    Remove(String),
}

/// What is left after a power failure of what was not synced.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    All,
    /// As when only the process dies.
    Nothing,
    /// Any sectors of any writes, and the last of the changes to names, by a seed.
    Some(u64),
}

fn write(bytes: &mut Vec<u8>, at: usize, data: &[u8]) {
    bytes.resize(bytes.len().max(at + data.len()), 0);
    bytes[at..at + data.len()].copy_from_slice(data);
}

fn change(names: &mut Names, change: &Change) {
    match change {
        Change::Add(name, file) => drop(names.insert(name.clone(), *file)),
        Change::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        Change::Remove(name) => drop(names.remove(name)),
    }
}

impl Platter {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// How `Spool::open_on` gets at it.
    pub fn disk(&self) -> impl FnOnce() -> Result<Arc<dyn Disk>, spool::Error> + Send + 'static {
        let platter = self.clone();
        move || Ok(Arc::new(platter) as Arc<dyn Disk>)
    }

    pub fn fail_after(&self, steps: u64) {
        self.state().left = Some(steps);
    }

    pub fn fail_once_at(&self, step: u64) {
        self.state().fault = Some(step);
    }

    pub fn steps(&self) -> u64 {
        self.state().done
    }

    pub fn set_room(&self, bytes: Option<usize>) {
        self.state().room = bytes;
    }

    /// The names that there are, and the bytes of their files.
    pub fn names(&self) -> (Vec<String>, u64) {
        let state = self.state();
        let bytes = state.current.values().map(|file| state.files[*file].current.len() as u64).sum();
        (state.current.keys().cloned().collect(), bytes)
    }

    /// What the next start finds.
    pub fn after(&self, loss: Loss) -> Platter {
        let state = self.state();
        let mut seed = match loss {
            Loss::Some(seed) => seed,
            Loss::All | Loss::Nothing => 0,
        };
        let mut keep = || match loss {
            Loss::All => false,
            Loss::Nothing => true,
            Loss::Some(_) => {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 40).is_multiple_of(2)
            }
        };
        let mut files = state.files.clone();
        for file in &mut files {
            for (at, data) in std::mem::take(&mut file.pending) {
                for (number, sector) in data.chunks(SECTOR).enumerate() {
                    if keep() {
                        write(&mut file.durable, at + number * SECTOR, sector);
                    }
                }
            }
            file.current.clone_from(&file.durable);
        }
        let mut names = state.durable.clone();
        // A journal keeps the order of names.
        state.pending.iter().take_while(|_| keep()).for_each(|each| change(&mut names, each));
        let state = State { files, durable: names.clone(), current: names, ..State::default() };
        Platter(Arc::new(Mutex::new(state)))
    }
}

impl State {
    fn powered(&self) -> io::Result<()> {
        if self.left == Some(0) { Err(io::Error::other("no power")) } else { Ok(()) }
    }

    /// Counts a step. Says whether it is begun only: some of it may be there later.
    fn step(&mut self) -> io::Result<bool> {
        self.powered()?;
        self.done += 1;
        if self.fault == Some(self.done) {
            return Err(io::Error::other("a fault"));
        }
        self.left = self.left.map(|left| left - 1);
        Ok(self.left == Some(0))
    }

    fn rename(&mut self, next: Change) -> io::Result<()> {
        self.step()?;
        change(&mut self.current, &next);
        self.pending.push(next);
        self.powered()
    }

    fn find(&self, name: &str) -> io::Result<usize> {
        self.powered()?;
        self.current.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Platter {
    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        let state = self.state();
        state.powered()?;
        let len = |file: &usize| state.files[*file].current.len() as u64;
        Ok(state.current.iter().map(|(name, file)| (name.clone(), len(file))).collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn BodyFile>> {
        let mut state = self.state();
        let number = state.files.len();
        state.files.push(Contents::default());
        state.rename(Change::Add(name.to_owned(), number))?;
        Ok(Arc::new(File(self.clone(), number)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn BodyFile>> {
        Ok(Arc::new(File(self.clone(), self.state().find(name)?)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(from)?;
        state.rename(Change::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.find(name)?;
        state.rename(Change::Remove(name.to_owned()))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if state.step()? {
            return state.powered();
        }
        state.durable = state.current.clone();
        state.pending.clear();
        Ok(())
    }
}

#[derive(Debug)]
struct File(Platter, usize);

impl BodyFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state().files[self.1].current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.state();
        state.powered()?;
        let offset = usize::try_from(offset).unwrap();
        let found = state.files[self.1].current.get(offset..offset + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.state();
        let at = usize::try_from(offset).unwrap();
        let before: usize = state.current.values().map(|file| state.files[*file].current.len()).sum();
        let more = (at + data.len()).saturating_sub(state.files[self.1].current.len());
        if more > 0 && state.room.is_some_and(|room| before + more > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.step()?;
        let file = &mut state.files[self.1];
        write(&mut file.current, at, data);
        file.pending.push((at, data.to_vec()));
        state.powered()
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        if state.step()? {
            return state.powered();
        }
        let file = &mut state.files[self.1];
        file.durable.clone_from(&file.current);
        file.pending.clear();
        Ok(())
    }
}
