//! A disk that can be cut off at any write, that loses what was not synced, and that can be full.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use store::Error;
use store::embedded::Disk;

const SECTOR: usize = 512;
const BLOCK: u64 = 4096;

#[derive(Clone, Debug, Default)]
pub struct Platter(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// What has been synced.
    durable: Vec<u8>,
    /// What is read.
    current: Vec<u8>,
    /// What was done since the last sync.
    pending: Vec<Change>,
    /// Changes and syncs until the power fails.
    left: Option<u64>,
    done: u64,
    /// Blocks that take up room. As in a file with holes, only what was written does.
    blocks: BTreeSet<u64>,
    room: Option<usize>,
    /// As a file's lock: whoever opens it again must have let go of it.
    locked: bool,
}

#[derive(Clone, Debug)]
enum Change {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

/// What is left after a power failure of what was not synced.
#[derive(Clone, Copy, Debug)]
pub enum Loss {
    All,
    /// As when only the process dies.
    Nothing,
    /// Any sectors of any writes, by a seed.
    Some(u64),
}

fn change(image: &mut Vec<u8>, change: &Change, keep: &mut dyn FnMut() -> bool) {
    match change {
        Change::SetLen(len) => {
            if keep() {
                image.resize(usize::try_from(*len).unwrap(), 0);
            }
        }
        Change::Write(offset, data) => {
            let offset = usize::try_from(*offset).unwrap();
            for (number, sector) in data.chunks(SECTOR).enumerate() {
                if keep() {
                    let at = offset + number * SECTOR;
                    let end = at + sector.len();
                    image.resize(image.len().max(end), 0);
                    image[at..end].copy_from_slice(sector);
                }
            }
        }
    }
}

impl Platter {
    pub fn of(image: Vec<u8>) -> Self {
        let blocks = (0..image.len() as u64 / BLOCK).collect();
        let state = State { durable: image.clone(), current: image, blocks, ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// How `Embedded::open_on` gets at it.
    pub fn disks(&self) -> impl Fn() -> Result<Box<dyn Disk>, Error> + Send + Sync + 'static {
        let platter = self.clone();
        move || {
            if std::mem::replace(&mut platter.state().locked, true) {
                return Err(Error::InUse);
            }
            Ok(Box::new(platter.clone()) as Box<dyn Disk>)
        }
    }

    pub fn fail_after(&self, changes: u64) {
        self.state().left = Some(changes);
    }

    pub fn changes(&self) -> u64 {
        self.state().done
    }

    pub fn blocks(&self) -> usize {
        self.state().blocks.len()
    }

    pub fn set_room(&self, blocks: Option<usize>) {
        self.state().room = blocks;
    }

    /// What the next start finds.
    pub fn image(&self, loss: Loss) -> Vec<u8> {
        let state = self.state();
        let mut image = state.durable.clone();
        let mut seed = match loss {
            Loss::All => return image,
            Loss::Nothing => None,
            Loss::Some(seed) => Some(seed),
        };
        let mut keep = || {
            seed.as_mut().is_none_or(|seed| {
                *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (*seed >> 40) % 2 == 0
            })
        };
        for each in &state.pending {
            change(&mut image, each, &mut keep);
        }
        image
    }
}

impl State {
    fn powered(&self) -> io::Result<()> {
        if self.left == Some(0) { Err(io::Error::other("no power")) } else { Ok(()) }
    }

    /// Counts a change. The one during which the power fails is begun: some of it may be there later.
    fn begin(&mut self, begun: Option<&Change>) -> io::Result<()> {
        self.powered()?;
        self.done += 1;
        self.left = self.left.map(|left| left - 1);
        if self.left == Some(0) {
            self.pending.extend(begun.cloned());
        }
        self.powered()
    }

    fn apply(&mut self, next: Change) -> io::Result<()> {
        self.begin(Some(&next))?;
        change(&mut self.current, &next, &mut || true);
        self.pending.push(next);
        Ok(())
    }
}

impl Disk for Platter {
    fn len(&self) -> io::Result<u64> {
        let state = self.state();
        state.powered()?;
        Ok(state.current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        state.powered()?;
        let offset = usize::try_from(offset).unwrap();
        let found = state.current.get(offset..offset + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let wanted: Vec<u64> = (offset / BLOCK..(offset + data.len() as u64).div_ceil(BLOCK)).collect();
        let more = wanted.iter().filter(|block| !state.blocks.contains(block)).count();
        if state.room.is_some_and(|room| more > 0 && state.blocks.len() + more > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.blocks.extend(wanted);
        state.apply(Change::Write(offset, data.to_vec()))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.state().apply(Change::SetLen(len))
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        state.begin(None)?;
        let State { durable, current, pending, .. } = &mut *state;
        durable.clone_from(current);
        pending.clear();
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.state().locked = false;
        Ok(())
    }
}
