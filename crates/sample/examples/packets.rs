//! An emulated WAN between two network namespaces, packet by packet, for `./bench wan` and `./bench blackhole`.
//!
//! `packets RTT_MS MBIT_PER_SECOND LOSS_PER_MILLION LEFT RIGHT` makes two TUN devices, LEFT and RIGHT, prints `ready`, and
//! carries packets between them: each waits for those before it at the link's rate (0: none), then for half of the round
//! trip. The queue before the link has room for a round trip; what comes while it is full is lost, and so are packets by
//! chance. Whoever started it moves the devices where they belong.
//!
//! Lines of its standard input cut the link (`cut`: packets vanish, and nobody is told) and heal it (`heal`). It ends
//! when its standard input does.

use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use tun_rs::{DeviceBuilder, SyncDevice};

/// Of any packet of the devices, whose MTU is not above it.
const MOST_BYTES: usize = 1 << 16;
/// Packets under way in one direction: a gigabit for a third of a second.
const MOST_UNDER_WAY: usize = 32_768;
/// The least that waits before a link with a rate, in time at that rate: a short round trip makes no link without a queue.
const LEAST_QUEUE: Duration = Duration::from_millis(20);

/// What the link is like, in each direction.
#[derive(Clone, Copy)]
struct Link {
    delay: Duration,
    bits_per_second: Option<f64>,
    loss: f64,
}

/// A packet, and when it arrives.
type Packet = (Instant, Vec<u8>);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rtt_ms, mbit, loss, left, right] = arguments.as_slice() else {
        return Err("usage: packets RTT_MS MBIT_PER_SECOND LOSS_PER_MILLION LEFT RIGHT".into());
    };
    let mbit: f64 = mbit.parse()?;
    let link = Link {
        delay: Duration::try_from_secs_f64(rtt_ms.parse::<f64>()? / 2000.0)?,
        bits_per_second: (mbit > 0.0).then_some(mbit * 1e6),
        loss: loss.parse::<f64>()? / 1e6,
    };
    let cut = Arc::new(AtomicBool::new(false));
    let left = Arc::new(DeviceBuilder::new().name(left).build_sync()?);
    let right = Arc::new(DeviceBuilder::new().name(right).build_sync()?);
    carry(link, &left, &right, &cut);
    carry(link, &right, &left, &cut);
    writeln!(std::io::stdout(), "ready")?;
    for line in std::io::stdin().lock().lines() {
        match line?.as_str() {
            "cut" => cut.store(true, Relaxed),
            "heal" => cut.store(false, Relaxed),
            other => return Err(format!("not `cut` or `heal`: {other}").into()),
        }
        writeln!(std::io::stdout(), "done")?;
    }
    Ok(())
}

/// One direction: one thread takes packets in, one gives them out when they are due.
fn carry(link: Link, from: &Arc<SyncDevice>, to: &Arc<SyncDevice>, cut: &Arc<AtomicBool>) {
    let (sender, receiver) = sync_channel(MOST_UNDER_WAY);
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    let (entry, exit) = (Arc::clone(cut), Arc::clone(cut));
    thread::spawn(move || take(link, &from, &sender, &entry));
    thread::spawn(move || give(&receiver, &to, &exit));
}

fn take(link: Link, from: &SyncDevice, to: &SyncSender<Packet>, cut: &AtomicBool) {
    let mut room = vec![0; MOST_BYTES];
    let mut chance = Chance(0x9e37_79b9_7f4a_7c15);
    let mut free_at = Instant::now();
    loop {
        // A device that is being moved to its namespace has nothing to say for a while.
        let Ok(packet) = from.recv(&mut room).map(|len| room.get(..len).unwrap_or_default()) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let now = Instant::now();
        let start = free_at.max(now);
        let Some(sent) = link.sends(packet.len(), start, now) else { continue };
        if cut.load(Relaxed) || chance.next() < link.loss {
            continue;
        }
        free_at = sent;
        // A full channel loses it.
        let _ = to.try_send((sent + link.delay, packet.to_vec()));
    }
}

fn give(from: &Receiver<Packet>, to: &SyncDevice, cut: &AtomicBool) {
    for (due, packet) in from {
        let wait = due.saturating_duration_since(Instant::now());
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        if !cut.load(Relaxed) {
            // A device that is down loses it.
            let _ = to.send(&packet);
        }
    }
}

impl Link {
    /// When the last bit of a packet that starts then is on the link; nothing, if it finds the queue full now.
    fn sends(&self, bytes: usize, start: Instant, now: Instant) -> Option<Instant> {
        let Some(rate) = self.bits_per_second else { return Some(now) };
        let bits = 8.0 * f64::from(u32::try_from(bytes).unwrap_or(u32::MAX));
        let room = (2 * self.delay).max(LEAST_QUEUE);
        (start - now <= room).then(|| start + Duration::from_secs_f64(bits / rate))
    }
}

/// Numbers from 0 to 1, the same in each run (xorshift).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        f64::from(u32::try_from(self.0 >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
    }
}
